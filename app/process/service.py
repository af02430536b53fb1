"""What the engine's process does: one model, one command at a time, small commands between passes.

Each command ends in the event that its method returns, or in Failed or Cancelled.
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
from app.process.commands import (
    Compare,
    Count,
    FindDrafts,
    FindModels,
    Generate,
    Load,
    SetDraft,
    SetK,
    SetProposer,
    Small,
    Task,
)
from app.process.comparison import BlockwiseComparison
from app.process.events import (
    Asked,
    Cancelled,
    Compared,
    ComparisonEnded,
    Counted,
    Done,
    Ending,
    Event,
    Failed,
    Loaded,
    LoadProgress,
    Noted,
    PromptProgress,
    Shortened,
    Step,
    Steps,
    TooLong,
)
from app.process.loaded import LoadedModel
from app.process.pieces import Pieces, begun_tokens
from app.process.search import find_drafts, find_models

# Seconds between batches of passes: each wakes the screen, which shares the CPU with the model.
BATCH_SECONDS = 0.2


class Service:
    """Carries out commands and delivers what comes of them."""

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
        """Carry out a command and end it. Whatever goes wrong in a small one ends nothing else."""
        identity = command.identity
        try:
            ending = None if identity in self._cancelled else self._answer(command)
        except Exception as error:
            if not isinstance(error, (SpecchatError, Interrupted)) and not isinstance(command, Small):
                raise
            ending = None if identity in self._cancelled else Failed(identity, told(error))
        if identity in self._cancelled:
            self._cancelled.discard(identity)
            ending = ending or Cancelled(identity)
        if ending is not None:
            self._deliver(ending)

    def _answer(self, command: Task) -> Ending | None:
        """The event that ends a command. None: its own thread will send it."""
        if isinstance(command, Load):
            return self._load(command)
        if isinstance(command, FindModels):
            find_models(command, self._free, self._deliver)
            return None
        loaded = self._loaded
        if loaded is None:
            raise SpecchatError("No model is loaded: choose one first.")
        loader = loaded.assembly.loader
        match command:
            case Generate():
                return self._generate(loaded, command)
            case Compare():
                return self._compare(loaded, command)
            case SetProposer():
                return loaded.set_proposer(command)
            case SetDraft():
                return loaded.set_draft(command)
            case SetK():
                loaded.engine.sequence.k = command.k
                return loaded.switched(command.identity)
            case FindDrafts():
                draft, bridge = loaded.proposers.file_of("draft"), loader.settings.bridge
                return find_drafts(command, loader.target.path, draft, bridge)
            case Count(identity, text, messages):
                read = loaded.prompt(messages) if messages else loader.target.tokenise(text, False)
                return Counted(identity, len(read))

    def _load(self, command: Load) -> Loaded:
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None
        self._free = None
        what = Path(command.settings.name).name if command.settings.name else "the bundled model"
        said = -1.0

        def progress(share: float) -> bool:
            nonlocal said
            if share - said >= 0.02 or share == 1.0:
                said = share
                self._deliver(LoadProgress(what, share))
            return not self._stopped()

        self._loaded = LoadedModel(
            command,
            self._stopped,
            say=lambda line: self._deliver(LoadProgress(line, 1.0)),
            warn=lambda sentence: self._deliver(Noted(sentence)),
            progress=progress,
        )
        self._free = self._loaded.assembly.loader.memory
        return self._loaded.facts(command.identity)

    def _stopped(self) -> bool:
        return self._running in self._cancelled

    def _between_passes(self) -> None:
        """Carry out small commands that came meanwhile; keep the rest for later, in order."""
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
        begun = begun_tokens(command.begun, command.begun_text, target)
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
                self._deliver(PromptProgress(command.identity, event))
            elif isinstance(event, ProposerDropped):
                self._drop(loaded, event)
            else:
                if batch:
                    self._deliver(Steps(command.identity, tuple(batch), plain))
                loaded.assembly.remember(loaded.engine, event)
                return Done(command.identity, event)
            self._between_passes()
        raise AssertionError("a reply ends with Finished")

    def _shortened(self, loaded: LoadedModel, command: Generate, room: int) -> Sequence[Message]:
        """The messages without as many of the oldest exchanges as must go, whose number is delivered."""

        def fits(messages: Sequence[Message]) -> bool:
            if self._stopped():
                raise Interrupted
            return len(loaded.prompt(messages)) <= room

        dropped, messages = without_oldest(command.messages, fits)
        self._deliver(Shortened(command.identity, dropped))
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
            return loaded.proposers.failure(event.proposer) or self._drop(loaded, event)

        replies: dict[str, Engine] = {}
        for name in command.proposers:
            opened = loaded.beside(name)
            if isinstance(opened, Engine):
                replies[name] = opened
            else:
                self._deliver(Compared(command.identity, name, None, None, opened))
        try:
            comparison = BlockwiseComparison(command.identity, loaded.engine, replies, request, drop)
            for event in comparison.run():
                if not isinstance(event, Prefill):
                    self._deliver(event)
        finally:
            # One that failed meanwhile is used no more.
            loaded.set_proposer(SetProposer(loaded.chosen))
        return None if self._stopped() else ComparisonEnded(command.identity)
