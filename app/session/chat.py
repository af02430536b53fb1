"""The chat without a screen: what was said, and what a person does with it.

It stands between the engine and the screen: commands go out through a Link, and a View is told what to show.
Nothing here knows Textual, so that every path can be walked in a test.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import replace

from app.chat.conversation import Answer, Conversation, End, Question
from app.process import events
from app.process.commands import Compare, Count, Generate
from app.process.events import Event, ended_by
from app.session.engine import EngineControl, GenerationSettings
from app.session.figures import READY, LiveFigures
from app.session.state import ComparingReplies, ComparisonEvent, Next, Ready, ReplyEvent, Replying
from app.session.streaming import StreamingReply, resumable

# A crash loses at most this much of a reply.
SAVE_SECONDS = 1.0
# Tokens of each of a comparison's replies, where the settings have no limit.
COMPARED_TOKENS = 256


class Chat(EngineControl):
    """One conversation and one engine."""

    conversation = Conversation()
    # Questions that wait for what is being made.
    queued: tuple[Question, ...] = ()
    # A question whose answer is made with settings of its own.
    _own: tuple[Question, GenerationSettings] | None = None
    # The number of the count whose answer is the size of the conversation.
    _count = 0
    _saved = 0.0

    # Questions and answers -------------------------------------------------------------------

    def send(self, question: Question, generation: GenerationSettings | None = None) -> None:
        """Ask now, or as soon as the model is loaded; what is asked during a reply waits for its end.

        generation: for the first answer to this question, in place of the chat's.
        """
        if generation is not None:
            self._own = question, generation
        if self.busy or self._then != "nothing":
            self.queued = (*self.queued, question)
            self._view.queue_changed()
            return
        self.conversation = self.conversation.asked(question)
        self._view.keep(self.conversation)
        self._view.asked(question)
        self._answer()

    def stop(self) -> None:
        """Take back what waits; where nothing does, stop what is being made and keep what came so far."""
        if self.queued:
            self._give_back()
        elif self._then != "nothing":
            self._plan("nothing")
            self._view.say("The question is not sent.")
        else:
            super().stop()

    def regenerate(self) -> None:
        """Answer the last question again."""
        if not self._refuses("There is nothing to answer again yet."):
            self._own = None
            self._ask_again(self.conversation.with_version())

    def continue_reply(self) -> None:
        """Continue the last answer where it was cut short."""
        last = self.conversation.last
        if self.busy or last is None:
            return
        if last.answer is not None and last.answer.end == "stop":
            self._view.say("The last answer is complete.")
        else:
            self._answer("answer" if last.answer is None else "continue")

    def drop_oldest(self) -> None:
        """Send as few of the oldest exchanges as makes the prompt fit, and ask again."""
        last = self.conversation.last
        if isinstance(self.state, Ready) and last is not None:
            self._generate(resumable(last.answer) if last.answer else None, shorten=True)

    def compare(self) -> Compare | None:
        """Answer the last question with each proposer that can be used. None where that cannot be now."""
        last = self.conversation.last
        names = tuple(option.name for option in self.speculation.options if option.problem is None)
        if not isinstance(self.state, Ready) or last is None or not names:
            return None
        figures = last.answer.figures if last.answer else None
        generation = self._generation_for(last.question)
        command = Compare(
            identity=0,
            messages=self.conversation.messages(),
            sampling=generation.sampling,
            seed=figures.seed if figures else secrets.randbits(32),
            proposers=names,
            k=self.speculation.k,
            max_tokens=generation.max_tokens or COMPARED_TOKENS,
        )
        self._enter(ComparingReplies(self._commands.send(command)))
        return command

    def _ask_again(self, conversation: Conversation) -> None:
        self._change(conversation)
        self._answer()

    def _answer(self, how: Next = "answer") -> None:
        """Answer the last question, or continue its answer, now or once a model is loaded."""
        last = self.conversation.last
        if last is None:
            return
        if not isinstance(self.state, Ready):
            self._plan(how)
            self._view.say("It is sent as soon as the model is loaded.")
        else:
            self._generate(resumable(last.answer) if last.answer and how == "continue" else None)

    def _generate(self, begun: Answer | None = None, shorten: bool = False) -> None:
        self._saved, self._count = time.monotonic(), 0
        self.figures.begin(self.speculation.k, self.speculation.proposer)
        self._view.answer_begins(begun)
        generation = self._generation_for(self.conversation.exchanges[-1].question)
        command = Generate(
            identity=0,
            messages=self.conversation.messages(),
            sampling=generation.sampling,
            seed=secrets.randbits(32) if generation.seed is None else generation.seed,
            proposer=self.speculation.proposer,
            k=self.speculation.k,
            max_tokens=generation.max_tokens,
            begun=begun.token_ids if begun else (),
            begun_text=begun.text if begun else "",
            shorten=shorten,
        )
        self._enter(Replying(self._commands.send(command), StreamingReply(begun)))
        self._view.figures_changed()

    def _generation_for(self, question: Question) -> GenerationSettings:
        # By identity: the same words, asked by the person, are answered as any others.
        return self._own[1] if self._own is not None and self._own[0] is question else self.generation

    def _ask_next(self) -> None:
        """Ask the first question that waits, if nothing is being made."""
        if self.queued and isinstance(self.state, Ready):
            question, self.queued = self.queued[0], self.queued[1:]
            self._view.queue_changed()
            self.send(question)

    def _give_back(self) -> None:
        if self.queued:
            questions, self.queued = self.queued, ()
            self._view.gives_back(questions)
            self._view.queue_changed()

    # The conversation and its versions -------------------------------------------------------

    def show(self, conversation: Conversation) -> None:
        """Switch to another conversation; a question that waits for the model stays in its own, unanswered.

        Raises ValueError while something is being made, which would end up in the wrong conversation.
        """
        if self.busy:
            raise ValueError(f"a {self.making} is being made")
        self._give_back()
        self._plan("nothing")
        self.conversation = conversation
        self.figures = LiveFigures(self.speculation.proposer, self.speculation.k)
        self._view.conversation_changed()
        self._measure()

    def set_system(self, system: str) -> None:
        """Another system prompt, from the next reply on."""
        self.conversation = replace(self.conversation, system=system)
        self._view.keep(self.conversation)
        self._measure()

    def edit_last(self) -> Question | None:
        """The last question, to be edited; nothing changes until `send_edited`. None where it cannot be."""
        refused = self._refuses("There is nothing to edit yet.")
        return None if refused else self.conversation.exchanges[-1].question

    def send_edited(self, before: Question, question: Question) -> None:
        """Ask this as another version of the last question, which was `before` in some version.

        Where that is no longer the last, or is being answered by now, the question goes back to the prompt.
        """
        last = self.conversation.last
        if last is not None and before not in last.questions and not self.busy:
            self._view.say("That message is not the last.")
        elif not self._refuses("That message is not the last."):
            self._ask_again(self.conversation.with_version(question))
            return
        self._view.gives_back((question,))

    def walk_versions(self, step: int, index: int | None = None) -> None:
        """Show the version before (-1) or after (1) of the exchange at `index`, None for the last that has
        several."""
        index = self.conversation.last_versioned if index is None else index
        if index is None:
            self._view.say("No message has another version yet: regenerate or edit one.")
            return
        shown = self.conversation.exchanges[index]
        followed = index < len(self.conversation.exchanges) - 1
        if not 1 <= shown.version + step <= shown.versions:
            self._view.say(f"This is the {'first' if step < 0 else 'last'} version.")
        elif self._look_at(self.conversation.show_version(index, shown.version + step)) and followed:
            self._view.say("What followed the other version stays with it.", "note")

    def delete_version(self) -> None:
        """Delete the version of the last exchange that is shown, and show the one before."""
        last = self.conversation.last
        if last is None or last.versions == 1:
            self._view.say("The last message has only this version.")
        else:
            self._look_at(self.conversation.without_version())

    def _look_at(self, conversation: Conversation) -> bool:
        """Show other versions of this conversation; False where that cannot be done now."""
        if self._then != "nothing":
            self._view.say("Your message is not sent yet.")
        elif not self._refuses(""):
            self._change(conversation)
            self._measure()
            return True
        return False

    def _refuses(self, nothing: str) -> bool:
        """Whether the last exchange cannot be changed now, and says why: `nothing` where there is none."""
        if self.busy or self.conversation.last is None:
            self._view.say(f"Stop the {self.making} first." if self.busy else nothing)
            return True
        return False

    def _change(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._view.keep(conversation)
        self._view.conversation_changed()

    def _measure(self) -> None:
        """Find out how many tokens the conversation has, as it would be sent now."""
        exchanges = self.conversation.exchanges
        self._count, self.figures.used = 0, None if exchanges else 0
        if exchanges and self.loaded is not None and not self.busy:
            self._count = self.request(Count(messages=self.conversation.spoken()))
        self._view.figures_changed()

    # What the engine says --------------------------------------------------------------------

    def _model_is_ready(self, then: Next) -> None:
        self._measure()
        if then != "nothing":
            self._answer(then)
        self._ask_next()

    def _take(self, event: Event) -> None:
        if isinstance(event, events.Counted):
            if event.identity == self._count:
                self.figures.used = event.tokens
                self._view.figures_changed()
            self._view.counted(event)
        match self.state:
            case Replying(identity=number, reply=reply):
                if isinstance(event, ReplyEvent) and event.identity == number:
                    self._replies(event, reply)
            case ComparingReplies(identity=number):
                if isinstance(event, ComparisonEvent) and event.identity == number:
                    self._compares(event)
                    self._ask_next()

    def _break_off(self, end: End, why: events.Cancelled | events.Failed) -> None:
        if isinstance(self.state, Replying):
            self._cut_short(self.state.reply, end)
        elif isinstance(self.state, ComparingReplies):
            self._compares(why)

    def _replies(self, event: ReplyEvent, reply: StreamingReply) -> None:
        match event:
            case events.Shortened() if event.exchanges:
                self._change(self.conversation.dropping(event.exchanges))
                self._view.answer_begins(reply.begun)
            case events.PromptProgress():
                self.figures.prefill(event.prefill)
                self._view.prompt_is_read(event.prefill.done, event.prefill.total)
                self._view.figures_changed()
            case events.Steps():
                reply.extend(event)
                for step in event.steps:
                    self.figures.record(step.entry)
                self.figures.measured(event.plain_seconds)
                self._view.answer_grows(event.steps)
                self._view.figures_changed()
                if time.monotonic() - self._saved >= SAVE_SECONDS:
                    self._saved = time.monotonic()
                    self._view.keep(self.conversation.answered(reply.so_far()))
            case events.Done():
                self.figures.finish(event.finished)
                self._answered(reply.finish(event.finished))
                if event.finished.reason == "context":
                    self._view.context_is_full()
            case events.TooLong():
                self._cut_short(reply, None)
                self.figures.used = event.tokens
                self._view.figures_changed()
                self._view.too_long(event)
            case events.Cancelled():
                self._cut_short(reply, "cancelled")
            case events.Failed():
                self._cut_short(reply, "crashed" if reply.tokens else None)
                self._view.say(event.message, "error")

    def _cut_short(self, reply: StreamingReply, end: End) -> None:
        """The reply ends without the engine's record."""
        self.figures.stop()
        self._answered(reply.so_far(end))

    def _answered(self, answer: Answer) -> None:
        """A reply has ended: keep it, and ask what waits; where something is amiss, give that back."""
        if answer.token_ids or answer.end == "stop":
            self.conversation = self.conversation.answered(answer)
            self._view.answer_ends(answer)
        else:
            # Stopped before a word came: the question stands without an answer.
            self._view.conversation_changed()
        self._view.keep(self.conversation)
        self._enter(Ready())
        self._view.figures_changed()
        if answer.end in ("stop", "length", "stop_string"):
            self._ask_next()
        else:
            self._give_back()

    def _compares(self, event: ComparisonEvent) -> None:
        if self.engine != READY:
            # What one of its proposers needed was shown as being loaded, and is there.
            self._show(READY)
        if ended_by(event):
            self._enter(Ready())
        # A dialogue is painted with what is behind it, so this comes last.
        self._view.compares(event)
