"""The chat's window: its panes and where they stand, the conversation in it, and the settings in use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from app.chat.conversation import Conversation
from app.chat.store import Saved
from app.config.values import Settings
from app.errors import SpecchatError
from app.models.naming import with_draft
from app.session.autosave import Autosave
from app.session.chat import Chat
from app.session.engine import GenerationSettings
from app.text import clean, one_line
from app.tui.clipboard import copy
from app.tui.dialogs.lines import LazyLines, fit
from app.tui.foot import KeyFooter
from app.tui.keys import bindings, footer_key, keys_in_force, shown_keys
from app.tui.options import ChatOptions
from app.tui.panel.panel import SpeculationPanel
from app.tui.panel.strip import SpeculationStrip
from app.tui.prompt import history
from app.tui.prompt.area import PromptArea
from app.tui.starters.starters import Starters
from app.tui.textual_private import set_bindings
from app.tui.theme import THEMES
from app.tui.transcript.colouring import LEVELS, Level
from app.tui.transcript.rendering import KeyNames
from app.tui.transcript.transcript import Transcript

# From this width on the panel has a column of its own.
WIDE = 110
# Smaller than this nothing can be read.
SMALLEST = (40, 12)
# Below this height there is room for the conversation, the prompt and one line of figures only.
LOW = 18


class Box(Vertical):
    """Holds panes that cover it, so that a change in another box does not repaint them.

    For each change Textual asks every widget for its lines if their container overlaps what changed. A pane
    in a box of its own is left out when another box changes, and the box itself is blank and costs little.
    """

    BLANK = True


class ChatScreen(Screen[None], inherit_bindings=False):
    """Holds the keys of the chat, so that none of them acts below a dialogue."""

    # Its boxes cover it.
    BLANK = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", show=False),
        Binding("shift+tab", "app.focus_previous", show=False),
    ]

    def use_keys(self, overrides: Mapping[str, str]) -> None:
        """Bind the actions to these keys. Textual's keymap would keep each old key's priority."""
        set_bindings(self, [*self.BINDINGS, *bindings(overrides)])


class ChatWindow(App[None], inherit_bindings=False):
    """One conversation in its panes. `SpecchatApp` adds the keys, the dialogues and what the engine says."""

    TITLE = "specchat"
    # Textual's own key for it has priority below dialogues too, and hides ours in the footer.
    ENABLE_COMMAND_PALETTE = False
    CSS = Path(__file__).with_name("app.tcss").read_text("utf-8")

    chat: Chat

    class FromStore(Message):
        """A sentence of the store's thread, "" where only the chat's title changed."""

        def __init__(self, sentence: str) -> None:
            super().__init__()
            self.sentence = sentence

    def __init__(self, options: ChatOptions) -> None:
        super().__init__()
        self.options = options
        self.settings: Settings = options.settings
        for theme in THEMES.values():
            self.register_theme(theme)
        # The panes' styles name variables that only these themes have.
        self.theme = THEMES[self.settings.look.theme].name
        self.chat_screen = ChatScreen(id="chat")
        # The model with where it runs, and the chat's title; "" where there is none.
        self._heading = ("", "")
        self.header = Static(LazyLines(self._header_line, 1), id="header")
        self.transcript = Transcript(id="transcript")
        self.panel = SpeculationPanel(id="panel")
        self.strip = SpeculationStrip(id="strip")
        self.starters = Starters(id="starters")
        past = history.History(history.load(self.history_file))
        self.prompt = PromptArea(past, self.starters, id="prompt")
        self.top = Box(self.header, id="top")
        self.aside = Box(self.panel, id="aside")
        self.column = Box(self.transcript, self.starters, id="column")
        self.main = Box(self.column, self.aside, id="main")
        self.band = Box(self.strip, id="band")
        self.foot = Box(self.prompt, KeyFooter(show_command_palette=False, compact=True), id="foot")
        self.small = Static(id="small")
        self.autosave = Autosave(options.folder / "sessions.db", self._told)
        # What to print once the terminal is given back.
        self.farewell: str | None = None
        self.keys = keys_in_force(self.settings.keys)
        # The panel beside the conversation, and in place of it where the window is narrow.
        self.panel_wanted = self.settings.look.panel
        self.panel_over = False
        # What waits for the chat that is being opened; None while none is.
        self._early: list[Callable[[], None]] | None = None

    def _told(self, sentence: str) -> None:
        """Called from the store's thread."""
        self.post_message(self.FromStore(sentence))

    @property
    def history_file(self) -> Path:
        """Where the prompts that were sent are kept."""
        return self.options.folder / "history.jsonl"

    def get_default_screen(self) -> Screen[None]:
        return self.chat_screen

    def get_key_display(self, binding: Binding) -> str:
        return footer_key(binding)

    def compose(self) -> ComposeResult:
        yield from (self.top, self.main, self.band, self.foot, self.small)

    # Layout ---------------------------------------------------------------------------------

    def fit(self, size: Size) -> None:
        """Show the panes that there is room for. Classes of the screen would restyle all that is on it."""
        width, height = size
        small = width < SMALLEST[0] or height < SMALLEST[1]
        wide, low = width >= WIDE, height < LOW
        panel = self.panel_wanted if wide else self.panel_over
        self.small.update(f"This terminal has {width} × {height} cells.\nMake it larger: 80 × 24 is good.")
        if self.small.display and not small:
            # What is hidden loses the focus.
            self.call_after_refresh(self.prompt.focus_editor)
        for pane in (self.main, self.foot):
            pane.display = not small
        self.top.display = not small and not low
        self.small.display = small
        self.strip.set_class(low, "-low")
        self.aside.display = self.panel.display = panel
        self.aside.set_class(wide, "-beside")
        self.panel.set_class(wide, "-beside")
        self.column.display = wide or not panel
        self.strip.display = not (wide and panel)
        self.band.display = self.strip.display and not small

    # What is said ---------------------------------------------------------------------------

    @property
    def model_name(self) -> str:
        """The loaded model, "" for none."""
        return self.chat.loaded.name if self.chat.loaded else ""

    @property
    def models(self) -> str:
        """The model with its draft."""
        return with_draft(self.model_name, self.chat.speculation.draft) if self.model_name else ""

    def show_header(self) -> None:
        """The model, its draft, the GPU that it runs on, and the chat's title."""
        gpus = self.chat.loaded.gpus if self.chat.loaded else ()
        more = f" and {len(gpus) - 1} more" if len(gpus) > 1 else ""
        place = f" on {gpus[0]}{more}" if gpus else ""
        heading = one_line(f"{self.models}{place}"), one_line(self.autosave.title)
        if heading != self._heading:
            self._heading = heading
            self.header.refresh()

    def _header_line(self, columns: int) -> Content:
        model, title = self._heading
        left = Content.assemble(("specchat", "bold $accent"), f" · {model}" if model else "")
        room = max(0, columns - left.cell_length - 2)
        return Content.assemble(left, "  ", fit(title, room, right=True))

    def say(self, text: str, kind: str = "information") -> None:
        """Say this: "error" and "note" in the transcript, "information" and "warning" over it for a while."""
        if kind in ("error", "note"):
            self.transcript.note(clean(text), "error" if kind == "error" else "information")
            return
        severity: Literal["warning", "information"] = "warning" if kind == "warning" else "information"
        self.notify(clean(text), severity=severity, markup=False, timeout=6)

    def copy_text(self, text: str) -> str:
        """Copy, say how, and return what was said."""
        said = copy(text, self.copy_to_clipboard, os.environ)
        self.say(said)
        return said

    # The conversation -----------------------------------------------------------------------

    def keep(self, conversation: Conversation) -> None:
        """Have the conversation stored; where that fails the chat goes on, and the person is told once."""
        self.autosave.keep(conversation, self.model_name)
        self.show_header()

    def new_chat(self) -> None:
        """Begin another conversation."""
        if not self._refuse_while_opening() and not self._refuse_while_busy():
            self.prompt.leave_edit()
            self.autosave.begin_another()
            self.chat.show(Conversation(system=self.settings.chat.system))
            self.show_header()
            self.prompt.focus_editor()

    def open_chat(self, asked: Future[Saved]) -> None:
        """Go on with this chat once it is there. What is sent until then is for that one."""
        if not self._refuse_while_opening():
            self.prompt.leave_edit()
            self._early = []
            self.run_worker(self._open(asked))

    async def _open(self, asked: Future[Saved]) -> None:
        try:
            saved = await asyncio.wrap_future(asked)
        except SpecchatError as error:
            self.say(str(error), "warning")
        else:
            if not self._refuse_while_busy():
                self.chat.show(self.autosave.go_on(saved))
        self.show_header()
        early, self._early = self._early, None
        for act in early or ():
            act()

    def waits_for_chat(self, act: Callable[[], None]) -> bool:
        """Whether a chat is being opened; then this is done once it is there."""
        if self._early is not None:
            self._early.append(act)
        return self._early is not None

    def edit_last(self) -> None:
        """Put the last question into the prompt, to be edited and sent again."""
        question = self.chat.edit_last()
        if question is not None:
            self.prompt.edit(question)

    def _refuse_while_opening(self) -> bool:
        if self._early is not None:
            self.say("A chat is still being opened.")
        return self._early is not None

    def _refuse_while_busy(self) -> bool:
        if self.chat.busy:
            self.say(f"Stop the {self.chat.making} first.")
        return self.chat.busy

    # The settings ---------------------------------------------------------------------------

    def keep_settings(self, settings: Settings) -> bool:
        """Use these settings and keep them in their file; False, and a sentence, where that fails."""
        from app.config.write import write_changes

        before = self.settings
        self.apply(settings)
        try:
            write_changes(self.options.settings_file, before, settings)
        except SpecchatError as error:
            self.say(f"In use now, but not saved: {error}", "warning")
            return False
        return True

    def apply(self, settings: Settings) -> None:
        """Use other settings from now on; load the model again if they concern how it is loaded."""
        before, self.settings = self.settings, settings
        self.theme = THEMES[settings.look.theme].name
        self.use_keys()
        same = settings.look.drafts == before.look.drafts
        self.use_colours(self.transcript.colours[0] if same else LEVELS[settings.look.drafts])
        self.chat.generation = generation_settings(settings)
        if settings.speculation.proposer != before.speculation.proposer:
            self.chat.speculation.set_proposer(settings.speculation.proposer)
        if settings.speculation.k != before.speculation.k:
            self.chat.speculation.set_k(settings.speculation.k)
        if settings.chat.system != before.chat.system:
            self.chat.set_system(settings.chat.system)
        if settings.model != before.model:
            self.chat.reload(before.model, settings.model)

    def use_model(self, path: str, draft: str | None) -> None:
        """Load another model from now on; the file of the settings stays as it is."""
        model = replace(self.settings.model, name=path, draft=draft)
        self.settings = replace(self.settings, model=model)
        self.chat.use_model(model)

    def use_colours(self, level: Level) -> None:
        """Mark so much of the drafts, in the colours that the terminal has."""
        theme: str = self.settings.look.theme
        if self.no_color:
            theme = "none"
        elif self.console.color_system == "standard" and not self.is_headless:
            # None of its sixteen colours is a tint.
            theme = "terminal"
        self.transcript.set_colours(level, theme)

    def use_keys(self) -> None:
        """Bind the keys of the settings, and name them where the conversation speaks of them."""
        self.keys = keys_in_force(self.settings.keys)
        self.chat_screen.use_keys(self.settings.keys)
        named = (shown_keys(self.keys[name][:1]) for name in ("thoughts", "continue_reply"))
        self.transcript.name_keys(KeyNames(*named))


def generation_settings(settings: Settings) -> GenerationSettings:
    """How the settings have the next reply made."""
    sampling = settings.sampling
    return GenerationSettings(sampling.for_engine(), sampling.seed, sampling.max_tokens)
