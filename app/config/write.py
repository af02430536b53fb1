"""Writing settings.toml: only what changed is touched, so that a person's comments and order stay."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from app.chat.gate import clean
from app.config.fields import FIELDS, Value, adopt, default, get, put
from app.config.file import load_toml, parse_settings, read_text
from app.config.scan import Entry, Header, scan
from app.config.values import Settings
from app.errors import SpecchatError

_HEADING = "# The settings of specchat. What is not written here has its default.\n"
_ESCAPES = {"\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_QUOTE = '"'
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def write_settings(path: Path, settings: Settings, previous_text: str | None = None) -> None:
    """Bring the file to these settings; its old text is replaced whole or not at all.

    previous_text: what the file holds, read from it where None. Raises SpecchatError where the file
    cannot be written, or holds something besides that makes it unreadable.
    """
    text = read_text(path) if previous_text is None else previous_text
    # A link stays one: some people keep the file itself elsewhere.
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
    """Bring to the file what differs between the two, and nothing else of theirs.

    What a command line set for one run, or another window wrote meanwhile, is left as it is. Raises
    SpecchatError where the file cannot be read or written.
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

    A key is added where its value is not the default, and goes where its value is None. Raises
    SpecchatError where the text is not TOML or has keys that are none of ours.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    text = text if text.strip() else _HEADING
    data = load_toml(text, name)
    if not all(isinstance(section, dict) for section in data.values()):
        parse_settings(text, name)
    for path, value, wanted in _wanted(settings, data):
        present = next((each for each in scan(text) if isinstance(each, Entry) and each.path == path), None)
        literal = toml(value).replace("\n", newline)
        if present is None:
            text = _added(text, path, literal, newline) if wanted else text
        elif value is None:
            text = _without(text, present)
        else:
            text = text[: present.value] + literal + text[present.end :]
    parse_settings(text, name)
    return text


def _wanted(settings: Settings, data: dict[str, object]) -> Iterator[tuple[tuple[str, str], Value, bool]]:
    """The keys whose value in the file is another one: path, value, whether it is to be added."""
    for field in FIELDS:
        section = data.get(field.section)
        value = get(settings, field)
        if isinstance(section, dict) and field.name in section:
            try:
                if adopt(field, section[field.name]) == value:
                    continue
            except ValueError:
                pass
        yield (field.section, field.name), value, value != default(field)
    section = data.get("keys")
    before: dict[str, object] = section if isinstance(section, dict) else {}
    for name in (*before, *(each for each in settings.keys if each not in before)):
        keys = settings.keys.get(name)
        if keys != before.get(name):
            yield ("keys", name), keys, keys is not None


def toml(value: Value) -> str:
    """A value as TOML; "" for None, which TOML cannot say."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        return f"[{', '.join(_string(each) for each in value)}]"
    if "\n" in value:
        lines = "\n".join(_escaped(line, '"(?="|$)') for line in value.split("\n"))
        return f'"""\n{lines}"""'
    return _string(value)


def _string(value: str) -> str:
    # The paths of Windows read better without their backslashes doubled.
    if "\\" in value and not re.search(r"['\x00-\x1f\x7f]", value):
        return f"'{value}'"
    return f'"{_escaped(value, _QUOTE)}"'


def _escaped(value: str, quotes: str) -> str:
    value = re.sub(r"[\x00-\x1f\x7f\\]", _escape, value)
    return re.sub(quotes, '\\\\"', value)


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}"


def _added(text: str, path: tuple[str, str], literal: str, newline: str) -> str:
    """With one more key at the end of its section, in the manner in which that section is written."""
    section, name = path
    key = name if _BARE_KEY.fullmatch(name) else _string(name)
    found = scan(text)
    for number, each in enumerate(found):
        if isinstance(each, Header) and each.path == (section,):
            end = each.end
            for entry in found[number + 1 :]:
                if isinstance(entry, Header):
                    break
                end = max(end, entry.end)
            return _line_after(text, end, f"{key} = {literal}", newline)
    members = [each for each in found if isinstance(each, Entry) and each.path[0] == section]
    whole = next((each for each in members if each.path == (section,)), None)
    if whole is not None:
        comma = ", " if len(members) > 1 else ""
        inside = text[: whole.end - 1].rstrip()
        return f"{inside}{comma}{key} = {literal}{text[whole.end - 1 :]}"
    if members:
        return _line_after(text, members[-1].end, f"{section}.{key} = {literal}", newline)
    body = text.rstrip()
    gap = newline * 2 if body else ""
    return f"{body}{gap}[{section}]{newline}{key} = {literal}{newline}"


def _line_after(text: str, offset: int, line: str, newline: str) -> str:
    end = text.find("\n", offset)
    if end < 0:
        return f"{text}{newline}{line}{newline}"
    return f"{text[: end + 1]}{line}{newline}{text[end + 1 :]}"


def _without(text: str, entry: Entry) -> str:
    """Without that key; a comment on its line stays."""
    if entry.inline:
        before, after = text[: entry.key].rstrip(), text[entry.end :].lstrip()
        if after.startswith(","):
            return text[: entry.key] + after[1:].lstrip()
        return f"{before.removesuffix(',').rstrip()}{after}"
    start = text.rfind("\n", 0, entry.key) + 1
    end = text.find("\n", entry.end)
    end = len(text) if end < 0 else end + 1
    comment = text[entry.end : end].lstrip()
    return text[:start] + (comment if comment.startswith("#") else "") + text[end:]


def _replace(path: Path, data: bytes) -> None:
    """Put these bytes in the file's place; on failure the file is as it was."""
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
