"""What specchat keeps on the disk: folders, settings, catalogue, chats, measurements. Reads only."""

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
from app.doctor.report import Check, counted, fault, ok, size, warning
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
    try:
        check_hub(folders.hub)
        loss = "No model can be downloaded"
        downloads = folder_check("downloads folder", folders.hub.cache, loss, _LITTLE_FOR_MODELS)
    except SpecchatError as error:
        downloads = warning("downloads folder", f"{folders.hub.cache}; {error}")
    return [
        folder_check("settings folder", folders.settings.parent, "Settings cannot be changed", _LITTLE),
        folder_check("chats folder", folders.data, "Chats are not kept", _LITTLE),
        folder_check("cache folder", folders.cache, "Measurements are not kept", _LITTLE_FOR_MODELS),
        downloads,
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
        finding = f"{folder} cannot be written ({error.strerror or error})"
        return warning(name, finding, f"{loss}: make it writable, or make room.")
    made = "" if there == folder else ", made when it is needed"
    finding = f"{folder}, {size(free)} free{made}"
    return warning(name, finding, "Make room on that disk.") if free < little else ok(name, finding)


def settings_check(path: Path) -> tuple[Check, Settings]:
    """Whether the settings are valid; with them, or with the defaults where they are not."""
    try:
        settings = read_settings(path)
    except SpecchatError as error:
        return fault("settings", str(error), f"Correct that line in {path}."), Settings()
    return ok("settings", f"{path} is valid" if path.exists() else "none: the defaults are used"), settings


def catalogue_check() -> Check:
    """Whether the person's own catalogue can be read beside the shipped one."""
    try:
        entries = len(catalogue())
    except SpecchatError as error:
        return warning("catalogue", str(error), "Until then, name models by their files.")
    own = user_catalogue_file()
    return ok("catalogue", f"{entries} models{f', with those of {own}' if own.exists() else ''}")


def chats_check(path: Path) -> Check:
    """Whether the file of the chats is sound, and how many it holds."""
    try:
        if not path.exists():
            return ok("chats", "none kept yet")
        with closing(_read_only(path)) as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if version > STORE_VERSION:
                finding = f"{path} was written by a newer specchat"
                return warning("chats", finding, "Chats are not kept until this one is updated.")
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            if found != "ok":
                return _damaged(path, found)
            count = connection.execute("SELECT count(*) FROM session WHERE deleted IS NULL").fetchone()[0]
    except OSError as error:
        return warning("chats", f"{path} cannot be read ({error.strerror})", "Make it readable.")
    except sqlite3.Error as error:
        if is_damage(error):
            return _damaged(path, str(error))
        return warning("chats", f"{path} cannot be read ({error})", "Close other programs that use it.")
    return ok("chats", f"{count:,} kept, {size(path.stat().st_size)}, sound")


def _read_only(path: Path) -> sqlite3.Connection:
    """The file, opened so that nothing is written beside it either."""
    address = f"{path.resolve().as_uri()}?mode=ro"
    if not path.with_name(f"{path.name}-wal").exists():
        # No other program has it open: it is read as it lies there, without the files of its log.
        return sqlite3.connect(f"{address}&immutable=1", uri=True)
    return sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)


def _damaged(path: Path, found: str) -> Check:
    advice = "Copy it if you want to rescue it: the next start sets it aside and begins a new one."
    return warning("chats", f"{path} is damaged ({found})", advice)


def learned_check(path: Path) -> Check:
    """What was measured on this machine. path: of knowledge.json."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ok("learned", "nothing yet: the first reply measures this machine")
    except OSError as error:
        finding = f"{path} cannot be read ({error.strerror})"
        return warning("learned", finding, "Every start measures again: make it readable.")
    except (ValueError, RecursionError):
        data = None
    known = data.get("known") if isinstance(data, dict) and data.get("version") == VERSION else None
    if not isinstance(known, dict):
        finding = f"{path} is damaged or of another version"
        return warning("learned", finding, "It is replaced; to remove it now:", "specchat calibrate --forget")
    costs = sum(name.startswith("costs ") for name in known)
    proposers = sum(name.startswith("acceptance ") for name in known)
    return ok(
        "learned", f"costs of {counted(costs, 'model')}, acceptance of {counted(proposers, 'proposer')}"
    )
