"""The dialogues of the chat: when each opens, and what its answer does.

The large ones are imported when they open: the first frame need not wait for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.chat.conversation import title_of
from app.config.values import Settings
from app.errors import SpecchatError
from app.process.commands import FindDrafts, FindModels
from app.process.events import Asked, Crashed, TooLong
from app.text import clean
from app.tui.dialogs.choice import Alternative, ChoiceScreen
from app.tui.theme import THEMES
from app.tui.window import ChatWindow

# A larger context is a multiple of this.
_ROUNDED = 1024
# Tokens left for an answer in a larger context.
_ANSWER = 1024


class Dialogues:
    """Opens dialogues over the chat and carries out what is chosen in them."""

    def __init__(self, window: ChatWindow) -> None:
        self._window = window

    def _ask(self, title: str, question: str, alternatives: Sequence[Alternative], details: str = "") -> None:
        """Ask, unless a question of this title is open: an engine that dies again and again asks once.

        Esc does what the last alternative does.
        """

        def chosen(taken: Alternative | None) -> None:
            (taken or alternatives[-1]).act()

        screens = self._window.screen_stack
        if not any(isinstance(each, ChoiceScreen) and each.title == title for each in screens):
            self._window.push_screen(ChoiceScreen(question, alternatives, details, title), chosen)

    # The end of the context -----------------------------------------------------------------

    def too_long(self, event: TooLong) -> None:
        """The prompt does not fit: nothing is cut without being asked for."""
        self._ask_for_room(
            f"The conversation has {event.tokens:,} tokens and the context holds {event.capacity:,}.",
            event.tokens + _ANSWER,
            event.capacity,
            event.trained,
        )

    def context_is_full(self) -> None:
        """A reply reached the end of the context."""
        loaded = self._window.chat.loaded
        if loaded is not None:
            capacity = loaded.context_length
            self._ask_for_room(
                f"The context of {capacity:,} tokens is full: the answer was cut there.",
                capacity + 2 * _ANSWER,
                capacity,
                loaded.context_trained,
            )

    def _ask_for_room(self, question: str, wanted: int, capacity: int, trained: int) -> None:
        chat = self._window.chat
        answers = []
        if len(chat.conversation.exchanges) - 1 > chat.conversation.unsent:
            text = "They stay on the screen and in the session, but the model no longer sees them."
            answers.append(Alternative("Drop the oldest messages", text, chat.drop_oldest))
        larger = min(-(-wanted // _ROUNDED) * _ROUNDED, trained)
        if larger > capacity:
            text = f"Loads the model again. It was trained with up to {trained:,} tokens."
            label = f"Use a context of {larger:,} tokens"
            answers.append(Alternative(label, text, lambda: chat.enlarge(larger)))
        text = "It comes back to the prompt; there you can also remove a document."
        answers.append(Alternative("Shorten the last message", text, self._window.edit_last))
        answers.append(Alternative("Leave it as it is"))
        self._ask("The context", question, answers)

    # The engine -----------------------------------------------------------------------------

    def crashed(self, event: Crashed, restarted: bool) -> None:
        """Say in the transcript what happened, or ask what to do; the engine's last lines are on a key."""
        if restarted:
            self._window.say(f"The engine {event.reason} and was started again; nothing is lost.", "error")
            return
        self._ask(
            "The engine",
            f"The engine {event.reason} while it loaded the model.",
            [
                Alternative("Load it again", act=self._window.chat.start),
                Alternative("Choose another model", act=self.models),
                Alternative("Change the settings", act=self.settings),
                Alternative("Leave it as it is"),
            ],
            event.details,
        )

    def asks(self, event: Asked) -> None:
        """A proposer wants disk space."""
        speculation = self._window.chat.speculation
        self._ask(
            "Disk space",
            event.question,
            [
                Alternative("Write it", act=lambda: speculation.set_proposer(event.proposer, agreed=True)),
                Alternative("Go on without it", act=speculation.next_proposer),
            ],
        )

    def drafts(self) -> None:
        """Choose a draft model. The list comes later, as an event."""
        from app.tui.drafts.screen import DraftChoice, DraftScreen

        def chosen(choice: DraftChoice | None) -> None:
            if choice is not None:
                self._window.chat.speculation.set_draft(choice.draft)

        self._window.push_screen(DraftScreen(), chosen)
        self._window.chat.request(FindDrafts(self._window.settings.model.draft_folders))

    def models(self) -> None:
        """Choose a model, or download one. The list comes later, as an event."""
        from app.tui.models.screen import ModelChoice, ModelScreen

        window = self._window
        loaded = window.chat.loaded

        def chosen(choice: ModelChoice | None) -> None:
            if choice is not None:
                window.use_model(choice.path, choice.draft)

        window.push_screen(ModelScreen(loaded.path if loaded else None), chosen)
        window.chat.request(FindModels(window.settings.model.draft_folders))

    # Compare and explore --------------------------------------------------------------------

    def compare(self) -> None:
        """Answer the last question with each proposer."""
        from app.tui.compare.screen import CompareScreen

        window, chat = self._window, self._window.chat
        last = chat.conversation.last
        command = chat.compare()
        if command is None or last is None:
            nothing = "Ask something first: the comparison answers your last message."
            window.say(f"Stop the {chat.making} first." if chat.busy else nothing)
            return
        window.push_screen(
            CompareScreen(
                title_of(last.question),
                window.models,
                command.seed,
                command.sampling,
                command.proposers,
                stop=chat.stop,
                copy=window.copy_text,
            )
        )

    def explore(self) -> None:
        """Show when speculation pays, beginning with what this conversation measured."""
        from app.tui.explore.screen import ExploreScreen

        chat = self._window.chat
        figures = chat.figures.snapshot()
        self._window.push_screen(
            ExploreScreen(
                alpha=figures.alpha,
                k=figures.last_k or None,
                measured=dict(chat.loaded.costs) if chat.loaded else None,
                proposer=figures.proposer,
            )
        )

    # Sessions and files ---------------------------------------------------------------------

    def sessions(self) -> None:
        """Open, search, rename and delete sessions."""
        from app.tui.sessions.screen import SessionsScreen

        window = self._window

        def chosen(identity: str | None) -> None:
            if identity is not None and identity != window.autosave.identity:
                window.open_chat(window.autosave.ask(lambda store: store.load(identity)))

        window.push_screen(SessionsScreen(window.autosave), chosen)

    def export(self, argument: str) -> None:
        """Write the conversation to a Markdown file: at a path, or named after the title."""
        from app.chat.export import file_name, markdown

        window = self._window
        if not window.chat.conversation.exchanges:
            window.say("There is nothing to export yet.")
            return
        title = window.autosave.title or "chat"
        text = markdown(title, window.model_name, window.chat.conversation)
        self._write(Path(argument or file_name(title)), text)

    def screenshot(self, argument: str) -> None:
        """Write a picture of the screen: at a path, or named after the title."""
        from app.chat.export import file_name

        title = self._window.autosave.title or "specchat"
        path = Path(argument or Path(file_name(title)).with_suffix(".svg"))
        self._write(path, self._window.export_screenshot(title=title))

    def _write(self, path: Path, text: str) -> None:
        from app.chat.export import write_new

        try:
            written = write_new(path, text)
        except SpecchatError as error:
            self._window.say(str(error), "warning")
        else:
            self._window.say(f"Written to {clean(str(written))}")

    # Settings and help ----------------------------------------------------------------------

    def settings(self) -> None:
        """Edit the settings, keep them in their file, and use them."""
        from app.tui.settings.screen import SettingsScreen

        window = self._window

        def preview(theme: str) -> None:
            window.theme = THEMES[theme].name

        def chosen(settings: Settings | None) -> None:
            if settings is not None:
                window.keep_settings(settings)

        window.push_screen(SettingsScreen(window.settings, preview, window.chat.speculation.options), chosen)

    def help(self) -> None:
        """All keys, as they are bound now."""
        from app.tui.help.screen import HelpScreen

        self._window.push_screen(HelpScreen(self._window.settings.keys))

    def explain(self) -> None:
        """What each figure of the panel means."""
        from app.tui.panel.explain import ExplainScreen

        chat = self._window.chat
        memory = chat.loaded.memory if chat.loaded else ""
        self._window.push_screen(ExplainScreen(chat.figures.snapshot(), memory))

    def palette(self) -> None:
        """All commands, to be searched."""
        from app.tui.dialogs.palette import ActionPalette

        if not isinstance(self._window.screen, ActionPalette):
            self._window.push_screen(ActionPalette(id="--command-palette"))
