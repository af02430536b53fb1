"""A chat with models whose memory cannot simply be cut, in the engine's own process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.chat.message import Message
from app.llama.model import Model
from app.models.memory_words import way_back
from app.process.commands import Cancel, Compare, SetDraft
from app.process.events import Compared, Done, Steps, Switched
from tests.architectures import KINDS, Kind
from tests.process.engine import ASK, GREEDY, Session, generate, serving

# One of each architecture.
SHOWN = list({kind.architecture: kind for kind in KINDS}.values())


def turns(session: Session, proposer: str, number: int) -> list[tuple[int, ...]]:
    """The replies of a chat: two turns, the second again, one that is cut short, the first again. number: of
    the command before."""
    _, first = session.reply(generate(number + 1, proposer, max_tokens=24, k=3))
    more = (*ASK, Message("assistant", first.finished.text), Message("user", "And once more?"))
    _, second = session.reply(generate(number + 2, proposer, messages=more, max_tokens=24, k=3))
    _, again = session.reply(generate(number + 3, proposer, messages=more, max_tokens=24, k=3))
    session.send(generate(number + 4, proposer, messages=(Message("user", "word " * 40),), max_tokens=None))
    session.until(Steps)
    session.send(Cancel(number + 4))
    assert session.until(Done).finished.reason == "cancelled"
    _, last = session.reply(generate(number + 5, proposer, max_tokens=24, k=3))
    assert again.finished.cached_tokens == again.finished.prompt_tokens - 1
    return [done.finished.token_ids for done in (first, second, again, last)]


@pytest.mark.parametrize("kind", SHOWN, ids=lambda kind: kind.architecture)
def test_a_chat_says_the_same_with_every_proposer(
    kind: Kind, architectures: Callable[..., Model], tmp_path: Path
) -> None:
    """A turn that failed once because the memory could not be cut failed for the rest of the chat."""
    target, draft = architectures(kind).path, architectures(kind, 0.1).path
    with serving() as session:
        loaded = session.load(target, exact=True)
        assert [option.name for option in loaded.options if option.problem] == ["draft"]
        assert way_back(loaded.memory)
        plain = turns(session, "off", 0)
        assert plain[0] == plain[3] and plain[1] == plain[2]
        session.send(SetDraft(str(draft)))
        assert session.until(Switched).problem is None
        for number, proposer in enumerate(("lookup", "draft", "auto"), start=1):
            assert turns(session, proposer, 10 * number) == plain, proposer
        session.send(Compare(50, ASK, GREEDY, 1, ("off", "lookup", "draft"), 3, 24))
        for _ in range(3):
            compared = session.until(Compared)
            assert compared.finished is not None and compared.divergence is None
