"""A conversation as a Markdown document, and new files that never replace an old one."""

from __future__ import annotations

import html
import re
from pathlib import Path

from app.chat.conversation import Answer, Branch, Conversation, Exchange, Figures, Question
from app.chat.documents import Document
from app.chat.gain import gain_sentence
from app.errors import SpecchatError
from app.text import clean

_SPECIAL = re.compile(r"[\\`*_\[\]<>#~|&]")
_FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`\n]*$)|~{3,})(.*)$", re.MULTILINE)
# Names that Windows keeps for devices, whatever their ending.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)$", re.IGNORECASE)
_MOST_TRIES = 1000
_ENDED = {
    "length": "cut short by the limit of tokens",
    "context": "cut short by the end of the context",
    "cancelled": "stopped",
    "crashed": "cut short: the model's process ended",
    None: "not finished",
}


def markdown(title: str, model: str, conversation: Conversation) -> str:
    """The conversation as Markdown: questions as quotes with their documents folded, answers as they are,
    other versions of a turn folded below it.

    Nothing in one part changes how the next is read: fences are longer than any run of backticks inside, and
    one that an answer leaves open is closed.
    """
    count = len(conversation.exchanges)
    parts = [
        f"# {_escaped(title)}",
        f"Model: {_escaped(model) or '–'} · {count:,} question{'s' * (count != 1)}",
    ]
    if conversation.system.strip():
        parts.append(_folded("System prompt", conversation.system))
    for number, exchange in enumerate(conversation.exchanges, start=1):
        parts += ["---", *_question(exchange.question)]
        if exchange.answer is not None:
            parts += _answer(exchange.answer, model)
        parts += _others(exchange)
        if number == conversation.unsent:
            parts.append("*What stands above was no longer sent to the model.*")
    return "\n\n".join(parts) + "\n"


def file_name(title: str) -> str:
    """A name for the file of a session with that title, fit for every system."""
    kept = "".join(each if each.isalnum() or each in " -_" else " " for each in clean(title))
    name = " ".join(kept.split())
    # Systems count bytes, and a number and the ending must still fit.
    name = name.encode()[:120].decode(errors="ignore").strip()
    return f"{'chat' if not name or _RESERVED.match(name) else name}.md"


def write_new(path: Path, text: str) -> Path:
    """Write `text` to a new file, and return its path: `path`, or with -2, -3, … before its ending.

    Raises SpecchatError where none can be written.
    """
    shown = clean(str(path))
    try:
        path = path.expanduser()
        if path.is_dir():
            raise SpecchatError(f"{shown} is a folder: name a file in it.")
        for number in range(1, _MOST_TRIES + 1):
            tried = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
            try:
                file = tried.open("xb")
            except FileExistsError:
                continue
            try:
                with file:
                    file.write(text.encode("utf-8", "replace"))
            except OSError:
                # Half a file would pass for the whole.
                tried.unlink(missing_ok=True)
                raise
            return tried
    except FileNotFoundError as error:
        raise SpecchatError(f"There is no folder {clean(str(path.parent))}: make it first.") from error
    except PermissionError as error:
        raise SpecchatError(f"You are not allowed to write {shown}: choose another folder.") from error
    # ValueError: a NUL character in the path. RuntimeError: no home for a ~.
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecchatError(f"{shown} cannot be written: {reason}.") from error
    raise SpecchatError(f"There are {_MOST_TRIES:,} files like {shown} already: choose another name.")


def _question(question: Question) -> list[str]:
    text = clean(question.text).strip("\n")
    parts = ["**You**", *map(_document, question.documents)]
    if text:
        # A quote ends whatever is left open in it.
        parts.append("\n".join(f"> {line}".rstrip() for line in text.split("\n")))
    return parts


def _document(document: Document) -> str:
    words = len(document.text.split())
    return _folded(f"{document.name} · {words:,} word{'s' * (words != 1)}", document.text)


def _answer(answer: Answer, model: str) -> list[str]:
    parts = [f"**{_escaped(model) or 'Model'}**"]
    if answer.text.strip():
        parts.append(_closed(clean(answer.text).strip("\n")))
    figures = _figures(answer.figures) if answer.figures is not None else []
    notes = [gain_sentence(answer).removesuffix("."), *figures, _ENDED.get(answer.end, "")]
    if any(notes):
        parts.append(f"<sub>{html.escape(clean(' · '.join(filter(None, notes))))}</sub>")
    return parts


def _others(exchange: Exchange) -> list[str]:
    """The versions of a turn that are not shown, each with what followed it, folded."""
    branches = (*exchange.earlier, (), *exchange.later)
    return [
        _folded(f"Version {number} of {exchange.versions}", "\n\n".join(_plain(branch)))
        for number, branch in enumerate(branches, start=1)
        if branch
    ]


def _plain(branch: Branch) -> list[str]:
    texts: list[str] = []
    for exchange in branch:
        texts.append(f"You: {exchange.question.content}")
        if exchange.answer is not None:
            texts.append(f"Model: {exchange.answer.text}")
        for other in (*exchange.earlier, *exchange.later):
            texts += ["[Another version]", *_plain(other), "[End of that version]"]
    return texts


def _figures(figures: Figures) -> list[str]:
    measured = (
        (figures.tokens_per_second, "{:.1f} tokens/s"),
        (figures.speedup, "{:.2f}× plain"),
        (figures.acceptance_rate, "acceptance {:.0%}"),
        (figures.tokens_per_pass, "{:.2f} tokens per pass"),
    )
    known = [text.format(value) for value, text in measured if value is not None]
    return [figures.proposer, f"{figures.tokens:,} tokens", *known, f"seed {figures.seed}"]


def _folded(summary: str, text: str) -> str:
    text = clean(text).strip("\n")
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 0)
    label = html.escape(" ".join(clean(summary).split()))
    return f"<details>\n<summary>{label}</summary>\n\n{fence}text\n{text}\n{fence}\n\n</details>"


def _closed(text: str) -> str:
    """`text`, with the fence closed that it leaves open."""
    opened = ""
    for run, rest in _FENCE.findall(text):
        if not opened:
            opened = run
        elif run.startswith(opened) and not rest.strip():
            opened = ""
    return f"{text}\n{opened}" if opened else text


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", " ".join(clean(text).split()))
