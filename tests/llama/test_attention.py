"""Both ways of attention are timed at the same widths and depths, on the heads of any model."""

from __future__ import annotations

from pathlib import Path

import llama_cpp
import pytest

from app.llama.attention import DRAFTED, READING, AttentionHeads, measure_attention
from app.llama.context import Context
from app.llama.model import Model
from app.llama.probe_model import ProbeShape, write_probe_model
from app.llama.settings import ContextSettings, ModelSettings
from app.models.gguf import read_header


@pytest.mark.parametrize(("trained", "deepest"), [(64, 512), (1024, 1024)])
def test_each_width_is_timed_with_and_without_at_two_depths_and_more(trained: int, deepest: int) -> None:
    """Lost otherwise: a choice between figures of one way only, or at one depth, which tells nothing."""
    points = measure_attention(AttentionHeads(2, 1, 16), ContextSettings(), trained)
    assert all(point.seconds > 0 for point in points)
    for width in (1, DRAFTED, READING):
        with_flash, without = (
            {point.depth for point in points if (point.flash, point.width) == (flash, width)}
            for flash in (True, False)
        )
        assert with_flash == without and len(without) >= 2
        assert max(without) <= deepest


def test_the_model_that_is_timed_has_the_heads_that_were_asked_for(tmp_path: Path) -> None:
    """Lost otherwise: what was measured is the attention of some other model."""
    path = write_probe_model(tmp_path / "probe.gguf", ProbeShape(1, 32, 32, 9, 3, 64))
    with (
        Model(path, ModelSettings(gpu_layers=0, layouts="plain")) as model,
        Context(model, 256, ContextSettings(flash_attention="off")) as context,
    ):
        assert model.layers == 1 and read_header(path).metadata["llama.attention.head_count_kv"] == 3
        context.forward([1, 2, 3])
        # 16-bit keys and values of three heads of 64 numbers, for each of three tokens.
        assert (
            3 * 2 * 3 * 64 * 2
            <= llama_cpp.llama_state_seq_get_size(context.pointer, 0)
            < 2 * 3 * 2 * 3 * 64 * 2
        )
