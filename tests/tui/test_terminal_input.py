"""Pastes as terminals send them: cut anywhere, they arrive once and whole, and keys around them too."""

from __future__ import annotations

import random

from textual import events

from app.text import clean
from app.tui.terminal_input import PasteParser, teach_input
from app.tui.textual_private import XTermParser

PIECES = (
    "a",
    "é漢",
    "\x1b[A",
    "\r",
    "\x1b[200~one\ntwo\x1b[201~",
    "\x1b[200~\x1b[31mred\x1b[201~",
    "\x1b[200~\x1b[201~",
)


def read(parser: XTermParser, chunks: list[str]) -> list[tuple[str, str]]:
    found = []
    for chunk in chunks:
        for event in parser.feed(chunk):
            if isinstance(event, events.Paste):
                found.append(("paste", event.text))
            elif isinstance(event, events.Key):
                found.append(("key", event.key))
    return found


def test_whatever_the_cuts_keys_and_pastes_are_those_that_were_sent() -> None:
    rng = random.Random()
    for _ in range(300):
        sent = [rng.choice(PIECES) for _ in range(rng.randint(1, 8))]
        data = "".join(sent) + "z"
        whole = read(PasteParser(), [data])
        pastes = [clean(piece[6:-6]) for piece in sent if piece.startswith("\x1b[200~")]
        assert [text for kind, text in whole if kind == "paste"] == pastes
        keys = [read(XTermParser(), [piece]) for piece in (*sent, "z") if not piece.startswith("\x1b[200~")]
        assert [each for each in whole if each[0] == "key"] == [key for each in keys for key in each]
        cuts = sorted(rng.sample(range(1, len(data)), min(len(data) - 1, rng.randint(0, 6))))
        if any(data[:cut].endswith("\x1b") for cut in cuts):
            continue  # a cut behind Escape is another key press
        chunks = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        assert read(PasteParser(), chunks) == whole, chunks


def test_the_beginning_of_a_paste_that_never_comes_is_read_after_a_while() -> None:
    parser = PasteParser()
    assert read(parser, ["x\x1b["]) == [("key", "x")]
    assert not list(parser.tick())
    assert read(parser, ["A"]) == [("key", "up")]


def test_a_megabyte_is_one_paste() -> None:
    text = "words and lines\n" * 65536
    data = f"\x1b[200~{text}\x1b[201~"
    chunks = [data[start : start + 4096] for start in range(0, len(data), 4096)]
    assert read(PasteParser(), chunks) == [("paste", text)]


def test_alt_enter_is_known_in_terminals_of_the_old_kind() -> None:
    """Else: it reads as Enter there, and sends what was half written."""
    teach_input()
    assert read(PasteParser(), ["\x1b\r"]) == [("key", "alt+enter")]


def test_escape_is_not_lost_to_a_key_that_is_read_with_it() -> None:
    """Else: Escape and Ctrl+Q, typed while the screen is busy, neither close the dialogue nor leave."""
    teach_input()
    assert read(PasteParser(), ["\x1b\x11"]) == [("key", "escape"), ("key", "ctrl+q")]
    assert read(PasteParser(), ["\x1b\x1b[15;2~"]) == [("key", "escape"), ("key", "shift+f5")]
    # These are keys of their own.
    assert read(PasteParser(), ["\x1b\x7f", "\x1b\t"]) == [("key", "ctrl+w"), ("key", "shift+tab")]
