"""A target with drafts made from it, and prompts: what benchmarks and tests on real models share."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from app.assembly import template_for
from app.bench.prompts import load_prompts
from app.chat.message import Message
from app.chat.prompt import encode
from app.engine.control import Controller
from app.engine.events import Finished, Pass, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.llama.context import Context
from app.llama.model import Model
from app.llama.quantise import requantise
from app.llama.settings import ContextSettings, ModelSettings
from app.models.gguf import read_header
from app.models.locate import open_model
from app.models.skip import skipped_layers_default, write_skip
from proposers.base import Proposer
from proposers.draft import Draft
from proposers.lookup import Lookup
from proposers.off import Off

LENGTH = 2048


class Workbench:
    """The target, a requantised copy of it as draft, and a layer-skipped one, each with a context."""

    def __init__(self, path: Path, settings: ContextSettings) -> None:
        self._stack = ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        header = read_header(path)
        layers = skipped_layers_default(header.block_count or 0)
        self.settings = settings
        self.model = self._open(open_model(path, ModelSettings()))
        self.target = self.context(self.model)
        self._draft = self.context(self._open(Model(requantise(path, folder / "draft.gguf", "Q4_0"))))
        self._engine = Engine(self.target, (Off(),), Controller())
        self._skip = self.context(self._open(Model(write_skip(path, header, layers, folder))))

    def _open(self, model: Model) -> Model:
        return self._stack.enter_context(model)

    def __enter__(self) -> Workbench:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def context(self, model: Model) -> Context:
        return self._stack.enter_context(Context(model, LENGTH, self.settings))

    def proposers(self) -> dict[str, Proposer]:
        """Each proposer, fresh."""
        return {
            "off": Off(),
            "lookup": Lookup(),
            "draft": Draft(self._draft),
            "skip": Draft(self._skip, "skip"),
        }

    def prompts(self, count: int, room: int) -> list[tuple[int, ...]]:
        """`count` of the project's prompts as tokens, spread over the categories, shortest first in
        each; they leave `room` tokens of the context."""
        template = template_for(self.model)
        by_category: dict[str, list[tuple[int, ...]]] = {}
        for entry in load_prompts():
            tokens = tuple(encode([Message("user", entry.prompt)], template, self.model))
            if len(tokens) + room <= LENGTH:
                by_category.setdefault(entry.category, []).append(tokens)
        ranked = [sorted(prompts, key=len) for prompts in by_category.values()]
        spread = [
            prompts[rank]
            for rank in range(max(map(len, ranked)))
            for prompts in ranked
            if rank < len(prompts)
        ]
        return spread[:count]

    def reply(
        self,
        prompt: Sequence[int],
        proposer: Proposer,
        *,
        k: int | None = None,
        tokens: int = 128,
        sampling: Sampling | None = None,
        controller: Controller | None = None,
        each: Callable[[Engine, Pass], None] = lambda engine, entry: None,
    ) -> Finished:
        """One reply, greedy by default. The prompt stays in the target's cache for the next one."""
        engine = self._engine
        engine.sequence.proposers, engine.controller = (proposer,), controller or Controller()
        sampling = sampling or Sampling(temperature=0.0)
        for event in engine.generate(Request(tuple(prompt), sampling, seed=0, max_tokens=tokens, k=k)):
            if isinstance(event, Pass):
                each(engine, event)
            elif isinstance(event, Finished):
                return event
        raise AssertionError("a reply ends with Finished")
