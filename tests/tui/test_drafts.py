"""The draft picker: without these a draft that cannot work is loaded, or nobody learns why it is not."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from app.process.events import Candidate, Drafts
from app.tui.drafts.screen import DraftChoice, DraftScreen, candidates_for
from app.tui.theme import THEMES
from tests.tui.chatting import hosted

SMALL = Candidate("/m/small.gguf", "small-360m-q8_0.gguf", 386_000_000, None, False)
OTHER = Candidate(
    "/m/other.gguf", "other[/b]-0.6b.gguf", 639_000_000, "its tokenizer is of another kind", False
)
LOADED = Candidate("/m/tiny.gguf", "tiny-135m.gguf", 98_000_000, None, True)
ALL = (LOADED, SMALL, OTHER)


class Host(App[None]):
    """Opens the picker and remembers what it returned."""

    def __init__(self) -> None:
        super().__init__()
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = "specchat-dark"
        self.picker = DraftScreen()
        self.answers: list[DraftChoice | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.picker, self.answers.append)

    def said(self, name: str) -> str:
        return str(self.picker.query_one(f"#{name}", Static).content)


def run(body: Callable[[Host, Pilot[None]], Awaitable[None]], size: tuple[int, int] = (80, 24)) -> Host:
    return hosted(Host(), body, size)


def test_it_opens_before_the_files_are_known() -> None:
    """Else: reading two hundred headers freezes the chat with nothing on the screen."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        assert "looking for drafts" in app.said("empty")
        app.picker.take(Drafts(ALL))
        await pilot.pause()
        assert not app.picker.query_one("#empty").display
        assert app.picker.query_one(OptionList).option_count == 4

    run(body)


def test_page_keys_wait_for_the_list() -> None:
    """Else: F7 and a page key in one burst end the app, as the list has no lines yet."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        app.picker.take(Drafts(ALL))
        app.picker.options.display = False
        await pilot.pause()
        app.picker.options.clear_options()
        app.picker.options.add_options(["one", "two"])
        app.picker.options.highlighted = 0
        for how in ("page_down", "page_up"):
            app.picker.action_move(how)

    run(body)


def test_enter_loads_one_that_fits() -> None:
    """Else: the draft that was picked is not the one that guesses."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        app.picker.take(Drafts(ALL))
        await pilot.press(*"360", "enter")

    assert run(body).answers == [DraftChoice(SMALL.path)]


def test_one_that_does_not_fit_says_why_and_stays() -> None:
    """Else: a draft of another vocabulary is asked for, fails, and nobody learns why."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        app.picker.take(Drafts(ALL))
        await pilot.press(*"other", "enter")
        assert app.said("said") == "other[/b]-0.6b.gguf cannot draft: its tokenizer is of another kind"
        assert app.answers == []
        await pilot.press("escape")

    assert run(body).answers == [None]


def test_the_loaded_one_can_be_unloaded() -> None:
    """Else: its memory stays taken until the app is left."""

    async def by_entry(app: Host, pilot: Pilot[None]) -> None:
        app.picker.take(Drafts(ALL))
        await pilot.press("up", "enter")
        assert "loaded already" in app.said("said")
        await pilot.press("up", "enter")

    async def by_key(app: Host, pilot: Pilot[None]) -> None:
        app.picker.take(Drafts(ALL))
        await pilot.press("tab", "u")

    async def typed(app: Host, pilot: Pilot[None]) -> None:
        app.picker.take(Drafts(ALL))
        await pilot.press("u")
        assert app.picker.query_one(Input).value == "u"

    assert run(by_entry).answers == [DraftChoice(None)]
    assert run(by_key).answers == [DraftChoice(None)]
    assert run(typed).answers == []


def test_there_is_nothing_to_unload_without_a_draft() -> None:
    """Else: a key does something that was not offered."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        app.picker.take(Drafts((SMALL, OTHER)))
        await pilot.press("tab", "u")
        assert app.picker.query_one(OptionList).option_count == 2

    assert run(body).answers == []


def test_an_empty_list_teaches() -> None:
    """Else: an empty box leaves a person guessing what belongs in it."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        app.picker.take(Drafts(()))
        await pilot.pause()
        assert "guesses ahead" in app.said("empty") and "beside the model's file" in app.said("empty")
        app.picker.take(Drafts(ALL))
        await pilot.press(*"zzz")
        await pilot.pause()
        assert "Nothing matches" in app.said("empty")
        await pilot.press("enter")

    assert run(body).answers == []


def test_a_path_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: a draft in a folder that is not looked through cannot be used."""
    (tmp_path / "my.gguf").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for typed in ("my.gguf", "./my.gguf", "~/my.gguf", str(tmp_path / "my.gguf")):
        (entry,) = candidates_for(ALL, typed)
        assert entry.problem is None and os.path.samefile(entry.path, tmp_path / "my.gguf")

    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press(*"no.gguf", "enter")
        assert "there is no such file" in app.said("said")
        app.picker.query_one(Input).value = "my.gguf"
        await pilot.press("enter")

    (answer,) = run(body).answers
    assert answer is not None and answer.draft is not None
    assert os.path.samefile(answer.draft, tmp_path / "my.gguf")


def test_a_click_loads() -> None:
    """Else: the mouse does nothing where it does elsewhere."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        app.picker.take(Drafts(ALL))
        await pilot.pause()
        await pilot.click(OptionList, offset=(5, 2))

    assert run(body, (160, 50)).answers == [DraftChoice(SMALL.path)]
