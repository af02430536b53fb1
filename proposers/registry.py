"""The proposers by name. A new one is a file beside this and an entry here; nothing else knows them.

Each is loaded when it is built: a command line and a screen ask for names alone, and numpy takes a while.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from proposers.base import DraftModel, Proposer


@dataclass(frozen=True, slots=True)
class Kind:
    """A proposer that can be chosen.

    model says what `build` must be given: nothing, a second model that shares the target's
    vocabulary, or a copy of the target without some of its layers.
    """

    name: str
    summary: str
    model: Literal["none", "draft", "skip"]
    build: Callable[[DraftModel | None], Proposer]


def _off(_: DraftModel | None) -> Proposer:
    from proposers.off import Off

    return Off()


def _lookup(_: DraftModel | None) -> Proposer:
    from proposers.lookup import Lookup

    return Lookup()


def _with_model(name: str) -> Callable[[DraftModel | None], Proposer]:
    def build(model: DraftModel | None) -> Proposer:
        from proposers.draft import Draft

        if model is None:
            raise ValueError(f"the proposer {name} needs a model")
        return Draft(model, name)

    return build


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("off", "plain decoding, one token a pass", "none", _off),
        Kind("lookup", "copies what followed the same words earlier in the chat", "none", _lookup),
        Kind("draft", "a smaller model with the same vocabulary guesses", "draft", _with_model("draft")),
        Kind("skip", "the model itself without some of its layers guesses", "skip", _with_model("skip")),
    )
}
