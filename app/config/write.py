"""Writing settings.toml: only what changed is touched, so a person's comments and order stay."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.items import Comment, Item, Table, Trivia

from app.config.fields import FIELDS, Value, adopt, default, get, put
from app.config.file import load_toml, parse_settings, read_text
from app.config.values import Settings
from app.errors import SpecchatError
from app.text import clean

_HEADING = "# The settings of specchat. What is not written here has its default.\n"


def write_settings(path: Path, settings: Settings, previous_text: str | None = None) -> None:
    """Put these settings into the file, which is replaced whole or not at all.

    previous_text: what the file holds; None to read it. Raises SpecchatError where the file cannot be
    written, or holds something else that is wrong.
    """
    text = read_text(path) if previous_text is None else previous_text
    # A link stays a link: some people keep the file itself elsewhere.
    target = Path(os.path.realpath(path))
    try:
        data = updated(text, settings, path.name).encode("utf-8")
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, data)
    except UnicodeEncodeError as error:
        raise SpecchatError(
            "The settings hold a name with characters that no text file can: rename that file."
        ) from error
    except OSError as error:
        raise SpecchatError(
            f"The settings {clean(str(path))} cannot be written: {error.strerror or error}."
        ) from error


def write_changes(path: Path, before: Settings, after: Settings) -> None:
    """Put only what differs between the two into the file.

    So what a command line set for one run does not get there, and what another window wrote meanwhile stays.
    Raises SpecchatError where the file cannot be read or written.
    """
    text = read_text(path)
    settings = parse_settings(text, path.name)
    for field in FIELDS:
        if get(before, field) != get(after, field):
            settings = put(settings, field, get(after, field))
    if dict(before.keys) != dict(after.keys):
        settings = replace(settings, keys=after.keys)
    write_settings(path, settings, text)


def updated(text: str, settings: Settings, name: str = "settings.toml") -> str:
    """`text` with the values of `settings`.

    A key is added where its value is not the default, and removed where its value is None. Raises
    SpecchatError where the text is not TOML or has unknown keys.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n") if text.strip() else _HEADING
    data = cast(dict[str, dict[str, object]], load_toml(text, name))
    if not all(isinstance(section, dict) for section in data.values()):
        parse_settings(text, name)
    document = tomlkit.parse(text)
    for field in FIELDS:
        section, value = data.get(field.section, {}), get(settings, field)
        if field.name not in section:
            changed = value != default(field)
        else:
            try:
                changed = adopt(field, section[field.name]) != value
            except ValueError:
                changed = True
        if changed:
            _put(document, field.section, field.name, value)
    before = data.get("keys", {})
    for action in {**before, **settings.keys}:
        if settings.keys.get(action) != before.get(action):
            _put(document, "keys", action, settings.keys.get(action))
    text = document.as_string()
    parse_settings(text, name)
    return text.replace("\n", newline)


def _put(document: TOMLDocument, section: str, key: str, value: Value) -> None:
    """Set a key in its section; None removes it, but not the comment on its line."""
    table = cast(MutableMapping[str, Item], document.setdefault(section, tomlkit.table()))
    if value is not None:
        table[key] = _item(value)
        return
    comment = table[key].trivia.comment
    if isinstance(table, Table):
        place = next(place for place, (name, _) in enumerate(table.value.body) if name and name.key == key)
        del table[key]
        if comment:
            table.value.body[place] = (None, Comment(Trivia(comment=comment, trail="\n")))
    else:
        # An inline table, or dotted keys here and there.
        del table[key]
        if comment:
            document.add(Comment(Trivia(comment=comment, trail="\n")))


def _item(value: str | int | float | tuple[str, ...]) -> Item:
    """A value as TOML, in the form that is easiest to read."""
    if not isinstance(value, str):
        return tomlkit.item(list(map(_item, value)) if isinstance(value, tuple) else value)
    if "\n" in value and "\r" not in value:
        quoted = tomlkit.string(value, multiline=True).as_string()
        # The first line of several begins below the quotation marks.
        return tomlkit.value(quoted if value.startswith("\n") else f'"""\n{quoted[3:]}')
    # Windows paths read better without doubled backslashes.
    return tomlkit.string(value, literal="\\" in value and value.isprintable() and "'" not in value)


def _replace(path: Path, data: bytes) -> None:
    """Replace the file's content; on failure the file is as it was."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
