"""The bindings made from the actions and a person's own keys, the check of those keys, and their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from textual.binding import Binding
from textual.keys import format_key, key_to_character
from textual.widgets import Input, TextArea

from app.config.fields import nearest
from app.text import clean, one_line
from app.tui.actions import ACTIONS, BY_NAME, Action

_MODIFIERS = ("alt", "ctrl", "shift")
_NAMES = {
    "escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "delete": "Del", "insert": "Ins",
    "space": "Space", "enter": "Enter", "tab": "Tab", "backspace": "Backspace", "home": "Home", "end": "End",
}  # fmt: skip

# What every terminal can send, as Textual names it.
_MOVING = frozenset({"up", "down", "left", "right", "home", "end", "delete"})
_FUNCTION = frozenset(f"f{number}" for number in range(1, 25))
_BASES = _MOVING | {"pageup", "pagedown", "insert"} | {f"f{number}" for number in range(1, 13)}
_CTRL = frozenset("abcdefgklnopqrstuvwxyz") | {
    "backslash", "right_square_bracket", "circumflex_accent", "underscore",
}  # fmt: skip
# Keys that mean something of their own wherever text is written.
_RESERVED = {
    "enter": "it sends",
    "ctrl+m": "it is Enter to a terminal",
    "shift+enter": "many terminals send Enter",
    "tab": "it moves on",
    "shift+tab": "it moves back",
    "ctrl+i": "it is Tab to a terminal",
    "backspace": "it deletes",
    "ctrl+h": "it is Backspace to many terminals",
    "ctrl+j": "it begins a new line",
}

# Keys that a text field takes for itself: a binding behind it never sees them.
_TAKEN = {binding.key for binding in Binding.make_bindings([*TextArea.BINDINGS, *Input.BINDINGS])}


def keys_in_force(overrides: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The keys of each action by its name, as Textual names them; none where it has none."""
    return {action.name: _split(overrides.get(action.name, action.keys)) for action in ACTIONS}


def bound_action(name: str) -> str:
    """What a key of this action is bound to.

    The app does it, so that the bindings may stand on the app or on one of its screens. Textual asks bindings
    with priority even under a dialogue where they stand on the app, but not where they stand on a screen.
    """
    return f"app.perform('{name}')"


def bindings(overrides: Mapping[str, str]) -> list[Binding]:
    """The bindings of the chat, one per key. `overrides` must pass `check_keys`."""
    keys = keys_in_force(overrides)
    return [
        Binding(
            key,
            bound_action(action.name),
            action.short,
            show=bool(action.short),
            # With Alt, terminals send the character too, and a text would take it in.
            priority=key in _TAKEN or key.startswith("alt+"),
            tooltip=action.summary,
            id=action.name,
        )
        for action in ACTIONS
        for key in keys[action.name]
    ]


def check_keys(overrides: Mapping[str, str]) -> str | None:
    """What is wrong with a person's own keys, as a sentence that says what to do; None if nothing is."""
    for name, keys in overrides.items():
        if name not in BY_NAME:
            near = nearest(name, BY_NAME)
            hint = f'did you mean "{near}"?' if near else "the help lists them all."
            return f'There is no action "{_short(name)}" to give keys to; {hint}'
        for key in _split(keys):
            problem = key_problem(key)
            if problem:
                return f"{name}: {problem}"
    owners: dict[str, str] = {}
    for name, split in keys_in_force(overrides).items():
        for key in split:
            owner = owners.setdefault(key, name)
            if owner != name:
                return f"{shown_key(key)} is used by {owner} and by {name}: give one of them another key."
    return None


def key_problem(key: str) -> str | None:
    """Why this key cannot be given to an action, as a sentence; None where it can."""
    key = _normal(key)
    *modifiers, base = key.split("+")
    other = "take a function key, or a letter with Ctrl or Alt."
    if key in _RESERVED:
        return f"{shown_key(key)} cannot be used, as {_RESERVED[key]}; {other}"
    if not set(modifiers) - {"shift"}:
        if base in _MOVING:
            return f"{shown_key(key)} cannot be used, as it moves, selects or deletes in a text; {other}"
        if _types(base):
            return f"{shown_key(key)} cannot be used, as it types; {other}"
    if not _known(base) or not set(modifiers) <= {*_MODIFIERS, "super", "hyper", "meta"}:
        return f'there is no key "{_short(key)}"; write for example f5, ctrl+k or alt+up.'
    if not _sendable(modifiers, base):
        return f"{shown_key(key)} cannot be used, as many terminals do not send it; {other}"
    return None


def shown_key(key: str) -> str:
    """A key as people know it: ctrl+up is Ctrl+↑."""
    *modifiers, base = _normal(key).split("+")
    name = _NAMES.get(base) or format_key(base)
    # It may be anybody's text, where a wrong key of the settings is told to its writer.
    name = clean(name) if len(name) > 1 and base not in _FUNCTION else name.upper()
    return "+".join([*(modifier.capitalize() for modifier in sorted(modifiers, key=_order)), name])


def footer_key(binding: Binding) -> str:
    """How a footer names a key: a letter alone as it is typed."""
    return binding.key_display or (binding.key if len(binding.key) == 1 else shown_key(binding.key))


def shown_keys(keys: Iterable[str]) -> str:
    """Several keys for the same, a dash for none."""
    return ", ".join(shown_key(key) for key in keys) or "–"


def grouped() -> dict[str, list[Action]]:
    """Actions by their groups: what concerns the chat first, what concerns the whole app last."""
    groups: dict[str, list[Action]] = {"Chat": [], "Speculation": [], "View": [], "App": []}
    for action in ACTIONS:
        groups[action.group].append(action)
    return groups


def keys_table() -> str:
    """The default keys as a Markdown table."""
    lines = ["| Key | Or type | What it does |", "| --- | --- | --- |"]
    for group, actions in grouped().items():
        lines.append(f"| **{group}** | | |")
        for action in actions:
            shown = ", ".join(f"`{shown_key(key)}`" for key in _split(action.keys))
            slash = f"`{action.usage}`" if action.usage else ""
            lines.append(f"| {shown} | {slash} | {action.summary} |")
    return "\n".join(lines) + "\n"


def _split(keys: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_normal(key) for key in keys.split(",") if key.strip()))


def _normal(key: str) -> str:
    """In Textual's spelling: lower case, modifiers in order. A capital alone is Shift and its letter."""
    parts = [part.strip() for part in key.strip().split("+")]
    *modifiers, base = (part.lower() if len(part) > 1 else part for part in parts)
    if modifiers:
        base = base.lower()
    return "+".join([*sorted(modifiers, key=_order), base])


def _order(modifier: str) -> int:
    return _MODIFIERS.index(modifier) if modifier in _MODIFIERS else len(_MODIFIERS)


def _types(base: str) -> bool:
    character = key_to_character(base)
    return base not in _BASES and character is not None and character.isprintable()


def _known(base: str) -> bool:
    return base in _BASES | _FUNCTION | _CTRL | {"escape", "enter", "tab", "backspace"} or _types(base)


def _sendable(modifiers: list[str], base: str) -> bool:
    if base == "escape" or base in _FUNCTION - _BASES:
        return not modifiers
    if base in _BASES:
        return set(modifiers) <= set(_MODIFIERS)
    if modifiers == ["ctrl"]:
        return base in _CTRL
    return modifiers in (["alt"], ["alt", "shift"]) and re.fullmatch("[a-z]|[0-9]", base) is not None


def _short(text: str) -> str:
    return one_line(text)[:40]
