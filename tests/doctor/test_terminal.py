"""What is said of a terminal by its environment alone."""

from __future__ import annotations

import pytest

from app.doctor.report import Check
from app.doctor.terminal import TerminalFacts, colours_of, terminal_checks


def checks(
    environment: dict[str, str],
    *,
    size: tuple[int, int] | None = (100, 30),
    system: str = "linux",
    tools: tuple[str, ...] = (),
) -> dict[str, Check]:
    terminal = TerminalFacts(environment, True, size, system, lambda tool: tool if tool in tools else None)
    return {check.name: check for check in terminal_checks(terminal)}


@pytest.mark.parametrize(
    ("environment", "colours"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, 1 << 24),
        ({"TERM": "xterm-256color"}, 256),
        ({"TERM": "xterm"}, 16),
        ({"TERM": "linux"}, 16),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, 0),
        ({}, 0),
    ],
)
def test_colours(environment: dict[str, str], colours: int) -> None:
    assert colours_of(environment, "linux") == colours


def test_a_terminal_that_cannot_move_the_cursor() -> None:
    assert checks({"TERM": "dumb"})["terminal"].state == "warning"
    assert checks({})["terminal"].state == "warning"
    assert checks({}, system="win32")["terminal"].state == "ok"


def test_no_colour_is_respected_and_said() -> None:
    assert "NO_COLOR" in checks({"TERM": "xterm-kitty", "NO_COLOR": "1"})["terminal"].finding


def test_few_colours_come_with_the_theme_for_them() -> None:
    check = checks({"TERM": "xterm"})["terminal"]
    assert check.state == "warning" and 'theme = "terminal"' in check.advice


def test_a_good_terminal_gets_no_advice() -> None:
    environment = {"TERM": "xterm-kitty", "COLORTERM": "truecolor", "LANG": "en_GB.UTF-8"}
    for check in checks(environment).values():
        assert (check.state, check.advice) == ("ok", "")


def test_tmux_hides_the_terminal_around_it() -> None:
    found = checks({"TMUX": "/tmp/x", "TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"})
    assert "set-clipboard on" in found["clipboard"].command
    assert "Ctrl+J" in found["keyboard"].advice


def test_screen_lets_no_copy_through() -> None:
    assert checks({"STY": "1.tty", "TERM": "screen-256color"})["clipboard"].state == "warning"


def test_copying_uses_a_tool_where_it_has_a_display() -> None:
    apple = {"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}
    assert "pbcopy" in checks(apple, system="darwin", tools=("pbcopy",))["clipboard"].finding
    assert checks(apple, system="darwin")["clipboard"].state == "warning"
    # Over SSH a tool would fill the other machine's clipboard, and without a display it would hang.
    remote = {"TERM": "xterm-kitty", "SSH_TTY": "/dev/pts/0", "DISPLAY": ":0"}
    assert "OSC 52" in checks(remote, tools=("xclip",))["clipboard"].finding
    assert "OSC 52" in checks({"TERM": "xterm-kitty"}, tools=("xclip",))["clipboard"].finding


@pytest.mark.parametrize(
    ("size", "state"), [((80, 24), "ok"), ((79, 24), "warning"), ((40, 10), "warning"), (None, "warning")]
)
def test_the_window_has_room(size: tuple[int, int] | None, state: str) -> None:
    assert checks({"TERM": "xterm"}, size=size)["window"].state == state


@pytest.mark.parametrize(
    ("environment", "state"),
    [
        ({"LANG": "de_DE.UTF-8"}, "ok"),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, "warning"),
        ({"LC_CTYPE": "C.utf8"}, "ok"),
        ({"LANG": "de_DE.ISO-8859-1"}, "warning"),
        ({}, "warning"),
    ],
)
def test_the_character_set(environment: dict[str, str], state: str) -> None:
    check = checks(environment)["text"]
    assert check.state == state
    assert check.command == ("" if state == "ok" else check.command)


def test_the_locale_that_is_wrong_is_the_one_to_change() -> None:
    assert checks({"LANG": "de_DE.UTF-8", "LC_ALL": "C"})["text"].command == "export LC_ALL=C.UTF-8"


def test_without_a_terminal_nothing_is_made_up() -> None:
    found = terminal_checks(TerminalFacts({"TERM": "xterm"}, False, None, "linux"))
    assert [check.name for check in found] == ["terminal", "text"]
