"""The proposers by name. A new one is a file in this folder and an entry here; nothing else lists them.

Each is imported when it is built: the command line and the screen need only names, and numpy loads slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from proposers.base import DraftModel, Proposer


@dataclass(frozen=True, slots=True)
class ProposerKind:
    """A proposer that can be chosen.

    model: what `build` needs: nothing, a second model that shares the target's vocabulary, or a copy of the
    target without some of its layers.
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


_ALL = (
    ProposerKind("off", "plain decoding, one token a pass", "none", _off),
    ProposerKind("lookup", "copies what followed the same words earlier in the chat", "none", _lookup),
    ProposerKind("draft", "a smaller model with the same vocabulary guesses", "draft", _with_model("draft")),
    ProposerKind("skip", "the model without some of its layers guesses", "skip", _with_model("skip")),
)
PROPOSERS = {kind.name: kind for kind in _ALL}
