"""The chat without a screen: what was said, what the engine is doing, and what follows from its events.

It stands between the engine and the panes: commands go out through a Link, and a View is told what to
show. Nothing here knows Textual, so that every path can be walked in a test. What the engine is about is one
State; each event and each wish of a person leads from one to the next.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Literal

from app.chat.conversation import Answer, Conversation, End, Question
from app.children import is_native
from app.config.values import LoadSettings
from app.engine.settings import Sampling
from app.process.client import Link
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
    Task,
)
from app.process.events import (
    Asked,
    Cancelled,
    Compared,
    ComparisonEnded,
    ComparisonProgress,
    Counted,
    Crashed,
    Done,
    Drafts,
    Event,
    Failed,
    Loaded,
    LoadProgress,
    Models,
    Noted,
    PromptProgress,
    Shortened,
    Steps,
    Switched,
    TooLong,
    ended_by,
)
from app.session import state
from app.session.commands import Commands
from app.session.figures import READY, EngineState, LiveFigures
from app.session.growing import Growing, resumable
from app.session.speculation import Speculation
from app.session.state import Next, State
from app.session.view import View

# A crash loses at most this much of a reply.
SAVE_SECONDS = 1.0
# Tokens of each of a comparison's replies where the settings name no limit.
COMPARED_TOKENS = 256
# An engine that has not stopped for so long after Esc is started again by the next one.
PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the next reply is to be made with. seed None: a new one each time."""

    sampling: Sampling
    seed: int | None = None
    max_tokens: int | None = None


class Chat:
    """One conversation and one engine."""

    def __init__(
        self,
        link: Link,
        view: View,
        deliver: Callable[[Event], None],
        keep: Callable[[Conversation], None],
        load: LoadSettings,
        wishes: Wishes,
        proposer: str,
        k: int | None,
    ) -> None:
        """deliver: brings an event from the link's thread to `handle`. keep: stores a conversation."""
        self._commands = Commands(link, deliver)
        self._view = view
        self._keep = keep
        # What is loaded, or is to be: what a person chose last, in the settings, on a list or in a dialogue.
        self.load = load
        self.wishes = wishes
        # A question that is answered by wishes of its own.
        self._own: tuple[Question, Wishes] | None = None
        self.speculation = Speculation(proposer, k, self._send_to_model, self._speculation_changed)
        self.conversation = Conversation()
        self.state: State = state.Stopped(running=False)
        # Questions that wait for the reply that is being made.
        self.queued: tuple[Question, ...] = ()
        self.loaded: Loaded | None = None
        # What the panel shows of the engine.
        self.engine = EngineState("loading", "the engine")
        self.figures = LiveFigures(proposer, k)
        # Tokens of the conversation as it would be sent, and None where they are not known.
        self.used: int | None = None
        self._measuring = 0
        self._saved = 0.0

    # What a person does ---------------------------------------------------------------------

    @property
    def making(self) -> Literal["reply", "comparison"] | None:
        """What the engine is asked to make and has not finished."""
        if isinstance(self.state, state.Replying):
            return "reply"
        return "comparison" if isinstance(self.state, state.Comparing) else None

    @property
    def busy(self) -> bool:
        """Whether a reply or a comparison is being made."""
        return self.making is not None

    def start(self) -> None:
        """Start the engine and load the model."""
        self._load(self.load, "the engine")

    def reload(self, before: LoadSettings, after: LoadSettings) -> None:
        """Load with other settings: what they change, and all else as it is. A reply goes on behind it."""
        changed = {
            each.name: getattr(after, each.name)
            for each in fields(LoadSettings)
            if getattr(after, each.name) != getattr(before, each.name)
        }
        self._load(replace(self.load, **changed), then="continue" if self.making == "reply" else "nothing")

    def use_model(self, load: LoadSettings) -> None:
        """Load another model. A reply that is being made ends there; what came so far is kept."""
        if load.draft is None and self.speculation.proposer == "draft":
            self.speculation.proposer = "auto"
        self._load(load)

    def find_models(self, folders: tuple[str, ...]) -> None:
        """Ask which models there are, of an engine that has ended too."""
        self._send(FindModels(folders))

    def find_drafts(self, folders: tuple[str, ...]) -> None:
        """Ask which files could draft."""
        self._send(FindDrafts(folders))

    def count(self, text: str) -> int:
        """Ask how many tokens a text has; the number that Counted will carry."""
        return self._send(Count(text=text))

    def send(self, question: Question, wishes: Wishes | None = None) -> None:
        """Ask now, or as soon as the model is loaded; what is asked meanwhile waits for the reply.

        wishes: for the first answer to this question, in place of the chat's.
        """
        if wishes is not None:
            self._own = question, wishes
        if self.busy or self._next != "nothing":
            self.queued = (*self.queued, question)
            self._view.queue_changed()
            return
        self.conversation = self.conversation.asked(question)
        self._keep(self.conversation)
        self._view.asked(question)
        self._answer()

    def stop(self) -> None:
        """Take back what waits; where nothing does, stop what is being made and keep what came so far."""
        now = time.monotonic()
        if self.queued:
            self._give_back()
        elif isinstance(self.state, (state.Replying, state.Comparing)):
            if self.state.stopped is None:
                self._commands.cancel(self.state.identity)
                self.state = replace(self.state, stopped=now)
            elif now - self.state.stopped > PATIENCE_SECONDS:
                self._view.say("The engine did not stop: it is started again.", "warning")
                self._load(self.load, "the engine", restart=True)
        elif self._next != "nothing":
            self._then("nothing")
            self._view.say("The question is not sent.")

    def regenerate(self) -> None:
        """Answer the last question again."""
        last = self.conversation.last
        if self.busy or last is None:
            self._view.say(
                "There is nothing to answer again yet." if last is None else f"Stop the {self.making} first."
            )
            return
        self._own = None
        self._ask_again(self.conversation.with_version())

    def continue_reply(self) -> None:
        """Go on with the last answer where it was cut short."""
        last = self.conversation.last
        if self.busy or last is None:
            return
        if last.answer is not None and last.answer.end == "stop":
            self._view.say("The last answer is complete.")
        else:
            self._answer("answer" if last.answer is None else "continue")

    def edit_last(self) -> Question | None:
        """The last question, to be edited; nothing changes until `send_edited`. None where it cannot be."""
        last = self.conversation.last
        if self.busy or last is None:
            self._view.say(
                "There is nothing to edit yet." if last is None else f"Stop the {self.making} first."
            )
            return None
        return last.question

    def send_edited(self, before: Question, question: Question) -> None:
        """Ask this as another version of the last question, which was `before` in some version.

        It goes back where that is no longer the last, or is being answered by now.
        """
        last = self.conversation.last
        if self.busy or last is None or before not in last.questions:
            self._view.gives_back((question,))
            self._view.say(f"Stop the {self.making} first." if self.busy else "That message is not the last.")
        else:
            self._ask_again(self.conversation.with_version(question))

    def walk_versions(self, step: int, index: int | None = None) -> None:
        """Show the version before (-1) or after (1) of the exchange at `index`, None for the last that has
        several."""
        index = self.conversation.last_versioned if index is None else index
        if index is None:
            self._view.say("No message has another version yet: regenerate or edit one.")
            return
        before = self.conversation
        shown = before.exchanges[index]
        if not 1 <= shown.version + step <= shown.versions:
            self._view.say(f"This is the {'first' if step < 0 else 'last'} version.")
        elif self._show_version(before.show_version(index, shown.version + step)) and shown != before.last:
            self._view.say("What followed the other version stays with it.", "note")

    def delete_version(self) -> None:
        """Delete the version of the last exchange that is shown, and show the one before."""
        last = self.conversation.last
        if last is None or last.versions == 1:
            self._view.say("The last message has only this version.")
        else:
            self._show_version(self.conversation.without_version())

    def _show_version(self, conversation: Conversation) -> bool:
        if self.busy or self._next != "nothing":
            self._view.say(f"Stop the {self.making} first." if self.busy else "Your message is not sent yet.")
            return False
        self._change(conversation)
        self._measure()
        return True

    def _ask_again(self, conversation: Conversation) -> None:
        self._change(conversation)
        self._answer()

    def _change(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._keep(conversation)
        self._view.conversation_changed()

    def show(self, conversation: Conversation) -> None:
        """Go on with another conversation; a question that waited for the model stays in its own, unanswered.

        Raises ValueError while something is being made: it would go on in the wrong one.
        """
        if self.busy:
            raise ValueError(f"a {self.making} is being made")
        self._give_back()
        self._then("nothing")
        self.conversation = conversation
        self.figures = LiveFigures(self.speculation.proposer, self.speculation.k)
        self._view.conversation_changed()
        self._measure()

    def drop_oldest(self) -> None:
        """Send as few of the oldest exchanges as makes the prompt fit, and ask again."""
        last = self.conversation.last
        if isinstance(self.state, state.Ready) and last is not None:
            self._generate(resumable(last.answer) if last.answer else None, shorten=True)

    def enlarge(self, context_length: int) -> None:
        """Load again with a larger context, then answer or go on with the answer that was cut."""
        self._load(replace(self.load, context_length=context_length), then="continue")

    def set_system(self, system: str) -> None:
        """Another system prompt from the next reply on."""
        self.conversation = replace(self.conversation, system=system)
        self._keep(self.conversation)
        self._measure()

    def compare(self) -> Compare | None:
        """Answer the last question with each proposer that can be used. None where that cannot be now."""
        last = self.conversation.last
        names = tuple(option.name for option in self.speculation.options if option.problem is None)
        if not isinstance(self.state, state.Ready) or last is None or not names:
            return None
        figures = last.answer.figures if last.answer else None
        seed = figures.seed if figures else secrets.randbits(32)
        wishes = self._wishes_for(last.question)
        limit = wishes.max_tokens or COMPARED_TOKENS
        messages = self.conversation.messages()
        command = Compare(0, messages, wishes.sampling, seed, names, self.speculation.k, limit)
        self.state = state.Comparing(self._send(command))
        self._view.state_changed()
        return command

    # What the engine says -------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Take an event. Those of replies that are over or were given up are left out."""
        command = self._commands.ended(event)
        match event:
            case LoadProgress():
                self._show(EngineState("loading", event.what, event.share))
            case Noted():
                self._view.say(event.sentence, "note")
            case Loaded():
                self._is_loaded(event)
            case Switched():
                self._switched(event, command)
            case Asked():
                self._view.asks(event)
            case Drafts():
                self._view.drafts_found(event)
            case Models():
                self._view.models_found(event)
            case Counted():
                self._counted(event)
            case Crashed():
                if self._commands.is_of_this_run(event):
                    self._crashed(event)
            case Failed():
                self._failed(event, command)
            case Shortened() | PromptProgress() | Steps() | Done() | TooLong():
                if isinstance(self.state, state.Replying) and self.state.identity == event.identity:
                    self._replies(event, self.state.growing)
            case ComparisonProgress() | Compared() | ComparisonEnded():
                self._compares(event)
                self._go_on()
            case Cancelled():
                if isinstance(self.state, state.Replying) and self.state.identity == event.identity:
                    self._cut_short("cancelled")
                self._compares(event)
                self._go_on()

    def _replies(self, event: Shortened | PromptProgress | Steps | Done | TooLong, growing: Growing) -> None:
        match event:
            case Shortened():
                if event.exchanges:
                    self.conversation = self.conversation.dropping(event.exchanges)
                    self._keep(self.conversation)
                    self._view.conversation_changed()
                    self._view.answer_begins(growing.begun)
            case PromptProgress():
                self.figures.prefill(event.prefill)
                self.used = event.prefill.total + 1
                self._view.prompt_is_read(event.prefill.done, event.prefill.total)
                self._view.figures_changed()
            case Steps():
                self._grow(event, growing)
            case Done():
                self._end(event, growing)
            case TooLong():
                self._cut_short(None)
                self.used = event.tokens
                self._view.figures_changed()
                self._view.too_long(event)

    def _grow(self, event: Steps, growing: Growing) -> None:
        growing.extend(event.steps)
        for step in event.steps:
            self.figures.record(step.entry)
            self.used = (self.used or 0) + len(step.entry.tokens)
        self.figures.measured(event.plain_seconds)
        self._view.answer_grows(event.steps)
        self._view.figures_changed()
        now = time.monotonic()
        if now - self._saved >= SAVE_SECONDS:
            self._saved = now
            self._keep(self.conversation.answered(growing.so_far()))

    def _end(self, event: Done, growing: Growing) -> None:
        finished = event.finished
        self.figures.finish(finished)
        # The last token has not been read yet: where the reply filled the context it is one too many.
        self.used = finished.prompt_tokens + len(finished.token_ids) - (finished.reason == "context")
        self._answered(growing.finish(finished))
        if finished.reason == "context":
            self._view.context_is_full()

    def _cut_short(self, end: End) -> None:
        """The growing reply ends without the engine's last word."""
        self.figures.stop()
        if isinstance(self.state, state.Replying):
            self._answered(self.state.growing.so_far(end))

    def _answered(self, answer: Answer) -> None:
        """A reply has ended: keep it, and go on with what waits; where something is amiss, give that back."""
        if answer.token_ids or answer.end == "stop":
            self.conversation = self.conversation.answered(answer)
            self._view.answer_ends(answer)
        else:
            # Stopped before a word came: the question stands without an answer.
            self._view.conversation_changed()
        self._keep(self.conversation)
        self._enter(state.Ready())
        self._view.figures_changed()
        if answer.end in ("stop", "length", "stop_string"):
            self._go_on()
        else:
            self._give_back()

    def _compares(self, event: ComparisonProgress | Compared | ComparisonEnded | Cancelled | Failed) -> None:
        """A comparison's event; any that ends it does so for the screen too."""
        if isinstance(self.state, state.Comparing) and self.state.identity == event.identity:
            if self.engine != READY:
                # What one of its proposers needed was told as being loaded, and is there.
                self._show(READY)
            if ended_by(event):
                self._enter(state.Ready())
            # A dialogue is painted with what is behind it, so this comes last.
            self._view.compares(event)

    def _is_loaded(self, event: Loaded) -> None:
        if not isinstance(self.state, state.Loading) or self.state.identity != event.identity:
            return
        then = self.state.then
        self.loaded = event
        self.speculation.loaded(event)
        self._show(READY)
        self._enter(state.Ready())
        self._view.figures_changed()
        self._measure()
        if then != "nothing":
            self._answer(then)
        self._go_on()

    def _switched(self, event: Switched, command: Task | None) -> None:
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

    def _speculation_changed(self) -> None:
        self.figures.choose(self.speculation.k, self.speculation.proposer)
        self._view.figures_changed()
        self._view.state_changed()

    def _counted(self, event: Counted) -> None:
        if event.identity == self._measuring and not self.busy:
            self.used = event.tokens
            self._view.figures_changed()
        self._view.counted(event)

    def _failed(self, event: Failed, command: Task | None) -> None:
        """A command has failed: that one ends, and nothing else does."""
        current = self.state
        if isinstance(command, FindModels):
            self._view.models_found(event)
        elif isinstance(command, FindDrafts):
            self._view.drafts_found(event)
        elif isinstance(command, (SetProposer, SetDraft)):
            self._view.say(event.message, "error")
            self._show(READY if self.loaded is not None else self.engine)
        elif isinstance(current, state.Comparing):
            self._compares(event)
            self._go_on()
        elif isinstance(current, state.Loading) and current.identity == event.identity:
            self._enter(state.Stopped(running=True, then=current.then))
            self._show(EngineState("stopped"))
            self._give_back()
            self._view.say(event.message, "error")
        elif isinstance(current, state.Replying) and current.identity == event.identity:
            self._cut_short("crashed" if current.growing.tokens else None)
            self._view.say(event.message, "error")

    def _crashed(self, event: Crashed) -> None:
        """The engine has died. One that had a model loads it again; one that died of loading it tries other
        settings once, as it would die for ever."""
        current = self.state
        self._cut_short("crashed")
        if isinstance(current, state.Comparing):
            self._compares(Failed(current.identity, f"The engine {event.reason}."))
        self._enter(state.Stopped(running=False, then=self._next))
        if isinstance(current, state.Loading) and not current.died and is_native(event.reason):
            self._load(self.load, "the model once more", died=event.reason)
            return
        restart = not isinstance(current, (state.Loading, state.Stopped))
        if restart:
            self._load(self.load, "the engine")
        else:
            self._show(EngineState("stopped"))
            self._give_back()
        self._view.crashed(event, restart)

    # From state to state ----------------------------------------------------------------------

    @property
    def _next(self) -> Next:
        """What waits for a model to be loaded."""
        return self.state.then if isinstance(self.state, (state.Loading, state.Stopped)) else "nothing"

    def _then(self, then: Next) -> None:
        if isinstance(self.state, (state.Loading, state.Stopped)):
            self.state = replace(self.state, then=then)

    def _enter(self, new: State) -> None:
        self.state = new
        self._view.state_changed()

    def _show(self, engine: EngineState) -> None:
        self.engine = engine
        self._view.state_changed()

    def _send(self, command: Task) -> int:
        """Send a command, to an engine that may have to be started first; its number."""
        if isinstance(self.state, state.Stopped) and not self.state.running:
            self.state = replace(self.state, running=True)
            self._commands.start()
        return self._commands.send(command)

    def _send_to_model(self, command: SetProposer | SetK | SetDraft) -> int:
        """What a model has to be there for. What is chosen before goes along with the next reply."""
        if self.loaded is not None:
            return self._commands.send(command)
        if isinstance(command, SetDraft):
            self._view.say("The model is not loaded yet.")
        return 0

    def _load(
        self,
        load: LoadSettings,
        what: str = "the model",
        then: Next = "nothing",
        died: str = "",
        restart: bool = False,
    ) -> None:
        """Load, from any state. What is being made ends there, and what waited waits for this."""
        if isinstance(self.state, (state.Loading, state.Replying, state.Comparing)):
            self._commands.cancel(self.state.identity)
        if self._next != "nothing":
            then = self._next
        if isinstance(self.state, state.Comparing):
            self._compares(Cancelled(self.state.identity))
        self._cut_short("cancelled")
        if restart:
            self.state = state.Stopped(running=False)
        self.load, self.loaded = load, None
        self.engine = EngineState("loading", what)
        self._enter(state.Loading(self._send(Load(load, died)), then, bool(died)))

    def _answer(self, how: Next = "answer") -> None:
        """Answer the last question, or go on with its answer, now or once a model is loaded."""
        last = self.conversation.last
        if last is None:
            return
        if not isinstance(self.state, state.Ready):
            self._then(how)
            self._view.say("It is sent as soon as the model is loaded.")
        else:
            self._generate(resumable(last.answer) if last.answer and how == "continue" else None)

    def _generate(self, begun: Answer | None = None, shorten: bool = False) -> None:
        self._saved = time.monotonic()
        self.figures.begin(self.speculation.k, self.speculation.proposer)
        self._view.answer_begins(begun)
        wishes = self._wishes_for(self.conversation.exchanges[-1].question)
        command = Generate(
            identity=0,
            messages=self.conversation.messages(),
            sampling=wishes.sampling,
            seed=secrets.randbits(32) if wishes.seed is None else wishes.seed,
            proposer=self.speculation.proposer,
            k=self.speculation.k,
            max_tokens=wishes.max_tokens,
            begun=begun.token_ids if begun else (),
            shorten=shorten,
        )
        self._enter(state.Replying(self._send(command), Growing(begun)))
        self._view.figures_changed()

    def _wishes_for(self, question: Question) -> Wishes:
        # By identity: the same words, asked by the person, are answered as any others.
        return self._own[1] if self._own is not None and self._own[0] is question else self.wishes

    def _go_on(self) -> None:
        """Ask what waited for the engine, once nothing else is done."""
        if self.queued and isinstance(self.state, state.Ready):
            question, self.queued = self.queued[0], self.queued[1:]
            self._view.queue_changed()
            self.send(question)

    def _give_back(self) -> None:
        """What waited goes back to where it was written."""
        if self.queued:
            questions, self.queued = self.queued, ()
            self._view.gives_back(questions)
            self._view.queue_changed()

    def _measure(self) -> None:
        """Find out how many tokens the conversation has, as it would be sent now."""
        self._measuring, self.used = 0, None if self.conversation.exchanges else 0
        if self.loaded is not None and not self.busy and self.conversation.exchanges:
            self._measuring = self._send(Count(messages=self.conversation.spoken()))
        self._view.figures_changed()
