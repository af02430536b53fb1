"""Documents: medians over rounds, against the better way of the same rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.bench.documents import LENGTHS, WAYS, DocumentReply, documents, medians
from app.llama.model import Model
from app.llama.settings import FlashAttention, ModelSettings
from tests.conftest import Ask
from tests.tiny import write_tiny


def test_a_ratio_is_the_median_over_rounds_against_the_better_way() -> None:
    """Lost otherwise: a machine that slows down between two rounds passes for a wrong choice."""
    seconds: dict[FlashAttention, tuple[float, ...]] = {
        "auto": (2.2, 4.4, 2.2),
        "on": (3.0, 3.0, 9.0),
        "off": (2.0, 4.0, 2.0),
    }
    replies = [
        DocumentReply(500, way, 0.5, seconds[way][number] - 0.5) for number in range(3) for way in WAYS
    ]
    rows = {row.way: row for row in medians(replies)}
    assert {way: row.total_s for way, row in rows.items()} == {"auto": 2.2, "on": 3.0, "off": 2.0}
    assert [rows[way].ratio for way in WAYS] == pytest.approx([1.1, 1.5, 1.0])


def test_documents_have_the_lengths_that_they_are_said_to_have(bundled: Path) -> None:
    with Model(bundled, ModelSettings(vocabulary_only=True)) as model:
        texts = documents(model)
        assert tuple(texts) == LENGTHS
        for length, text in texts.items():
            assert 0.98 * length <= len(model.tokenise(text)) <= 1.02 * length
        # Else one is found in the cache that another left.
        assert len({text[:20] for text in texts.values()}) == len(LENGTHS)


def test_every_way_reads_and_replies(ask: Ask, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", end_scale=0.0, context=1024)
    outcome = ask("bench", "documents", "--model", path, "--rounds", 1, "--tokens", 4, "--json")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert result["chosen"] in ("on", "off")
    assert [(row["document"], row["way"]) for row in result["rows"]] == [(500, way) for way in WAYS]
    assert all(row["read_s"] > 0 and row["reply_s"] > 0 for row in result["rows"])
