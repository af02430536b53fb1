"""The dialogues of the chat: when each opens, and what its answer does. Each is loaded when it opens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.chat.conversation import title_of
from app.chat.gate import clean
from app.config.values import Settings
from app.errors import SpecchatError
from app.process.commands import FindDrafts, Task
from app.process.events import Asked, Crashed, Drafts, Event, Failed, Models, TooLong
from app.session.state import ComparisonEvent
from app.tui.theme import THEMES

if TYPE_CHECKING:
    from app.tui.app import SpecchatApp
    from app.tui.dialogs.choice import Choice

_ROUNDED = 1024
# Room for an answer in a context that is made larger.
_ANSWER = 1024


class Dialogues:
    """Opens dialogues over the chat and carries out what is chosen in them."""

    def __init__(self, app: SpecchatApp) -> None:
        self._app = app

    def _ask(
        self,
        title: str,
        question: str,
        choices: Sequence[Choice],
        chosen: Callable[[str | None], None],
        details: str = "",
    ) -> None:
        """Put a question, unless one of this title is open: an engine that dies again and again asks once."""
        from app.tui.dialogs.choice import ChoiceScreen

        open_ones = [each.title for each in self._app.screen_stack if isinstance(each, ChoiceScreen)]
        if title not in open_ones:
            self._app.push_screen(ChoiceScreen(question, choices, details, title), chosen)

    # The context's end ------------------------------------------------------------------------

    def too_long(self, event: TooLong) -> None:
        """The prompt does not fit: nothing is cut without being asked for."""
        self._room(
            f"The conversation has {event.tokens:,} tokens and the context holds {event.capacity:,}.",
            event.tokens + _ANSWER,
            event.capacity,
            event.trained,
        )

    def context_is_full(self) -> None:
        """A reply reached the context's end."""
        loaded = self._app.chat.loaded
        if loaded is not None:
            capacity = loaded.context_length
            self._room(
                f"The context of {capacity:,} tokens is full: the answer was cut there.",
                capacity + 2 * _ANSWER,
                capacity,
                loaded.context_trained,
            )

    def _room(self, question: str, wanted: int, capacity: int, trained: int) -> None:
        from app.tui.dialogs.choice import Choice

        chat = self._app.chat
        choices = []
        if len(chat.conversation.exchanges) - 1 > chat.conversation.unsent:
            text = "They stay on the screen and in the session, but are no longer sent."
            choices.append(Choice("drop", "Drop the oldest turns", text))
        larger = min(-(-wanted // _ROUNDED) * _ROUNDED, trained)
        if larger > capacity:
            text = f"The model was trained with up to {trained:,}. It is loaded again."
            choices.append(Choice("larger", f"Reload with a context of {larger:,} tokens", text))
        text = "Your message comes back to be edited; a document can be removed."
        choices.append(Choice("shorten", "Shorten the last message", text))
        choices.append(Choice("leave", "Leave it as it is"))

        def chosen(key: str | None) -> None:
            if key == "drop":
                chat.drop_oldest()
            elif key == "shorten":
                self._app.action_edit_last()
            elif key == "larger":
                chat.enlarge(larger)

        self._ask("The context", question, choices, chosen)

    # The engine -------------------------------------------------------------------------------

    def crashed(self, event: Crashed, restarted: bool) -> None:
        """Say in the transcript what happened; the engine's last lines are on a key."""
        from app.tui.dialogs.choice import Choice

        if restarted:
            text = f"The engine {event.reason} and was started again; nothing is lost."
            self._app.transcript.note(text, "error")
            return
        question = f"The engine {event.reason} while it loaded the model."
        choices = [
            Choice("again", "Load it once more"),
            Choice("models", "Choose another model"),
            Choice("settings", "Choose other settings"),
            Choice("leave", "Leave it as it is"),
        ]

        def chosen(key: str | None) -> None:
            if key == "again":
                self._app.chat.start()
            elif key == "models":
                self._app.action_models()
            elif key == "settings":
                self.settings()

        self._ask("The engine", question, choices, chosen, event.details)

    def asks(self, event: Asked) -> None:
        """A proposer wants disk space."""
        from app.tui.dialogs.choice import Choice

        choices = [Choice("yes", "Write it"), Choice("no", "Go on without")]

        def chosen(key: str | None) -> None:
            if key == "yes":
                self._app.chat.speculation.set_proposer(event.proposer, agreed=True)
            else:
                self._app.chat.speculation.next_proposer()

        self._ask("Disk space", event.question, choices, chosen)

    def drafts(self) -> None:
        """Choose a draft model. The list comes with `found`."""
        from app.tui.drafts.screen import DraftChoice, DraftScreen

        def chosen(choice: DraftChoice | None) -> None:
            if choice is not None:
                self._app.chat.speculation.set_draft(choice.draft)

        self._app.push_screen(DraftScreen(), chosen)

    def models(self) -> None:
        """Choose a model, or download one. The list comes with `found`."""
        from app.tui.models.screen import ModelChoice, ModelScreen

        app = self._app
        loaded = app.chat.loaded

        def chosen(choice: ModelChoice | None) -> None:
            if choice is not None:
                app.use_model(choice.path, choice.draft)

        app.push_screen(ModelScreen(loaded.path if loaded else None), chosen)

    def found(self, command: Task, event: Event) -> None:
        """The list for a picker, or why there is none; the picker may have been closed meanwhile."""
        from app.tui.drafts.screen import DraftScreen
        from app.tui.models.screen import ModelScreen

        for screen in self._app.screen_stack:
            if isinstance(screen, DraftScreen) and isinstance(event, Drafts):
                screen.show(event.candidates)
            elif isinstance(screen, ModelScreen) and isinstance(event, Models):
                screen.show(event.listing)
            elif isinstance(event, Failed) and isinstance(
                screen, DraftScreen if isinstance(command, FindDrafts) else ModelScreen
            ):
                screen.fail(event.message)

    # Compare ----------------------------------------------------------------------------------

    def compare(self) -> None:
        """Answer the last question with each proposer."""
        from app.tui.compare.screen import CompareScreen

        chat = self._app.chat
        last = chat.conversation.last
        command = chat.compare()
        if command is None or last is None:
            asked = "Ask something first: your last message is what is compared."
            self._app.view.say(f"Stop the {chat.making} first." if chat.busy else asked)
            return
        self._app.push_screen(
            CompareScreen(
                title_of(last.question),
                self._app.view.models,
                command.seed,
                command.sampling,
                command.proposers,
            )
        )

    def compares(self, event: ComparisonEvent) -> None:
        """A part of a comparison's result, or its end; it may have been closed meanwhile."""
        from app.tui.compare.screen import CompareScreen

        for screen in self._app.screen_stack:
            if isinstance(screen, CompareScreen):
                screen.take(event)

    def comparison_says(self, text: str) -> None:
        """Show a line on the comparison's screen."""
        from app.tui.compare.screen import CompareScreen

        if isinstance(self._app.screen, CompareScreen):
            self._app.screen.say(text)

    def explore(self) -> None:
        """Play with what decides whether speculation pays, from what this conversation measured."""
        from app.tui.explore.screen import ExploreScreen

        chat = self._app.chat
        figures = chat.figures.snapshot()
        self._app.push_screen(
            ExploreScreen(
                alpha=figures.alpha,
                k=figures.last_k or None,
                measured=dict(chat.loaded.costs) if chat.loaded else None,
                proposer=figures.proposer,
            )
        )

    # Sessions ---------------------------------------------------------------------------------

    def sessions(self) -> None:
        """Open, search, rename and delete sessions."""
        from app.tui.sessions.screen import SessionsScreen

        app = self._app

        def chosen(identity: str | None) -> None:
            if identity is None or identity == app.autosave.identity:
                return
            app.open_chat(app.autosave.ask(lambda store: store.load(identity)))

        app.push_screen(SessionsScreen(app.autosave), chosen)

    def export(self, argument: str) -> None:
        """Write the conversation to a Markdown file: at a path, or named after the title."""
        from app.chat.export import file_name, markdown

        app = self._app
        if not app.chat.conversation.exchanges:
            app.view.say("Nothing to export yet.")
            return
        title = app.autosave.title or "chat"
        text = markdown(title, app.view.model_name, app.chat.conversation)
        self._write(Path(argument or file_name(title)), text)

    def screenshot(self, argument: str) -> None:
        """Write a picture of the screen: at a path, or named after the title."""
        from app.chat.export import file_name

        title = self._app.autosave.title or "specchat"
        path = Path(argument or Path(file_name(title)).with_suffix(".svg"))
        self._write(path, self._app.export_screenshot(title=title))

    def _write(self, path: Path, text: str) -> None:
        from app.chat.export import write_new

        try:
            written = write_new(path, text)
        except SpecchatError as error:
            self._app.view.say(str(error), "warning")
        else:
            self._app.view.say(f"Written: {clean(str(written))}")

    # Settings and help ------------------------------------------------------------------------

    def settings(self) -> None:
        """Edit the settings, keep them in their file, and use them."""
        from app.tui.settings.screen import SettingsScreen

        app = self._app

        def chosen(settings: Settings | None) -> None:
            if settings is None:
                app.theme = THEMES[app.settings.look.theme].name
            else:
                self.keep(settings)

        app.push_screen(SettingsScreen(app.settings, app.chat.speculation.options), chosen)

    def keep(self, settings: Settings) -> bool:
        """Use these settings, and keep them in their file; False, and a sentence, where that fails."""
        from app.config.write import write_changes

        app = self._app
        before = app.settings
        app.apply(settings)
        try:
            write_changes(app.options.settings_file, before, settings)
        except SpecchatError as error:
            app.view.say(f"In use now, but not saved: {error}", "warning")
            return False
        return True

    def help(self) -> None:
        """All keys, as they are bound now."""
        from app.tui.help.screen import HelpScreen
        from app.tui.keys import entries

        self._app.push_screen(HelpScreen(entries(self._app.settings.keys)))

    def explain(self) -> None:
        """What each figure of the panel means."""
        from app.tui.panel.explain import ExplainScreen

        chat = self._app.chat
        memory = chat.loaded.memory if chat.loaded else ""
        self._app.push_screen(ExplainScreen(chat.figures.snapshot(), memory))
