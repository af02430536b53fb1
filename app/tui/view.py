"""The panes as the chat sees them: turns the chat's news into what the panes show."""

from __future__ import annotations

import time

from app.chat.conversation import Answer, Question
from app.process.commands import Count, FindDrafts, Task
from app.process.events import Counted, Event
from app.session.state import ComparisonEvent
from app.tui.dialogs.dialogue import Awaited, Dialogue
from app.tui.dialogues import Dialogues
from app.tui.window import ChatWindow

# Figures that change faster than this cannot be read, and each change costs the model time.
FIGURES_SECONDS = 0.4
# The meter lies far from all else that changes: painting both at once paints all that is between.
_METER_TICKS = 3
# Batches of text do not come quite evenly.
_EARLY = 0.1


class PaneView:
    """Implements `View` on the panes and the dialogues."""

    def __init__(self, window: ChatWindow, dialogues: Dialogues) -> None:
        self._window = window
        self.say = window.say
        self.answer_grows = window.transcript.extend
        self.answer_ends = window.transcript.end_answer
        self.prompt_is_read = window.transcript.reading
        self.gives_back = window.prompt.take_back
        self.too_long = dialogues.too_long
        self.context_is_full = dialogues.context_is_full
        self.asks = dialogues.asks
        self.keep = window.keep
        self.crashed = dialogues.crashed
        # Attachments whose tokens are being counted, by the number of the count.
        self._counting: dict[int, int] = {}
        self._shown = 0.0
        self._stale = self._late = self._meter_stale = False
        self._ticks = 0

    # The conversation -----------------------------------------------------------------------

    def asked(self, question: Question) -> None:
        self._window.starters.offer(False)
        self._window.transcript.ask(question)

    def answer_begins(self, begun: Answer | None) -> None:
        self._window.transcript.begin_answer(begun)
        self._window.prompt.busy("reply")

    def conversation_changed(self) -> None:
        conversation = self._window.chat.conversation
        self._window.starters.offer(not conversation.exchanges)
        self._window.transcript.show(conversation)

    # The prompt -----------------------------------------------------------------------------

    def queue_changed(self) -> None:
        self._window.prompt.show_waiting(self._window.chat.queued)

    def count(self, attachment: int, text: str) -> None:
        """Have an attachment's tokens counted."""
        self._counting[self._window.chat.request(Count(text=text))] = attachment

    def counted(self, event: Counted) -> None:
        attachment = self._counting.pop(event.identity, None)
        if attachment is not None:
            self._window.prompt.set_tokens(attachment, event.tokens)

    # Figures --------------------------------------------------------------------------------

    def figures_changed(self) -> None:
        """Show them; while a reply is made with its text, at most once in FIGURES_SECONDS.

        Each painting takes time from the model.
        """
        self._stale = self._meter_stale = True
        if not self._window.chat.busy:
            self._show_figures()
            self._show_meter()
        elif time.monotonic() - self._shown > FIGURES_SECONDS - _EARLY:
            self._show_figures()

    def tick(self) -> None:
        """Show figures that waited a whole tick for text, or else the meter; called every FIGURES_SECONDS."""
        self._ticks += 1
        if self._stale and self._late:
            self._show_figures()
        elif self._meter_stale and self._ticks % _METER_TICKS == 0:
            self._show_meter()
        self._late = self._stale

    def _show_figures(self) -> None:
        self._stale = self._late = False
        self._shown = time.monotonic()
        window, chat = self._window, self._window.chat
        figures = chat.figures.snapshot()
        if window.panel.display:
            window.panel.show(figures, chat.engine, chat.speculation.options)
        if window.strip.display:
            window.strip.show(figures, chat.engine)

    def _show_meter(self) -> None:
        self._meter_stale = False
        chat = self._window.chat
        self._window.prompt.meter.show(chat.figures.used, chat.loaded.context_length if chat.loaded else None)

    def state_changed(self) -> None:
        window = self._window
        window.prompt.busy(window.chat.making)
        window.show_header()
        if window.transcript.model_name != window.model_name:
            window.transcript.model_name = window.model_name
        self._show_figures()
        self._show_meter()

    # Dialogues ------------------------------------------------------------------------------

    def found(self, command: Task, event: Event) -> None:
        self._tell("drafts" if isinstance(command, FindDrafts) else "models", event)

    def compares(self, event: ComparisonEvent) -> None:
        self._tell("comparison", event)

    def _tell(self, what: Awaited, event: Event) -> None:
        """Hand an event to the dialogue that waits for it, if that is still open."""
        for screen in self._window.screen_stack:
            if isinstance(screen, Dialogue) and what == screen.AWAITS:
                screen.take(event)
