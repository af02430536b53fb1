"""What the engine's process does: one model loaded, one command at a time, small ones between passes.

Each command ends in the one event that carrying it out returns, or in Failed or Cancelled.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from app.chat.message import Message
from app.chat.prompt import without_oldest
from app.engine.events import Pass, Prefill, ProposerDropped, Request
from app.engine.loop import Engine
from app.errors import SpecchatError, told
from app.llama.context import Interrupted
from app.models.fit import Memory
from app.process.candidates import candidates
from app.process.comparison import Comparison
from app.process.loaded import LoadedModel
from app.process.messages import (
    Asked,
    Cancelled,
    Compare,
    Compared,
    ComparisonEnded,
    Counted,
    Done,
    Drafts,
    Ending,
    Event,
    Failed,
    FindDrafts,
    FindModels,
    Generate,
    LeftOut,
    Load,
    Loaded,
    Loading,
    Noted,
    Reading,
    SetDraft,
    SetK,
    SetProposer,
    Small,
    Step,
    Steps,
    Task,
    TooLong,
)
from app.process.pieces import Pieces, begun_whole
from app.process.shelf import find_models

# Seconds between two batches of passes: each wakes the screen, which shares the CPU with the model.
BATCH_SECONDS = 0.2


class Service:
    """Carries out commands and tells what came of them."""

    def __init__(self, commands: queue.SimpleQueue[Task], deliver: Callable[[Event], None]) -> None:
        self._commands = commands
        self._deliver = deliver
        # Commands that came during a reply and have to wait for its end.
        self._later: deque[Task] = deque()
        self._loaded: LoadedModel | None = None
        # What was free before the model was loaded: whatever is loaded next has this.
        self._free: Memory | None = None
        # What is being carried out, and what was stopped.
        self._running = 0
        self._cancelled: set[int] = set()

    def cancel(self, identity: int) -> None:
        """Stop what has this identity, or will have. Called from the thread that listens."""
        self._cancelled.add(identity)

    def run(self) -> None:
        """Serve for ever; the process is ended from outside."""
        while True:
            command = self._later.popleft() if self._later else self._commands.get()
            self._running = command.identity
            self._carry_out(command)

    def _carry_out(self, command: Task) -> None:
        """Carry out a command and end it. A small one's fault, whatever it is, ends nothing else."""
        try:
            ending = None if self._is_stopped(command) else self._answer(command)
        except Exception as error:
            if not isinstance(error, (SpecchatError, Interrupted)) and not isinstance(command, Small):
                raise
            ending = None if self._is_stopped(command) else Failed(command.identity, told(error))
        if self._is_stopped(command):
            self._cancelled.discard(command.identity)
            ending = ending or Cancelled(command.identity)
        if ending is not None:
            self._deliver(ending)

    def _answer(self, command: Task) -> Ending | None:
        """What ends a command. None: a thread of its own will tell."""
        if isinstance(command, Load):
            return self._load(command)
        if isinstance(command, FindModels):
            find_models(command, self._free, self._deliver)
            return None
        loaded = self._loaded
        if loaded is None:
            raise SpecchatError("No model is loaded: choose one first.")
        if isinstance(command, Generate):
            return self._generate(loaded, command)
        if isinstance(command, Compare):
            return self._compare(loaded, command)
        if isinstance(command, SetProposer):
            return loaded.set_proposer(command)
        if isinstance(command, SetK):
            loaded.engine.sequence.k = command.k
            return loaded.switched(command.identity)
        if isinstance(command, SetDraft):
            return loaded.set_draft(command)
        if isinstance(command, FindDrafts):
            target = loaded.assembly.target.path
            assembly = loaded.assembly
            found = candidates(target, command.folders, assembly.file_of("draft"), assembly.setup.bridge)
            return Drafts(found, command.identity)
        if command.messages:
            return Counted(command.identity, len(loaded.prompt(command.messages)))
        return Counted(command.identity, len(loaded.assembly.target.tokenise(command.text, False)))

    def _load(self, command: Load) -> Loaded:
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
            return not self._stopped()

        self._loaded = LoadedModel(
            command,
            self._stopped,
            say=lambda line: self._deliver(Loading(line, 1.0)),
            warn=lambda sentence: self._deliver(Noted(sentence)),
            progress=progress,
        )
        self._free = self._loaded.assembly.memory
        return self._loaded.facts(command.identity)

    def _stopped(self) -> bool:
        return self._running in self._cancelled

    def _is_stopped(self, command: Task) -> bool:
        return command.identity in self._cancelled

    def _between_passes(self) -> None:
        """Carry out what came meanwhile and cannot wait; keep the rest for later, in its order."""
        while not self._commands.empty():
            command = self._commands.get()
            if isinstance(command, Small):
                self._carry_out(command)
            else:
                self._later.append(command)

    def _generate(self, loaded: LoadedModel, command: Generate) -> Done | TooLong:
        target = loaded.assembly.target
        switched = loaded.set_proposer(SetProposer(command.proposer))
        if isinstance(switched, Asked) or switched.problem:
            # The reply is worth more than its speed.
            self._deliver(switched)
        begun = begun_whole(command.begun, target.piece)
        engine = loaded.engine
        room = engine.target.capacity
        messages: Sequence[Message] = command.messages
        if command.shorten:
            messages = self._shortened(loaded, command, room - len(begun))
        prompt = (*loaded.prompt(messages), *begun)
        if len(prompt) > room:
            return TooLong(command.identity, len(prompt), room, target.context_trained)
        request = Request(
            prompt=prompt,
            sampling=command.sampling,
            seed=command.seed,
            max_tokens=command.max_tokens or room,
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
                    plain = engine.sequence.plain.seconds_per_token()
                    self._deliver(Steps(command.identity, tuple(batch), plain))
                    batch.clear()
                    sent = now
            elif isinstance(event, Prefill):
                self._deliver(Reading(command.identity, event))
            elif isinstance(event, ProposerDropped):
                self._drop(loaded, event)
            else:
                if batch:
                    self._deliver(Steps(command.identity, tuple(batch), plain))
                loaded.remember(event)
                return Done(command.identity, event)
            self._between_passes()
        raise AssertionError("a reply ends with Finished")

    def _shortened(self, loaded: LoadedModel, command: Generate, room: int) -> Sequence[Message]:
        """The messages without as many of the oldest exchanges as must go, which is told."""

        def fits(messages: Sequence[Message]) -> bool:
            if self._stopped():
                raise Interrupted
            return len(loaded.prompt(messages)) <= room

        dropped, messages = without_oldest(command.messages, fits)
        self._deliver(LeftOut(command.identity, dropped))
        return messages

    def _drop(self, loaded: LoadedModel, event: ProposerDropped) -> str:
        sentence, switched = loaded.drop(event)
        self._deliver(Noted(sentence))
        self._deliver(switched)
        return sentence

    def _compare(self, loaded: LoadedModel, command: Compare) -> ComparisonEnded | None:
        request = Request(
            prompt=loaded.prompt(command.messages),
            sampling=command.sampling,
            seed=command.seed,
            max_tokens=command.max_tokens,
            k=command.k,
        )

        def drop(event: ProposerDropped) -> str:
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
        return None if self._stopped() else ComparisonEnded(command.identity)
