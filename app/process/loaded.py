"""A loaded model as the engine's process holds it: engine, template, and the proposer that was chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from app.assembly import Assembly, Setup, template_for
from app.chat.message import Message
from app.chat.prompt import encode
from app.engine.events import Finished, ProposerDropped
from app.engine.loop import Engine
from app.errors import SpecchatError
from app.llama.settings import ContextSettings, ModelSettings
from app.process.messages import Asked, Load, Loaded, Option, SetDraft, SetProposer, Switched
from proposers.registry import PROPOSERS

# What loading may take longer for measuring what passes cost; the first time only, see Knowledge.
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
        self._stack = ExitStack()
        self._agreed = False
        self._question: str | None = None
        setup = Setup(
            model=command.model,
            draft=command.draft,
            context_length=command.context_length,
            model_settings=ModelSettings(gpu_layers=command.gpu_layers, mmap=command.mmap, rpc=command.rpc),
            context_settings=ContextSettings(
                threads=command.threads,
                flash_attention=command.flash_attention,
                cache_type=command.cache_type,
                exact=command.exact,
            ),
            bridge=command.bridge,
            died=command.died,
        )
        self.assembly = self._stack.enter_context(
            Assembly(setup, stop=stop, agree=self._agree, say=say, warn=warn, progress=progress)
        )
        try:
            self._template = template_for(self.assembly.target, command.template)
            self.engine = self.assembly.engine("off")
            self.chosen = "off"
            costs = self.engine.calibrate([max(self.assembly.target.bos, 0)], CALIBRATION_SECONDS)
            self._costs = dict(costs.seconds)
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        self._stack.close()

    def remember(self, reply: Finished) -> None:
        """Keep what was learned, by this reply too."""
        self.assembly.remember(self.engine, reply)

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
            description=target.description,
            context_length=self.engine.target.capacity,
            context_trained=target.context_trained,
            options=self.options(),
            draft=self.assembly.draft_name,
            costs=tuple(sorted(self._costs.items())),
            gpus=self.assembly.gpus,
            memory=self.engine.target.memory_kind,
            identity=identity,
        )

    def switched(self, identity: int, problem: str | None = None) -> Switched:
        """What is on now, as the answer to a command."""
        return Switched(self.chosen, self.options(), self.assembly.draft_name, problem, identity)

    def options(self) -> tuple[Option, ...]:
        """Every proposer of the registry, and auto, with why it cannot be used now."""
        assembly = self.assembly
        found = []
        for kind in PROPOSERS.values():
            problem = assembly.dropped(kind.name)
            if kind.model == "draft" and assembly.setup.draft is None:
                problem = "no draft model is loaded"
            found.append(Option(kind.name, kind.summary, problem))
        members = " or ".join(assembly.automatic())
        return (*found, Option("auto", f"{members}, whichever brings most", None))

    def set_proposer(self, command: SetProposer) -> Switched | Asked:
        """Use a proposer from the next pass on. One that cannot be used leaves the one that is on."""
        name = command.name
        if name == "draft" and self.assembly.setup.draft is None:
            return self.switched(command.identity, "No draft model is loaded: load one first.")
        self._agreed, self._question = command.agreed, None
        problem = None
        try:
            self.engine.sequence.proposers = self.assembly.proposers(name, self.engine.target.capacity)
            self.chosen = command.name
        except SpecchatError as error:
            if self._question is not None and not command.agreed:
                return Asked(command.name, self._question, command.identity)
            problem = str(error)
        return self.switched(command.identity, problem)

    def beside(self, name: str) -> Engine | str:
        """An engine of its own for a reply by this proposer, on the target of the chat's; or why there is
        none."""
        self._agreed, self._question = False, None
        try:
            return self.engine.fork(self.assembly.proposers(name, self.engine.target.capacity))
        except SpecchatError as error:
            return self._question or str(error)

    def drop(self, event: ProposerDropped) -> tuple[str, Switched]:
        """A proposer failed in mid-reply, and the engine goes on without it: what to say, and what is on."""
        sentence = self.assembly.drop(event)
        if self.chosen == event.proposer:
            self.chosen = "off"
        return sentence, self.switched(0)

    def set_draft(self, command: SetDraft) -> Switched:
        """Load another draft model and use it, or unload the one that there is."""
        assembly, draft = self.assembly, command.draft
        before = self.chosen
        if any(each.name == "draft" for each in self.engine.sequence.proposers):
            self.engine.sequence.proposers = assembly.proposers("off", self.engine.target.capacity)
        assembly.set_draft(draft)
        wanted = "draft" if draft is not None else "auto" if before == "draft" else before
        switched = self.set_proposer(SetProposer(wanted, identity=command.identity))
        if draft is None or not isinstance(switched, Switched) or switched.problem is None:
            assert isinstance(switched, Switched)
            return switched
        # It does not fit: go on without one, and say why.
        assembly.set_draft(None)
        self.set_proposer(SetProposer("auto" if before == "draft" else before))
        return self.switched(command.identity, switched.problem)
