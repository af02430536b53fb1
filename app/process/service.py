"""What the engine's process does: one model loaded, one command at a time, small ones between passes."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from app.engine.events import Dropped, Pass, Prefill, Request
from app.engine.loop import Engine
from app.errors import SpecchatError
from app.models.fit import Memory
from app.process.candidates import candidates
from app.process.comparison import Comparison
from app.process.loaded import LoadedModel
from app.process.messages import (
    Asked,
    Command,
    Compare,
    Compared,
    ComparisonEnded,
    Count,
    Counted,
    Done,
    Drafts,
    Event,
    Failed,
    FindDrafts,
    FindModels,
    Generate,
    Load,
    Loading,
    Noted,
    Reading,
    SetDraft,
    SetK,
    SetProposer,
    Step,
    Steps,
    TooLong,
)
from app.process.pieces import Pieces, begun_whole
from app.process.shelf import find_models

# Seconds between two batches of passes: each wakes the screen, which shares the CPU with the model.
BATCH_SECONDS = 0.2


class Service:
    """Carries out commands and tells what came of them."""

    def __init__(self, commands: queue.SimpleQueue[Command], deliver: Callable[[Event], None]) -> None:
        self._commands = commands
        self._deliver = deliver
        # Commands that came during a reply and have to wait for its end.
        self._later: deque[Command] = deque()
        self._loaded: LoadedModel | None = None
        # What was free before the model was loaded: whatever is loaded next has this.
        self._free: Memory | None = None
        self._identity = 0
        self._cancelled = 0

    def cancel(self, identity: int) -> None:
        """Stop what has this identity. Called from the thread that listens."""
        self._cancelled = identity

    def run(self) -> None:
        """Serve for ever; the process is ended from outside."""
        while True:
            self._carry_out(self._later.popleft() if self._later else self._commands.get())

    def _carry_out(self, command: Command) -> None:
        identity = getattr(command, "identity", None)
        try:
            if isinstance(command, Load):
                self._load(command)
            elif isinstance(command, FindModels):
                find_models(command, self._free, self._deliver)
            elif self._loaded is None:
                raise SpecchatError("No model is loaded: choose one first.")
            elif isinstance(command, Generate):
                self._generate(self._loaded, command)
            elif isinstance(command, Compare):
                self._compare(self._loaded, command)
            else:
                self._small(self._loaded, command)
        except SpecchatError as error:
            if isinstance(command, Compare):
                self._deliver(ComparisonEnded(command.identity, "failed", str(error)))
            else:
                self._deliver(Failed(type(command).__name__, identity, str(error)))

    def _load(self, command: Load) -> None:
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None
        self._free = None
        what = Path(command.model).name if command.model else "the bundled model"
        said = -1.0

        def progress(share: float) -> bool:
            nonlocal said
            if share - said >= 0.02 or share == 1.0:
                said = share
                self._deliver(Loading(what, share))
            return True

        self._loaded = LoadedModel(
            command,
            self._stopped,
            say=lambda line: self._deliver(Loading(line, 1.0)),
            warn=lambda sentence: self._deliver(Noted(sentence)),
            progress=progress,
        )
        self._free = self._loaded.assembly.memory
        self._deliver(self._loaded.facts())

    def _stopped(self) -> bool:
        return self._cancelled >= self._identity > 0

    def _small(self, loaded: LoadedModel, command: Command) -> None:
        """A command that may be carried out between two passes."""
        if isinstance(command, SetProposer):
            self._deliver(loaded.set_proposer(command))
        elif isinstance(command, SetK):
            loaded.engine.k = command.k
        elif isinstance(command, SetDraft):
            self._deliver(loaded.set_draft(command.draft))
        elif isinstance(command, FindDrafts):
            target = loaded.assembly.target.path
            assembly = loaded.assembly
            found = candidates(target, command.folders, assembly.file_of("draft"), assembly.setup.bridge)
            self._deliver(Drafts(found))
        elif isinstance(command, Count):
            self._deliver(
                Counted(command.identity, len(loaded.assembly.target.tokenise(command.text, False)))
            )

    def _between_passes(self, loaded: LoadedModel) -> None:
        """Carry out what came meanwhile and cannot wait; keep the rest for later, in its order."""
        while not self._commands.empty():
            command = self._commands.get()
            if isinstance(command, (SetProposer, SetK, SetDraft, Count, FindDrafts, FindModels)):
                self._carry_out(command)
            else:
                self._later.append(command)

    def _generate(self, loaded: LoadedModel, command: Generate) -> None:
        self._identity = command.identity
        target = loaded.assembly.target
        switched = loaded.set_proposer(SetProposer(command.proposer))
        if isinstance(switched, Asked) or switched.problem:
            # The reply is worth more than its speed.
            self._deliver(switched)
        begun = begun_whole(command.begun, target.piece)
        prompt = (*loaded.prompt(command.messages), *begun)
        engine = loaded.engine
        if len(prompt) > engine.target.capacity:
            self._deliver(
                TooLong(command.identity, len(prompt), engine.target.capacity, target.context_trained)
            )
            return
        request = Request(
            prompt=prompt,
            sampling=command.sampling,
            seed=command.seed,
            max_tokens=command.max_tokens or engine.target.capacity,
            stop=command.stop,
            k=command.k,
        )
        pieces = Pieces(target.piece)
        batch: list[Step] = []
        plain: float | None = None
        sent = 0.0
        for event in engine.generate(request):
            if isinstance(event, Pass):
                batch.append(pieces.step(event))
                now = time.perf_counter()
                if now - sent >= BATCH_SECONDS:
                    plain = engine.pace.seconds_per_token()
                    self._deliver(Steps(command.identity, tuple(batch), plain))
                    batch.clear()
                    sent = now
            elif isinstance(event, Prefill):
                self._deliver(Reading(command.identity, event))
            elif isinstance(event, Dropped):
                self._drop(loaded, event)
            else:
                if batch:
                    self._deliver(Steps(command.identity, tuple(batch), plain))
                self._deliver(Done(command.identity, event))
                loaded.remember(event)
            self._between_passes(loaded)

    def _drop(self, loaded: LoadedModel, event: Dropped) -> str:
        sentence, switched = loaded.drop(event)
        self._deliver(Noted(sentence))
        self._deliver(switched)
        return sentence

    def _compare(self, loaded: LoadedModel, command: Compare) -> None:
        self._identity = command.identity
        request = Request(
            prompt=loaded.prompt(command.messages),
            sampling=command.sampling,
            seed=command.seed,
            max_tokens=command.max_tokens,
            k=command.k,
        )

        def drop(event: Dropped) -> str:
            # A proposer of several replies fails in each of them.
            return loaded.assembly.dropped(event.proposer) or self._drop(loaded, event)

        replies: dict[str, Engine] = {}
        for name in command.proposers:
            opened = loaded.beside(name)
            if isinstance(opened, Engine):
                replies[name] = opened
            else:
                self._deliver(Compared(command.identity, name, None, None, opened))
        try:
            comparison = Comparison(command.identity, loaded.engine, replies, request, drop)
            for event in comparison.run():
                if not isinstance(event, Prefill):
                    self._deliver(event)
        finally:
            # One that failed meanwhile is used no more.
            loaded.set_proposer(SetProposer(loaded.chosen))
        self._deliver(ComparisonEnded(command.identity, "cancelled" if self._stopped() else "done"))
