"""The prompt area through a tiny host app: what a person types, pastes, attaches and gets back."""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Static

from app.chat.conversation import Question
from app.chat.documents import Document
from app.tui.prompt import history as stored
from app.tui.prompt.area import PromptArea
from app.tui.prompt.attachments import Attachments, Chip
from app.tui.prompt.editor import PromptEditor
from app.tui.prompt.history import History
from app.tui.prompt.meter import meter_text
from app.tui.prompt.popover import Popover
from app.tui.prompt.viewer import DocumentViewer, parts_of
from app.tui.theme import THEMES
from tests.tui.chatting import hosted, type_ahead

FAMILY = "👨\u200d👩\u200d👧"


class Host(App[None]):
    """Keeps what the area says."""

    CSS = "PromptArea { dock: bottom; }"
    BINDINGS = [("f6", "note('f6')"), ("ctrl+z", "note('ctrl+z')"), ("pageup", "note('pageup')")]  # noqa: RUF012

    def __init__(self, history: History | None = None) -> None:
        super().__init__()
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = "specchat-dark"
        self.area = PromptArea(history)
        self.said: list[Message] = []
        self.noted: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static("the conversation")
        yield self.area

    def on_mount(self) -> None:
        self.area.focus_editor()

    def action_note(self, key: str) -> None:
        self.noted.append(key)

    def on_prompt_area_sent(self, message: PromptArea.Sent) -> None:
        self.said.append(message)

    def on_prompt_area_command(self, message: PromptArea.Command) -> None:
        self.said.append(message)

    def on_attachments_count_wanted(self, message: Attachments.CountWanted) -> None:
        self.said.append(message)

    @property
    def questions(self) -> list[Question]:
        return [message.question for message in self.said if isinstance(message, PromptArea.Sent)]

    @property
    def edits(self) -> int:
        return sum(message.edits is not None for message in self.said if isinstance(message, PromptArea.Sent))

    @property
    def commands(self) -> list[tuple[str, str]]:
        calls = [message for message in self.said if isinstance(message, PromptArea.Command)]
        return [(call.name, call.argument) for call in calls]

    @property
    def problem(self) -> str:
        line = self.query_one("#prompt-problem", Static)
        return str(line.render()) if line.display else ""

    @property
    def counts(self) -> list[Attachments.CountWanted]:
        return [message for message in self.said if isinstance(message, Attachments.CountWanted)]

    @property
    def editor(self) -> PromptEditor:
        return self.query_one(PromptEditor)

    @property
    def chips(self) -> list[str]:
        return [str(chip.content) for chip in self.query(Chip)]


Body = Callable[[Host, "Pilot[None]"], Awaitable[None]]


def run(body: Body, history: History | None = None, size: tuple[int, int] = (80, 24)) -> None:
    hosted(Host(history), body, size)


async def paste(host: Host, pilot: Pilot[None], text: str) -> None:
    """As the terminal does: to the app, which gives it to what has the focus."""
    host.post_message(events.Paste(text))
    await pilot.pause()
    await pilot.pause()


async def type_text(pilot: Pilot[None], text: str) -> None:
    type_ahead(pilot.app, *("ctrl+j" if character == "\n" else character for character in text))
    await pilot.pause()
    await pilot.pause()


# Typing and sending -----------------------------------------------------------------------------


def test_enter_sends_and_the_newline_keys_do_not() -> None:
    """Else: a message goes out half written."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await pilot.press("a", "ctrl+j", "b", "alt+enter", "c", "shift+enter", "d")
        assert host.editor.text == "a\nb\nc\nd"
        assert host.editor.size.height == 4
        await pilot.press("enter")
        assert host.questions == [Question("a\nb\nc\nd")]
        assert host.editor.text == "" and host.editor.size.height == 1
        await pilot.press("enter", "space", "enter")
        assert len(host.questions) == 1

    run(body)


def test_keys_of_one_burst_keep_their_order() -> None:
    """Else: an input method that sends Backspace and a letter at once deletes the letter."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        for key, character in (("a", "a"), ("backspace", "\x7f"), ("á", "á"), ("left", None), ("b", "b")):
            host.post_message(events.Key(key, character))
        host.post_message(events.Key("enter", "\r"))
        host.post_message(events.Key("z", "z"))
        await pilot.pause()
        await pilot.pause()
        assert host.questions == [Question("bá")]
        assert host.editor.text == "z"

    run(body)


def test_the_editor_leaves_the_apps_keys_alone() -> None:
    """Else: F6, Ctrl+Z and the page keys do something else while one writes."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await pilot.press("a", "f6", "ctrl+z", "pageup")
        assert host.noted == ["f6", "ctrl+z", "pageup"]
        assert host.editor.text == "a"

    run(body)


def test_undo_is_on_the_keys_that_do_not_suspend() -> None:
    """Else: what was deleted by mistake is gone, or alt+z types a z."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await type_text(pilot, "one two")
        await pilot.press("ctrl+w")
        assert host.editor.text == "one "
        host.post_message(events.Key("alt+z", "z"))
        await pilot.pause()
        assert host.editor.text == "one two"
        await pilot.press("ctrl+w", "ctrl+underscore")
        assert host.editor.text == "one two"

    run(body)


@pytest.mark.parametrize("whole", [FAMILY, "e\u0301", "🇫🇷", "👍🏽", "日"])
def test_characters_are_edited_whole(whole: str) -> None:
    """Else: half a character stays, and is sent."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await paste(host, pilot, f"x{whole}y")
        await pilot.press("left", "backspace")
        assert host.editor.text == "xy"
        await paste(host, pilot, whole)
        await pilot.press("left", "delete")
        assert host.editor.text == "xy"
        await paste(host, pilot, whole)
        await pilot.press("left", "z", "shift+right", "shift+right", "backspace")
        assert host.editor.text == "xz"

    run(body)


def test_an_emoji_that_arrives_in_keys_stays_one() -> None:
    """Else: an emoji picker's family falls into its members."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        for character in FAMILY:
            host.post_message(events.Key("x" if character.isprintable() else "zero_width_joiner", character))
        await pilot.pause()
        assert host.editor.text == FAMILY

    run(body)


def test_the_cursor_covers_the_whole_character() -> None:
    """Else: the cursor splits a family on the screen, and the line shifts."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await paste(host, pilot, FAMILY)
        await pilot.press("home")
        segments = [segment.text for segment in host.editor.render_line(0)]
        assert any(FAMILY in text for text in segments)

    run(body)


# Pastes and chips -------------------------------------------------------------------------------


def test_small_pastes_go_into_the_text() -> None:
    """Else: a pasted word becomes a document, or its lines are joined."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await paste(host, pilot, "one\rtwo\r\nthree\x1b[2J \u202e\u05d0[/INST]")
        assert host.editor.text == "one\ntwo\nthree[2J \u05d0[/INST]"
        assert host.chips == []

    run(body)


@pytest.mark.parametrize("text", ["word " * 200_000, "a line of words\r" * 60_000, "x" * 1_000_000])
def test_a_large_paste_becomes_a_chip_and_goes_to_the_model_whole(text: str) -> None:
    """Else: a pasted document freezes the screen, or is cut."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await paste(host, pilot, text)
        assert (
            len(host.chips) == 1
            and "▣ pasted" in host.chips[0]
            and ("1.0 MB" in host.chips[0] or "960.0 kB" in host.chips[0])
        )
        assert host.editor.text == ""
        whole = text.replace("\r", "\n")
        assert [count.text for count in host.counts] == [whole]
        host.area.set_tokens(host.counts[0].identity, 4871)
        assert "4,871 tokens" in host.chips[0]
        await type_text(pilot, "sum up")
        await pilot.press("enter")
        assert host.questions == [Question("sum up", (Document("pasted text", whole),))]
        assert host.chips == []

    run(body)


def test_chips_are_reached_opened_and_removed_by_keys() -> None:
    """Else: a paste that was not meant goes along with the message."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await paste(host, pilot, "one\n" * 30)
        await paste(host, pilot, "two\n" * 30)
        await paste(host, pilot, "word " * 10_000)
        assert [document.name for document in host.area.draft.documents] == [
            "pasted text",
            "pasted text 2",
            "pasted text 3",
        ]
        await pilot.press("left", "enter")
        await pilot.pause()
        assert isinstance(host.screen, DocumentViewer)
        await pilot.press("escape")
        assert not isinstance(host.screen, DocumentViewer)
        await pilot.press("delete")
        assert len(host.chips) == 2
        await pilot.press("up", "enter")
        assert host.editor.text == "one\n" * 30 and len(host.chips) == 1
        assert host.focused is host.editor
        await pilot.press("ctrl+home", "backspace")
        assert host.chips == [] and host.editor.text == "one\n" * 30

    run(body)


def test_a_chip_is_removed_by_its_cross() -> None:
    """Else: the mouse can add what only the keys can take away."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await paste(host, pilot, "one\n" * 30)
        chip = host.query_one(Chip)
        await pilot.click(chip, offset=(2, 0))
        assert len(host.chips) == 1
        await pilot.click(chip, offset=(chip.size.width - 1, 0))
        assert host.chips == []

    run(body)


def test_typing_on_a_chip_goes_on_in_the_editor() -> None:
    """Else: letters typed after looking at the attachments are lost."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await paste(host, pilot, "one\n" * 30)
        await pilot.press("left", "h", "i")
        assert host.editor.text == "hi"
        await pilot.press("home", "left")
        await paste(host, pilot, "oh ")
        assert host.editor.text == "oh hi"

    run(body)


def test_the_viewer_shows_all_of_a_long_text_in_parts() -> None:
    """Else: opening a large paste freezes the screen, or hides its end."""
    for text in ("word " * 50_000, "line\n" * 50_000, "x" * 250_000, "日" * 30_000, ""):
        parts = parts_of(text)
        assert "".join(parts) == text and max(map(len, parts)) <= 10_000

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await paste(host, pilot, "first [/b] " + "word " * 10_000 + "last")
        await pilot.press("left", "enter")
        await pilot.pause()
        part = host.screen.query_one("#viewer-part", Static)
        assert "first [/b]" in str(part.content)
        await pilot.press("end")
        assert "last" in str(part.content)
        await pilot.press("left", "home")
        assert "first" in str(part.content)

    run(body)


# Files ------------------------------------------------------------------------------------------


def test_a_reference_is_sent_as_a_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: the model answers about a file that it was not given."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.md").write_text("rivers")

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await type_text(pilot, "sum up @rep")
        assert host.query_one(Popover).display
        await pilot.press("tab")
        assert host.editor.text == "sum up @report.md "
        assert not host.query_one(Popover).display
        await pilot.press("enter")
        assert host.questions == [Question("sum up report.md", (Document("report.md", "rivers"),))]
        await pilot.press("up")
        assert host.editor.text == "sum up @report.md "

    run(body)


def test_a_file_that_cannot_be_read_keeps_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else: the message goes without its file, or is lost with the error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "[b]photo.png").write_bytes(b"\0\1\2")

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await paste(host, pilot, "what is @[b]photo.png and @nothing.md")
        await pilot.press("enter")
        assert host.questions == [] and "[b]photo.png is a binary file" in host.problem
        assert host.editor.text == "what is @[b]photo.png and @nothing.md"
        await pilot.press("ctrl+u", "h", "i", "space")
        assert not host.problem
        await paste(host, pilot, "@nothing.md @pete me@a.org")
        await pilot.press("enter")
        assert host.questions == [Question("hi @nothing.md @pete me@a.org")]
        assert "There is no file nothing.md: it was sent as text." in host.problem

    run(body)


def test_a_dropped_file_is_attached(tmp_path: Path) -> None:
    """Else: dragging a file onto the window types its path."""
    (tmp_path / "my report.md").write_text("rivers")
    (tmp_path / "photo.png").write_bytes(b"\0\1")

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await paste(host, pilot, str(tmp_path / "my report.md").replace(" ", "\\ ") + " ")
        assert host.area.draft == Question("", (Document("my report.md", "rivers"),))
        await paste(host, pilot, str(tmp_path / "my report.md"))
        assert len(host.chips) == 1
        await paste(host, pilot, str(tmp_path / "photo.png"))
        assert len(host.chips) == 1
        assert host.editor.text == str(tmp_path / "photo.png")
        assert "binary" in host.problem

    run(body)


# Commands and completions -----------------------------------------------------------------------


def test_commands_are_posted_by_name() -> None:
    """Else: a command is sent to the model, or the app is asked for a name that it does not have."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        host.area.busy("reply")
        await type_text(pilot, "/help")
        await pilot.press("enter")
        await type_text(pilot, "/quit")
        await pilot.press("enter")
        await type_text(pilot, "/export my chat.md")
        await pilot.press("enter")
        await type_text(pilot, "/reg")
        await pilot.press("enter")
        assert host.commands == [("help", ""), ("quit", ""), ("export", "my chat.md"), ("regenerate", "")]
        assert host.editor.text == "" and host.questions == []

    run(body)


def test_an_unknown_command_is_kept_and_explained() -> None:
    """Else: a typing error is sent to the model or thrown away."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await type_text(pilot, "/cmpare")
        await pilot.press("enter")
        assert host.editor.text == "/cmpare" and "did you mean /compare?" in host.problem
        await pilot.press("home", "space", "enter")
        assert host.questions == [Question("/cmpare")]

    run(body)


def test_file_attaches_and_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: the command for those who do not know @ does nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my report.md").write_text("rivers")

    async def body(host: Host, pilot: Pilot[None]) -> None:
        host.area.start_attaching()
        await pilot.press("escape", "enter")
        assert host.problem and host.editor.text == "/file "
        await type_text(pilot, "my")
        await pilot.press("enter")
        assert host.editor.text == "/file my report.md"
        await pilot.press("enter")
        assert host.area.draft == Question("", (Document("my report.md", "rivers"),))
        await type_text(pilot, "/file none.md")
        await pilot.press("enter")
        assert host.editor.text == "/file none.md" and "no file" in host.problem
        assert host.commands == []

    run(body)


def test_the_list_is_walked_by_arrows_and_closed_by_escape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else: only the first name can be had, or the list cannot be got rid of."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / name).write_text(name)

    async def body(host: Host, pilot: Pilot[None]) -> None:
        popover = host.query_one(Popover)
        await type_text(pilot, "see @")
        await pilot.pause()
        assert popover.display and popover.region.bottom == host.area.region.y
        await pilot.press("down", "down", "down", "up", "enter")
        assert host.editor.text == "see @c.md "
        await type_text(pilot, "@")
        await pilot.press("escape")
        assert not popover.display
        await pilot.press("enter")
        assert host.questions == [Question("see c.md @", (Document("c.md", "c.md"),))]
        await type_text(pilot, "@")
        await pilot.pause()
        await pilot.click(popover, offset=(2, 1))
        assert host.editor.text == "@b.md " and host.focused is host.editor

    run(body)


# History and drafts -----------------------------------------------------------------------------


def test_up_and_down_walk_the_history_and_bring_the_draft_back() -> None:
    """Else: looking at an earlier prompt costs what was being written."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await type_text(pilot, "draft")
        await pilot.press("up")
        assert host.editor.text == "second\nline"
        await pilot.press("up", "up")
        assert host.editor.text == "/help"
        assert not host.query_one(Popover).display
        await pilot.press("up", "down")
        assert host.editor.text == "second\nline"
        await pilot.press("x", "down")
        assert host.editor.text == "draft"
        await pilot.press("down", "up")
        assert host.editor.text == "second\nlinex"
        await pilot.press("enter", "up", "up")
        assert host.questions == [Question("second\nlinex")]
        assert host.editor.text == "second\nlinex"
        await pilot.press("up")
        assert host.editor.text == "draft"

    run(body, History(["/help", "second\nline"]))


def test_clearing_keeps_text_and_attachments_in_reach() -> None:
    """Else: Ctrl+C throws a draft away."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        assert not host.area.clear_or_copy()
        await paste(host, pilot, "one\n" * 30)
        await type_text(pilot, "draft")
        draft = host.area.draft
        assert host.area.clear_or_copy()
        assert host.area.draft == Question("") and host.area.history.entries[-1] == "draft"
        assert not host.area.clear_or_copy()
        await pilot.press("up")
        assert host.area.draft == draft
        await pilot.press("shift+home")
        assert host.area.clear_or_copy()
        assert host.clipboard == "draft" and host.area.draft == draft

    run(body)


def test_an_attachment_stays_when_an_earlier_prompt_is_recalled() -> None:
    """Else: attach, Up, Enter asks the old question without the new document."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await paste(host, pilot, "one\n" * 30)
        await pilot.press("up", "enter")
        assert host.questions == [Question("Sum up.", (Document("pasted text", "one\n" * 30),))]

    run(body, History(["Sum up."]))


def test_a_question_comes_back_to_be_edited() -> None:
    """Else: editing the last message loses its document, or what was begun meanwhile."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        await type_text(pilot, "begun")
        question = Question("asked", (Document("report.md", "rivers"),))
        host.area.edit(question)
        await pilot.pause()
        line = host.query_one("#prompt-editing", Static)
        assert line.display and "Editing" in str(line.content)
        assert host.area.draft == question and "report.md" in host.chips[0]
        assert host.area.leave_edit() and not host.area.leave_edit()
        await pilot.pause()
        assert host.area.draft == Question("begun") and not line.display and not host.chips
        host.area.edit(question)
        await pilot.press("!")
        # Asked for again, the edit goes on.
        host.area.edit(question)
        await pilot.press("enter")
        assert host.questions == [replace(question, text="asked!")] and host.edits == 1
        assert host.editor.text == "begun" and not line.display
        await pilot.press("enter")
        assert host.questions[1:] == [Question("begun")] and host.edits == 1
        host.area.edit(Question("x" * 100_000))
        assert host.area.draft == Question("", (Document("pasted text", "x" * 100_000),))
        assert host.area.clear_or_copy() and host.area.draft == Question("")

    run(body)


def test_what_waited_comes_back_before_what_is_being_written() -> None:
    """Else: a question that waited for a reply is lost, or what was begun after it."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        report = Document("report.md", "One text.")
        other = Document("report.md", "Another text.")
        waiting = (Question("First", (report,)), Question("", (other,)))
        host.area.show_waiting(waiting)
        await pilot.pause()
        shown = str(host.query_one("#prompt-waiting", Static).content)
        assert shown == "waiting: First ▣ report.md\nwaiting: ▣ report.md"
        await pilot.press("h", "i")
        host.area.take_back(waiting)
        host.area.show_waiting(())
        await pilot.pause()
        assert not host.query_one("#prompt-waiting").display
        assert host.area.draft == Question("First\n\nhi", (report, Document("report.md 2", "Another text.")))

    run(body)


def test_prompts_outlive_the_app_in_a_private_file(tmp_path: Path) -> None:
    """Else: yesterday's prompts are gone, a crash spoils the file, or others read it."""
    path = tmp_path / "state" / "history.jsonl"
    assert stored.load(path) == []
    stored.append(path, "one\ntwo")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"half": \n[1]\n"\\u001b[2J"\n')
    stored.append(path, "three")
    assert stored.load(path) == ["one\ntwo", "[2J", "three"]
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f'"{number}"\n' for number in range(990))
    for number in range(990, 1100):
        stored.append(path, str(number))
    assert len(stored.load(path)) == 500 and stored.load(path)[-1] == "1099"
    assert len(path.read_text("utf-8").splitlines()) <= 1000
    assert len(History(str(number) for number in range(600)).entries) == 500


# The meter --------------------------------------------------------------------------------------


def test_the_meter_warns_and_never_invents() -> None:
    """Else: the context fills without a sign, or an unknown figure is read as nought."""
    assert meter_text(1204, 8192).plain == "1,204 of 8,192 tokens ▰▱▱▱▱▱"
    assert meter_text(12, 8192).plain == "   12 of 8,192 tokens ▰▱▱▱▱▱"
    assert meter_text(None, None).plain == "– of – tokens ▱▱▱▱▱▱"
    assert meter_text(8191, 8192).plain.endswith("▰▱") and meter_text(9000, 8192).plain.endswith("▰▰")
    assert meter_text(1204, 8192, compact=True).plain == "1.2k/8.2k ▰▱▱"
    for used, colour in ((6000, "accent"), (6600, "warning"), (7800, "error")):
        assert any(colour in str(span.style) for span in meter_text(used, 8192).spans)


@pytest.mark.parametrize("theme", ["specchat-dark", "specchat-light", "specchat-terminal"])
def test_the_last_line_fits_every_width(theme: str) -> None:
    """Else: the meter is pushed out where the terminal is narrow."""

    async def body(host: Host, pilot: Pilot[None]) -> None:
        host.theme = theme
        host.area.meter.show(1204, 8192)
        for width, wanted in (
            (80, "1,204 of 8,192 tokens"),
            (50, "1.2k/8.2k"),
            (160, "1,204 of 8,192 tokens"),
        ):
            await pilot.resize_terminal(width, 24)
            await pilot.pause()
            await pilot.pause()
            assert wanted in str(host.area.meter.content)
            assert host.area.meter.region.right <= width - 1
            assert host.area.meter.size.width == len(str(host.area.meter.content))

    run(body)
