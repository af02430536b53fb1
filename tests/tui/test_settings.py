"""The settings dialogue: without these a change is lost, saved wrongly, or kept against somebody's will."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from textual.app import App
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import ContentSwitcher, Input, Static, TextArea

from app.config.fields import FIELDS, default
from app.config.values import ChatSettings, LoadSettings, SamplingSettings, Settings
from app.process.events import ProposerOption
from app.tui.actions import BY_NAME
from app.tui.settings.remap import KeyList, KeyWanted
from app.tui.settings.row import InlineChoice, SettingRow
from app.tui.settings.screen import SettingsScreen
from app.tui.theme import THEMES
from tests.tui.chatting import hosted, type_ahead


class Host(App[None]):
    """Shows the dialogue and keeps what it gives."""

    BINDINGS = [Binding("f5", "spoil", priority=True)]  # noqa: RUF012 - declared by Textual

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = "specchat-dark"
        self._shown = settings
        self.results: list[Settings | None] = []
        self.previews: list[str] = []
        self.spoiled = False

    def on_mount(self) -> None:
        options = (ProposerOption("draft", "", "no [/b] draft is loaded."),)
        self.push_screen(SettingsScreen(self._shown, self.previews.append, options), self.results.append)

    def action_spoil(self) -> None:
        self.spoiled = True

    def row(self, name: str) -> SettingRow:
        return self.screen.query_one(f"#{name}", SettingRow)

    @property
    def said(self) -> str:
        return str(self.screen.query_one("#said", Static).render())


def _run(body: Callable[[Host, Pilot[None]], Awaitable[None]], settings: Settings | None = None) -> Host:
    return hosted(Host(settings or Settings()), body)


def test_what_is_typed_is_saved() -> None:
    """Else: Ctrl+S closes the dialogue and the next reply is made as before."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await pilot.press("down", "end", "backspace", "5", "down", "end", "0")
        await pilot.press("up", "up", "right", "down", "end", "!")
        await pilot.press("shift+tab", "right", "down", "down", "down", "4", "0", "9", "6")
        await pilot.press("ctrl+s")

    host = _run(body, Settings(chat=ChatSettings("Be brief\nalways")))
    expected = Settings(
        sampling=SamplingSettings(temperature=0.5, top_k=400),
        chat=ChatSettings("Be brief!\nalways"),
        model=LoadSettings(context_length=4096),
    )
    assert host.results == [expected]


def test_a_wrong_value_is_told_beneath_it_and_not_saved() -> None:
    """Else: a slip is found out by a failed reply, or closes the dialogue without being saved."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await pilot.press("down", "x")
        row = host.row("sampling-temperature")
        sentence = row.query_one(".sentence", Static)
        assert str(sentence.render()) == "Give a number from 0 to 100."
        await pilot.press("shift+tab", "right", "right", "ctrl+s")
        assert isinstance(host.screen, SettingsScreen)
        assert host.focused is row.query_one(Input)
        assert "Temperature" in host.said
        await pilot.press("end", "backspace")
        assert "likeliest" in str(sentence.render())
        await pilot.press("ctrl+s")

    assert _run(body).results == [Settings()]


def test_an_empty_field_is_what_the_program_chooses() -> None:
    """Else: a seed, once typed, can never be taken back."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        host.row("sampling-seed").control.focus()
        await pilot.press("end", "backspace", "ctrl+s")

    assert _run(body, Settings(sampling=SamplingSettings(seed=7))).results == [Settings()]


def test_escape_closes_at_once_only_where_nothing_changed() -> None:
    """Else: a long system prompt is gone by one key, or each look at the settings costs a question."""

    async def unchanged(host: Host, pilot: Pilot[None]) -> None:
        await pilot.press("down", "escape")

    assert _run(unchanged).results == [None]

    async def changed(host: Host, pilot: Pilot[None]) -> None:
        await pilot.press("right", "down", "x", "escape")
        assert isinstance(host.screen, SettingsScreen)
        assert "Ctrl+S" in host.said
        await pilot.press("y", "escape")
        assert isinstance(host.screen, SettingsScreen)
        assert host.screen.query_one(TextArea).text == "xy"
        await pilot.press("escape")

    assert _run(changed).results == [None]


def test_a_theme_is_shown_while_it_is_chosen_and_goes_with_escape() -> None:
    """Else: colours are chosen blind, or stay after being refused."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        host.row("look-theme").control.focus()
        await pilot.press("right", "right", "escape", "escape")
        await pilot.pause()

    host = _run(body)
    assert host.previews == ["light", "terminal", "dark"]
    assert host.results == [None]


def _row_of(action: str) -> int:
    return list(BY_NAME).index(action)


def test_a_key_is_given_whatever_it_does_elsewhere() -> None:
    """Else: pressing F5 for a new key runs what F5 does, and the list does not change."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        keys = host.screen.query_one(KeyList)
        await pilot.press("left", "down")
        assert host.focused is keys
        keys.highlighted = _row_of("next_proposer")
        await pilot.press("enter", "f5")
        assert "F5 is taken" in host.said
        assert "Run the last prompt" in host.said
        await pilot.press("enter", "x")
        assert "it types" in host.said
        await pilot.press("enter", "ctrl+s")
        assert "Ctrl+S: Next proposer" in host.said
        await pilot.press("enter")
        assert isinstance(host.screen, KeyWanted)
        await pilot.press("escape")
        await pilot.press("down", "enter", "f2")
        assert "F2: Draft length" in host.said
        await pilot.press("down", "enter", "f12", "delete")
        await pilot.press("ctrl+s")

    host = _run(body)
    assert [settings and dict(settings.keys) for settings in host.results] == [
        {"next_proposer": "ctrl+s", "automatic_k": "f2"}
    ]
    assert not host.spoiled


def test_a_default_key_that_another_took_is_not_given_back() -> None:
    """Else: two actions share a key, and one of them cannot be reached."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        host.screen.query_one("#dialog > InlineChoice", InlineChoice).chosen = 5
        await pilot.pause()
        keys = host.screen.query_one(KeyList)
        keys.focus()
        keys.highlighted = _row_of("next_proposer")
        await pilot.press("delete")
        assert "F2 is used by" in host.said
        assert keys.overrides == {"next_proposer": "f12", "automatic_k": "f2"}

    _run(body, Settings(keys={"next_proposer": "f12", "automatic_k": "f2"}))


def test_choices_are_made_by_key_and_by_mouse_and_say_what_is_wrong_with_them() -> None:
    """Else: a proposer that cannot run is chosen, and nobody knows why nothing speeds up."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await pilot.click("#dialog > InlineChoice", offset=(28, 0))
        row = host.row("speculation-proposer")
        assert "no [/b] draft is loaded." in str(row.query_one(".sentence", Static).render())
        await pilot.click("#speculation-proposer InlineChoice", offset=(7, 0))
        assert row.value == "off"
        await pilot.press("right", "ctrl+s")

    (settings,) = _run(body).results
    assert settings is not None
    assert settings.speculation.proposer == "lookup"


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_every_field_can_be_reached_by_arrows(size: tuple[int, int]) -> None:
    """Else: a setting is on the screen and cannot be changed, or its field is cut off while one types."""

    async def main() -> None:
        host = Host(Settings())
        async with host.run_test(size=size) as pilot:
            await pilot.pause()
            for section in range(5):
                for row in [
                    row for row in host.screen.query(SettingRow) if row.parent and row.parent.display
                ]:
                    type_ahead(host, "down")
                    await pilot.pause()
                    assert host.focused is row.control
                    assert host.screen.query_one(ContentSwitcher).region.contains_region(row.region)
                sections = host.screen.query_one("#dialog > InlineChoice", InlineChoice)
                sections.focus()
                await pilot.press("right")
                assert sections.chosen == section + 1
            shown = {row.field.name for row in host.screen.query(SettingRow)}
            assert shown == {field.name for field in FIELDS} - {"template", "rpc", "draft_folders", "mmap"}
            assert all(row.value == default(row.field) for row in host.screen.query(SettingRow))

    asyncio.run(main())
