"""Earlier prompts, walked with Up and Down, and the file of JSON lines that keeps their texts."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from app.chat.conversation import Question
from app.text import clean

LIMIT = 500


class History:
    """Prompts in order, and the one of them that is being shown.

    Text that was typed or changed at a place stays there until a prompt is added: walking loses nothing.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._questions = [Question(text) for text in texts if text.strip()][-LIMIT:]
        self._shown: dict[int, Question] = {}
        self._place = len(self._questions)

    @property
    def entries(self) -> tuple[str, ...]:
        """The texts, oldest first."""
        return tuple(question.text for question in self._questions)

    def add(self, question: Question) -> bool:
        """Keep a prompt as the latest, and stop walking; False where it is blank or repeats the latest.

        A draft that was left for an earlier prompt is kept before it.
        """
        if self.draft is not None:
            self._keep(self.draft)
        added = self._keep(question)
        self._shown.clear()
        self._place = len(self._questions)
        return added

    @property
    def draft(self) -> Question | None:
        """What was being typed when the walk began; None while that is what is shown."""
        return self._shown.get(len(self._questions))

    def walk(self, current: Question, step: int) -> Question | None:
        """What was asked before (step -1) or after (1) what is shown now, at last the draft; None beyond."""
        place = self._place + step
        if not 0 <= place <= len(self._questions):
            return None
        self._shown[self._place] = current
        self._place = place
        return self._shown.pop(place) if place in self._shown else self._questions[place]

    def _keep(self, question: Question) -> bool:
        if not question.text.strip() and not question.documents:
            return False
        if self._questions and self._questions[-1] == question:
            return False
        self._questions.append(question)
        del self._questions[:-LIMIT]
        return True


def load(path: Path) -> list[str]:
    """The prompts that the file keeps, oldest first; none where it is missing or unreadable."""
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    texts = []
    for line in lines:
        # Skip a line that a crash cut short, or that another program wrote.
        with contextlib.suppress(ValueError, RecursionError):
            text = json.loads(line)
            if isinstance(text, str):
                texts.append(clean(text))
    return texts[-LIMIT:]


def append(path: Path, text: str) -> None:
    """Add a prompt to the file, which only its owner may read; the oldest of too many are dropped.

    A file that cannot be written is left as it is: that must not stop anyone from asking.
    """
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8", opener=_private) as file:
            file.write(json.dumps(text) + "\n")
        if path.read_bytes().count(b"\n") > 2 * LIMIT:
            kept = load(path)
            beside = path.with_suffix(".new")
            with open(beside, "w", encoding="utf-8", opener=_private) as file:
                file.writelines(json.dumps(each) + "\n" for each in kept)
            beside.replace(path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
