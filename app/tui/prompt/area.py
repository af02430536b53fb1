"""The foot of the chat: what is being written, what waits, a line of hints and the context meter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import OptionList, Static

from app.chat.conversation import Question
from app.chat.documents import Document
from app.text import clean
from app.tui.prompt.attachments import Chip
from app.tui.prompt.commands import COMMANDS, Call, call_in, problem_with
from app.tui.prompt.draft import PromptDraft, line_of, put
from app.tui.prompt.editor import PromptEditor, types
from app.tui.prompt.hints import Hints, Making
from app.tui.prompt.history import History
from app.tui.prompt.meter import ContextMeter
from app.tui.prompt.popover import Popover
from app.tui.starters.starters import Starters


class PromptArea(Vertical):
    """Where a person asks. It reads files that are named in the text, but knows nothing of the engine."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")

    @dataclass
    class Sent(Message):
        """A question is to be answered; its text has bare names where references stood.

        edits: the question that this is a new version of; None for a new question.
        """

        question: Question
        edits: Question | None = None

    @dataclass
    class Command(Message):
        """A slash command. name: of its Action. argument: what followed the word."""

        name: str
        argument: str

    @dataclass
    class Remembered(Message):
        """A prompt, as typed, entered the history, and may be stored."""

        text: str

    def __init__(
        self, history: History | None = None, starters: Starters | None = None, *, id: str | None = None
    ) -> None:
        """starters: shown elsewhere, but its keys are pressed here."""
        super().__init__(id=id)
        self._starters = starters or Starters()
        self.history = history or History()
        self.meter = ContextMeter()
        self._draft = PromptDraft(self)
        self._editor = self._draft.editor
        self._popover = Popover(self._editor)
        self._waiting = Static(id="prompt-waiting", markup=False)
        self._hints = Hints()
        self._busy: Making | None = None

    def compose(self) -> ComposeResult:
        yield self._waiting
        yield from self._draft.compose()
        with Horizontal(id="prompt-foot"):
            yield self._hints
            yield self.meter
        yield self._popover

    # What the app calls -------------------------------------------------------------------------

    @property
    def draft(self) -> Question:
        """What is being written now."""
        return self._draft.question

    def edit(self, question: Question) -> None:
        """Edit the last question. What was being written is set aside meanwhile."""
        self._draft.edit(question)
        self.focus_editor()

    def leave_edit(self) -> bool:
        """Go back to what was being written before; False where nothing is edited.

        The edited text stays in the history.
        """
        if self._draft.edits is None:
            return False
        if self.draft != self._draft.edits:
            self._remember(self.draft)
        self._draft.end_edit()
        return True

    def focus_editor(self) -> None:
        self._editor.focus()

    def set_tokens(self, identity: int, tokens: int | None) -> None:
        """Show how many tokens an attachment has, if it is still there."""
        self._draft.attachments.set_tokens(identity, tokens)

    def clear_or_copy(self) -> bool:
        """Copy the selection, leave an edit, or clear the prompt; False where there is none of them.

        What is cleared stays in the history, attachments too: Up brings it back.
        """
        if selected := self._editor.selected_text:
            self.app.copy_to_clipboard(selected)
        elif not self.leave_edit():
            if self.draft == Question(""):
                return False
            self._remember(self.draft)
            self._draft.show(Question(""))
        return True

    def attach_document(self, document: Document) -> None:
        """Attach a document that was read already."""
        self._draft.add(document)

    def start_attaching(self) -> None:
        """Begin to type a path, with completions: after /file, or after @ within a text."""
        self.begin(self._editor.reference_sign if self._editor.text else "/file ")

    def begin(self, text: str) -> None:
        """Type this, for the person to go on with."""
        self.focus_editor()
        self._editor.type_in(text)

    def busy(self, making: Making | None) -> None:
        """What is being made, None for nothing. A message that is sent meanwhile waits."""
        self._busy = making
        # Each blink paints the screen, and takes time from the model.
        self._editor.cursor_blink = making is None
        self.update_hints()

    def show_waiting(self, questions: Sequence[Question]) -> None:
        """Show the questions that wait for the end of a reply, the next one at the top."""
        put(self._waiting, "\n".join(f"waiting: {line_of(each)}" for each in questions))
        self.update_hints()

    def take_back(self, questions: Sequence[Question]) -> None:
        """Put questions that were sent before what is being written now."""
        self._draft.put_before(questions)

    def claim(self, event: events.Key | events.Paste) -> None:
        """Focus the editor for what is typed, pasted, deleted or sent while something else has the focus."""
        if not isinstance(self.app.focused, (PromptEditor, Chip)) and (
            isinstance(event, events.Paste) or types(event) or event.key in ("enter", "backspace")
        ):
            # At once: `focus` would take effect only after this key.
            self.screen.set_focus(self._editor)

    def ask_to_leave(self, key: str) -> bool:
        """Ask for the key once more; False where it was asked for already."""
        asked, self._hints.leaving = self._hints.leaving, f"Press {key} again to quit."
        self.update_hints()
        return not asked

    def key_came(self, leaves: bool) -> None:
        """Any other key than the one that leaves takes the question back."""
        if self._hints.leaving and not leaves:
            self._hints.leaving = ""
            self.update_hints()

    # What the editor calls ----------------------------------------------------------------------

    def submit(self) -> None:
        if self._starters.take():
            return
        if self._popover.takes_enter:
            choice = self._popover.accept()
            call = call_in(choice.insert) if choice else None
            # A command that takes nothing after it runs at once.
            if call is None or COMMANDS[call.word].takes:
                return
        self._popover.close()
        if call := call_in(self._editor.text):
            self._run(call)
        elif self._busy is not None and self._draft.edits is not None:
            self._draft.complain(f"Stop the {self._busy} first.")
        else:
            self._send()

    def recall(self, step: Literal[-1, 1]) -> bool:
        if self._starters.marked is not None:
            return self._starters.move(step)
        question = self.history.walk(self.draft, step)
        if question is None:
            return self._starters.move(step)
        left = self.history.draft
        # A prompt that attached nothing leaves the attachments of what was being written in place.
        documents = question.documents or (left.documents if left else ())
        self._draft.show(Question(question.text, documents))
        return True

    def list_key(self, key: str) -> bool:
        if taken := self._popover.take_key(key):
            self.update_hints()
        return taken

    def complete(self) -> bool:
        if not self._popover.is_open:
            self._look_up()
        return self._popover.accept() is not None

    def pasted(self, text: str) -> None:
        self._draft.paste(text)

    def typed(self) -> None:
        self._draft.complain("")
        self._look_up()

    def replaced(self) -> None:
        self._popover.close()
        self.update_hints()

    def step_out(self, remove: bool) -> bool:
        return self._draft.attachments.enter(remove)

    def update_hints(self) -> None:
        """Show the starters while nothing is written, and a hint on what the keys do now."""
        self._starters.make_way(self.draft != Question(""))
        self._hints.show(self._busy, choosing=self._popover.is_open, waiting=self._waiting.display)

    # Sending ------------------------------------------------------------------------------------

    def _send(self) -> None:
        gathered = self._draft.gathered()
        if gathered is None:
            return
        self._remember(Question(self._editor.text))
        edits = self._draft.edits
        self._draft.end_edit()
        if gathered.missing:
            missing = clean(gathered.missing[0])
            self._draft.complain(f"There is no file {missing}: it was sent as text.")
        self.post_message(self.Sent(Question(gathered.text, gathered.documents), edits))

    def _run(self, call: Call) -> None:
        if problem := problem_with(call):
            self._draft.complain(problem)
            return
        action = COMMANDS[call.word.casefold()]
        if action.slash == "file" and not self._draft.attach(call.argument.strip("\"'")):
            return
        self._remember(Question(self._editor.text))
        self._editor.show("")
        self.update_hints()
        if action.slash != "file":
            self.post_message(self.Command(action.name, call.argument))

    def _remember(self, question: Question) -> None:
        if self.history.add(question) and question.text.strip():
            self.post_message(self.Remembered(question.text))

    # Events -------------------------------------------------------------------------------------

    def _look_up(self) -> None:
        self._popover.look_up(self.region.y)
        self.update_hints()

    def on_paste(self, event: events.Paste) -> None:
        """A paste while a chip has the focus."""
        event.stop()
        self.focus_editor()
        self._draft.paste(event.text)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._popover.accept(event.option_index)
        self.focus_editor()

    def on_text_area_selection_changed(self) -> None:
        if self._popover.is_open:
            self._popover.follow_cursor()
            self.update_hints()

    def on_resize(self, event: events.Resize) -> None:
        self.meter.make_compact(event.size.width < 60)
        self._popover.place(self.region.y)
        self.update_hints()

    def on_descendant_focus(self) -> None:
        self.update_hints()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        if event.widget is self._editor:
            self._popover.close()
        self.update_hints()
