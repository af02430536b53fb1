"""The panes as the chat sees them: the only place that turns its news into what they show."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from app.chat.conversation import Answer, Conversation, Question
from app.chat.gate import clean
from app.models.naming import with_draft
from app.process.commands import Count, Task
from app.process.events import Asked, Counted, Crashed, Event, Step, TooLong
from app.session.state import ComparisonEvent

if TYPE_CHECKING:
    from app.tui.app import SpecchatApp

# Figures that change faster than this cannot be read, and each change costs the model time.
FIGURES_SECONDS = 0.4
# The meter lies far from all else that changes: painted together, all that is between is painted.
_METER_TICKS = 3
# Batches of text come not quite evenly.
_EARLY = 0.1


class PaneView:
    """Implements `View` on the panes of the app."""

    def __init__(self, app: SpecchatApp) -> None:
        self._app = app
        # Chips whose tokens are being counted, by the number of the count.
        self._counting: dict[int, int] = {}
        self._shown = 0.0
        self._stale = self._late = self._meter_stale = False
        self._ticks = 0

    @property
    def model_name(self) -> str:
        loaded = self._app.chat.loaded
        return loaded.name if loaded else ""

    @property
    def models(self) -> str:
        """The model with its draft."""
        return with_draft(self.model_name, self._app.chat.speculation.draft) if self.model_name else ""

    def show_header(self) -> None:
        """The model, its draft, the GPU that it runs on, and the chat's title."""
        gpus = self._app.chat.loaded.gpus if self._app.chat.loaded else ()
        more = f" and {len(gpus) - 1} more" if len(gpus) > 1 else ""
        place = f" on {gpus[0]}{more}" if gpus else ""
        self._app.header.show(f"{self.models}{place}", self._app.autosave.title)

    def count(self, chip: int, text: str) -> None:
        """Have a chip's tokens counted."""
        self._counting[self._app.chat.request(Count(text=text))] = chip

    def found(self, command: Task, event: Event) -> None:
        self._app.dialogues.found(command, event)

    def compares(self, event: ComparisonEvent) -> None:
        self._app.dialogues.compares(event)

    def too_long(self, event: TooLong) -> None:
        self._app.dialogues.too_long(event)

    def context_is_full(self) -> None:
        self._app.dialogues.context_is_full()

    def asks(self, event: Asked) -> None:
        self._app.dialogues.asks(event)

    def crashed(self, event: Crashed, restarted: bool) -> None:
        self._app.dialogues.crashed(event, restarted)

    def keep(self, conversation: Conversation) -> None:
        """Have the conversation stored; where that fails the chat goes on, and the person is told once."""
        self._app.autosave.keep(conversation, self.model_name)
        self.show_header()

    def queue_changed(self) -> None:
        self._app.prompt.show_waiting(self._app.chat.queued)

    def gives_back(self, questions: tuple[Question, ...]) -> None:
        self._app.prompt.take_back(questions)

    def asked(self, question: Question) -> None:
        self._app.starters.offer(False)
        self._app.transcript.ask(question)

    def answer_begins(self, begun: Answer | None) -> None:
        self._app.transcript.begin_answer(begun)
        self._app.prompt.busy("reply")

    def answer_grows(self, steps: tuple[Step, ...]) -> None:
        self._app.transcript.extend(steps)

    def prompt_is_read(self, done: int, total: int) -> None:
        self._app.transcript.reading(done, total)

    def answer_ends(self, answer: Answer) -> None:
        self._app.transcript.end_answer(answer)

    def conversation_changed(self) -> None:
        self._app.starters.offer(not self._app.chat.conversation.exchanges)
        self._app.transcript.show(self._app.chat.conversation)

    def figures_changed(self) -> None:
        """While a reply is made they are shown with its text, as each painting takes time from the model,
        but no sooner than FIGURES_SECONDS after those before."""
        self._stale = self._meter_stale = True
        if not self._app.chat.busy:
            self._show_figures()
            self._show_meter()
        elif time.monotonic() - self._shown > FIGURES_SECONDS - _EARLY:
            self._show_figures()

    def tick(self) -> None:
        """Show what no text came with for a whole tick, or else the meter; called every FIGURES_SECONDS."""
        self._ticks += 1
        if self._stale and self._late:
            self._show_figures()
        elif self._meter_stale and self._ticks % _METER_TICKS == 0:
            self._show_meter()
        self._late = self._stale

    def _show_figures(self) -> None:
        self._stale = self._late = False
        self._shown = time.monotonic()
        app, chat = self._app, self._app.chat
        figures = chat.figures.snapshot()
        if app.panel.display:
            app.panel.show(figures, chat.engine, chat.speculation.options)
        if app.strip.display:
            app.strip.show(figures, chat.engine)

    def _show_meter(self) -> None:
        self._meter_stale = False
        chat = self._app.chat
        self._app.prompt.meter.show(chat.figures.used, chat.loaded.context_length if chat.loaded else None)

    def state_changed(self) -> None:
        app, chat = self._app, self._app.chat
        app.prompt.busy(chat.making)
        self.show_header()
        if app.transcript.model_name != self.model_name:
            app.transcript.model_name = self.model_name
        self._show_figures()
        self._show_meter()

    def say(self, text: str, kind: str = "information") -> None:
        severity = {"warning": "warning", "error": "error"}.get(kind, "information")
        if kind in ("error", "note"):
            self._app.transcript.note(clean(text), "error" if kind == "error" else "information")
        else:
            self._app.notify(clean(text), severity=severity, markup=False, timeout=6)  # type: ignore[arg-type]

    def counted(self, event: Counted) -> None:
        chip = self._counting.pop(event.identity, None)
        if chip is not None:
            self._app.prompt.set_tokens(chip, event.tokens)
