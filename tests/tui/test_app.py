"""What a person does in the chat, and what the engine then hears and the screen shows."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from app.chat.conversation import Answer, Conversation, Exchange, Question
from app.chat.store import Store
from app.config.values import ChatSettings, LoadSettings, LookSettings, SamplingSettings, Settings
from app.engine.events import Prefill
from app.process.commands import Cancel, Compare, Count, Load, SetK, SetProposer
from app.process.events import (
    Cancelled,
    Compared,
    ComparisonEnded,
    Counted,
    Crashed,
    Done,
    Failed,
    LoadProgress,
    Noted,
    PromptProgress,
    Shortened,
    Steps,
    Switched,
    TooLong,
)
from app.tui.prompt.references import read_file
from tests.tui.chatting import NARROW, chatting, run
from tests.tui.engine import LOADED, OPTIONS, finished, step

HOSTILE = "[/INST] [@click=app.quit]x[/] [bold]\x1b]52;c;aGk=\x07\x1b[2J\u202e"


def test_the_screen_is_there_before_the_model(tmp_path: Path) -> None:
    async def body() -> None:
        settings = Settings(model=LoadSettings(name="some.gguf", context_length=2048))
        async with chatting(tmp_path, settings, loaded=None) as chat:
            assert "ask, paste, @file" in chat.text
            assert chat.engine.load.settings == LoadSettings("some.gguf", context_length=2048)
            chat.engine.tell(LoadProgress("some.gguf", 0.42))
            await chat.settle()
            assert "42 %" in chat.text
            chat.engine.tell(LOADED)
            await chat.settle()
            assert "Test Model" in chat.text and "42 %" not in chat.text

    run(body)


def test_what_memory_was_too_short_for_stays_in_sight(tmp_path: Path) -> None:
    """Lost otherwise: why the context is half of what it was, in the blink before the model is ready."""

    async def body() -> None:
        async with chatting(tmp_path, loaded=None) as chat:
            chat.engine.tell(Noted("The context is 512 tokens."))
            chat.engine.tell(LOADED)
            await chat.settle()
            assert "▎ The context is 512 tokens." in chat.text

    run(body)


def test_a_question_is_asked_with_the_settings_and_answered(tmp_path: Path) -> None:
    async def body() -> None:
        settings = Settings(
            sampling=SamplingSettings(temperature=0.3, seed=7, max_tokens=99), chat=ChatSettings("Be brief.")
        )
        async with chatting(tmp_path, settings) as chat:
            await chat.ask("What is a lighthouse?")
            sent = chat.engine.generate
            roles = [(message.role, message.content) for message in sent.messages]
            assert roles == [("system", "Be brief."), ("user", "What is a lighthouse?")]
            assert (sent.sampling.temperature, sent.seed, sent.max_tokens) == (0.3, 7, 99)
            chat.engine.reply("A tower", " with", " a light.")
            await chat.settle()
            assert "A tower with a light." in chat.text and "Nothing to copy here: plain speed." in chat.text
            await chat.ask("Who keeps it?")
            second = chat.engine.generate
            assert second.identity > sent.identity
            assert second.messages[2].content == "A tower with a light."
            # The end token is the template's to write.
            assert second.messages[2].token_ids == (0, 1, 2)

    run(body)


def test_a_question_waits_for_the_model(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path, loaded=None) as chat:
            await chat.ask("Early")
            assert "Generate" not in [type(command).__name__ for command in chat.engine.sent]
            chat.engine.tell(LOADED)
            await chat.settle()
            assert chat.engine.generate.messages[-1].content == "Early"

    run(body)


def test_escape_stops_and_keeps_what_came(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("Go on")
            chat.engine.reply("Some", " words", reason=None)
            await chat.settle()
            await chat.press("escape")
            identity = chat.engine.generate.identity
            assert chat.engine.sent[-1] == Cancel(identity)
            steps = [step("Some", 0), step(" words", 1)]
            chat.engine.tell(Done(identity, finished(steps, "cancelled")))
            await chat.settle()
            assert "Some words" in chat.text and "stopped by you" in chat.text
            await chat.press("ctrl+l")
            assert chat.engine.generate.begun == (0, 1)
            chat.engine.reply(" and more.")
            await chat.settle()
            assert "Some words and more." in chat.text

    run(body)


def test_escape_stops_in_the_prefill_and_the_question_stays(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("A long document")
            identity = chat.engine.generate.identity
            chat.engine.tell(PromptProgress(identity, Prefill(512, 4096, 0)))
            await chat.settle()
            assert "4,096" in chat.text
            await chat.press("escape")
            assert chat.engine.sent[-1] == Cancel(identity)
            chat.engine.tell(Done(identity, replace(finished([], "cancelled"), token_ids=(), origins=())))
            await chat.settle()
            assert "A long document" in chat.text and chat.app.chat.conversation.exchanges[0].answer is None
            await chat.press("ctrl+l")
            assert chat.engine.generate.identity > identity

    run(body)


def test_regenerate_edit_walk_and_delete(tmp_path: Path) -> None:
    """Else: what was answered before is gone, from the screen or from the store."""

    def stored() -> Conversation:
        saved = Store(tmp_path / "sessions.db").latest()
        assert saved is not None
        return saved.conversation

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("First")
            chat.engine.reply("One.")
            await chat.settle()
            await chat.press("ctrl+r")
            assert [message.content for message in chat.engine.generate.messages] == ["First"]
            chat.engine.reply("Two.")
            await chat.settle()
            assert "Two." in chat.text and "One." not in chat.text and "‹ 2/2 ›" in chat.text
            # Editing changes nothing until it is sent, and brings back what was begun.
            before = chat.app.chat.conversation
            await chat.type("begun")
            await chat.press("ctrl+t")
            assert "Editing your last message" in chat.text and "Two." in chat.text
            await chat.type("ly")
            await chat.stored()
            assert chat.app.chat.conversation == stored() == before
            await chat.press("escape")
            assert chat.app.prompt.draft.text == "begun" and "Editing" not in chat.text
            await chat.press("ctrl+t")
            await chat.type("ly")
            await chat.press("enter")
            assert chat.app.prompt.draft.text == "begun" and "Editing" not in chat.text
            assert [message.content for message in chat.engine.generate.messages] == ["Firstly"]
            await chat.press("alt+p")
            await chat.until(lambda: "Stop the reply first." in chat.text)
            chat.engine.reply("Three.")
            await chat.settle()
            assert "Three." in chat.text and "‹ 3/3 ›" in chat.text and "Firstly" in chat.text
            await chat.press("alt+p", "alt+p")
            assert "One." in chat.text and "‹ 1/3 ›" in chat.text and "Firstly" not in chat.text
            # What follows a version is shown with that one.
            await chat.press("ctrl+c")
            await chat.ask("On")
            assert [message.content for message in chat.engine.generate.messages] == ["First", "One.", "On"]
            chat.engine.reply("And on.")
            await chat.settle()
            row = next(y for y, line in enumerate(chat.text.splitlines()) if "‹ 1/3 ›" in line)
            column = chat.text.splitlines()[row].index("›")
            await chat.pilot.click(offset=(column, row))
            await chat.settle()
            assert "Two." in chat.text and "And on." not in chat.text
            # In its place, so that the next click walks on.
            chat.app.clear_notifications()
            await chat.settle()
            assert "‹ 2/3 ›" in chat.text.splitlines()[row]
            chat.app.prompt.focus_editor()
            await chat.type("/delete")
            await chat.press("enter")
            assert "One." in chat.text and "And on." in chat.text and "‹ 1/2 ›" in chat.text
            await chat.stored()
            assert stored() == chat.app.chat.conversation
            # An edit is of its chat: what is left of it is in the history.
            await chat.press("ctrl+t", "!")
            await chat.press("ctrl+n")
            assert "Three." not in chat.text and "Editing" not in chat.text
            assert chat.app.prompt.draft.text == "" and chat.app.prompt.history.entries[-1] == "On!"
            chat.app.chat.send_edited(Question("On"), Question("On and on"))
            await chat.settle()
            assert chat.app.prompt.draft.text == "On and on" and not chat.app.chat.conversation.exchanges
            await chat.press("ctrl+c")
            await chat.ask("Anew")
            assert len(chat.engine.generate.messages) == 1
            await chat.stored()
            assert len(Store(tmp_path / "sessions.db").summaries()) == 2

    run(body)


def test_proposers_and_k_change_in_mid_reply(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("Go")
            chat.engine.reply("word", reason=None)
            await chat.settle()
            await chat.press("f2")
            assert chat.engine.sent[-1] == SetProposer("off")
            chat.engine.tell(Switched("off", OPTIONS, None, None))
            await chat.settle()
            await chat.press("f2", "f2")
            # draft cannot be used: it is passed over.
            assert [command for command in chat.engine.sent if isinstance(command, SetProposer)][-2:] == [
                SetProposer("lookup"),
                SetProposer("skip"),
            ]
            await chat.press("ctrl+up", "ctrl+up", "ctrl+down", "ctrl+down", "f3")
            lengths = [command.k for command in chat.engine.sent if isinstance(command, SetK)]
            assert lengths == [1, 2, 1, None, 1]
            assert "word" in chat.text

    run(body)


def test_a_crash_loses_nothing_and_the_reply_goes_on(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("Tell")
            chat.engine.reply("Once", " upon", reason=None)
            await chat.settle()
            chat.engine.tell(Crashed("was killed by SIGKILL", "last words"))
            await chat.settle()
            assert chat.engine.starts == 2 and isinstance(chat.engine.sent[-1], Load)
            assert "Once upon" in chat.text and "SIGKILL" in chat.text
            chat.engine.tell(LOADED)
            await chat.settle()
            await chat.press("ctrl+l")
            assert chat.engine.generate.begun == (0, 1)
            chat.engine.reply(" a time.")
            await chat.settle()
            assert "Once upon a time." in chat.text

    run(body)


def test_a_model_that_kills_the_engine_is_not_loaded_for_ever(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path, loaded=None) as chat:
            chat.engine.tell(Crashed("was killed by SIGABRT", "ggml: assertion"))
            await chat.settle()
            assert chat.engine.starts == 2 and chat.engine.load.died == "was killed by SIGABRT"
            chat.engine.tell(Crashed("was killed by SIGABRT", "ggml: assertion"))
            await chat.settle()
            assert chat.engine.starts == 2 and "while it loaded the model" in chat.text
            await chat.press("1")
            assert chat.engine.starts == 3 and chat.engine.load.died == ""


def test_a_process_that_was_ended_from_outside_is_not_tried_with_less(tmp_path: Path) -> None:
    """Memory that was short, or a person who ended it: other settings would not have helped."""

    async def body() -> None:
        async with chatting(tmp_path, loaded=None) as chat:
            chat.engine.tell(Crashed("was killed by SIGKILL", ""))
            await chat.settle()
            assert chat.engine.starts == 1 and "while it loaded the model" in chat.text

    run(body)


def test_a_prompt_that_does_not_fit_is_never_cut_silently(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path, loaded=replace(LOADED, context_trained=32768)) as chat:
            for number in range(3):
                await chat.ask(f"Question {number}")
                chat.engine.reply(f"Answer {number}.")
                await chat.settle()
            await chat.ask("One too many")
            chat.engine.tell(TooLong(chat.engine.generate.identity, 9000, 8192, 32768))
            await chat.settle()
            assert "9,000 tokens" in chat.text and "8,192" in chat.text
            await chat.press("1")
            assert chat.engine.generate.shorten and len(chat.engine.generate.messages) == 7
            chat.engine.tell(Shortened(chat.engine.generate.identity, 2))
            chat.engine.reply("It fits.")
            await chat.settle()
            assert chat.app.chat.conversation.unsent == 2
            assert "It fits." in chat.text and "Question 0" in chat.text and "no longer sent" in chat.text

    run(body)


def test_a_larger_context_or_a_shorter_message(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path, loaded=replace(LOADED, context_trained=32768)) as chat:
            await chat.ask("Much too long")
            chat.engine.tell(TooLong(chat.engine.generate.identity, 9000, 8192, 32768))
            await chat.settle()
            await chat.press("1")  # nothing older could be dropped
            assert chat.engine.load.settings.context_length == 10240
            asked = chat.engine.generate.identity
            chat.engine.tell(replace(LOADED, context_length=10240))
            await chat.settle()
            assert chat.engine.generate.identity > asked
            chat.engine.tell(TooLong(chat.engine.generate.identity, 99000, 10240, 10240))
            await chat.settle()
            await chat.press("1")
            assert chat.app.prompt.draft.text == "Much too long" and "Editing your last" in chat.text
            await chat.press("escape")
            assert chat.app.prompt.draft.text == "" and "Much too long" in chat.text

    run(body)


def test_a_reply_is_kept_as_it_grows_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.session.chat.SAVE_SECONDS", 0.0)

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("Remember this")
            chat.engine.reply("half", " an", reason=None)
            await chat.settle()
            await chat.stored()
            # What another process would find, were this one killed now.
            saved = Store(tmp_path / "sessions.db").latest()
            assert saved is not None and saved.title == "Remember this"
            answer = saved.conversation.exchanges[0].answer
            assert answer is not None and answer.text == "half an"
        async with chatting(tmp_path, resume="") as chat:
            await chat.stored()
            assert "Remember this" in chat.text and "half an" in chat.text
            await chat.press("ctrl+l")
            assert chat.engine.generate.begun == (0, 1)

    run(body)


def test_two_windows_on_one_session_harm_neither(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("Shared")
            chat.engine.reply("Yes.")
            await chat.settle()
            await chat.stored()
            other = Store(tmp_path / "sessions.db")
            saved = other.latest()
            assert saved is not None
            theirs = Conversation(saved.conversation.exchanges * 2)
            other.write(saved, theirs)
            await chat.ask("Mine")
            chat.engine.reply("Also.")
            await chat.stored()
            sessions = [other.load(each.identity).conversation for each in other.summaries()]
            assert theirs in sessions
            assert any(len(each.exchanges) == 2 and each != theirs for each in sessions)

    run(body)


def test_a_store_that_is_held_holds_up_nothing(tmp_path: Path) -> None:
    """Else: another window that indexes freezes this one, or a question lands in the wrong chat."""
    store = Store(tmp_path / "sessions.db")
    old = store.create(Conversation((Exchange(Question("Old"), Answer("Yes.", end="stop")),)), "Old", "m")

    async def body() -> None:
        other = sqlite3.connect(store.path, isolation_level=None)
        async with chatting(tmp_path, size=NARROW) as chat:
            await chat.stored()
            other.execute("BEGIN IMMEDIATE")
            await chat.ask("New")
            chat.engine.reply("It is", " answered.")
            await chat.settle()
            waiting = chat.app.autosave.ask(lambda store: None)
            assert "It is answered." in chat.text and "New" in chat.text.splitlines()[0]
            await chat.press("f8", *"ol")
            await chat.until(lambda: "loading" in chat.text)
            assert " ol " in chat.text
            await chat.press("enter")
            assert not waiting.done() and [each.title for each in store.summaries()] == ["Old"]
            other.execute("ROLLBACK")
            await chat.until(lambda: "Yes." in chat.text)
            assert "It is answered." not in chat.text and chat.app.autosave.identity == old.identity
            assert [each.title for each in store.summaries()] == ["New", "Old"]
        async with chatting(tmp_path, resume="Old") as chat:
            other.execute("BEGIN EXCLUSIVE")
            chat.app.keep(chat.app.chat.conversation.asked(Question("Old")))
            chat.app.open_chat(chat.app.autosave.resume("New"))
            await chat.ask("For the new one")
            assert "It is answered." not in chat.text
            other.execute("ROLLBACK")
            await chat.until(lambda: "It is answered." in chat.text)
            assert [each.content for each in chat.engine.generate.messages] == [
                "New",
                "It is answered.",
                "For the new one",
            ]

    run(body)
    store.close()


def test_a_damaged_database_is_set_aside_and_said_so(tmp_path: Path) -> None:
    (tmp_path / "sessions.db").write_bytes(b"SQLite format 3\0" + b"\x07" * 5000)

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.until(lambda: "damaged" in chat.text)
            await chat.ask("Still here")
            chat.engine.reply("Yes.")
            await chat.settle()
        assert list(tmp_path.glob("sessions.damaged-*"))

    run(body)


def test_compare_shows_each_proposer(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("Compare me")
            chat.engine.reply("Done.")
            await chat.settle()
            await chat.press("f5")
            command = chat.engine.sent[-1]
            assert isinstance(command, Compare)
            assert command.proposers == ("off", "lookup", "skip", "auto") and command.seed == 1
            for name in command.proposers:
                chat.engine.tell(Compared(command.identity, name, finished([step("Done.")]), None, None))
            chat.engine.tell(ComparisonEnded(command.identity))
            await chat.settle()
            assert "lookup" in chat.text and "skip" in chat.text and "100" in chat.text
            await chat.press("escape")
            await chat.ask("And on")
            assert chat.engine.generate.messages[-1].content == "And on"

    run(body)


def test_what_escape_stops_is_called_what_it_is(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("Compare me")
            await chat.settle()
            assert "Esc stops the reply" in chat.text
            chat.engine.reply("Done.")
            await chat.settle()
            assert "Esc stops" not in chat.text
            await chat.press("f5", "escape", "escape")
            command = chat.engine.last(Compare)
            assert isinstance(command, Compare) and chat.engine.sent[-1] == Cancel(command.identity)
            # The engine has yet to hear of it.
            assert "Esc stops the comparison" in chat.text
            await chat.ask("Too early")
            assert "waiting: Too early" in chat.text
            for key in ("ctrl+n", "ctrl+r", "f5"):
                await chat.press(key)
            await chat.until(lambda: chat.text.count("Stop the comparison first.") == 3)
            chat.engine.tell(Compared(command.identity, "off", finished([], "cancelled"), None, None))
            chat.engine.tell(Cancelled(command.identity))
            await chat.settle()
            assert "waiting:" not in chat.text
            assert chat.engine.generate.messages[-1].content == "Too early"
            chat.engine.reply("Now.")
            await chat.settle()
            await chat.press("f5")
            chat.engine.tell(Crashed("was killed by SIGKILL", ""))
            await chat.settle()
            assert "Compare · failed" in chat.text and "The engine was killed by SIGKILL" in chat.text

    run(body)


def test_an_attached_document_is_counted_and_sent(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("The sea was calm. " * 30)

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            chat.app.prompt.attach_document(read_file(str(tmp_path / "notes.txt")))
            await chat.settle()
            count = chat.engine.last(Count)
            assert isinstance(count, Count) and count.text.startswith("The sea")
            chat.engine.tell(Counted(count.identity, 1234))
            await chat.settle()
            assert "notes.txt" in chat.text and "1,234" in chat.text
            await chat.ask("Summarise")
            content = chat.engine.generate.messages[-1].content
            assert content.startswith("[Document: notes.txt]") and content.endswith("Summarise")

    run(body)


def test_what_fails_is_said_where_the_eye_is(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("Hello")
            chat.engine.tell(Failed(chat.engine.generate.identity, "The template failed: [/INST]"))
            await chat.settle()
            assert "The template failed: [/INST]" in chat.text
            await chat.ask("Again")
            assert chat.engine.generate.messages[-1].content == "Again"

    run(body)


def test_the_first_line_names_the_gpu(tmp_path: Path) -> None:
    """Lost otherwise: whether the GPU is used at all, which nothing else on the screen tells."""

    async def body() -> None:
        loaded = replace(LOADED, gpus=("Some Card 3000", "Other Card"))
        async with chatting(tmp_path, loaded=loaded) as chat:
            assert "Test Model on Some Card 3000 and 1 more" in chat.text.splitlines()[0]
            # Whatever is stored may change the title beside it.
            chat.app.view.keep(chat.app.chat.conversation)
            await chat.settle()
            assert "Test Model on Some Card 3000 and 1 more" in chat.text.splitlines()[0]

    run(body)


def test_foreign_text_is_neither_markup_nor_control(tmp_path: Path) -> None:
    async def body() -> None:
        loaded = replace(LOADED, name=HOSTILE, draft=HOSTILE, gpus=(HOSTILE,))
        async with chatting(tmp_path, loaded=loaded) as chat:
            chat.app.prompt.pasted(HOSTILE)
            await chat.press("enter")
            chat.engine.reply(HOSTILE, HOSTILE)
            chat.engine.tell(Switched("lookup", OPTIONS, HOSTILE, HOSTILE))
            chat.engine.tell(Failed(chat.engine.generate.identity, HOSTILE))
            await chat.settle()
            for key in ("f4", "f4", "f4", "f8", "escape", "f5", "escape"):
                await chat.press(key)
                text = chat.text
                assert not {"\x1b", "\x07", "\u202e"} & set(text)
            assert "[/INST]" in chat.text and chat.app.is_running

    run(body)


def test_narrow_screens_have_the_strip_and_the_panel_on_a_key(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path, size=NARROW) as chat:
            await chat.ask("Hi")
            chat.engine.reply("Hello", " there.")
            await chat.settle()
            assert "Hello there." in chat.text and chat.app.strip.display and not chat.app.panel.display
            await chat.press("f6")
            assert chat.app.panel.region.width == 80 and "tokens/pass" in chat.text
            await chat.press("escape")
            assert "Hello there." in chat.text

    run(body)


def test_a_terminal_that_is_too_small_says_so_and_recovers(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.pilot.resize_terminal(39, 12)
            await chat.settle()
            assert "39 × 12" in chat.text
            await chat.pilot.resize_terminal(100, 30)
            await chat.settle()
            assert "ask, paste, @file" in chat.text

    run(body)


def test_resizing_a_long_chat_leaves_it_right(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            words = "with some words to wrap over lines. " * 4
            chat.app.chat.show(
                Conversation(
                    tuple(
                        Exchange(
                            Question(f"Q{number}"), Answer(f"Answer number {number} {words}", end="stop")
                        )
                        for number in range(50)
                    )
                )
            )
            for turn in range(20):
                await chat.pilot.resize_terminal(60 + (turn * 37) % 110, 16 + (turn * 11) % 40)
            await chat.pilot.resize_terminal(120, 40)
            await chat.settle()
            assert "Answer number 49" in chat.text and "ask, paste, @file" in chat.text
            chat.engine.sent.clear()
            await chat.ask("Still")
            assert chat.engine.generate.messages[-1].content == "Still"

    run(body)


def test_the_theme_and_keys_of_the_settings_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        settings = Settings(look=LookSettings(theme="light"), keys={"colours": "ctrl+g", "thoughts": "f4"})
        async with chatting(tmp_path, settings) as chat:
            assert chat.app.theme == "specchat-light"
            for marked in (2, 0, 1):
                await chat.press("ctrl+g")
                assert chat.app.transcript.colours == (marked, "light")
            chat.app.apply(replace(settings, look=LookSettings(theme="dark", drafts="off")))
            assert chat.app.transcript.colours == (0, "dark")
            await chat.press("f9")
            await chat.until(lambda: "Settings" in chat.text)
            await chat.press("escape")
            await chat.press("f1")
            await chat.until(lambda: "Ctrl+G" in chat.text)
        monkeypatch.setenv("NO_COLOR", "1")
        async with chatting(tmp_path) as chat:
            assert chat.app.transcript.colours == (1, "none")

    run(body)


def test_late_events_of_a_reply_that_was_given_up_are_left_out(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("One")
            first = chat.engine.generate.identity
            chat.engine.reply("gone", reason="stop")
            await chat.settle()
            await chat.press("ctrl+r")
            chat.engine.tell(Steps(first, (step(" LATE"),)))
            chat.engine.reply("kept")
            await chat.settle()
            assert "kept" in chat.text and "LATE" not in chat.text

    run(body)
