"""The export: without these a chat that leaves the program is unreadable, or replaces another file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.chat.conversation import Answer, Conversation, Exchange, Figures, Question
from app.chat.documents import Document
from app.chat.export import file_name, markdown, write_new
from app.errors import SpecchatError

FIGURES = Figures("lookup", 412, 128.42, 79.3, 1.619, 0.71, 3.21, 0.25, 40, 7)


def test_a_whole_conversation_reads_well() -> None:
    """Else: who shares a chat shares a riddle."""
    conversation = Conversation(
        (
            Exchange(
                Question("Summarise this.\n\nBriefly.", (Document("report.md", "The *report*.\n"),)),
                Answer("It says:\n\n- one\n- two\n", end="stop", figures=FIGURES),
            ),
            Exchange(Question("Go on."), Answer("And th", end="cancelled")),
            Exchange(Question("Still there?")),
        ),
        system="Be brief.",
        unsent=1,
    )
    assert markdown("Rivers *of* France", "SmolLM2", conversation) == (
        "# Rivers \\*of\\* France\n\n"
        "Model: SmolLM2 · 3 questions\n\n"
        "<details>\n<summary>System prompt</summary>\n\n```text\nBe brief.\n```\n\n</details>\n\n"
        "---\n\n"
        "**You**\n\n"
        "<details>\n<summary>report.md · 2 words</summary>\n\n```text\nThe *report*.\n```\n\n</details>\n\n"
        "> Summarise this.\n>\n> Briefly.\n\n"
        "**SmolLM2**\n\n"
        "It says:\n\n- one\n- two\n\n"
        "<sub>lookup · 412 tokens · 128.4 tokens/s · 1.62× plain · acceptance 71% · "
        "3.21 tokens per pass · seed 7</sub>\n\n"
        "*What stands above was no longer sent to the model.*\n\n"
        "---\n\n**You**\n\n> Go on.\n\n**SmolLM2**\n\nAnd th\n\n<sub>stopped</sub>\n\n"
        "---\n\n**You**\n\n> Still there?\n"
    )


def test_other_versions_stand_folded_below_their_turn() -> None:
    """Else: what was regenerated is not in the export, or reads as if it had been said."""
    question = Question("First", (Document("a.md", "</details> ```"),))
    first = Conversation().asked(question).answered(Answer("One.", end="stop"))
    both = first.with_version(Question("Firstly")).answered(Answer("Two.", end="stop"))
    assert markdown("t", "m", both).endswith(
        "---\n\n**You**\n\n> Firstly\n\n**m**\n\nTwo.\n\n"
        "<details>\n<summary>Version 1 of 2</summary>\n\n````text\nYou: [Document: a.md]\n"
        "</details> ```\n[End of a.md]\n\nFirst\n\nModel: One.\n````\n\n</details>\n"
    )
    followed = both.show_version(0, 1).asked(Question("More")).show_version(0, 2)
    assert "Model: One.\n\nYou: More\n````" in markdown("t", "m", followed)


def test_what_was_not_measured_is_not_said() -> None:
    """Else: the export shows "None tokens/s"."""
    figures = Figures("off", 3, None, None, None, None, None, 0.1, 4, 7)
    text = markdown(
        "t", "", Conversation((Exchange(Question("q"), Answer("a", end="stop", figures=figures)),))
    )
    assert "<sub>off · 3 tokens · seed 7</sub>" in text
    answer = Answer("a b", (1, 2), ("a", " b"), ("plain", "lookup"), end="length", figures=FIGURES)
    told = markdown("t", "", Conversation((Exchange(Question("q"), answer),)))
    assert "<sub>Lookup wrote 1 of 2 words: 1.6× faster · lookup · 412 tokens" in told
    assert "None" not in text and "Model: –" in text


def test_a_document_cannot_leave_its_fence() -> None:
    """Else: a document with code in it turns the rest of the export inside out."""
    hostile = "````\n</details>\n`````` \n```\n# no heading"
    conversation = Conversation((Exchange(Question("q", (Document("<b>&\n``` .md", hostile),))),))
    lines = markdown("t", "m", conversation).splitlines()
    opening = lines.index("```````text")
    closing = lines.index("```````")
    assert lines[opening + 1 : closing] == [line for line in hostile.split("\n")]
    assert "<summary>&lt;b&gt;&amp; ``` .md · 7 words</summary>" in lines


@pytest.mark.parametrize(
    ("answer", "closing"),
    [
        ("```python\nprint()", "```"),
        ("~~~~\n```\n~~~", "~~~~"),
        ("```\na\n```\n````\nb\n```", "````"),
        ("```\na\n```", None),
        ("``` a ` is no fence", None),
        ("    ```\nindented code", None),
        ("", None),
    ],
)
def test_a_fence_that_a_stopped_answer_left_open_is_closed(answer: str, closing: str | None) -> None:
    """Else: all that follows a stopped answer is shown as code."""
    conversation = Conversation((Exchange(Question("q"), Answer(answer, end="cancelled")),))
    text = markdown("t", "m", conversation)
    expected = f"{answer}\n{closing}" if closing else answer
    assert f"**m**\n\n{expected}\n\n<sub>" in text or (not answer and "**m**\n\n<sub>" in text)


def test_control_characters_stay_out() -> None:
    """Else: the file clears the screen of who prints it."""
    document = Document("a\x1b[2J.md", "b\x1b[2J")
    answer = Answer(
        "c\x1b[2J", end="stop", figures=Figures("x\x1b", 1, None, None, None, None, None, 0, 0, 0)
    )
    conversation = Conversation((Exchange(Question("d\x1b[2J", (document,)), answer),), system="e\x1b[2J")
    assert "\x1b" not in markdown("f\x1b[2J", "g\x1b[2J", conversation)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Rivers of France", "Rivers of France.md"),
        ("../../etc/passwd", "etc passwd.md"),
        ('What is "x:y"?', "What is x y.md"),
        ("", "chat.md"),
        ("…", "chat.md"),
        ("CON", "chat.md"),
        ("Console", "Console.md"),
        ("東京の川", "東京の川.md"),
        ("東" * 100, "東" * 40 + ".md"),
    ],
)
def test_a_title_becomes_a_name_that_every_system_takes(title: str, name: str) -> None:
    """Else: the export fails for a question mark, or lands in another folder."""
    assert file_name(title) == name


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    """Else: an export silently destroys the notes of yesterday."""
    path = tmp_path / "chat.md"
    path.write_text("mine")
    assert write_new(path, "one\n") == tmp_path / "chat-2.md"
    assert write_new(path, "two ü\n") == tmp_path / "chat-3.md"
    assert path.read_text() == "mine"
    assert (tmp_path / "chat-3.md").read_bytes() == "two ü\n".encode()
    assert write_new(tmp_path / "other.md", "three") == tmp_path / "other.md"


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Else: the export ends the chat, or seems to have worked."""
    (tmp_path / "file").write_text("x")
    for path, said in [
        (tmp_path, "is a folder"),
        (tmp_path / "nowhere" / "a.md", "no folder"),
        (tmp_path / "file" / "a.md", "cannot be written"),
        (Path("a\0b"), "cannot be written"),
        (tmp_path / ("x" * 400), "cannot be written"),
    ]:
        with pytest.raises(SpecchatError, match=said):
            write_new(path, "text")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
def test_half_a_file_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: a full disk leaves half a chat that looks whole."""
    path = tmp_path / "a.md"
    genuine = Path.open

    def onto_a_full_disk(self: Path, mode: str) -> object:
        genuine(self, mode).close()
        return genuine(Path("/dev/full"), "wb")

    monkeypatch.setattr(Path, "open", onto_a_full_disk)
    with pytest.raises(SpecchatError, match="No space"):
        write_new(path, "text")
    assert not path.exists()
