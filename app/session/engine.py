"""The engine as the chat uses it: what is loaded and speculated with, and what the engine is doing.

state.py shows the states. Nothing that a person chose is lost when an engine dies or is loaded again.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Literal

from app.chat.conversation import End
from app.children import is_native
from app.config.values import LoadSettings
from app.engine.settings import Sampling
from app.process import events
from app.process.client import Link
from app.process.commands import FindDrafts, FindModels, Load, SetDraft, SetK, SetProposer, Small, Task
from app.process.events import Event, ended_by
from app.session.commands import Commands
from app.session.figures import READY, EngineState, LiveFigures
from app.session.speculation import Speculation
from app.session.state import ComparingReplies, LoadingModel, Next, Ready, Replying, State, Stopped
from app.session.view import View

# An engine that has not stopped this long after Esc is started again by the next Esc.
PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How a reply is made. seed None: a new one each time. max_tokens None: as far as the context reaches."""

    sampling: Sampling
    seed: int | None = None
    max_tokens: int | None = None


class EngineControl(ABC):
    """Starts the engine, loads models, and follows its state. What is made with it is a subclass's."""

    def __init__(
        self,
        link: Link,
        view: View,
        deliver: Callable[[Event], None],
        load: LoadSettings,
        generation: GenerationSettings,
        proposer: str,
        k: int | None,
    ) -> None:
        """deliver: brings an event from the link's thread to `handle`."""
        self._commands = Commands(link, deliver)
        self._view = view
        # What is loaded, or is to be: what a person chose last, in the settings, on a list or in a dialogue.
        self.load = load
        self.generation = generation
        self.loaded: events.Loaded | None = None
        self.speculation = Speculation(proposer, k, self._send_to_model, self._speculation_changed)
        self.state: State = Stopped()
        # What the panel shows.
        self.engine = EngineState("loading", "the engine")
        self.figures = LiveFigures(proposer, k)

    # What the chat does about it: break off what is being made, go on with what waited for the model, give
    # back the questions that wait, take an event of what is being made.
    @abstractmethod
    def _break_off(self, end: End, why: events.Cancelled | events.Failed) -> None: ...
    @abstractmethod
    def _model_is_ready(self, then: Next) -> None: ...
    @abstractmethod
    def _give_back(self) -> None: ...
    @abstractmethod
    def _take(self, event: Event) -> None: ...

    @property
    def making(self) -> Literal["reply", "comparison"] | None:
        if isinstance(self.state, Replying):
            return "reply"
        return "comparison" if isinstance(self.state, ComparingReplies) else None

    @property
    def busy(self) -> bool:
        """Whether a reply or a comparison is being made."""
        return self.making is not None

    @property
    def _then(self) -> Next:
        """What waits for a model to be loaded."""
        return self.state.then if isinstance(self.state, (LoadingModel, Stopped)) else "nothing"

    def _plan(self, then: Next) -> None:
        if isinstance(self.state, (LoadingModel, Stopped)):
            self.state = replace(self.state, then=then)

    def _enter(self, new: State) -> None:
        self.state = new
        self._view.state_changed()

    def _show(self, engine: EngineState) -> None:
        self.engine = engine
        self._view.state_changed()

    # What a person chooses -------------------------------------------------------------------

    def start(self) -> None:
        """Start the engine and load the model."""
        self._load(self.load, "the engine")

    def stop(self) -> None:
        """Stop what is being made, and keep what came so far; start another engine where it does not stop."""
        current, now = self.state, time.monotonic()
        if not isinstance(current, (Replying, ComparingReplies)):
            return
        if current.stopped is None:
            self._commands.cancel(current.identity)
            self.state = replace(current, stopped=now)
        elif now - current.stopped > PATIENCE_SECONDS:
            self._view.say("The engine did not stop: it is started again.", "warning")
            self._commands.give_up()
            self.start()

    def reload(self, before: LoadSettings, after: LoadSettings) -> None:
        """Load with other settings; only what differs between them is changed. A reply goes on afterwards."""
        changed = {
            each.name: getattr(after, each.name)
            for each in fields(LoadSettings)
            if getattr(after, each.name) != getattr(before, each.name)
        }
        self._load(replace(self.load, **changed), then="continue" if self.making == "reply" else "nothing")

    def enlarge(self, context_length: int) -> None:
        """Load again with a larger context, then answer, or continue the answer that was cut."""
        self._load(replace(self.load, context_length=context_length), then="continue")

    def use_model(self, load: LoadSettings) -> None:
        """Load another model. A reply that is being made ends there; what came so far is kept."""
        if load.draft is None and self.speculation.proposer == "draft":
            self.speculation.proposer = "auto"
        self._load(load)

    def request(self, command: Small) -> int:
        """Send a command that may be carried out during a reply; the number that its answer will carry."""
        return self._commands.send(command)

    def _load(
        self, load: LoadSettings, what: str = "the model", then: Next = "nothing", died: str = ""
    ) -> None:
        """Load, from any state. What is being made ends there; what waited for a model waits for this one."""
        if self._then != "nothing":
            then = self._then
        if isinstance(self.state, (LoadingModel, Replying, ComparingReplies)):
            self._commands.cancel(self.state.identity)
            self._break_off("cancelled", events.Cancelled(self.state.identity))
        self.load, self.loaded = load, None
        self.engine = EngineState("loading", what)
        fresh = not self._commands.running
        self._enter(LoadingModel(self._commands.send(Load(load, died)), then, bool(died), begun=fresh))

    def _send_to_model(self, command: SetProposer | SetK | SetDraft) -> int:
        """Send what needs a model. What is chosen before there is one goes along with the next reply."""
        if self.loaded is not None:
            return self._commands.send(command)
        if isinstance(command, SetDraft):
            self._view.say("The model is not loaded yet.")
        return 0

    def _speculation_changed(self) -> None:
        self.figures.choose(self.speculation.k, self.speculation.proposer)
        self._view.figures_changed()
        self._view.state_changed()

    # What the engine says --------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Take an event. Those of commands that were given up are left out."""
        command = self._commands.ended(event)
        match event:
            case events.LoadProgress():
                if isinstance(self.state, LoadingModel):
                    self.state = replace(self.state, begun=True)
                self._show(EngineState("loading", event.what, event.share))
            case events.Noted():
                self._view.say(event.sentence, "note")
            case events.Asked():
                self._view.asks(event)
            case events.Switched():
                self._switched(event, command)
            case events.Crashed():
                if self._commands.died(event):
                    self._crashed(event)
            case events.Failed() if isinstance(command, (SetProposer, SetDraft)):
                self._view.say(event.message, "error")
                self._show(READY if self.loaded is not None else self.engine)
            case _ if isinstance(command, (FindDrafts, FindModels)):
                self._view.found(command, event)
            case _ if isinstance(command, Load):
                if isinstance(self.state, LoadingModel) and self.state.identity == ended_by(event):
                    self._load_ended(event, self.state.then)
            case _:
                self._take(event)

    def _load_ended(self, event: Event, then: Next) -> None:
        match event:
            case events.Loaded():
                self.loaded = event
                self.speculation.loaded(event)
                self._show(READY)
                self._enter(Ready())
                self._model_is_ready(then)
            case events.Failed():
                self._enter(Stopped(then))
                self._show(EngineState("stopped"))
                self._give_back()
                self._view.say(event.message, "error")

    def _switched(self, event: events.Switched, command: Task | None) -> None:
        if self.loaded is not None:
            # What was being loaded for the proposer is there, or has failed.
            self._show(READY)
        # The draft is part of what is loaded again, after a crash or with other settings.
        if event.draft is None:
            self.load = replace(self.load, draft=None)
        elif isinstance(command, SetDraft):
            self.load = replace(self.load, draft=command.draft)
        if event.problem:
            self._view.say(event.problem, "warning")
        self.speculation.switched(event)

    def _crashed(self, event: events.Crashed) -> None:
        """The engine has died. One that had a model loads it again. One that died of loading tries other
        settings, but only once: it might die again and again."""
        before = self.state
        if isinstance(before, (Replying, ComparingReplies)):
            self._break_off("crashed", events.Failed(before.identity, f"The engine {event.reason}."))
        self._enter(Stopped(self._then))
        if isinstance(before, LoadingModel) and not before.died and is_native(event.reason):
            self._load(self.load, "the model once more", died=event.reason)
            return
        unheard = isinstance(before, LoadingModel) and not before.begun
        restart = unheard or not isinstance(before, (LoadingModel, Stopped))
        if restart:
            self._load(self.load, "the engine")
        else:
            self._show(EngineState("stopped"))
            self._give_back()
        self._view.crashed(event, restart)
