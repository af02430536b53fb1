"""The foot of the chat: attachments, the editor, a line of hints and the context meter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import OptionList, Static

from app.chat.conversation import Question
from app.chat.documents import Document
from app.chat.gate import clean
from app.errors import SpecchatError
from app.tui.prompt.attachments import PASTED, Attachment, Attachments, Chip
from app.tui.prompt.commands import AS_MESSAGE, COMMANDS, Call, call_in, message_in, unknown
from app.tui.prompt.editor import PromptEditor, types
from app.tui.prompt.history import History
from app.tui.prompt.meter import ContextMeter
from app.tui.prompt.pastes import cleaned, dropped_files, fits_editor, is_large
from app.tui.prompt.popover import Popover
from app.tui.prompt.references import distinct, gather, read_file
from app.tui.prompt.viewer import DocumentViewer
from app.tui.starters.starters import Starters

_HINT = "Enter sends · Ctrl+J new line · / commands"
_EDITING = "Editing your last message · Enter sends it · Esc leaves it as it was"
_SHORT_HINT = "Enter sends · / commands"
_BUSY_HINT = "Esc stops the {}"
_CHIP_HINT = "Enter opens · Del removes · Esc back"
_LIST_HINT = "Tab completes · ↑↓ choose · Esc closes"
_WAITING_HINT = "Esc takes back what waits"


# What a person waits for.
Making = Literal["reply", "comparison"]


class PromptArea(Vertical):
    """Where a person asks. It reads files that are named in the text, but knows nothing of the engine."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")

    class Sent(Message):
        """A question is to be answered. Its text has bare names where references stood.

        edits: the question that it is another version of, None for one of its own.
        """

        def __init__(self, question: Question, edits: Question | None = None) -> None:
            self.question, self.edits = question, edits
            super().__init__()

    class Command(Message):
        """A slash command. name: the Action's name. argument: what followed the word."""

        def __init__(self, name: str, argument: str) -> None:
            self.name, self.argument = name, argument
            super().__init__()

    class CountWanted(Message):
        """The tokens of an attachment's text are to be given to `set_tokens`."""

        def __init__(self, identity: int, text: str) -> None:
            self.identity, self.text = identity, text
            super().__init__()

    class Problem(Message):
        """Something could not be done. The area shows it itself."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    class Remembered(Message):
        """A prompt, as typed, entered the history, and may be stored."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    def __init__(
        self, history: History | None = None, starters: Starters | None = None, *, id: str | None = None
    ) -> None:
        """starters: walked and asked from here, shown elsewhere."""
        super().__init__(id=id)
        self._starters = starters or Starters()
        self.history = history if history is not None else History()
        self.meter = ContextMeter()
        self._attachments = Attachments()
        self._editor = PromptEditor(self, placeholder="ask, paste, @file")
        self._popover = Popover(self._editor)
        self._problem = Static(id="prompt-problem", markup=False)
        self._waiting = Static(id="prompt-waiting", markup=False)
        self._hint = Static(_HINT, id="prompt-hint", markup=False)
        self._busy: Making | None = None
        # The question that is edited, None while none is, and what was being written before.
        self._edits: Question | None = None
        self._aside = Question("")
        self._leaving = ""

    def compose(self) -> ComposeResult:
        yield self._waiting
        yield Static(_EDITING, id="prompt-editing", markup=False)
        yield self._attachments
        with Horizontal(id="prompt-line"):
            yield Static("›", id="prompt-sign", markup=False)
            yield self._editor
        yield self._problem
        with Horizontal(id="prompt-foot"):
            yield self._hint
            yield self.meter
        yield self._popover

    # What the app calls -------------------------------------------------------------------------

    @property
    def draft(self) -> Question:
        """What is being written now."""
        return Question(self._editor.text, self._attachments.documents)

    def edit(self, question: Question) -> None:
        """Have the last question edited. What was being written is set aside meanwhile."""
        if self._edits is None:
            aside = self.draft
            self._load(Question(clean(question.text), question.documents))
            self._begin_edit(question, aside)
        self.focus_editor()

    def leave_edit(self) -> bool:
        """Bring back what was being written before; False where nothing is edited.

        The edited text stays in the history.
        """
        if self._edits is None:
            return False
        if self.draft != self._edits:
            self._remember(self.draft)
        self._end_edit()
        return True

    def clear(self) -> None:
        """Forget what is being written."""
        self._load(Question(""))

    def focus_editor(self) -> None:
        self._editor.focus()

    def set_tokens(self, identity: int, tokens: int | None) -> None:
        """The tokens of an attachment, if it is still there."""
        self._attachments.set_tokens(identity, tokens)

    def clear_or_copy(self) -> bool:
        """Copy the selection, or else clear; False where there was nothing to do.

        What is cleared stays in the history, attachments too: Up brings it back.
        """
        if self._editor.selected_text:
            self.app.copy_to_clipboard(self._editor.selected_text)
            return True
        if self.leave_edit():
            return True
        draft = self.draft
        if not draft.text and not draft.documents:
            return False
        self._remember(draft)
        self.clear()
        return True

    def attach(self, path: str | Path) -> bool:
        """Attach a file; False, and a line that says why, where it cannot be used."""
        try:
            document = read_file(str(path))
        except SpecchatError as error:
            self._complain(str(error))
            return False
        self._add(document)
        return True

    def attach_document(self, document: Document) -> None:
        """Attach what was read already."""
        self._add(document)

    def start_attaching(self) -> None:
        """Have a path typed, with its completions: by /file, or within a text that was begun by @."""
        row, column = self._editor.cursor_location
        before = self._editor.document[row][:column]
        if not self._editor.text:
            self.begin("/file ")
        else:
            self.begin("@" if not before or before[-1].isspace() else " @")

    def begin(self, text: str) -> None:
        """Type this, to be gone on with."""
        self.focus_editor()
        self._editor.type_in(text)

    def busy(self, making: Making | None) -> None:
        """What is sent while something is made waits for it. None: nothing is made."""
        self._busy = making
        # A cursor that blinks has the screen painted twice a second, at the model's cost.
        self._editor.cursor_blink = making is None
        self._settle()

    def show_waiting(self, questions: Sequence[Question]) -> None:
        """Questions that wait for a reply's end, the next one at the top."""
        _put(self._waiting, "\n".join(f"waits: {_line_of(each)}" for each in questions))
        self._waiting.display = bool(questions)
        self._settle()

    def take_back(self, questions: Sequence[Question]) -> None:
        """Put questions that were sent before what is being written now."""
        texts: list[str] = []
        documents: list[Document] = []
        for each in (*questions, self.draft if self._edits is None else self._aside):
            texts += [each.text] if each.text else []
            for document in each.documents:
                document = distinct(document, documents)
                documents += [document] if document not in documents else []
        question = Question("\n\n".join(texts), tuple(documents))
        if self._edits is None:
            self._load(question)
        else:
            self._aside = question

    def paste(self, text: str) -> None:
        """Take a paste that went elsewhere."""
        self.focus_editor()
        self.pasted(text)

    def claim(self, event: events.Key | events.Paste) -> None:
        """Take the focus for what is typed, pasted, deleted or sent, unless it is here already."""
        if not isinstance(self.app.focused, (PromptEditor, Chip)) and (
            isinstance(event, events.Paste) or types(event) or event.key in ("enter", "backspace")
        ):
            # At once: `focus` would be heard only after this key.
            self.screen.set_focus(self._editor)

    def ask_to_leave(self, key: str) -> bool:
        """Ask for the key once more; False where it was asked for already."""
        asked, self._leaving = self._leaving, f"Press {key} again to quit."
        self._settle()
        return not asked

    def key_came(self, leaves: bool) -> None:
        """Any key but one that leaves says that nobody wants to."""
        if self._leaving and not leaves:
            self._leaving = ""
            self._settle()

    # What the editor calls ----------------------------------------------------------------------

    def submit(self) -> None:
        if self._starters.take():
            return
        if self._popover.takes_enter:
            choice = self._popover.accept()
            # A command that takes nothing after it runs at once.
            call = call_in(choice.insert) if choice is not None else None
            if call is None or COMMANDS[call.word].takes:
                return
        self._popover.close()
        typed = self._editor.text
        call = call_in(typed)
        if call is not None:
            self._run(call)
        elif self._busy is not None and self._edits is not None:
            self._complain(f"Stop the {self._busy} first.")
        else:
            self._send(typed)

    def recall(self, step: Literal[-1, 1]) -> bool:
        if self._starters.marked is not None:
            return self._starters.move(step)
        question = self.history.earlier(self.draft) if step < 0 else self.history.later(self.draft)
        if question is None:
            return self._starters.move(step)
        draft = self.history.draft
        # A prompt that attached nothing leaves the draft's attachments where they are.
        documents = question.documents or (draft.documents if draft is not None else ())
        self._load(Question(question.text, documents))
        return True

    def list_key(self, key: str) -> bool:
        taken = self._popover.take_key(key)
        if taken:
            self._settle()
        return taken

    def complete(self) -> bool:
        if not self._popover.is_open:
            self._look_up()
        return self._popover.accept() is not None

    def pasted(self, text: str) -> None:
        text = cleaned(text)
        files = dropped_files(text)
        if files and all([self.attach(file) for file in files]):
            return
        editor = self._editor
        if is_large(text) or not fits_editor(editor.text + text):
            self._add(Document(PASTED, text))
        elif text:
            problem = str(self._problem.content)
            editor.type_in(text)
            if files:
                self._complain(problem)

    def typed(self) -> None:
        self._say("")
        self._look_up()

    def step_out(self, remove: bool) -> bool:
        if not self._attachments.chips:
            return False
        last = self._attachments.chips[-1]
        if remove:
            self._attachments.remove_chip(last)
            self._settle()
        else:
            last.focus()
        return True

    # Sending ------------------------------------------------------------------------------------

    def _send(self, typed: str) -> None:
        try:
            gathered = gather(message_in(typed), self._attachments.documents)
        except SpecchatError as error:
            self._complain(str(error))
            return
        if not gathered.text.strip() and not gathered.documents:
            return
        self._remember(Question(typed))
        edits = self._edits
        self._end_edit()
        if gathered.missing:
            self._complain(f"There is no file {clean(gathered.missing[0])}: sent as text.")
        self.post_message(self.Sent(Question(gathered.text, gathered.documents), edits))

    def _run(self, call: Call) -> None:
        action = COMMANDS.get(call.word.casefold())
        if action is None:
            self._complain(unknown(call.word))
            return
        if call.argument and not action.takes:
            self._complain(f"/{action.slash} takes nothing after it. {AS_MESSAGE}")
            return
        if action.slash == "file":
            if not call.argument:
                self._complain("Which file? Type /file and its path.")
                return
            if not self.attach(call.argument.strip("\"'")):
                return
        self._remember(Question(self._editor.text))
        self._editor.show("")
        self._settle()
        if action.slash != "file":
            self.post_message(self.Command(action.name, call.argument))

    def _begin_edit(self, question: Question | None, aside: Question) -> None:
        self._edits, self._aside = question, aside
        self.query_one("#prompt-editing").display = question is not None

    def _end_edit(self) -> None:
        """Show what was set aside, nothing where nothing was."""
        self._load(self._aside)
        self._begin_edit(None, Question(""))

    def _remember(self, question: Question) -> None:
        if self.history.add(question) and question.text.strip():
            self.post_message(self.Remembered(question.text))

    def _load(self, question: Question) -> None:
        """Show a prompt. A text too long for the editor becomes a chip."""
        self._popover.close()
        self._say("")
        text, documents = question.text, question.documents
        if not fits_editor(text):
            documents = (*documents, distinct(Document(PASTED, text), documents))
            text = ""
        self._editor.show(text)
        if documents != self._attachments.documents:
            for attachment in self._attachments.take(documents):
                self._want_count(attachment)
        self._settle()

    # Attachments --------------------------------------------------------------------------------

    def _add(self, document: Document) -> None:
        documents = self._attachments.documents
        document = distinct(document, documents)
        if document in documents:
            self._complain(f"{document.name} is attached already.")
            return
        self._say("")
        self._want_count(self._attachments.add(document))
        self._settle()

    def _want_count(self, attachment: Attachment) -> None:
        self.post_message(self.CountWanted(attachment.identity, attachment.document.text))

    # A key may have been pressed twice before the chip was gone.

    def on_chip_removed(self, message: Chip.Removed) -> None:
        message.stop()
        if message.chip in self._attachments.chips:
            (self._attachments.remove_chip(message.chip) or self._editor).focus()

    def on_chip_opened(self, message: Chip.Opened) -> None:
        message.stop()
        if message.chip not in self._attachments.chips:
            return
        attachment = message.chip.attachment
        text = attachment.document.text
        if attachment.pasted and fits_editor(self._editor.text + text):
            self._attachments.remove_chip(message.chip)
            self.focus_editor()
            self._editor.type_in(text)
        else:
            self.app.push_screen(DocumentViewer(attachment.label, attachment.figures, text))

    def on_chip_left(self, message: Chip.Left) -> None:
        message.stop()
        if message.chip not in self._attachments.chips:
            return
        (self._attachments.neighbour(message.chip, message.step) or self._editor).focus()
        if message.character:
            self._editor.type_in(message.character)

    def on_paste(self, event: events.Paste) -> None:
        """A paste while a chip has the focus."""
        event.stop()
        self.paste(event.text)

    # Completion ---------------------------------------------------------------------------------

    def _look_up(self) -> None:
        self._popover.look_up(self.region.y)
        self._settle()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._popover.accept(event.option_index)
        self.focus_editor()

    def on_text_area_selection_changed(self) -> None:
        if self._popover.is_open:
            self._popover.follow_cursor()
            self._settle()

    # The lines below ----------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self.meter.make_compact(event.size.width < 60)
        self._popover.stand(self.region.y)
        self._settle()

    def on_descendant_focus(self) -> None:
        self._settle()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        if event.widget is self._editor:
            self._popover.close()
        self._settle()

    def _settle(self) -> None:
        """The hint follows from what the keys do now, the starters from what is written."""
        self._starters.make_way(bool(self._editor.text or self._attachments.chips))
        if self._leaving:
            hint = self._leaving
        elif isinstance(self.app.focused, Chip):
            hint = _CHIP_HINT
        elif self._popover.is_open:
            hint = _LIST_HINT
        elif self._waiting.display:
            hint = _WAITING_HINT
        elif self._busy is not None:
            hint = _BUSY_HINT.format(self._busy)
        else:
            hint = _HINT if self.size.width >= 60 else _SHORT_HINT
        _put(self._hint, hint)

    def _complain(self, text: str) -> None:
        self._say(text)
        self.post_message(self.Problem(text))

    def _say(self, text: str) -> None:
        _put(self._problem, text)
        self._problem.display = bool(text)


def _line_of(question: Question) -> str:
    """A question in one line."""
    names = [f"▣ {document.name}" for document in question.documents]
    return clean(" ".join([*question.text.split(), *names]))


def _put(line: Static, text: str) -> None:
    # An update lays the screen out again, and most keys change nothing here.
    if str(line.content) != text:
        line.update(text)
