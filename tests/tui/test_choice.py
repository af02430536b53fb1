"""Small dialogues: without these a question ends the app, or is answered with what was not chosen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from app.tui.dialogs.choice import Alternative, ChoiceScreen
from app.tui.theme import THEMES
from tests.tui.chatting import hosted

DROP = Alternative("Drop the oldest turns", "They stay on the screen. [/b]")
RELOAD = Alternative("Reload with a larger context")
LEAVE = Alternative("Leave it as it is")
CHOICES = (DROP, RELOAD, LEAVE)
QUESTION = "The prompt [/INST] has 9,412 tokens\x1b[2J and the context holds 8,192."
LOG = "\n".join(f"[/b] line {number} of llama.cpp" for number in range(200))


class Host(App[None]):
    """Opens one dialogue and remembers what it returned."""

    def __init__(self, dialogue: ChoiceScreen) -> None:
        super().__init__()
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = "specchat-dark"
        self.dialogue = dialogue
        self.answers: list[Alternative | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.dialogue, self.answers.append)


def run(
    dialogue: ChoiceScreen,
    body: Callable[[Host, Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
) -> list[Alternative | None]:
    return hosted(Host(dialogue), body, size).answers


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("enter",), DROP),
        (("down", "down", "enter"), LEAVE),
        (("2",), RELOAD),
        (("escape",), None),
        (("d", "3"), LEAVE),
        (("d", "enter"), DROP),
        (("d", "escape"), None),
    ],
)
def test_every_key_gives_its_answer(keys: tuple[str, ...], answer: Alternative | None) -> None:
    """Else: the context is cut or reloaded when something else was chosen."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)

    assert run(ChoiceScreen(QUESTION, CHOICES, LOG, "[/b]"), body) == [answer]


def test_a_digit_without_a_choice_changes_nothing() -> None:
    """Else: a slip of the finger answers for the person."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press("0", "4", "9", "²", "d")

    assert run(ChoiceScreen(QUESTION, CHOICES), body) == []


def test_a_click_gives_its_answer() -> None:
    """Else: the mouse does nothing where it does elsewhere."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.click(OptionList, offset=(6, 2))

    assert run(ChoiceScreen(QUESTION, CHOICES), body) == [RELOAD]


def test_the_question_is_no_markup_and_moves_no_cursor() -> None:
    """Else: a model's name or an error with a bracket in it ends the app."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        shown = str(app.dialogue.query_one("#question", Static).content)
        assert shown == QUESTION.replace("\x1b", "")

    run(ChoiceScreen(QUESTION, CHOICES, title="A [/b] title"), body)


def test_details_unfold_at_their_end_and_leave_the_keys_in_sight() -> None:
    """Else: the last lines of a crash, which say why, are not the ones that are seen."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        details = app.dialogue.query_one("#details")
        assert not details.display
        await pilot.press("d")
        await pilot.pause()
        assert details.display and details.has_focus
        await pilot.pause()
        assert details.scroll_offset.y == details.max_scroll_y > 0
        assert details.region.bottom < 24
        await pilot.click("#fold")
        assert not details.display

    run(ChoiceScreen(QUESTION, CHOICES, LOG), body)
