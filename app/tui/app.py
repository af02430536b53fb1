"""The chat screen: panes put together, and what each key and each message of a pane does."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.events import Callback, InputEvent, Key, Paste, Resize
from textual.events import Event as ScreenEvent
from textual.message import Message
from textual.screen import Screen
from textual.widget import AwaitMount

from app.chat.conversation import Conversation
from app.chat.store import Saved
from app.config.fields import BY_PATH, FIELDS, get, put, typed
from app.config.values import Settings
from app.engine.settings import Sampling
from app.errors import SpecchatError
from app.process.client import Link
from app.process.commands import FindDrafts, FindModels
from app.process.events import Event, Loaded
from app.session.autosave import Autosave
from app.session.chat import Chat
from app.session.engine import GenerationSettings
from app.tui.actions import ACTIONS, BY_NAME, Action
from app.tui.box import Box
from app.tui.clipboard import copy
from app.tui.dialogues import Dialogues
from app.tui.foot import Foot
from app.tui.header import Header
from app.tui.keys import bindings, keys_in_force, shown_keys
from app.tui.options import ChatOptions, remember_model
from app.tui.panel.panel import SpeculationPanel
from app.tui.panel.strip import SpeculationStrip
from app.tui.prompt import history
from app.tui.prompt.area import PromptArea
from app.tui.prompt.attachments import Attachments
from app.tui.small import TooSmall
from app.tui.starters.starters import Starters
from app.tui.textual_private import set_bindings
from app.tui.theme import THEMES
from app.tui.transcript.code_blocks import code_blocks, parser
from app.tui.transcript.colouring import LEVELS, Level
from app.tui.transcript.rendering import KeyNames
from app.tui.transcript.transcript import Transcript
from app.tui.view import FIGURES_SECONDS, PaneView

if TYPE_CHECKING:
    from app.tui.compare.screen import CompareScreen
    from app.tui.settings.screen import SettingsScreen

# From here on the panel has a column of its own.
WIDE = 110
# Smaller than this nothing can be read.
SMALLEST = (40, 12)
# Lower than this, only the conversation, the prompt and one line of figures have room.
LOW = 18


class ChatScreen(Screen[None], inherit_bindings=False):
    """Holds the keys of the chat, so that none of them acts below a dialogue."""

    # Its boxes cover it.
    BLANK = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", show=False),
        Binding("shift+tab", "app.focus_previous", show=False),
    ]

    def use_keys(self, overrides: Mapping[str, str]) -> None:
        """Bind the actions to these keys."""
        set_bindings(self, [*self.BINDINGS, *bindings(overrides)])


class SpecchatApp(App[None], inherit_bindings=False):
    """`specchat`: one conversation, one engine, and the panel that shows why it is fast."""

    TITLE = "specchat"
    # Ours is opened by our own key: Textual's has priority below dialogues too, and hides ours at the foot.
    ENABLE_COMMAND_PALETTE = False
    CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")

    class FromEngine(Message):
        """An event, brought over from the link's thread."""

        def __init__(self, event: Event) -> None:
            super().__init__()
            self.event = event

    class FromStore(Message):
        """A sentence of the store's thread, "" where only the chat's title changed."""

        def __init__(self, sentence: str) -> None:
            super().__init__()
            self.sentence = sentence

    def __init__(self, options: ChatOptions, link: Link) -> None:
        super().__init__()
        self.options = options
        self.settings: Settings = options.settings
        for theme in THEMES.values():
            self.register_theme(theme)
        # The panes' styles name variables that only these themes have.
        self.theme = THEMES[self.settings.look.theme].name
        self.chat_screen = ChatScreen(id="chat")
        self.transcript = Transcript(id="transcript")
        self.panel = SpeculationPanel(id="panel")
        self.strip = SpeculationStrip(id="strip")
        past = history.History(history.load(options.folder / "history.jsonl"))
        self.starters = Starters(id="starters")
        self.prompt = PromptArea(past, self.starters, id="prompt")
        self.header = Header(id="header")
        footer = Foot(show_command_palette=False, compact=True)
        self.top = Box(self.header, id="top")
        self.aside = Box(self.panel, id="aside")
        self.column = Box(self.transcript, self.starters, id="column")
        self.main = Box(self.column, self.aside, id="main")
        self.band = Box(self.strip, id="band")
        self.foot = Box(self.prompt, footer, id="foot")
        self.small = TooSmall(id="small")
        self.autosave = Autosave(options.folder / "sessions.db", self._told)
        # What is to be said once the terminal is given back.
        self.farewell: str | None = None
        # What was sent while the chat that it is for was being opened; None while none is.
        self._early: list[PromptArea.Sent | Starters.Chosen] | None = None
        self.view = PaneView(self)
        self.chat = Chat(
            link,
            self.view,
            deliver=self._deliver,
            load=self.settings.model,
            generation=generation_settings(self.settings),
            proposer=self.settings.speculation.proposer,
            k=self.settings.speculation.k,
        )
        self.dialogues = Dialogues(self)
        self._link = link
        self._panel_wanted = self.settings.look.panel
        self._code_block = 0
        self._keys = keys_in_force(self.settings.keys)

    def _deliver(self, event: Event) -> None:
        """Called from the link's thread."""
        self.post_message(self.FromEngine(event))

    def _told(self, sentence: str) -> None:
        """Called from the store's thread."""
        self.post_message(self.FromStore(sentence))

    def get_default_screen(self) -> Screen[None]:
        return self.chat_screen

    def compose(self) -> ComposeResult:
        yield self.top
        yield self.main
        yield self.band
        yield self.foot
        yield self.small

    def on_mount(self) -> None:
        self._use_keys()
        self._use_colours(LEVELS[self.settings.look.drafts])
        self._leave_on_signals()
        # Textual takes the screen for what it was before the suspension.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh())
        for document in self.options.documents:
            self.prompt.attach_document(document)
        self.prompt.focus_editor()
        self.call_after_refresh(self._settled)

    def _settled(self) -> None:
        """What the first frame does not wait for."""
        gc.freeze()
        # Looked for as often as Python does, garbage costs a reply more than there is of it.
        gc.set_threshold(20_000, 20, 100)
        gc.enable()
        self.set_interval(FIGURES_SECONDS, self.view.tick)
        self.autosave.start()
        self._begin_conversation()
        for notice in self.options.notices:
            self.view.say(notice, "warning")
        self.chat.start()
        # Loaded now, while the model is: else tokens of the first reply wait for it.
        parser()

    def _leave_on_signals(self) -> None:
        """Give the terminal back before an end from outside, as after one from inside."""
        if self.is_headless or sys.platform == "win32":
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, partial(self.exit, None, 128 + number))

    def _begin_conversation(self) -> None:
        self.chat.show(Conversation(system=self.settings.chat.system))
        if self.options.resume is not None:
            self.open_chat(self.autosave.resume(self.options.resume))

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
            self.view.say(str(error), "warning")
        else:
            if not self._refuse_while_busy():
                self.chat.show(self.autosave.go_on(saved))
        self.view.show_header()
        early, self._early = self._early, None
        for message in early or ():
            self._sent(message)

    def on_unmount(self) -> None:
        self._link.close()
        self.farewell = self.autosave.close()

    async def on_event(self, event: ScreenEvent) -> None:
        """Keys wait for the dialogue that a key before them opens: they are for it, and act on its parts.

        Once the app is left nothing can be shown any more, and what tries to would end it with a fault.
        """
        if self.return_code is not None and isinstance(event, (InputEvent, Paste, Callback)):
            return
        if isinstance(event, (InputEvent, Paste)) and not self.screen.is_mounted:
            await AwaitMount(self.screen, [self.screen])
        if isinstance(event, Key):
            self.prompt.key_came(event.key in self._keys["leave"])
        if isinstance(event, (Key, Paste)) and self.screen is self.chat_screen:
            # Whatever has the focus, the conversation or nothing: what is typed is for the prompt.
            self.prompt.claim(event)
        await super().on_event(event)

    # Messages of the panes and the engine --------------------------------------------------

    def on_specchat_app_from_engine(self, message: FromEngine) -> None:
        if isinstance(message.event, Loaded):
            remember_model(self.options.folder, message.event.path)
        self.chat.handle(message.event)

    def on_specchat_app_from_store(self, message: FromStore) -> None:
        if message.sentence:
            self.view.say(message.sentence, "warning")
        self.view.show_header()

    @on(PromptArea.Sent)
    @on(Starters.Chosen)
    def _sent(self, message: PromptArea.Sent | Starters.Chosen) -> None:
        if self._early is not None:
            self._early.append(message)
            return
        self._code_block = 0
        if isinstance(message, PromptArea.Sent) and message.edits is not None:
            self.chat.send_edited(message.edits, message.question)
        elif isinstance(message, Starters.Chosen) and message.copies:
            settings = GenerationSettings(Sampling(temperature=0.0), max_tokens=message.copies)
            self.chat.send(message.question, settings)
        else:
            self.chat.send(message.question)

    @on(PromptArea.Command)
    async def _command(self, message: PromptArea.Command) -> None:
        await self.perform(BY_NAME[message.name], message.argument)

    @on(Attachments.CountWanted)
    def _count_wanted(self, message: Attachments.CountWanted) -> None:
        self.view.count(message.identity, message.text)

    @on(Transcript.VersionWanted)
    def _version_wanted(self, message: Transcript.VersionWanted) -> None:
        self.chat.walk_versions(message.step, message.index)
        self.transcript.reveal(message.index, message.y)

    @on(SpeculationStrip.Pressed)
    def _strip_pressed(self) -> None:
        self.action_panel()

    @on(PromptArea.Remembered)
    def _remembered(self, message: PromptArea.Remembered) -> None:
        history.append(self.options.folder / "history.jsonl", message.text)

    def on_compare_screen_stopped(self) -> None:
        self.chat.stop()

    def on_compare_screen_copy(self, message: CompareScreen.Copy) -> None:
        self.dialogues.comparison_says(self.copy_text(message.text))

    def on_settings_screen_preview(self, message: SettingsScreen.Preview) -> None:
        self.theme = THEMES[message.theme].name

    def on_resize(self, event: Resize) -> None:
        self._fit(event.size.width, event.size.height)

    def _fit(self, width: int, height: int) -> None:
        """Which panes have room. Not by classes of the screen, which would restyle all that is on it."""
        small = width < SMALLEST[0] or height < SMALLEST[1]
        wide, low = width >= WIDE, height < LOW
        panel = self._panel_wanted if wide else self._panel_over
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
        # What was hidden missed the figures meanwhile.
        self.call_after_refresh(self.view.figures_changed)

    # Actions, in the order of the table ------------------------------------------------------

    _panel_over = False

    def action_help(self) -> None:
        self.dialogues.help()

    def action_next_proposer(self, name: str = "") -> None:
        problems = {option.name: option.problem for option in self.chat.speculation.options}
        if not name:
            self.chat.speculation.next_proposer()
        elif name not in problems:
            names = ", ".join(problems) or "auto, once the model is loaded"
            self.view.say(f"There is no proposer {name}: take {names}.", "warning")
        elif problem := problems[name]:
            self.view.say(f"{name} cannot be used: {problem}.", "warning")
        else:
            self.chat.speculation.set_proposer(name)

    def action_automatic_k(self, k: str = "") -> None:
        if not k:
            self.chat.speculation.toggle_k()
            return
        with self._saying("/k auto, or"):
            self.chat.speculation.set_k(
                None if k == "auto" else int(str(typed(BY_PATH["speculation", "k"], k)))
            )

    def action_longer_k(self) -> None:
        self.chat.speculation.change_k(1)

    def action_shorter_k(self) -> None:
        self.chat.speculation.change_k(-1)

    def action_colours(self) -> None:
        following: dict[Level, Level] = {0: 1, 1: 2, 2: 0}
        self._use_colours(following[self.transcript.colours[0]])

    def action_compare(self) -> None:
        self.dialogues.compare()

    def action_explore(self) -> None:
        self.dialogues.explore()

    def action_panel(self) -> None:
        if self.size.width >= WIDE:
            self._panel_wanted = not self._panel_wanted
        else:
            self._panel_over = not self._panel_over
        self._fit(self.size.width, self.size.height)

    def action_drafts(self) -> None:
        self.dialogues.drafts()
        self.chat.request(FindDrafts(self.settings.model.draft_folders))

    def action_models(self) -> None:
        self.dialogues.models()
        self.chat.request(FindModels(self.settings.model.draft_folders))

    def action_sessions(self) -> None:
        self.dialogues.sessions()

    def action_settings(self) -> None:
        self.dialogues.settings()

    def action_explain(self) -> None:
        self.dialogues.explain()

    def action_stop(self) -> None:
        if self._panel_over and self.size.width < WIDE and not self.chat.busy:
            self.action_panel()
        elif self.chat.busy or not self.prompt.leave_edit():
            self.chat.stop()

    def action_regenerate(self) -> None:
        self.chat.regenerate()

    def action_continue_reply(self) -> None:
        self.chat.continue_reply()

    def action_edit_last(self) -> None:
        question = self.chat.edit_last()
        if question is not None:
            self.prompt.edit(question)

    def action_previous_version(self) -> None:
        self.chat.walk_versions(-1)

    def action_next_version(self) -> None:
        self.chat.walk_versions(1)

    def action_delete_version(self) -> None:
        self.chat.delete_version()

    def action_copy_answer(self) -> None:
        answer = self._last_answer()
        self.copy_text(answer) if answer else self.view.say("No answer to copy yet.")

    def action_copy_code(self) -> None:
        blocks = code_blocks(self._last_answer())
        if not blocks:
            self.view.say("The last answer has no code block.")
            return
        self._code_block = self._code_block % len(blocks) + 1
        self.copy_text(blocks[-self._code_block].text)

    def action_new_chat(self) -> None:
        if not self._refuse_while_opening() and not self._refuse_while_busy():
            self.prompt.leave_edit()
            self.autosave.begin_another()
            self.chat.show(Conversation(system=self.settings.chat.system))
            self.view.show_header()
            self.prompt.focus_editor()

    def action_attach(self, _path: str = "") -> None:
        self.prompt.start_attaching()

    def action_export(self, path: str = "") -> None:
        self.dialogues.export(path)

    def action_temperature(self, number: str = "") -> None:
        if number:
            self._set("sampling", "temperature", number)
        else:
            self.prompt.begin("/temperature ")

    def action_thoughts(self) -> None:
        self.transcript.toggle_thoughts()

    def action_fold(self) -> None:
        self.transcript.toggle_questions()

    def action_page_up(self) -> None:
        self.transcript.action_page_up()

    def action_page_down(self) -> None:
        self.transcript.action_page_down()

    def action_to_end(self) -> None:
        self.transcript.go_to_end()

    def action_theme(self, name: str = "") -> None:
        names = list(THEMES)
        self._set("look", "theme", name or names[(names.index(self.settings.look.theme) + 1) % len(names)])

    def action_screenshot(self, filename: str | None = None, path: str | None = None) -> None:
        # What was typed, or the palette, is still on the screen.
        self.call_after_refresh(self.dialogues.screenshot, filename or path or "")

    def action_command_palette(self) -> None:
        from app.tui.dialogs.palette import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def action_leave(self) -> None:
        """Ctrl+C first does what it is expected to do in an editor; nothing is lost to one key."""
        selected = self.screen.get_selected_text()
        if selected:
            self.copy_text(selected)
            self.screen.clear_selection()
        elif not self.prompt.clear_or_copy() and not self.prompt.ask_to_leave(
            shown_keys(self._keys["leave"][:1])
        ):
            self.exit()

    async def action_quit(self) -> None:
        """What is being written is there again next time, one key up."""
        if self.prompt.draft.text.strip():
            history.append(self.options.folder / "history.jsonl", self.prompt.draft.text)
        self.exit()

    # Shared by actions and dialogues ---------------------------------------------------------

    @contextmanager
    def _saying(self, what: str) -> Iterator[None]:
        """Say what is wrong with a value that was typed, as `typed` tells it."""
        try:
            yield
        except ValueError as error:
            self.view.say(f"{what}: {error}.", "warning")

    def _set(self, section: str, name: str, text: str) -> None:
        """Give a setting the value that was typed, from now on."""
        field = BY_PATH[section, name]
        with self._saying(field.title):
            if self.dialogues.keep(put(self.settings, field, typed(field, text))):
                self.view.say(f"{field.title} {text}, saved to the settings.")

    def copy_text(self, text: str) -> str:
        """Copy, say how, and return what was said."""
        said = copy(text, self.copy_to_clipboard, os.environ)
        self.view.say(said)
        return said

    def apply(self, settings: Settings) -> None:
        """Use other settings from now on; where they concern how the model is loaded, load it again."""
        before, self.settings = self.settings, settings
        self.theme = THEMES[settings.look.theme].name
        self._use_keys()
        same = settings.look.drafts == before.look.drafts
        self._use_colours(self.transcript.colours[0] if same else LEVELS[settings.look.drafts])
        self.chat.generation = generation_settings(settings)
        if settings.speculation.proposer != before.speculation.proposer:
            self.chat.speculation.set_proposer(settings.speculation.proposer)
        if settings.speculation.k != before.speculation.k:
            self.chat.speculation.set_k(settings.speculation.k)
        if settings.chat.system != before.chat.system:
            self.chat.set_system(settings.chat.system)
        if any(field.reload and get(settings, field) != get(before, field) for field in FIELDS):
            self.chat.reload(before.model, settings.model)

    def use_model(self, path: str, draft: str | None) -> None:
        """Load another model from now on; the file of the settings stays as it is."""
        model = replace(self.settings.model, name=path, draft=draft)
        self.settings = replace(self.settings, model=model)
        self.chat.use_model(model)

    def _use_colours(self, level: Level) -> None:
        theme: str = self.settings.look.theme
        if self.no_color:
            theme = "none"
        elif self.console.color_system == "standard" and not self.is_headless:
            # Of its sixteen colours none is a tint.
            theme = "terminal"
        self.transcript.set_colours(level, theme)

    def _use_keys(self) -> None:
        self._keys = keys_in_force(self.settings.keys)
        self.chat_screen.use_keys(self.settings.keys)
        named = (shown_keys(self._keys[name][:1]) for name in ("thoughts", "continue_reply"))
        self.transcript.name_keys(KeyNames(*named))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every action of the table by its slash command, with its keys below."""
        for action in ACTIONS:
            if action.slash and action.name != "command_palette":
                for choice in action.choices or ("",):
                    title = f"/{action.slash} {choice}".ljust(14) + action.summary
                    keys = self._keys[action.name]
                    perform = partial(self.perform, action, choice)
                    yield SystemCommand(title, shown_keys(keys) if keys else action.group, perform)

    async def perform(self, action: Action, argument: str = "") -> None:
        """Do what its slash command does with this argument."""
        method = getattr(self, f"action_{action.name}")
        done = method(argument) if action.takes else method()
        if isawaitable(done):
            await done

    def _last_answer(self) -> str:
        answers = [each.answer.text for each in self.chat.conversation.exchanges if each.answer]
        return answers[-1] if answers else ""

    def _refuse_while_opening(self) -> bool:
        if self._early is not None:
            self.view.say("A chat is still being opened.")
        return self._early is not None

    def _refuse_while_busy(self) -> bool:
        if self.chat.busy:
            self.view.say(f"Stop the {self.chat.making} first.")
        return self.chat.busy


def generation_settings(settings: Settings) -> GenerationSettings:
    """What the settings say of the next reply."""
    sampling = settings.sampling
    return GenerationSettings(sampling.for_engine(), sampling.seed, sampling.max_tokens)
