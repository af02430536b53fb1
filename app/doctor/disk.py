"""What specchat keeps on the disk: folders, settings, catalogue, chats, what was learned. Reads only."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from app.chat.store_schema import VERSION as STORE_VERSION
from app.chat.store_schema import is_damage
from app.config.file import read_settings, settings_path
from app.config.values import Settings
from app.doctor.check import Check, counted, size
from app.errors import SpecchatError
from app.measurements import VERSION, cache_folder
from app.models.catalogue import catalogue, user_catalogue_file
from app.models.hub import Hub, check_hub, hub_of

# Chats and settings are small; a layer-skipped copy and a model are not.
_LITTLE = 100_000_000
_LITTLE_FOR_MODELS = 2_000_000_000
_BUSY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Folders:
    """Where things are kept. settings: the file. hub: with the folder of what is downloaded."""

    settings: Path
    data: Path
    cache: Path
    hub: Hub


def folders_of(environment: Mapping[str, str]) -> Folders:
    """The folders of this person."""
    return Folders(
        settings=settings_path(),
        data=Path(platformdirs.user_data_dir("specchat", appauthor=False)),
        cache=cache_folder(),
        hub=hub_of(environment),
    )


def folder_checks(folders: Folders) -> list[Check]:
    """Whether each folder can be written, and the room that is left there."""
    return [
        folder_check("settings folder", folders.settings.parent, "Settings cannot be changed", _LITTLE),
        folder_check("chats folder", folders.data, "Chats are not kept", _LITTLE),
        folder_check("cache folder", folders.cache, "What is learned is not kept", _LITTLE_FOR_MODELS),
        _downloads_check(folders.hub),
    ]


def folder_check(name: str, folder: Path, loss: str, little: int) -> Check:
    """Whether files can be made in the folder, or where it would be made. loss: what happens if not."""
    try:
        there = folder
        while not there.exists() and there != there.parent:
            there = there.parent
        free = shutil.disk_usage(there).free
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"specchat")
    except OSError as error:
        reason = error.strerror or str(error)
        return Check(
            name,
            "warning",
            f"{folder} cannot be written ({reason})",
            f"{loss}: make it writable, or make room.",
        )
    made = "" if there == folder else ", made when it is needed"
    finding = f"{folder}, {size(free)} free{made}"
    if free < little:
        return Check(name, "warning", finding, "Make room on that disk.")
    return Check(name, "ok", finding)


def _downloads_check(hub: Hub) -> Check:
    name = "downloads folder"
    try:
        check_hub(hub)
    except SpecchatError as error:
        return Check(name, "warning", f"{hub.cache}; {error}")
    return folder_check(name, hub.cache, "No model can be downloaded", _LITTLE_FOR_MODELS)


def settings_check(path: Path) -> tuple[Check, Settings]:
    """Whether the settings are valid; with them, or with the defaults where they are not."""
    try:
        settings = read_settings(path)
    except SpecchatError as error:
        return Check("settings", "fault", str(error), f"Correct that line in {path}."), Settings()
    finding = f"{path} is valid" if path.exists() else "none: the defaults hold"
    return Check("settings", "ok", finding), settings


def catalogue_check() -> Check:
    """Whether the person's own catalogue can be read beside the shipped one."""
    try:
        entries = len(catalogue())
    except SpecchatError as error:
        return Check("catalogue", "warning", str(error), "Until then, name models by their files.")
    own = user_catalogue_file()
    return Check("catalogue", "ok", f"{entries} models{f', with those of {own}' if own.exists() else ''}")


def chats_check(path: Path) -> Check:
    """Whether the file of the chats is sound, and how many it holds."""
    try:
        if not path.exists():
            return Check("chats", "ok", "none kept yet")
        with closing(_read_only(path)) as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if version > STORE_VERSION:
                return Check(
                    "chats",
                    "warning",
                    f"{path} was written by a newer specchat",
                    "Chats are not kept until this one is updated.",
                )
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            if found != "ok":
                return _damaged(path, found)
            count = connection.execute("SELECT count(*) FROM session WHERE deleted IS NULL").fetchone()[0]
    except OSError as error:
        return Check("chats", "warning", f"{path} cannot be read ({error.strerror})", "Make it readable.")
    except sqlite3.Error as error:
        if is_damage(error):
            return _damaged(path, str(error))
        return Check(
            "chats", "warning", f"{path} cannot be read ({error})", "Close other programs that use it."
        )
    return Check("chats", "ok", f"{count:,} kept, {size(path.stat().st_size)}, sound")


def learned_check(path: Path) -> Check:
    """What was learned on this machine. path: of measurements.json."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Check("learned", "ok", "nothing yet: the first reply measures this machine")
    except OSError as error:
        reason = f"{path} cannot be read ({error.strerror})"
        return Check("learned", "warning", reason, "Every start measures anew: make it readable.")
    except (ValueError, RecursionError):
        data = None
    known = data.get("known") if isinstance(data, dict) and data.get("version") == VERSION else None
    if not isinstance(known, dict):
        return Check(
            "learned",
            "warning",
            f"{path} is damaged or of another version",
            "It is learned again; to begin anew:",
            "specchat calibrate --forget",
        )
    costs = sum(name.startswith("costs ") for name in known)
    proposers = sum(name.startswith("acceptance ") for name in known)
    finding = f"costs of {counted(costs, 'model')}, acceptance of {counted(proposers, 'proposer')}"
    return Check("learned", "ok", finding)


def _read_only(path: Path) -> sqlite3.Connection:
    """The file, opened so that nothing is written beside it either."""
    address = f"{path.resolve().as_uri()}?mode=ro"
    if not path.with_name(f"{path.name}-wal").exists():
        # No other program has it open: it is read as it lies there, without the files of its log.
        return sqlite3.connect(f"{address}&immutable=1", uri=True)
    return sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)


def _damaged(path: Path, found: str) -> Check:
    return Check(
        "chats",
        "warning",
        f"{path} is damaged ({found})",
        "Copy it if you want to rescue it: the next start sets it aside and begins a new one.",
    )
