"""Replies that are continued, by the model that began them or by another."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.llama.model import Model
from app.llama.text import TextStream
from app.process.pieces import begun_tokens
from tests.tiny import write_tiny


def test_a_reply_is_continued_from_the_tokens_that_it_was_made_of(tiny: Model) -> None:
    """Else: what follows is another text's continuation, and the cache's tokens are read again."""
    # A character's first two bytes are at the end.
    tokens = (*tiny.tokenise("It was so. "), *tiny.tokenise("…")[:2])
    assert begun_tokens(tokens, "It was so. ", tiny) == tokens[:-2]
    assert begun_tokens((), "", tiny) == ()


@pytest.mark.parametrize("ids", [(600, 601, 699), (5, 6, 7)])
def test_a_reply_that_another_model_began_is_continued_by_its_text(
    tiny: Model, tmp_path: Path, ids: tuple[int, ...]
) -> None:
    """Else: ids that this vocabulary has not end the engine's process, and others say something else."""
    with Model(write_tiny(tmp_path / "large.gguf", end_scale=0.0, vocabulary=700)) as large:
        assert large.vocabulary.size > max(ids)
    found = begun_tokens(ids, "What it said", tiny)
    stream = TextStream()
    assert "".join(stream.feed(tiny.piece(token)) for token in found) == "What it said"
