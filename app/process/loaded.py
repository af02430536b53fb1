"""A loaded model as the engine's process holds it: engine, template, and the proposer that was chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from app.assembly.assembly import Assembly
from app.assembly.template import template_for
from app.chat.message import Message
from app.chat.prompt import encode
from app.engine.events import ProposerDropped
from app.engine.loop import Engine
from app.errors import SpecchatError
from app.process.commands import Load, SetDraft, SetProposer
from app.process.events import Asked, Loaded, ProposerOption, Switched
from proposers.registry import PROPOSERS

# Seconds for measuring what passes cost, when a model is loaded for the first time.
CALIBRATION_SECONDS = 1.0


class LoadedModel:
    """A model that is ready, its engine, and the proposer that was chosen."""

    def __init__(
        self,
        command: Load,
        stop: Callable[[], bool],
        say: Callable[[str], None],
        warn: Callable[[str], None],
        progress: Callable[[float], bool],
    ) -> None:
        self._agreed = False
        self._question: str | None = None
        with ExitStack() as opened:
            self.assembly = opened.enter_context(
                Assembly(
                    command.settings,
                    stop=stop,
                    agree=self._agree,
                    say=say,
                    warn=warn,
                    progress=progress,
                    died=command.died,
                )
            )
            self.proposers = self.assembly.proposers
            self._template = template_for(self.assembly.target, command.settings.template)
            self.engine = self.assembly.engine("off")
            self.chosen = "off"
            costs = self.engine.calibrate([max(self.assembly.target.bos, 0)], CALIBRATION_SECONDS)
            self._costs = tuple(sorted(costs.seconds.items()))
            self.close = opened.pop_all().close

    def _agree(self, question: str) -> bool:
        self._question = question
        return self._agreed

    def prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The conversation's tokens. Raises SpecchatError where there are none."""
        tokens = encode(messages, self._template, self.assembly.target)
        if not tokens:
            raise SpecchatError("The chat template wrote nothing: choose another in the settings.")
        return tuple(tokens)

    def facts(self, identity: int) -> Loaded:
        target = self.assembly.target
        return Loaded(
            name=self.assembly.name,
            path=str(target.path),
            context_length=self.engine.target.capacity,
            context_trained=target.context_trained,
            options=self.options(),
            draft=self.proposers.draft_name,
            costs=self._costs,
            gpus=self.assembly.gpus,
            memory=self.engine.target.memory_kind,
            identity=identity,
        )

    def switched(self, identity: int, problem: str | None = None) -> Switched:
        """What is on now, as the answer to a command."""
        return Switched(self.chosen, self.options(), self.proposers.draft_name, problem, identity)

    def options(self) -> tuple[ProposerOption, ...]:
        """Every proposer of the registry, and auto, with why it cannot be used now."""
        found = []
        for kind in PROPOSERS.values():
            problem = self.proposers.failure(kind.name)
            if kind.model == "draft" and self.proposers.draft is None:
                problem = "no draft model is loaded"
            found.append(ProposerOption(kind.name, kind.summary, problem))
        members = " or ".join(self.proposers.automatic())
        return (*found, ProposerOption("auto", f"{members}, whichever brings most", None))

    def set_proposer(self, command: SetProposer) -> Switched | Asked:
        """Use a proposer from the next pass on. One that cannot be used leaves the one that is on."""
        name = command.name
        if name == "draft" and self.proposers.draft is None:
            return self.switched(command.identity, "No draft model is loaded: load one first.")
        self._agreed, self._question = command.agreed, None
        problem = None
        try:
            self.engine.sequence.proposers = self.proposers.choose(name)
            self.chosen = command.name
        except SpecchatError as error:
            if self._question is not None and not command.agreed:
                return Asked(command.name, self._question, command.identity)
            problem = str(error)
        return self.switched(command.identity, problem)

    def beside(self, name: str) -> Engine | str:
        """Another engine on the chat's target, for a reply by this proposer; or why there is none."""
        self._agreed, self._question = False, None
        try:
            return self.engine.fork(self.proposers.choose(name))
        except SpecchatError as error:
            return self._question or str(error)

    def drop(self, event: ProposerDropped) -> tuple[str, Switched]:
        """A proposer failed during a reply, which goes on without it: what to say, and what is on."""
        sentence = self.proposers.drop(event)
        if self.chosen == event.proposer:
            self.chosen = "off"
        return sentence, self.switched(0)

    def set_draft(self, command: SetDraft) -> Switched | Asked:
        """Load another draft model and use it, or unload the one that there is."""
        draft, identity = command.draft, command.identity
        others = "auto" if self.chosen == "draft" else self.chosen
        if any(each.name == "draft" for each in self.engine.sequence.proposers):
            self.engine.sequence.proposers = self.proposers.choose("off")
        self.proposers.set_draft(draft)
        switched = self.set_proposer(SetProposer("draft" if draft else others, identity=identity))
        if draft and isinstance(switched, Switched) and switched.problem:
            # It does not fit: go on without one, and say why.
            self.proposers.set_draft(None)
            self.set_proposer(SetProposer(others))
            return self.switched(identity, switched.problem)
        return switched
