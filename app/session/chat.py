"""The chat without a screen: what was said, what the engine is doing, and what follows from its events.

It stands between the engine and the panes: commands go out through a Link, and a View is told what to
show. Nothing here knows Textual, so that every path can be walked in a test.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from app.chat.conversation import Answer, Conversation, End, Question
from app.children import is_native
from app.engine.settings import Sampling
from app.process.client import Link
from app.process.messages import (
    Asked,
    Cancel,
    Compare,
    Compared,
    Comparing,
    ComparisonEnded,
    Counted,
    Crashed,
    Done,
    Drafts,
    Event,
    Failed,
    FindModels,
    Generate,
    Load,
    Loaded,
    Loading,
    Models,
    Noted,
    Option,
    Reading,
    SetDraft,
    SetK,
    SetProposer,
    Step,
    Steps,
    Switched,
    TooLong,
)
from app.session.figures import EngineState, LiveFigures
from app.session.growing import Growing, resumable

# A crash loses at most this much of a reply.
SAVE_SECONDS = 1.0
LONGEST_K = 16
# Tokens of each of a comparison's replies where the settings name no limit.
COMPARED_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the next reply is to be made with. seed None: a new one each time."""

    sampling: Sampling
    seed: int | None = None
    max_tokens: int | None = None


class View(Protocol):
    """The screen, as the chat sees it."""

    def asked(self, question: Question) -> None: ...
    def answer_begins(self, begun: Answer | None) -> None: ...
    def answer_grows(self, steps: tuple[Step, ...]) -> None: ...
    def prompt_is_read(self, done: int, total: int) -> None: ...
    def answer_ends(self, answer: Answer) -> None: ...
    def conversation_changed(self) -> None: ...
    def figures_changed(self) -> None: ...
    def state_changed(self) -> None: ...
    def say(self, text: str, kind: str = "information") -> None: ...
    def counted(self, event: Counted) -> None: ...
    def drafts_found(self, event: Drafts) -> None: ...
    def models_found(self, event: Models | Failed) -> None: ...
    def compares(self, event: Comparing | Compared | ComparisonEnded) -> None: ...
    def too_long(self, event: TooLong) -> None: ...
    def context_is_full(self) -> None: ...
    def asks(self, event: Asked) -> None: ...
    def crashed(self, event: Crashed, restarted: bool) -> None: ...


class Chat:
    """One conversation and one engine."""

    def __init__(
        self,
        link: Link,
        view: View,
        deliver: Callable[[Event], None],
        keep: Callable[[Conversation], None],
        load: Load,
        wishes: Wishes,
        proposer: str,
        k: int | None,
    ) -> None:
        """deliver: brings an event from the link's thread to `handle`. keep: stores a conversation."""
        self._link = link
        self._view = view
        self._deliver = deliver
        self._keep = keep
        self.load = load
        self.wishes = wishes
        self.proposer = proposer
        self.k = k
        self.conversation = Conversation()
        self.loaded: Loaded | None = None
        self.options: tuple[Option, ...] = ()
        self.draft: str | None = None
        self.engine = EngineState("loading", "the engine")
        self.figures = LiveFigures(proposer, k)
        # Tokens in the context as of the last reply, and None where they are not known.
        self.used: int | None = None
        self.comparing = False
        self._fixed_k = k or 4
        self._identity = 0
        self._growing: Growing | None = None
        self._waiting = False
        self._dropping = False
        self._again = False
        # The engine's process is not there: it was never started, or has ended.
        self._ended = True
        # What the engine was last told to load.
        self._sent = load
        self._saved = 0.0

    # What a person does ---------------------------------------------------------------------

    @property
    def making(self) -> Literal["reply", "comparison"] | None:
        """What the engine is asked to make and has not finished."""
        return "comparison" if self.comparing else "reply" if self._growing is not None else None

    @property
    def busy(self) -> bool:
        """Whether a reply or a comparison is being made."""
        return self.making is not None

    def start(self) -> None:
        """Start the engine and load the model."""
        self.loaded = None
        self._state(EngineState("loading", "the engine"))
        self._ended = True
        self._send(self.load)

    def reload(self, load: Load) -> None:
        """Load with other settings."""
        self.load = load
        self.loaded = None
        self._state(EngineState("loading", "the model"))
        self._send(load)

    def use_model(self, load: Load) -> None:
        """Load another model. A reply that is being made ends there; what came so far is kept."""
        if self.busy:
            self._link.send(Cancel(self._identity))
        if load.draft is None and self.proposer == "draft":
            self.proposer = "auto"
        self.reload(load)

    def find_models(self, folders: tuple[str, ...]) -> None:
        """Ask which models there are, of an engine that ended as it loaded one too."""
        self._send(FindModels(folders))

    def _send(self, command: Load | FindModels) -> None:
        """Send to an engine that may have to be started first."""
        if isinstance(command, Load):
            self._sent = command
        if self._ended:
            self._ended = False
            self._link.start(self._deliver)
        self._link.send(command)

    def send(self, question: Question) -> None:
        """Ask; where the model is not loaded yet the question waits for it."""
        self.conversation = self.conversation.asked(question)
        self._keep(self.conversation)
        self._view.asked(question)
        self._generate_or_wait()

    def stop(self) -> None:
        """Stop what is being made; what came so far is kept."""
        if self.busy:
            self._link.send(Cancel(self._identity))
        elif self._waiting:
            self._waiting = False
            self._view.say("The question is not sent.")

    def regenerate(self) -> None:
        """Answer the last question again."""
        last = self.conversation.last
        if self.busy or last is None:
            self._view.say(
                "There is nothing to answer again yet." if last is None else f"Stop the {self.making} first."
            )
            return
        self.conversation = self.conversation.answered(None)
        self._keep(self.conversation)
        self._view.conversation_changed()
        self._generate_or_wait()

    def continue_reply(self) -> None:
        """Go on with the last answer where it was cut short."""
        last = self.conversation.last
        if self.busy or last is None:
            return
        if last.answer is None:
            self._generate_or_wait()
        elif last.answer.end == "stop":
            self._view.say("The last answer is complete.")
        elif self.loaded is None:
            self._view.say("The model is not loaded yet.")
        else:
            self._generate(resumable(last.answer))

    def edit_last(self) -> Question | None:
        """Take the last exchange back and give its question to be edited."""
        last = self.conversation.last
        if self.busy or last is None:
            return None
        self.conversation = self.conversation.without_last()
        self._keep(self.conversation)
        self._view.conversation_changed()
        return last.question

    def show(self, conversation: Conversation) -> None:
        """Go on with another conversation."""
        self.conversation = conversation
        self.used = None
        self.figures = LiveFigures(self.proposer, self.k)
        self._view.conversation_changed()
        self._view.figures_changed()

    def drop_oldest(self) -> None:
        """Send as few of the oldest exchanges as makes the prompt fit, and ask again."""
        self._dropping = True
        self._drop_one()

    def enlarge(self, context_length: int) -> None:
        """Load again with a larger context, then answer or go on with the answer that was cut."""
        self._again = True
        self.reload(replace(self.load, context_length=context_length))

    def set_system(self, system: str) -> None:
        """Another system prompt from the next reply on."""
        self.conversation = replace(self.conversation, system=system)
        self._keep(self.conversation)

    def next_proposer(self) -> None:
        """Use the next proposer that can be used."""
        usable = [option.name for option in self.options if option.problem is None]
        if usable:
            place = usable.index(self.proposer) + 1 if self.proposer in usable else 0
            self.set_proposer(usable[place % len(usable)])

    def set_proposer(self, name: str, agreed: bool = False) -> None:
        self.proposer = name
        self._link.send(SetProposer(name, agreed))
        self._chosen()

    def set_k(self, k: int | None) -> None:
        """Fix the draft length, from 1 to LONGEST_K, or leave it to the controller (None)."""
        self.k = k if k is None else max(1, min(k, LONGEST_K))
        if self.k is not None:
            self._fixed_k = self.k
        self._link.send(SetK(self.k))
        self._chosen()

    def toggle_k(self) -> None:
        """The controller's draft length, or the one that was fixed last."""
        self.set_k(self._fixed_k if self.k is None else None)

    def change_k(self, step: int) -> None:
        """One token more or less; less than one is the controller's."""
        k = (self.k or 0) + step
        self.set_k(k if k > 0 else None)

    def set_draft(self, draft: str | None) -> None:
        """Load a draft model, or unload the one that is loaded."""
        self._link.send(SetDraft(draft))

    def compare(self) -> Compare | None:
        """Answer the last question with each proposer that can be used. None where that cannot be now."""
        last = self.conversation.last
        names = tuple(option.name for option in self.options if option.problem is None)
        if self.busy or last is None or self.loaded is None or not names:
            return None
        self._identity += 1
        self.comparing = True
        figures = last.answer.figures if last.answer else None
        seed = figures.seed if figures else secrets.randbits(32)
        limit = self.wishes.max_tokens or COMPARED_TOKENS
        messages = self.conversation.messages()
        command = Compare(self._identity, messages, self.wishes.sampling, seed, names, self.k, limit)
        self._link.send(command)
        self._view.state_changed()
        return command

    # What the engine says -------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Take an event. Those of replies that are over or were given up are left out."""
        identity = getattr(event, "identity", None)
        if isinstance(event, Counted):
            self._view.counted(event)
        elif isinstance(event, Failed):
            self._failed(event)
        elif identity is not None and identity != self._identity:
            return
        elif isinstance(event, Steps):
            self._grow(event)
        elif isinstance(event, Reading):
            self.figures.prefill(event.prefill)
            self.used = event.prefill.total + 1
            self._view.prompt_is_read(event.prefill.done, event.prefill.total)
            self._view.figures_changed()
        elif isinstance(event, Done):
            self._end(event)
        elif isinstance(event, TooLong):
            self._too_long(event)
        elif isinstance(event, (Comparing, Compared, ComparisonEnded)):
            if isinstance(event, ComparisonEnded):
                self.comparing = False
                # What was written for one of its proposers was told as being loaded.
                self._state(EngineState())
            self._view.compares(event)
        elif isinstance(event, Loading):
            self._state(EngineState("loading", event.what, event.share))
        elif isinstance(event, Noted):
            self._view.say(event.sentence, "note")
        elif isinstance(event, Loaded):
            self._is_loaded(event)
        elif isinstance(event, Switched):
            self._switched(event)
        elif isinstance(event, Asked):
            self._view.asks(event)
        elif isinstance(event, Drafts):
            self._view.drafts_found(event)
        elif isinstance(event, Models):
            self._view.models_found(event)
        else:
            self._crashed(event)

    def _generate_or_wait(self) -> None:
        if self.loaded is None:
            self._waiting = True
            self._view.say("It is sent as soon as the model is loaded.")
        else:
            self._generate()

    def _generate(self, begun: Answer | None = None) -> None:
        self._waiting = False
        self._identity += 1
        self._growing = Growing(begun)
        self._saved = time.monotonic()
        self.figures.begin(self.k, self.proposer)
        self._view.answer_begins(begun)
        wishes = self.wishes
        self._link.send(
            Generate(
                identity=self._identity,
                messages=self.conversation.messages(),
                sampling=wishes.sampling,
                seed=secrets.randbits(32) if wishes.seed is None else wishes.seed,
                proposer=self.proposer,
                k=self.k,
                max_tokens=wishes.max_tokens,
                begun=begun.token_ids if begun else (),
            )
        )
        self._view.state_changed()
        self._view.figures_changed()

    def _grow(self, event: Steps) -> None:
        if self._growing is None:
            return
        self._growing.extend(event.steps)
        for step in event.steps:
            self.figures.record(step.entry)
            self.used = (self.used or 0) + len(step.entry.tokens)
        self.figures.measured(event.plain_seconds)
        self._view.answer_grows(event.steps)
        self._view.figures_changed()
        now = time.monotonic()
        if now - self._saved >= SAVE_SECONDS:
            self._saved = now
            self._keep(self.conversation.answered(self._growing.so_far()))

    def _end(self, event: Done) -> None:
        if self._growing is None:
            return
        finished = event.finished
        answer = self._growing.finish(finished)
        self.figures.finish(finished)
        # The last token has not been read yet: where the reply filled the context it is one too many.
        self.used = finished.prompt_tokens + len(finished.token_ids) - (finished.reason == "context")
        self._answered(answer)
        if finished.reason == "context":
            self._view.context_is_full()

    def _answered(self, answer: Answer | None) -> None:
        self._growing = None
        self._dropping = False
        if answer is not None and (answer.token_ids or answer.end == "stop"):
            self.conversation = self.conversation.answered(answer)
            self._view.answer_ends(answer)
        else:
            # Stopped before a word came: the question stands without an answer.
            self._view.conversation_changed()
        self._keep(self.conversation)
        self._view.figures_changed()
        self._view.state_changed()

    def _cut_short(self, end: End) -> None:
        """The growing reply ends without the engine's last word."""
        self.figures.stop()
        if self._growing is not None:
            self._answered(self._growing.so_far(end))

    def _too_long(self, event: TooLong) -> None:
        droppable = len(self.conversation.exchanges) - 1 - self.conversation.unsent
        if self._dropping and droppable > 0:
            self._growing = None
            self._drop_one()
            return
        self.used = event.tokens
        self._cut_short(None)
        self._view.too_long(event)

    def _drop_one(self) -> None:
        self.conversation = self.conversation.dropping(1)
        last = self.conversation.last
        answer = last.answer if last else None
        self._view.conversation_changed()
        self._generate(resumable(answer) if answer else None)

    def _is_loaded(self, event: Loaded) -> None:
        self.loaded, self.options, self.draft = event, event.options, event.draft
        self._state(EngineState())
        self._view.figures_changed()
        if self._waiting:
            self._generate()
        elif self._again:
            self.continue_reply()
        self._again = False

    def _switched(self, event: Switched) -> None:
        self.proposer, self.options, self.draft = event.proposer, event.options, event.draft
        if self.loaded is not None:
            # What was being loaded for the proposer is there, or has failed.
            self._state(EngineState())
        # The draft is part of what is loaded again after a crash.
        if event.draft is None:
            self.load = replace(self.load, draft=None)
        if event.problem:
            self._view.say(event.problem, "warning")
        self._chosen()

    def _chosen(self) -> None:
        self.figures.choose(self.k, self.proposer)
        self._view.figures_changed()
        self._view.state_changed()

    def _failed(self, event: Failed) -> None:
        if event.identity is not None and event.identity != self._identity:
            return
        if event.command == "FindModels":
            self._view.models_found(event)
            return
        if event.command == "Load":
            self._waiting = False
            self._state(EngineState("stopped"))
        else:
            self._cut_short("crashed" if self._growing and self._growing.tokens else None)
        self._view.say(event.message, "error")
        self._view.state_changed()

    def _crashed(self, event: Crashed) -> None:
        # A model that kills the engine as it is loaded is tried once more, then it would do so for ever.
        restart = self.loaded is not None
        may_live = not restart and not self._sent.died and is_native(event.reason)
        self._ended = True
        self.loaded = None
        if self.comparing:
            again = f"The engine {event.reason}: press F5 to compare again."
            self.handle(ComparisonEnded(self._identity, "failed", again))
        self._cut_short("crashed")
        self._state(EngineState("stopped"))
        if may_live:
            self._state(EngineState("loading", "the model once more"))
            self._send(replace(self.load, died=event.reason))
            return
        if restart:
            self.start()
        self._view.crashed(event, restart)

    def _state(self, state: EngineState) -> None:
        self.engine = state
        self._view.state_changed()
