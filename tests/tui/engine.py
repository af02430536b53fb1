"""A scripted engine for tests of the screen: what it was sent, and what it is made to tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from app.engine.events import Finished, FinishReason, Pass, Prefill, Tally
from app.process.commands import (
    Cancel,
    Command,
    Compare,
    Count,
    FindDrafts,
    FindModels,
    Generate,
    Load,
    Quit,
    SetDraft,
    SetProposer,
)
from app.process.endings import Endings
from app.process.events import (
    Asked,
    Crashed,
    Done,
    Drafts,
    Event,
    Failed,
    Loaded,
    Models,
    PromptProgress,
    ProposerOption,
    Step,
    Steps,
    Switched,
    ended_by,
)

OPTIONS = (
    ProposerOption("off", "plain decoding", None),
    ProposerOption("lookup", "copies", None),
    ProposerOption("draft", "a smaller model", "no draft model is loaded"),
    ProposerOption("skip", "fewer layers", None),
    ProposerOption("auto", "now lookup", None),
)
# What answers what.
ANSWERED: dict[type[Event], tuple[type[Command], ...]] = {
    Loaded: (Load,),
    Switched: (SetProposer, SetDraft),
    Asked: (SetProposer,),
    Drafts: (FindDrafts,),
    Models: (FindModels,),
}
LOADED = Loaded("Test Model", "/models/test.gguf", 8192, 8192, OPTIONS, None)


class ScriptedEngine:
    """Stands where EngineClient does. Nothing is answered unless a test says so, but for what a closed or
    dead engine leaves."""

    def __init__(self) -> None:
        # Without the numbers of those that nothing but one event answers.
        self.sent: list[Command] = []
        self._numbers: dict[type[Command], int] = {}
        self.starts = 0
        self.closed = False
        self._endings = Endings(lambda event: None)
        self.runs = False

    def start(self, deliver: Callable[[Event], None]) -> None:
        self.close()
        self.starts += 1
        self.runs, self._endings = True, Endings(deliver)

    def send(self, command: Command) -> None:
        self._endings.sent(command)
        if not self.runs:
            self._endings.end_all("the engine has ended")
            return
        if not isinstance(command, Quit):
            self._numbers[type(command)] = command.identity
        numberless = not isinstance(command, (Generate, Compare, Cancel, Count, Quit))
        self.sent.append(replace(command, identity=0) if numberless else command)  # type: ignore

    def close(self) -> None:
        self.closed = self.runs
        self.runs = False
        self._endings.end_all("the engine was ended")

    def tell(self, *events: Event) -> None:
        """Make the engine say this: events without an identity end the newest command of their kind."""
        for event in events:
            if type(event) in ANSWERED and ended_by(event) == 0:
                number = max(self._numbers.get(kind, 0) for kind in ANSWERED[type(event)])
                event = replace(event, identity=number)  # type: ignore
            self._endings.tell(event)
            if isinstance(event, Crashed):
                self.runs = False
                self._endings.end_all(f"the engine {event.reason}")

    def fail(self, kind: type[Command], message: str) -> None:
        """The newest command of a kind fails."""
        self.tell(Failed(self._numbers[kind], message))

    def last(self, kind: type[Command]) -> Command:
        """The newest command of a kind."""
        return next(command for command in reversed(self.sent) if isinstance(command, kind))

    @property
    def generate(self) -> Generate:
        command = self.last(Generate)
        assert isinstance(command, Generate)
        return command

    @property
    def load(self) -> Load:
        command = self.last(Load)
        assert isinstance(command, Load)
        return command

    def reply(self, *words: str, reason: FinishReason | None = "stop") -> None:
        """Answer the newest request word by word; reason None leaves the reply growing."""
        identity = self.generate.identity
        self.tell(PromptProgress(identity, Prefill(12, 12, 0)))
        steps = [step(word, number) for number, word in enumerate(words)]
        for each in steps:
            self.tell(Steps(identity, (each,)))
        if reason == "stop":
            self.tell(Steps(identity, (step("", 2),)))
        if reason is not None:
            self.tell(Done(identity, finished(steps, reason)))


def step(word: str, token: int = 0, *, proposer: str = "lookup", rejected: str = "") -> Step:
    """A pass that made one token of this text: accepted from nothing, or corrected after a rejection."""
    drafted = (900,) if rejected else ()
    entry = Pass(
        proposer=proposer,
        drafted=drafted,
        accepted=0,
        committed=1,
        tokens=(token,),
        origins=("correction" if rejected else "plain",),
        text=word,
        seconds=0.01,
        target_seconds=0.009,
        proposer_seconds=0.0,
    )
    return Step(entry, (word,), rejected)


def finished(steps: Sequence[Step], reason: FinishReason = "stop") -> Finished:
    """The end of a reply of these passes."""
    entries = [each.entry for each in steps]
    end = (2,) if reason == "stop" else ()
    drafted = sum(len(entry.drafted) for entry in entries)
    accepted = sum(entry.accepted for entry in entries)
    passes = len(entries) + len(end)
    return Finished(
        reason=reason,
        token_ids=(*(token for entry in entries for token in entry.tokens), *end),
        origins=(*(origin for entry in entries for origin in entry.origins), *["plain"] * len(end)),
        text="".join(entry.text for entry in entries),
        rest="",
        seed=1,
        prompt_tokens=13,
        cached_tokens=0,
        passes=passes,
        drafted=drafted,
        accepted=accepted,
        kept=sum(len(entry.tokens) for entry in entries) + len(end),
        accepted_by_position=(accepted,) if drafted else (),
        by_proposer={"lookup": Tally(passes, drafted, accepted)},
        k_history=tuple(len(entry.drafted) for entry in entries) + (0,) * len(end),
        prefill_seconds=0.1,
        decode_seconds=0.01 * passes,
        model_seconds=0.009 * passes,
        plain_seconds=0.01,
    )
