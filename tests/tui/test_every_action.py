"""Actions by their slash commands and in the palette, and keys that must not be lost or leave by mistake."""

from __future__ import annotations

from pathlib import Path

from textual.events import Paste
from textual.fuzzy import Matcher
from textual.widgets._toast import Toast

from app.config.file import read_settings
from app.process.commands import Generate, SetK, SetProposer
from app.tui.actions import ACTIONS
from app.tui.starters.starters import STARTERS
from tests.tui.chatting import NARROW, Chatting, chatting, run

SMALL = (40, 12)


async def command(chat: Chatting, text: str) -> None:
    """Have a command in the prompt, and run it as it stands."""
    chat.app.prompt.begin(text)
    await chat.press("escape", "enter")
    await chat.settle()


def test_every_action_has_its_command_and_is_found_by_its_name(tmp_path: Path) -> None:
    """Else: somebody whose terminal takes a key has no way to what it does."""

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            # Ctrl+C alone has none: where a command is typed, there is nothing to copy or clear.
            assert {action.name for action in ACTIONS if not action.slash} == {"leave"}
            listed = list(chat.app.get_system_commands(chat.app.screen))
            for word, names in {
                "regenerate": "/regenerate",
                "dark": "/theme dark",
                "quit": "/quit",
                "temperature": "/temperature",
                "screenshot": "/screenshot",
                "proposer": "/proposer",
                "panel": "/panel",
            }.items():
                best = max(listed, key=lambda each: Matcher(word).match(each.title))
                assert best.title.startswith(names), word
            assert next(each.help for each in listed if each.title.startswith("/panel")) == "F6"
            await chat.press("ctrl+p")
            await chat.type("light")
            await chat.until(lambda: "/theme light" in chat.text)
            await chat.press("enter")
            await chat.until(lambda: chat.app.theme == "specchat-light")

    run(body)


def test_commands_take_what_follows_them(tmp_path: Path) -> None:
    """Else: /k 5 does what /k does, and a wrong value is taken or ends the app."""

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await command(chat, "/proposer lookup")
            assert chat.engine.sent[-1] == SetProposer("lookup")
            await command(chat, "/proposer draft")
            assert chat.engine.sent[-1] == SetProposer("lookup") and "no draft model is loaded" in chat.text
            await command(chat, "/proposer none")
            assert "There is no proposer none: take off, lookup" in chat.text
            await command(chat, "/k 5")
            await command(chat, "/k auto")
            await command(chat, "/k x")
            assert chat.engine.sent[-2:] == [SetK(5), SetK(None)] and "from 1 to 32" in chat.text
            await command(chat, "/temperature 0.3")
            await command(chat, "/temperature hot")
            await command(chat, "/theme light")
            assert chat.app.chat.generation.sampling.temperature == 0.3 and chat.app.theme == "specchat-light"
            kept = read_settings(tmp_path / "settings.toml")
            assert (kept.sampling.temperature, kept.look.theme) == (0.3, "light")
            await command(chat, f"/screenshot {tmp_path}/screen.svg")
            await chat.until(lambda: (tmp_path / "screen.svg").is_file())
            assert "<svg" in (tmp_path / "screen.svg").read_text("utf-8")
            await command(chat, "/new What now?")
            assert "/new takes nothing after it." in chat.text
            assert chat.app.prompt.draft.text == "/new What now?"

    run(body)


def test_what_is_typed_reaches_the_prompt_wherever_the_focus_is(tmp_path: Path) -> None:
    """Else: after a Tab, a click or a resize, typed text vanishes."""

    async def body() -> None:
        async with chatting(tmp_path, size=NARROW) as chat:
            await chat.press("tab")
            assert chat.app.focused is chat.app.transcript
            await chat.type(" a")
            await chat.pilot.click("#transcript")
            assert chat.app.focused is chat.app.transcript
            chat.app.post_message(Paste("b"))
            await chat.settle()
            await chat.pilot.click("#transcript")
            await chat.press("backspace", "c")
            await chat.pilot.resize_terminal(39, 12)
            await chat.settle()
            assert "39 × 12" in chat.text
            await chat.pilot.resize_terminal(*SMALL)
            await chat.settle()
            await chat.type("d")
            chat.app.screen.set_focus(None)
            await chat.press("e", "tab", "enter")
            assert chat.engine.generate.messages[-1].content.strip() == "acde"
            assert "ask, paste, @file" in chat.text and "acde" in chat.text

    run(body)


def test_ctrl_end_goes_to_the_end_of_the_text_and_then_of_the_conversation(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path, size=NARROW) as chat:
            await chat.ask("Go")
            chat.engine.reply(*(f"line {number}\n\n" for number in range(40)))
            await chat.settle()
            for keys in (("ctrl+end",), ("a", "home", "ctrl+end", "ctrl+end")):
                await chat.press("pageup", "alt+up")
                assert not chat.app.transcript.following
                await chat.press(*keys)
                assert chat.app.transcript.following
            await chat.press("pageup", "home", "ctrl+end", "b")
            assert chat.app.prompt.draft.text == "ab" and not chat.app.transcript.following

    run(body)


def test_ctrl_c_asks_once_more_and_quit_does_not(tmp_path: Path) -> None:
    """Else: one key too many, meant to clear or to copy, ends the chat."""

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.press("x", "ctrl+c", "ctrl+c")
            assert "Press Ctrl+C again to quit." in chat.text and chat.app.return_code is None
            await chat.press("left")
            assert "again to quit" not in chat.text
            await chat.press("ctrl+c")
            assert chat.app.return_code is None
            await chat.press("ctrl+c")
            assert chat.app.return_code is not None
        async with chatting(tmp_path) as chat:
            await chat.press("h", "i", "ctrl+q")
        async with chatting(tmp_path) as chat:
            await chat.press("up")
            assert chat.app.prompt.draft.text == "hi"
            await chat.press("ctrl+u")
            await command(chat, "/quit")
            assert chat.app.return_code is not None

    run(body)


def test_toasts_cover_neither_prompt_nor_figures(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path, size=NARROW) as chat:
            for size in (SMALL, NARROW, (110, 30)):
                await chat.pilot.resize_terminal(*size)
                chat.app.say("A note of some words that is longer than a narrow line. " * 2)
                await chat.until(lambda: bool(chat.app.screen.query(Toast)))
                await chat.settle()
                panes = [chat.app.prompt, chat.app.strip, chat.app.panel]
                for toast in chat.app.screen.query(Toast):
                    assert toast.region.area
                    assert not any(each.region.overlaps(toast.region) for each in panes if each.display)

    run(body)


def test_an_empty_chat_offers_questions_that_make_way(tmp_path: Path) -> None:
    """Else: a newcomer sees nothing to ask, or the offer stands in the way of what is asked."""

    async def body() -> None:
        async with chatting(tmp_path, size=NARROW) as chat:
            starters, titles = chat.app.starters, [each.title for each in STARTERS]
            assert all(title in chat.text for title in titles) and STARTERS[0].promise in chat.text
            await chat.press("enter")
            assert not any(isinstance(each, Generate) for each in chat.engine.sent)
            await chat.press("h")
            assert not starters.display and titles[0] not in chat.text
            await chat.press("down", "backspace")
            assert starters.display and starters.marked is None
            await chat.press("down", "down", "up", "up", "up")
            assert starters.marked == 2
            await chat.press("down", "down", "enter")
            assert chat.engine.generate.messages[-1].content == STARTERS[0].question.content
            assert "light that Ada lit" in STARTERS[0].question.content
            request = chat.engine.generate
            assert (request.sampling.temperature, request.max_tokens) == (0.0, STARTERS[0].copies)
            chat.engine.reply("This is")
            await chat.settle()
            assert titles[0] not in chat.text
            await chat.press("ctrl+n")
            await chat.pilot.click("#starters", offset=(6, 3))
            assert chat.engine.generate.messages[-1].content == STARTERS[2].question.content
            assert chat.engine.generate.sampling == chat.app.settings.sampling.for_engine()
            await chat.pilot.resize_terminal(*SMALL)
            chat.engine.reply("This is")
            await chat.settle()
            await chat.press("ctrl+n")
            assert all(title in chat.text for title in titles)

    run(body)
