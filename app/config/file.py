"""settings.toml: where it is, how it is read, and faults with their line."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import platformdirs

from app.config.fields import BY_PATH, FIELDS, SECTIONS, adopt, nearest, put, shown
from app.config.values import Settings
from app.errors import SpecchatError
from app.text import clean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FAULT = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.S
)


def settings_path() -> Path:
    """Where this person's settings are."""
    return Path(platformdirs.user_config_dir("specchat", appauthor=False)) / "settings.toml"


def read_text(path: Path) -> str:
    """The file's text, "" where there is no file. Raises SpecchatError where it cannot be read."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecchatError(f"The settings {clean(str(path))} cannot be read: {reason}.") from error
    try:
        # Some editors begin a file with a byte order mark, which is not TOML.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecchatError(f"{clean(path.name)} line {line}: not UTF-8; save the file as UTF-8.") from error


def read_settings(path: Path) -> Settings:
    """The settings in that file, the defaults where there is none. Raises SpecchatError that names the line
    of what is wrong."""
    return parse_settings(read_text(path), path.name)


def parse_settings(text: str, name: str = "settings.toml") -> Settings:
    """The settings in this text; `name`: of the file. Raises SpecchatError as read_settings does."""
    settings = Settings()
    for section, content in load_toml(text, name).items():
        if section not in SECTIONS:
            raise _fault(text, name, (section,), _unknown_section(section))
        if not isinstance(content, dict):
            wanted = f"write [{section}] on a line of its own and its keys below"
            raise _fault(text, name, (section,), f"{section} is {shown(content)}: {wanted}.")
        for key, raw in content.items():
            field = BY_PATH.get((section, key))
            if section == "keys":
                if not isinstance(raw, str):
                    wanted = 'give keys in quotation marks, such as "ctrl+r"'
                    raise _fault(text, name, (section, key), f"{_named(key)} is {shown(raw)}: {wanted}.")
                settings = replace(settings, keys={**settings.keys, key: raw})
            elif field is None:
                raise _fault(text, name, (section, key), _unknown_key(section, key))
            else:
                try:
                    settings = put(settings, field, adopt(field, raw))
                except ValueError as error:
                    or_none = ", or remove the line" if field.empty else ""
                    raise _fault(
                        text, name, (section, key), f"{key} is {shown(raw)}: {error}{or_none}."
                    ) from error
    return settings


def load_toml(text: str, name: str) -> dict[str, object]:
    """The text as tomllib reads it. Raises SpecchatError with the line of what is not TOML."""
    try:
        data: dict[str, object] = tomllib.loads(text)
        return data
    # Python itself complains of a number with thousands of digits, and of thousands of brackets.
    except (ValueError, RecursionError) as error:
        match = _FAULT.fullmatch(str(error))
        what = match["what"] if match else "Too large a value or too many brackets"
        line = match["line"] if match and match["line"] else str(len(text.rstrip().splitlines()) or 1)
        column = f", column {match['column']}" if match and match["column"] else ""
        raise SpecchatError(
            f"{clean(name)} line {line}{column}: {_sentence(clean(what))}; correct it or remove the line "
            "(texts need quotation marks)."
        ) from error


def line_of(text: str, path: Sequence[str]) -> int:
    """The number of the line, from 1, that first names the key or table at `path`, in a text that is TOML.

    tomllib gives values without their lines. So lines are put together until they are a statement, which is
    parsed below the header of its table.
    """
    lines, begin, header = list(StringIO(text)), 0, ""
    for end in range(1, len(lines) + 1):
        statement = "".join(lines[begin:end])
        if statement.lstrip().startswith("["):
            header, statement = statement, ""
        try:
            found: object = tomllib.loads(header + statement)
        except ValueError:
            # The value goes on in the next line.
            continue
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            return begin + 1
        begin = end
    return 1


def _fault(text: str, name: str, path: tuple[str, ...], message: str) -> SpecchatError:
    return SpecchatError(f"{clean(name)} line {line_of(text, path)}: {message}")


def _unknown_section(name: str) -> str:
    homes = [field.section for field in FIELDS if field.name == name]
    if homes:
        return f"{name} belongs under [{homes[0]}]: move it there."
    near = nearest(name, SECTIONS)
    hint = f"did you mean [{near}]?" if near else f"there are {', '.join(f'[{each}]' for each in SECTIONS)}."
    return f"there is no section [{_named(name)}]; {hint}"


def _unknown_key(section: str, name: str) -> str:
    near = nearest(name, [field.name for field in FIELDS if field.section == section])
    homes = [field.section for field in FIELDS if field.name == name]
    if homes:
        return f"{name} belongs under [{homes[0]}], not [{section}]: move it there."
    if near:
        return f'there is no key {_named(name)} in [{section}]; did you mean "{near}"?'
    keys = ", ".join(field.name for field in FIELDS if field.section == section)
    return f"there is no key {_named(name)} in [{section}]; there are {keys}."


def _named(name: str) -> str:
    """A key as it was written, made safe and short."""
    return " ".join(clean(name).split())[:40]


def _sentence(text: str) -> str:
    return text[:1].lower() + text[1:]
