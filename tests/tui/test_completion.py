"""What a prompt's text means before it is sent: files, drops, commands, completions, whole characters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.cells import cell_len

from app.chat.documents import Document
from app.errors import SpecchatError
from app.tui.cells import end_of, shortened, start_of
from app.tui.prompt.commands import Call, call_in, message_in, nearest_command, problem_with
from app.tui.prompt.completion import Completer, Completion, fragment_at
from app.tui.prompt.pastes import cleaned, dropped_files, is_large
from app.tui.prompt.references import gather

FAMILY = "👨\u200d👩\u200d👧\u200d👦"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a few files of each kind."""
    monkeypatch.chdir(tmp_path)
    for name in ("report.md", "my notes.txt", ".hidden.md", "old-report.md"):
        (tmp_path / name).write_text(f"text of {name}")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "bread.md").write_text("flour")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\0\0")
    return tmp_path


def choices(line: str) -> list[Completion]:
    fragment = fragment_at(0, line, len(line))
    return [] if fragment is None else Completer().completions(fragment)


def labels(line: str) -> list[str]:
    return [choice.label for choice in choices(line)]


# References -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("Sum up @report.md", "Sum up report.md"),
        (
            "Sum up @report.md, please (see @recipes/bread.md).",
            "Sum up report.md, please (see recipes/bread.md).",
        ),
        ('Read @"my notes.txt" first', "Read my notes.txt first"),
        ("总结@report.md的内容", "总结report.md的内容"),
        ("@report.md and @./report.md", "report.md and report.md"),
    ],
)
def test_a_reference_attaches_its_file_once_and_leaves_its_name(folder: Path, text: str, sent: str) -> None:
    """Else: the model is asked about a file that it never saw, or is told of strange @ signs."""
    gathered = gather(text)
    assert gathered.text == sent
    names = [document.name for document in gathered.documents]
    assert len(names) == len(set(names)) and names
    assert gathered.documents[0] == Document(names[0], (folder / names[0]).read_text())


@pytest.mark.parametrize("text", ["me@example.com", "thanks @pete", "@", "@.", "a@report.md", "5 @ 3", "@@"])
def test_addresses_and_mentions_stay_text(folder: Path, text: str) -> None:
    """Else: an address in a message is taken for a file, or stops it from being sent."""
    gathered = gather(text)
    assert (gathered.text, gathered.documents, gathered.missing) == (text, (), ())


def test_a_path_that_names_nothing_is_told(folder: Path) -> None:
    """Else: a mistyped name goes unnoticed, and the model makes the file's contents up."""
    gathered = gather("See @reprot.md, and @recipes/cake")
    assert gathered.missing == ("reprot.md", "recipes/cake")
    assert gathered.text == "See @reprot.md, and @recipes/cake"


@pytest.mark.parametrize("text", ["What is in @photo.png ?", "What is in @recipes ?"])
def test_what_cannot_be_read_is_refused(folder: Path, text: str) -> None:
    """Else: the message goes without the file that it is about."""
    with pytest.raises(SpecchatError):
        gather(text)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_and_not_waited_for(folder: Path) -> None:
    """Else: the whole screen stands still until someone writes into the pipe."""
    os.mkfifo(folder / "pipe.txt")
    with pytest.raises(SpecchatError, match="pipe"):
        gather("@pipe.txt")


def test_two_files_of_one_name_are_told_apart(folder: Path) -> None:
    """Else: the model sees two documents of one name and mixes them up."""
    (folder / "recipes" / "report.md").write_text("another")
    first, second = folder / "report.md", folder / "recipes" / "report.md"
    gathered = gather(f"Compare @{first} with @{second}")
    assert gathered.text == "Compare report.md with report.md 2"
    assert [document.name for document in gathered.documents] == ["report.md", "report.md 2"]


# Drops and pastes -------------------------------------------------------------------------------


def test_a_dropped_file_is_known_however_its_path_is_written(folder: Path) -> None:
    """Else: dragging a file onto the terminal types its path into the message."""
    notes, report = str(folder / "my notes.txt"), str(folder / "report.md")
    for text in (notes, f"'{notes}' ", f'"{notes}"', notes.replace(" ", "\\ "), Path(notes).as_uri()):
        assert dropped_files(text) == (notes,), text
    assert dropped_files(f"'{notes}' {report}") == (notes, report)
    assert dropped_files(f"{Path(notes).as_uri()}\n{Path(report).as_uri()}\n") == (notes, report)


@pytest.mark.parametrize("text", ["report.md", "/no/such/file", "it's", "", "   ", "\n", "file://", "a\nb"])
def test_other_pastes_are_text(folder: Path, text: str) -> None:
    """Else: a paste disappears, or a word that happens to be a file's name is swallowed."""
    assert dropped_files(text) == ()
    assert dropped_files(f"see {folder / 'report.md'}") == ()


def test_a_paste_loses_its_controls_and_keeps_its_lines() -> None:
    """Else: all lines of a paste run into one, or an escape code in it reaches the terminal."""
    assert cleaned("one\rtwo\r\nthree\nfour\x1b[2J\x00") == "one\ntwo\nthree\nfour[2J"
    assert cleaned("\u202eעברית\u200f ok\u2066") == "עברית\u200f ok"
    assert not is_large("line\n" * 20) and is_large("line\n" * 21)
    assert not is_large("x" * 2000) and is_large("x" * 2001)


# Commands ---------------------------------------------------------------------------------------


def test_a_command_is_told_from_a_message_that_begins_like_one() -> None:
    """Else: a question about a path is refused, or a command is sent to the model."""
    assert call_in("/help") == Call("help", "")
    assert call_in("/export  my chat.md ") == Call("export", "my chat.md")
    assert call_in("/etc/hosts says what?") is None
    assert call_in("//help") is None and message_in("//help") == "/help"
    assert call_in(" /help") is None and message_in(" /help\n") == "/help"
    assert message_in("// a comment\n") == "// a comment"
    assert message_in("    indented\n\n") == "    indented"


def test_a_mistyped_command_names_its_neighbour() -> None:
    """Else: the person must look the command up."""
    assert nearest_command("cmpare") == "compare"
    assert nearest_command("sess") == "sessions"
    assert nearest_command("zzzzzz") is None
    assert "did you mean /compare?" in str(problem_with(Call("cmpare", "")))
    assert "did you mean" not in str(problem_with(Call("zzzzzz", "")))


# Completions ------------------------------------------------------------------------------------


def test_files_are_completed_as_they_are_typed(folder: Path) -> None:
    """Else: a path must be known by heart."""
    assert labels("@") == ["recipes/", "my notes.txt", "old-report.md", "photo.png", "report.md"]
    assert labels("see @rep") == ["report.md", "old-report.md"]
    assert labels("see @recipes/") == ["bread.md"]
    assert labels("@.") == [".hidden.md"]
    assert labels(f"@{folder.as_posix()}/rec") == ["recipes/"]
    assert labels("@nothing") == [] and labels("me@rep") == [] and labels("@no/such/folder/") == []


def test_a_completed_path_can_be_read_back(folder: Path) -> None:
    """Else: a completed name with a space in it is not the file's when the message is sent."""
    assert [choice.insert for choice in choices("@my")] == ['@"my notes.txt" ']
    assert [choice.insert for choice in choices('@"my n')] == ['@"my notes.txt" ']
    assert [choice.insert for choice in choices("@rec")] == ["@recipes/"]
    assert [choice.insert for choice in choices("/file my")] == ["my notes.txt"]
    assert [document.name for document in gather(choices("@my")[0].insert).documents] == ["my notes.txt"]


def test_only_what_goes_on_from_the_typing_takes_enter(folder: Path) -> None:
    """Else: "thanks @ort" is turned into a file that nobody meant."""
    assert [(choice.continues, choice.exact) for choice in choices("@report.md")][:1] == [(True, True)]
    assert [choice.continues for choice in choices("@rep")] == [True, False]


def test_names_that_would_act_on_the_terminal_are_not_offered(folder: Path) -> None:
    """Else: a file's name can clear the screen of whoever types @ beside it."""
    try:
        (folder / "rep\x1b[2J.md").write_text("x")
    except OSError:
        pytest.skip("this file system takes no such name")
    assert labels("@rep") == ["report.md", "old-report.md"]


def test_a_large_folder_is_cut(folder: Path) -> None:
    """Else: each key after @ waits for ten thousand rows."""
    for number in range(500):
        (folder / f"report-{number}.md").write_text("x")
    assert 0 < len(labels("@report")) < 100
    assert labels("@report-499") == ["report-499.md"]


def test_commands_are_completed_on_the_first_line_only() -> None:
    """Else: the list stands in the way of whoever writes about /paths."""
    assert labels("/co") == ["/colours", "/compare", "/continue", "/copy", "/code", "/commands"]
    assert labels("/theme ") == ["dark", "light", "terminal"] and labels("/theme l") == ["light"]
    assert labels("say /co") == []
    assert fragment_at(1, "/co", 3) is None


# Whole characters -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "whole",
    [
        FAMILY,
        "e\u0301",
        "a\u0323\u0302",
        "👍🏽",
        "❤\ufe0f",
        "🇫🇷",
        "🏴\U000e0067\U000e0062\U000e007f",
        "\u1112\u1161\u11ab",
        "각",
        "क\u093f",
        "ｶ\uff9e",
        "1\ufe0f\u20e3",
        "日",
    ],
)
def test_a_character_has_no_border_inside(whole: str) -> None:
    """Else: Backspace leaves half a character, which is drawn as another or not at all."""
    text, after = f"x{whole}y", 1 + len(whole)
    assert [index for index in range(len(text) + 1) if start_of(text, index) == index] == [
        0,
        1,
        after,
        after + 1,
    ]
    for inside in range(2, after):
        assert (start_of(text, inside), end_of(text, inside)) == (1, after)


def test_neighbours_stay_apart() -> None:
    """Else: one Backspace deletes two characters."""
    flags = "🇫🇷🇩🇪"
    assert [index for index in range(5) if start_of(flags, index) == index] == [0, 2, 4]
    assert start_of("日本", 1) == 1
    assert start_of("👍👍", 1) == 1
    assert start_of("a\u200db", 2) == 2


def test_a_long_name_keeps_its_end_and_fits() -> None:
    """Else: two reports of one folder look alike, or a name pushes out what stands beside it."""
    assert shortened("report.md", 12) == "report.md"
    assert shortened("the report of the year.md", 12) == "the re…ar.md"
    assert shortened("two\nlines\x1b[2J", 20) == "two lines[2J"
    for width in range(3, 20):
        assert cell_len(shortened("日本の長い名前の報告書.pdf", width)) <= width
