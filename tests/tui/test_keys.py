"""Keys: without these a remapped key does nothing, types, or takes another's place unsaid."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App, ComposeResult
from textual.widgets import TextArea

from app.tui.actions import ACTIONS
from app.tui.keys import bindings, check_keys, key_problem, keys_in_force, keys_table, shown_key


class Host(App[None]):
    """A text that has the focus, and every action told by its name."""

    def __init__(self, overrides: dict[str, str]) -> None:
        super().__init__()
        self.done: list[str] = []
        for binding in bindings(overrides):
            self._bindings.key_to_bindings[binding.key] = [binding]

    def compose(self) -> ComposeResult:
        yield TextArea()

    def action_perform(self, name: str) -> None:
        self.done.append(name)


def test_keys_work_while_a_text_has_the_focus() -> None:
    """Else: F6 selects a line and PgUp moves a cursor where the help promises something else."""

    async def body() -> None:
        host = Host({"help": "alt+h, f11", "regenerate": "Shift+Ctrl+Up"})
        async with host.run_test() as pilot:
            await pilot.press("f6", "f7", "pageup", "f11", "alt+h", "ctrl+shift+up", "ctrl+r", "f1")
            assert host.done == ["panel", "drafts", "page_up", "help", "help", "regenerate"]
            assert host.query_one(TextArea).text == ""

    asyncio.run(body())


def test_the_defaults_have_nothing_wrong() -> None:
    """Else: the program refuses its own keys."""
    assert check_keys({}) is None
    assert check_keys({action.name: action.keys for action in ACTIONS}) is None
    assert check_keys({"stop": "", "colours": "escape"}) is None


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("f5", None),
        ("ctrl+k", None),
        ("alt+x", None),
        ("Ctrl+Shift+Up", None),
        ("escape", None),
        ("pageup", None),
        ("ctrl+right_square_bracket", None),
        ("x", "X cannot be used, as it types"),
        ("X", "it types"),
        ("shift+x", "it types"),
        ("question_mark", "? cannot be used, as it types"),
        ("space", "it types"),
        ("enter", "it sends"),
        ("tab", "it moves on"),
        ("backspace", "it deletes"),
        ("ctrl+m", "it is Enter"),
        ("ctrl+i", "it is Tab"),
        ("ctrl+j", "a new line"),
        ("up", "it moves"),
        ("shift+left", "selects"),
        ("ctrl+shift+a", "many terminals do not send it"),
        ("ctrl+1", "many terminals do not send it"),
        ("super+x", "many terminals do not send it"),
        ("f99", 'there is no key "f99"; write for example'),
        ("ctl+x", 'there is no key "ctl+x"'),
        ("+", "there is no key"),
        ("\x1b[2J", "there is no key"),
    ],
)
def test_keys_that_cannot_work_are_refused(key: str, said: str | None) -> None:
    """Else: a key is taken that never arrives, or that somebody needs to write with."""
    problem = key_problem(key)
    assert (problem is None) if said is None else (said in (problem or ""))
    assert "\x1b" not in (problem or "")


def test_a_fault_names_the_actions() -> None:
    """Else: a key does the other thing, and nobody knows why."""
    assert check_keys({"stop": "ctrl+r"}) == (
        "Ctrl+R is used by stop and by regenerate: give one of them another key."
    )
    assert check_keys({"stop": "ctrl+r", "regenerate": "ctrl+e"}) is None
    assert check_keys({"regenrate": "f1"}) == (
        'There is no action "regenrate" to give keys to; did you mean "regenerate"?'
    )
    assert (check_keys({"help": "f1,q"}) or "").startswith("help: Q cannot be used")


def test_keys_are_shown_as_on_a_keyboard() -> None:
    """Else: help and footer speak of ctrl+right_square_bracket."""
    shown = {
        "ctrl+up": "Ctrl+↑",
        "pageup": "PgUp",
        "escape": "Esc",
        "f1": "F1",
        "shift+f6": "Shift+F6",
        "ctrl+right_square_bracket": "Ctrl+]",
        "shift+ctrl+a": "Ctrl+Shift+A",
    }
    assert {key: shown_key(key) for key in shown} == shown


def test_the_table_has_every_action_once() -> None:
    """Else: README and program part."""
    rows = keys_table().splitlines()
    assert len(rows) == 2 + len(ACTIONS) + len({action.group for action in ACTIONS})
    assert "| `Ctrl+R` | `/regenerate` | Answer the last message again |" in rows
    assert all(row.count("|") == 4 for row in rows)
    assert set(keys_in_force({})) == {action.name for action in ACTIONS}
