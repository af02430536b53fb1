"""The proposers by name. A new one is a file beside this and an entry here; nothing else knows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from proposers.base import DraftModel, Proposer
from proposers.draft import Draft
from proposers.lookup import Lookup
from proposers.off import Off


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


def _with_model(name: str) -> Callable[[DraftModel | None], Proposer]:
    def build(model: DraftModel | None) -> Proposer:
        if model is None:
            raise ValueError(f"the proposer {name} needs a model")
        return Draft(model, name)

    return build


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("off", "plain decoding, one token a pass", "none", lambda _: Off()),
        Kind("lookup", "copies what followed the same words earlier in the chat", "none", lambda _: Lookup()),
        Kind("draft", "a smaller model with the same vocabulary guesses", "draft", _with_model("draft")),
        Kind("skip", "the model itself without some of its layers guesses", "skip", _with_model("skip")),
    )
}
