"""Clean text: without it a model, a file or a stored chat drives the terminal of whoever reads it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.text import clean


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("\x1b]52;c;cm0gLXJm\x07hi", "]52;c;cm0gLXJmhi"),  # else: a reply writes the clipboard
        ("\x1b[2Jhi", "[2Jhi"),  # else: a reply wipes the screen
        ("\x1b]0;title\x1b\\hi", "]0;title\\hi"),  # else: a reply renames the window
        ("\x9b2Jhi", "2Jhi"),  # else: the same through the one-character CSI
        ("\x9d52;c;eA==\x9chi", "52;c;eA==hi"),
        ("a\x7fb", "ab"),  # DEL
        ("a\x08\x08b", "ab"),  # else: text is written over
        ("done\rfail", "donefail"),
        ("\x0e\x0f\x00\x05", ""),
        ("user\u202egpj.exe", "usergpj.exe"),  # else: a name reads backwards
        ("\u2066x\u2069\u206a", "x"),
        ("a\u2028b\u2029c", "a\nb\nc"),
    ],
)
def test_nothing_that_a_terminal_acts_on_passes(hostile: str, harmless: str) -> None:
    assert clean(hostile) == harmless


def test_ordinary_text_is_untouched() -> None:
    """Else: tables, code, emoji families, Persian and right-to-left text arrive broken."""
    text = (
        "tab\tand\nline, 日本語, é, \u0646\u0627\u0645\u0647\u200c\u0627\u06cc, \u200f\u05d0, "
        "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    )
    assert clean(text) == text


def test_line_ends_become_one_kind_also_across_pieces() -> None:
    """Else: a CR LF that two pieces share shows an empty line, or a CR reaches the terminal."""
    assert clean("a\r\nb") == "a\nb"
    assert clean("a\r") + clean("\nb") == "a\nb"


def test_lone_surrogates_can_be_encoded_afterwards() -> None:
    """Else: one broken file name or reply ends the program with UnicodeEncodeError."""
    assert clean("a\ud83d\udc00b").encode() == "a\ufffd\ufffdb".encode()


@given(st.text(st.characters()), st.text(st.characters()))
def test_a_stream_may_be_cut_anywhere(first: str, second: str) -> None:
    """Else: what the screen shows depends on how the pass happened to be cut."""
    assert clean(first + second) == clean(first) + clean(second)


@given(st.text(st.characters()))
def test_what_is_clean_stays(text: str) -> None:
    """Else: a stored chat changes each time that it is opened."""
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert all(c in "\t\n" or c.isprintable() or ord(c) > 0x9F for c in cleaned)


def test_a_megabyte_is_quick() -> None:
    """Else: opening a pasted log freezes the screen. The bound is loose: machines are busy."""
    text = "a line of words, é and 日本\n" * 40_000
    start = time.perf_counter()
    assert clean(text) == text
    assert time.perf_counter() - start < 1
