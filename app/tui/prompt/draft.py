"""What is being written: the attachments, the text below them, and a line on what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from app.chat.conversation import Question
from app.chat.documents import Document
from app.errors import SpecchatError
from app.text import clean, one_line
from app.tui.prompt.attachments import PASTED, Attachments
from app.tui.prompt.commands import message_in
from app.tui.prompt.editor import EditorHost, PromptEditor
from app.tui.prompt.pastes import cleaned, dropped_files, fits_editor, is_large
from app.tui.prompt.references import Gathered, distinct, gather, read_file

_EDITING = "Editing your last message · Enter sends it · Esc leaves it as it was"


class PromptDraft:
    """The editor and its attachments. Text too long for the editor becomes an attachment.

    edits: the question that is being edited, None where a new one is written. It is no widget itself, as each
    key would pass through it, and each painting would ask it for its lines.
    """

    def __init__(self, host: EditorHost) -> None:
        self._host = host
        self.editor = PromptEditor(host, placeholder="ask, paste, @file")
        self.attachments = Attachments(host, self.editor)
        self.edits: Question | None = None
        self._aside = Question("")
        self._editing = Static(id="prompt-editing", markup=False)
        self._problem = Static(id="prompt-problem", markup=False)

    def compose(self) -> ComposeResult:
        """The widgets, from top to bottom."""
        yield self._editing
        yield self.attachments
        with Horizontal(id="prompt-line"):
            yield Static("›", id="prompt-sign", markup=False)
            yield self.editor
        yield self._problem

    @property
    def question(self) -> Question:
        """What would be sent now, as typed."""
        return Question(self.editor.text, self.attachments.documents)

    def show(self, question: Question) -> None:
        """Have this written instead."""
        self.complain("")
        text, documents = question.text, question.documents
        if not fits_editor(text):
            documents = (*documents, distinct(Document(PASTED, text), documents))
            text = ""
        self.editor.show(text)
        self.attachments.replace(documents)
        self._host.replaced()

    def edit(self, question: Question) -> None:
        """Write a question that was sent before. What was being written is set aside meanwhile."""
        if self.edits is None:
            aside = self.question
            self.show(Question(clean(question.text), question.documents))
            self._set_aside(question, aside)

    def end_edit(self) -> None:
        """Go back to what was set aside."""
        self.show(self._aside)
        self._set_aside(None, Question(""))

    def put_before(self, questions: Sequence[Question]) -> None:
        """Put these questions before what is written, or before what is set aside."""
        if self.edits is None:
            self.show(_joined((*questions, self.question)))
        else:
            self._aside = _joined((*questions, self._aside))

    def _set_aside(self, edits: Question | None, aside: Question) -> None:
        self.edits, self._aside = edits, aside
        put(self._editing, "" if edits is None else _EDITING)

    # Attachments and pastes -----------------------------------------------------------------

    def attach(self, path: str | Path) -> bool:
        """Attach a file. Where it cannot be used: say why, and return False."""
        try:
            document = read_file(str(path))
        except SpecchatError as error:
            self.complain(str(error))
            return False
        self.add(document)
        return True

    def add(self, document: Document) -> None:
        """Attach a document, unless it is attached already."""
        document = distinct(document, self.attachments.documents)
        if document in self.attachments.documents:
            self.complain(f"{document.name} is already attached.")
        else:
            self.complain("")
            self.attachments.add(document)

    def paste(self, text: str) -> None:
        """Attach the files that were dropped, attach a long text, or type a short one."""
        text = cleaned(text)
        files = dropped_files(text)
        if files and all([self.attach(file) for file in files]):
            return
        if is_large(text) or not fits_editor(self.editor.text + text):
            self.add(Document(PASTED, text))
        elif text:
            problem = str(self._problem.content) if files else ""
            self.editor.type_in(text)
            self.complain(problem)

    def gathered(self) -> Gathered | None:
        """What would be sent, with the files that the text names; None for nothing, or on an error."""
        try:
            gathered = gather(message_in(self.editor.text), self.attachments.documents)
        except SpecchatError as error:
            self.complain(str(error))
            return None
        return gathered if gathered.text.strip() or gathered.documents else None

    def complain(self, text: str) -> None:
        """Say what is wrong, "" for nothing."""
        put(self._problem, text)


def put(line: Static, text: str) -> None:
    """Show this text, and the line only while it has one."""
    # An update lays out the whole screen, and most keys change nothing here.
    if str(line.content) != text:
        line.update(text)
    line.display = bool(text)


def _joined(questions: Sequence[Question]) -> Question:
    """One question out of several, with each document once."""
    documents: list[Document] = []
    for document in (document for question in questions for document in question.documents):
        document = distinct(document, documents)
        documents += [document] if document not in documents else []
    texts = [question.text for question in questions if question.text]
    return Question("\n\n".join(texts), tuple(documents))


def line_of(question: Question) -> str:
    """A question in one line."""
    return one_line(" ".join([question.text, *(f"▣ {document.name}" for document in question.documents)]))
