"""The sessions' screen: without these a person cannot get back to a chat, or loses one by a slip."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, Static

from app.chat.conversation import Answer, Conversation, Exchange, Question
from app.chat.store import Store
from app.session.autosave import Autosave
from app.tui.dialogs.lines import fit
from app.tui.sessions.listing import SessionList, age
from app.tui.sessions.screen import SessionsScreen, TitleEditor
from app.tui.theme import THEMES
from tests.tui.chatting import until

HOSTILE = "[/INST] [b]bold[/b] \x1b[2J"


class Host(App[None]):
    """Shows the screen and keeps what it gives."""

    def __init__(self, screen: SessionsScreen, theme: str = "dark") -> None:
        super().__init__()
        for each in THEMES.values():
            self.register_theme(each)
        self.theme = THEMES[theme].name
        self.shown = screen
        self.chosen: list[str | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.shown, self.chosen.append)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "sessions.db")
    yield opened
    opened.close()


def screen_of(store: Store, current: str | None = None, folder: Path | None = None) -> SessionsScreen:
    """The screen of a window that has the session `current` open, on the same file."""
    autosave = Autosave(store.path, lambda sentence: None)
    if current is not None:
        autosave.go_on(store.load(current))
    return SessionsScreen(autosave, folder)


def add(store: Store, title: str, said: str = "an answer") -> str:
    exchange = Exchange(Question(f"about {title}"), Answer(said, end="stop"))
    return store.create(Conversation((exchange,)), title, "SmolLM2").identity


def run(
    screen: SessionsScreen,
    body: Callable[[Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
    theme: str = "dark",
) -> list[str | None]:
    """What the screen gave while `body` used it."""

    async def using() -> list[str | None]:
        app = Host(screen, theme)
        async with app.run_test(size=size) as pilot:
            await listed(pilot, screen)
            await body(pilot)
            await pilot.pause()
            screen._autosave.close()
        return app.chosen

    return asyncio.run(using())


async def press(pilot: Pilot[None], screen: SessionsScreen, *keys: str) -> None:
    await pilot.press(*keys)
    await listed(pilot, screen)


async def listed(pilot: Pilot[None], screen: SessionsScreen) -> None:
    """Wait for what the store is asked."""
    await pilot.pause()
    await until(pilot, lambda: not len(screen.workers))
    await pilot.pause()


def lines(screen: SessionsScreen) -> list[str]:
    listing = screen.query_one(SessionList)
    return [listing.render_line(y).text.rstrip() for y in range(listing.size.height)]


def said(screen: SessionsScreen) -> str:
    return str(screen.query_one("#said", Static).content)


def test_enter_opens_the_one_under_the_cursor(store: Store) -> None:
    """Else: another chat opens than the one chosen."""
    first = add(store, "first")
    add(store, "second")

    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")

    assert run(screen_of(store), body) == [first]


def test_escape_changes_nothing(store: Store) -> None:
    """Else: there is no way back to the chat that is open."""
    add(store, "first")

    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("f", "escape")

    assert run(screen_of(store), body) == [None]


def test_typing_finds_what_was_said(store: Store) -> None:
    """Else: a chat is found by its title only, which nobody remembers."""
    wanted = add(store, "first", "The heron stands in the water.")
    add(store, "second")
    screen = screen_of(store)

    async def body(pilot: Pilot[None]) -> None:
        await pilot.press(*"heron st")
        await until(pilot, lambda: "heron stands" in lines(screen)[1])
        assert "first" in lines(screen)[0] and lines(screen)[2] == ""
        await pilot.press("enter")

    assert run(screen, body) == [wanted]


def test_enter_straight_after_typing_takes_what_was_typed(store: Store) -> None:
    """Else: who types fast opens the wrong chat."""
    wanted = add(store, "first", "heron")
    add(store, "second")

    async def body(pilot: Pilot[None]) -> None:
        pilot.app.screen.query_one(Input).value = "heron"
        await pilot.press("enter")

    assert run(screen_of(store), body) == [wanted]


def test_nothing_found_and_nothing_there_teach(store: Store) -> None:
    """Else: an empty box, and a person wonders what it is for."""
    screen = screen_of(store)

    async def empty(pilot: Pilot[None]) -> None:
        assert "No sessions yet" in str(screen.query_one("#empty", Static).content)
        await pilot.press("enter", "f2", "ctrl+d", "ctrl+e", "down", "tab", "d", "r")

    assert run(screen, empty) == []
    add(store, "first")
    other = screen_of(store)

    async def none_found(pilot: Pilot[None]) -> None:
        await pilot.press(*"zzz")
        await until(pilot, lambda: other.query_one("#empty").display)
        assert "Nothing found" in str(other.query_one("#empty", Static).content)
        await pilot.press("enter")

    assert run(other, none_found) == []


@pytest.mark.parametrize("keys", [["tab", "d"], ["tab", "delete"], ["ctrl+d"]])
def test_what_was_deleted_can_be_brought_back(store: Store, keys: list[str]) -> None:
    """Else: a slip of the finger costs a chat."""
    for title in ("one", "two", "three"):
        add(store, title)
    screen = screen_of(store)

    async def body(pilot: Pilot[None]) -> None:
        await press(pilot, screen, *keys)
        assert [each.title for each in store.summaries()] == ["two", "one"]
        assert "Deleted “three”" in said(screen) and "undo" in said(screen)
        await press(pilot, screen, keys[-1])
        assert [each.title for each in store.summaries()] == ["one"]
        await press(pilot, screen, "ctrl+z", "ctrl+z", "ctrl+z")
        assert [each.title for each in store.summaries()] == ["three", "two", "one"]
        assert "three" in lines(screen)[0]

    run(screen, body)


def test_the_open_session_is_marked_and_not_deleted(store: Store) -> None:
    """Else: the chat on the screen goes on in a session that is gone."""
    add(store, "older")
    current = add(store, "open now")
    screen = screen_of(store, current)

    async def body(pilot: Pilot[None]) -> None:
        assert lines(screen)[0].startswith(" ● open now")
        await press(pilot, screen, "ctrl+d")
        assert "This session is open" in said(screen)
        assert len(store.summaries()) == 2

    run(screen, body)


def test_a_title_is_changed_in_its_place(store: Store) -> None:
    """Else: forty chats are called after their first question."""
    add(store, "older")
    identity = add(store, "first")
    screen = screen_of(store)

    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("down", "up", "tab", "r")
        editor = screen.query_one(TitleEditor)
        assert editor.has_focus and editor.value == "first"
        assert editor.region.y == screen.query_one(SessionList).region.y
        await press(pilot, screen, *"rivers", "enter")
        assert store.load(identity).title == "rivers"
        assert "rivers" in lines(screen)[0]
        assert screen.query_one(SessionList).has_focus and not editor.display
        await pilot.press("f2", *"no", "escape")
        assert store.load(identity).title == "rivers" and not editor.display
        await press(pilot, screen, "f2", "delete", "backspace", "enter")
        assert "title" in said(screen) and store.load(identity).title == "rivers"

    assert run(screen, body) == []


def test_an_export_says_where_it_is(store: Store, tmp_path: Path) -> None:
    """Else: the file is somewhere, or replaced one that was there."""
    add(store, "Rivers?", "The answer.")
    screen = screen_of(store, folder=tmp_path)

    async def body(pilot: Pilot[None]) -> None:
        await press(pilot, screen, "ctrl+e", "tab", "e")
        assert "Rivers-2.md" in said(screen)

    run(screen, body)
    assert "The answer." in (tmp_path / "Rivers.md").read_text("utf-8")
    assert (tmp_path / "Rivers.md").read_bytes() == (tmp_path / "Rivers-2.md").read_bytes()


def test_an_export_that_fails_says_why(store: Store, tmp_path: Path) -> None:
    """Else: the chat ends, or the export seems to have worked."""
    add(store, "first")
    screen = screen_of(store, folder=tmp_path / "nowhere")

    async def body(pilot: Pilot[None]) -> None:
        await press(pilot, screen, "ctrl+e")
        assert "no folder" in said(screen)

    run(screen, body)


def test_two_clicks_open(store: Store) -> None:
    """Else: the mouse can look but not open."""
    first = add(store, "first")
    add(store, "second")
    screen = screen_of(store)

    async def body(pilot: Pilot[None]) -> None:
        await pilot.click(SessionList, offset=(5, 1))
        assert screen.query_one(SessionList).highlighted == 1
        await pilot.click(SessionList, offset=(5, 1), times=2)

    assert run(screen, body) == [first]


@pytest.mark.parametrize("theme", ["dark", "light", "terminal"])
@pytest.mark.parametrize("size", [(160, 50), (80, 24), (40, 12)])
def test_hostile_titles_are_shown_as_text(store: Store, size: tuple[int, int], theme: str) -> None:
    """Else: a title with brackets crashes the list, or escape codes reach the terminal."""
    add(store, HOSTILE, HOSTILE)
    add(store, "東京" * 40, "東京")
    screen = screen_of(store)

    async def body(pilot: Pilot[None]) -> None:
        shown = lines(screen)
        assert "[/INST]" in shown[1] and "\x1b" not in "".join(shown)
        assert "…" in shown[0]
        await press(pilot, screen, "down", "ctrl+d")
        assert "Deleted “[/INST]" in said(screen)
        await pilot.press("ctrl+z", "f2", "enter", *"INST")
        await until(pilot, lambda: screen.query_one(SessionList).virtual_size.height == 2)

    run(screen, body, size, theme)


def test_thousands_are_listed_by_one_query_and_drawn_by_the_page(store: Store) -> None:
    """Else: the list takes seconds to open, and each key to answer."""
    with store._transaction() as connection:
        connection.executemany(
            "INSERT INTO session (identity, revision, title, model, system, unsent, exchanges, created, "
            "changed) VALUES (?, 1, ?, 'm', '', 0, 0, 0, ?)",
            [(f"s{number}", f"title {number}", number) for number in range(5000)],
        )
    screen = screen_of(store)
    queries: list[str] = []

    async def body(pilot: Pilot[None]) -> None:
        listing = screen.query_one(SessionList)
        store._connection.set_trace_callback(queries.append)
        await pilot.press("tab", "end")
        assert "title 0 " in lines(screen)[listing.size.height - 1]
        await pilot.press("home", "pagedown", "up")
        assert listing.highlighted == listing.size.height - 1

    run(screen, body)
    assert queries == []


def test_the_search_has_the_focus_and_slash_brings_it_back(store: Store) -> None:
    """Else: letters typed to search delete and rename."""
    add(store, "dear reader")
    screen = screen_of(store)

    async def body(pilot: Pilot[None]) -> None:
        await pilot.press(*"dear")
        assert screen.query_one(Input).value == "dear" and len(store.summaries()) == 1
        await pilot.press("tab", "slash", "x")
        assert screen.query_one(Input).value == "dearx"

    run(screen, body)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-500, "just now"),
        (59, "just now"),
        (61, "1 min ago"),
        (3 * 3600 + 5, "3 h ago"),
        (25 * 3600, "1 day ago"),
        (6.9 * 24 * 3600, "6 days ago"),
        (1e300, "–"),
    ],
)
def test_ages_are_told_as_people_do(seconds: float, text: str) -> None:
    """Else: which of two chats is today's must be worked out."""
    assert age(1e9 - seconds, 1e9) == text


def test_old_ages_are_dates() -> None:
    """Else: "412 days ago" must be worked out."""
    assert age(1e9 - 30 * 24 * 3600, 1e9).startswith("2001-08-")


@pytest.mark.parametrize(
    ("text", "width", "fitted"),
    [("abc", 5, "abc  "), ("abcdef", 4, "abc…"), ("東京都", 5, "東京…"), ("東京都", 4, "東… ")],
)
def test_text_fits_its_column_to_the_cell(text: str, width: int, fitted: str) -> None:
    """Else: wide characters push the numbers out of line."""
    assert fit(text, width) == fitted
