"""Two turns of a real conversation: what turn one left in the cache is not read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.assembly.template import template_for
from app.chat.message import Message
from app.chat.prompt import encode
from app.engine.control import Controller
from app.engine.events import Finished, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.llama.context import Context
from app.llama.model import Model
from proposers.lookup import Lookup


@pytest.fixture(scope="module")
def model(bundled: Path) -> Iterator[Model]:
    with Model(bundled) as opened:
        yield opened


@pytest.mark.parametrize("max_tokens", [12, 200], ids=["cut", "ended"])
def test_prompt_and_reply_of_turn_one_are_not_read_again(model: Model, max_tokens: int) -> None:
    """Else each turn of a chat waits for the whole chat before it."""
    template = template_for(model)
    messages = [Message("user", "Name three things that float on water, in one short sentence.")]
    with Context(model, 1024) as target:
        engine = Engine(target, (Lookup(),), Controller())

        def answer() -> Finished:
            prompt = tuple(encode(messages, template, model))
            *_, finished = engine.generate(Request(prompt, Sampling(), seed=5, max_tokens=max_tokens))
            assert isinstance(finished, Finished)
            return finished

        first = answer()
        said = tuple(token for token in first.token_ids if token not in model.end_tokens)
        messages += [Message("assistant", first.text, said), Message("user", "And one that sinks?")]
        second = answer()
        # All that the cache held, which is everything but the last token of the reply.
        assert second.cached_tokens == first.prompt_tokens + len(first.token_ids) - 1
        assert second.prompt_tokens > second.cached_tokens
