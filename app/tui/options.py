"""What a chat is started with, after the settings and the command line were put together."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from app.chat.documents import Document
from app.config.file import settings_path
from app.config.values import Settings

_LAST_MODEL = "last-model"


def data_folder() -> Path:
    """Where sessions and the history of prompts are kept."""
    return Path(platformdirs.user_data_dir("specchat", appauthor=False))


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """settings: with the command line's values in them. resume: a session's title or the first letters of
    its identity, "" for the newest, None for a new one. documents: piped in, attached to the first
    message. notices: said once the screen is there."""

    settings: Settings
    resume: str | None = None
    documents: tuple[Document, ...] = ()
    notices: tuple[str, ...] = ()
    settings_file: Path = field(default_factory=settings_path)
    folder: Path = field(default_factory=data_folder)


def remember_model(folder: Path, path: str) -> None:
    """The model to open next time, where none is named. A folder that cannot be written remembers none."""
    with contextlib.suppress(OSError):
        (folder / _LAST_MODEL).write_text(path, encoding="utf-8")


def last_model(folder: Path) -> str | None:
    """The model used last, if it is still there."""
    try:
        path = (folder / _LAST_MODEL).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return path if os.path.isfile(path) else None
