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

_REMEDY = "Choose another template with --template."


class Template:
    """A compiled chat template.

    The clock that a template may read stands still from the moment of compilation, so that a
    conversation that passes midnight still begins with the same tokens.
    """

    def __init__(self, source: str, bos: str, eos: str) -> None:
        """Compile `source`; `bos` and `eos` are the texts of the model's first and end tokens.

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

        A template that refuses a system message, or leaves its text out, gets that text at the head of
        the first user message. Raises SpecchatError when the template fails or runs without end.
        """
        folded = _fold_system(messages)
        try:
            text = self._run(messages, add_generation_prompt)
        except SpecchatError:
            if folded is None:
                raise
            return self._run(folded, add_generation_prompt)
        if folded is not None and messages[0].content.strip() not in text:
            return self._run(folded, add_generation_prompt)
        return text

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
            raise SpecchatError(f"The chat template calls itself without end. {_REMEDY}") from error
        # The template is code of a stranger: whatever it raises is its failure, not a bug of ours.
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
    """What an error says, on one line, short, and with a full stop."""
    said = " ".join(str(error).split())[:300]
    return said if not said or said[-1] in ".!?" else said + "."


def named_template(name: str) -> str:
    """The source of a built-in template, or of the Jinja file at the path `name`.

    Raises UsageError for a name that is neither, SpecchatError for a file that cannot be read.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    path = Path(name)
    # Unlike Path.is_file, this has an answer for names too long to look up.
    if not os.path.isfile(name):
        raise UsageError(
            f"There is no chat template called {name!r}: "
            f"use {', '.join(BUILT_IN)}, or the path of a Jinja file."
        )
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecchatError(
            f"The chat template {name} cannot be read as UTF-8 text: {_sentence(error)}"
        ) from error


BUILT_IN = {
    "chatml": (
        "{% for message in messages %}"
        "<|im_start|>{{ message.role }}{{ '\n' }}{{ message.content }}<|im_end|>{{ '\n' }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant{{ '\n' }}{% endif %}"
    ),
    "llama-3": (
        "{{ bos_token }}"
        "{% for message in messages %}"
        "<|start_header_id|>{{ message.role }}<|end_header_id|>{{ '\n\n' }}"
        "{{ message.content | trim }}<|eot_id|>"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>{{ '\n\n' }}{% endif %}"
    ),
    # Gemma and Mistral were trained without a system role: `Template.render` moves its text.
    "gemma": (
        "{{ bos_token }}"
        "{% for message in messages %}"
        "{% if message.role == 'system' %}{{ raise_exception('Gemma has no system role.') }}{% endif %}"
        "<start_of_turn>{{ 'model' if message.role == 'assistant' else 'user' }}{{ '\n' }}"
        "{{ message.content | trim }}<end_of_turn>{{ '\n' }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>model{{ '\n' }}{% endif %}"
    ),
    "mistral": (
        "{{ bos_token }}"
        "{% for message in messages %}"
        "{% if message.role == 'user' %}[INST] {{ message.content | trim }} [/INST]"
        "{% elif message.role == 'assistant' %} {{ message.content | trim }}{{ eos_token }}"
        "{% else %}{{ raise_exception('Mistral has no system role.') }}{% endif %}"
        "{% endfor %}"
    ),
}
"""Source by name, for `--template NAME`."""
