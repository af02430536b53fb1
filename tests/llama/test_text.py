"""Characters split between tokens: shown wrong, they freeze or break the display."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llama.model import Model
from app.llama.settings import ModelSettings
from app.llama.text import TextStream


@given(text=st.text(), cuts=st.lists(st.integers(0, 200)))
def test_a_text_cut_anywhere_comes_out_whole(text: str, cuts: list[int]) -> None:
    """Lost otherwise: every accent and emoji that two tokens share."""
    data = text.encode("utf-8", "replace")
    stream = TextStream()
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    shown = [stream.feed(data[begin:end]) for begin, end in pairwise(places)]
    assert "".join(shown) == data.decode()


def test_an_unfinished_character_waits() -> None:
    """Lost otherwise: replacement signs that flicker while an emoji is written."""
    stream = TextStream()
    assert [stream.feed(bytes([byte])) for byte in "🦙é".encode()] == ["", "", "", "🦙", "", "é"]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([b"\xff"], "\ufffd"),
        ([b"\xe2\x82", b"A"], "\ufffdA"),
        ([b"\xf0\x9f", b"\xf0\x9f\xa6\x99"], "\ufffd🦙"),
        ([b"\xe2\x82"], ""),
        ([b"", b""], ""),
    ],
)
def test_broken_bytes_are_marked_and_text_goes_on(pieces: list[bytes], text: str) -> None:
    """Lost otherwise: one bad token of a model would end the reply with an error."""
    stream = TextStream()
    assert "".join(stream.feed(piece) for piece in pieces) == text


def test_emoji_of_a_real_vocabulary(bundled: Path) -> None:
    """Lost otherwise: the family emoji, which this vocabulary writes with a dozen tokens."""
    text = "👨‍👩‍👧‍👦 naïve 漢字"
    with Model(bundled, ModelSettings(vocabulary_only=True)) as model:
        tokens = model.tokenise(text)
        assert len(tokens) > len("👨‍👩‍👧‍👦")
        stream = TextStream()
        assert "".join(stream.feed(model.piece(token)) for token in tokens) == text
