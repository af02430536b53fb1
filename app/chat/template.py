"""A model file's Jinja chat template.

The template comes out of a file that somebody downloaded, so it is treated as foreign code (see
`sandbox.py`). The conventions (variables, block trimming, helpers) are those of Hugging Face's templates.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import jinja2

from app.chat.message import Message
from app.chat.sandbox import RefusalError, Sandbox
from app.errors import SpecchatError, UsageError

BUILT_IN = ("chatml", "llama-3", "gemma", "mistral")
"""Names for `--template NAME`."""

_FOLDER = Path(__file__).with_name("templates")
_REMEDY = "Choose another template with --template."


class Template:
    """A compiled chat template.

    The clock that a template reads stands still from the moment of compilation, so that a conversation that
    passes midnight still begins with the same tokens.
    """

    def __init__(self, source: str, bos: str, eos: str) -> None:
        """Compile `source`. bos, eos: the texts of the model's first and end tokens.

        Raises SpecchatError when the template is not valid Jinja.
        """
        self._bos = bos
        self._eos = eos
        self._sandbox = Sandbox(datetime.now().astimezone())
        try:
            self._template = self._sandbox.compile_template(source)
        except jinja2.TemplateSyntaxError as error:
            raise SpecchatError(
                f"The chat template is not valid Jinja (line {error.lineno}: {error.message}). {_REMEDY}"
            ) from error
        except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
            raise SpecchatError(f"The chat template is too complex to compile. {_REMEDY}") from error

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> str:
        """The conversation as the model expects to read it.

        Where a template refuses a system message, or leaves its text out, the text goes in front of the first
        user message. Raises SpecchatError when the template fails or does not end.
        """
        folded = _fold_system(messages)
        try:
            text = self._run(messages, add_generation_prompt)
            if folded is None or messages[0].content.strip() in text:
                return text
        except SpecchatError:
            if folded is None:
                raise
        return self._run(folded, add_generation_prompt)

    def _run(self, messages: Sequence[Message], add_generation_prompt: bool) -> str:
        try:
            return self._sandbox.run(
                self._template,
                messages=[{"role": message.role, "content": message.content} for message in messages],
                add_generation_prompt=add_generation_prompt,
                bos_token=self._bos,
                eos_token=self._eos,
                tools=None,
                documents=None,
            )
        except RefusalError as error:
            raise SpecchatError(
                f"The chat template refused the conversation: {_sentence(error)} {_REMEDY}"
            ) from error
        except RecursionError as error:
            raise SpecchatError(f"The chat template never stops calling itself. {_REMEDY}") from error
        # The template is a stranger's code: whatever it raises is its fault, not a bug of ours.
        except Exception as error:
            reason = _sentence(error) or f"{type(error).__name__}."
            raise SpecchatError(f"The chat template failed: {reason} {_REMEDY}") from error


def _fold_system(messages: Sequence[Message]) -> list[Message] | None:
    """The messages with the system text moved into the first user message; None if there is none."""
    if len(messages) < 2 or messages[0].role != "system" or messages[1].role != "user":
        return None
    system, user = messages[0].content.strip(), messages[1]
    content = f"{system}\n\n{user.content}" if system else user.content
    return [replace(user, content=content), *messages[2:]]


def _sentence(error: Exception) -> str:
    """What an error says, in one short line that ends with a full stop."""
    said = " ".join(str(error).split())[:300]
    return said if not said or said[-1] in ".!?" else said + "."


def named_template(name: str) -> str:
    """The source of a built-in template, or of the Jinja file at the path `name`.

    Raises UsageError for a name that is neither, SpecchatError for a file that cannot be read.
    """
    path = _FOLDER / f"{name}.jinja" if name in BUILT_IN else Path(name)
    # Unlike Path.is_file, this has an answer for names that are too long to look up.
    if not os.path.isfile(path):
        raise UsageError(
            f"There is no chat template {name!r}: use {', '.join(BUILT_IN)}, or the path of a Jinja file."
        )
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecchatError(
            f"The chat template {name} cannot be read as UTF-8 text: {_sentence(error)}"
        ) from error
