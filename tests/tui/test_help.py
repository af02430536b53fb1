"""The help: without these it promises keys that are not bound, or cannot be read to its end."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App
from textual.widgets import Static

from app.tui.actions import ACTIONS
from app.tui.help.screen import HelpScreen
from app.tui.theme import THEMES


class Host(App[None]):
    def __init__(self, overrides: dict[str, str]) -> None:
        super().__init__()
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = "specchat-dark"
        self._overrides = overrides

    def on_mount(self) -> None:
        self.push_screen(HelpScreen(self._overrides))


def _texts(host: App[None]) -> list[str]:
    return [str(each.render()) for each in host.screen.query(Static)]


@pytest.mark.parametrize("close", ["escape", "f1"])
def test_it_shows_every_action_with_its_real_keys(close: str) -> None:
    """Else: somebody who remapped a key reads the old one, or cannot leave the help."""

    async def body() -> None:
        host = Host({"regenerate": "ctrl+e", "stop": ""})
        async with host.run_test(size=(80, 24)) as pilot:
            texts = _texts(host)
            assert {action.summary for action in ACTIONS} <= set(texts)
            assert {action.usage for action in ACTIONS} <= set(texts)
            assert texts[texts.index("Answer the last message again") - 2] == "Ctrl+E"
            assert texts[texts.index("Stop the reply; what came so far is kept") - 2] == ""
            await pilot.press(close)
            assert not isinstance(host.screen, HelpScreen)

    asyncio.run(body())


def test_it_scrolls_by_key_where_it_is_small_and_has_columns_where_it_is_wide() -> None:
    """Else: the last keys of the list stay unseen on a small terminal."""

    async def body() -> None:
        host = Host({})
        async with host.run_test(size=(80, 24)) as pilot:
            last = host.screen.query(".group").last()
            assert last.region.y >= 24
            await pilot.press("end")
            await pilot.pause()
            assert last.region.y < 24
        async with Host({}).run_test(size=(160, 50)) as pilot:
            first, *_, last = pilot.app.screen.query(".group")
            assert first.region.y == last.region.y or last.region.x > first.region.x

    asyncio.run(body())
