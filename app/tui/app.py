"""The chat: what each action does, and what each message of a pane or of the engine leads to."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import isawaitable

from textual import on
from textual.app import SystemCommand
from textual.events import Callback, InputEvent, Key, Paste, Resize
from textual.events import Event as ScreenEvent
from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen
from textual.widget import AwaitMount

from app.chat.conversation import Conversation
from app.config.fields import BY_PATH, put, typed
from app.engine.settings import Sampling
from app.process.client import Link
from app.process.events import Event, Loaded
from app.session.chat import Chat
from app.session.engine import GenerationSettings
from app.tui.actions import ACTIONS, BY_NAME
from app.tui.dialogues import Dialogues
from app.tui.keys import shown_keys
from app.tui.options import ChatOptions, remember_model
from app.tui.panel.strip import SpeculationStrip
from app.tui.prompt import history
from app.tui.prompt.area import PromptArea
from app.tui.prompt.attachments import Attachments
from app.tui.starters.starters import Starters
from app.tui.theme import THEMES
from app.tui.transcript.code_blocks import code_blocks, parser
from app.tui.transcript.colouring import LEVELS, Level
from app.tui.transcript.transcript import Transcript
from app.tui.view import FIGURES_SECONDS, PaneView
from app.tui.window import WIDE, ChatWindow, generation_settings


class SpecchatApp(ChatWindow, inherit_bindings=False):
    """`specchat`: one conversation, one engine, and the panel that shows why it is fast."""

    class FromEngine(Message):
        """An event, brought over from the link's thread."""

        def __init__(self, event: Event) -> None:
            super().__init__()
            self.event = event

    def __init__(self, options: ChatOptions, link: Link) -> None:
        super().__init__(options)
        self._link = link
        self._code_block = 0
        dialogues = Dialogues(self)
        self.view = PaneView(self, dialogues)
        self.chat = Chat(
            link,
            self.view,
            deliver=self._deliver,
            load=self.settings.model,
            generation=generation_settings(self.settings),
            proposer=self.settings.speculation.proposer,
            k=self.settings.speculation.k,
        )
        self._actions = self._action_table(self.chat, dialogues)

    def _action_table(self, chat: Chat, dialogues: Dialogues) -> dict[str, Callable[..., object]]:
        """What each action does, by its name in app.tui.actions; one that `takes` something gets that."""
        speculation, transcript = chat.speculation, self.transcript
        return {
            "help": dialogues.help,
            "stop": self._stop,
            "next_proposer": self._next_proposer,
            "automatic_k": self._automatic_k,
            "longer_k": lambda: speculation.change_k(1),
            "shorter_k": lambda: speculation.change_k(-1),
            "colours": self._next_colours,
            "compare": dialogues.compare,
            "panel": self._toggle_panel,
            "explore": dialogues.explore,
            "drafts": dialogues.drafts,
            "models": dialogues.models,
            "sessions": dialogues.sessions,
            "settings": dialogues.settings,
            "explain": dialogues.explain,
            "regenerate": chat.regenerate,
            "continue_reply": chat.continue_reply,
            "edit_last": self.edit_last,
            "previous_version": lambda: chat.walk_versions(-1),
            "next_version": lambda: chat.walk_versions(1),
            "delete_version": chat.delete_version,
            "copy_answer": self._copy_answer,
            "copy_code": self._copy_code,
            "new_chat": self.new_chat,
            "attach": lambda path: self.prompt.start_attaching(),
            "export": dialogues.export,
            "temperature": self._temperature,
            "thoughts": transcript.toggle_thoughts,
            "fold": transcript.toggle_questions,
            "page_up": transcript.action_page_up,
            "page_down": transcript.action_page_down,
            "to_end": transcript.go_to_end,
            "theme": self._theme_named,
            # What was typed, or the palette, is still on the screen.
            "screenshot": lambda path: self.call_after_refresh(dialogues.screenshot, path),
            "command_palette": dialogues.palette,
            "suspend_process": self.action_suspend_process,
            "leave": self._leave,
            "quit": self.action_quit,
        }

    def _deliver(self, event: Event) -> None:
        """Called from the link's thread."""
        self.post_message(self.FromEngine(event))

    # Start and end --------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.use_keys()
        self.use_colours(LEVELS[self.settings.look.drafts])
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
        # Collected as often as is Python's default, garbage costs a reply more than it takes up.
        gc.set_threshold(20_000, 20, 100)
        gc.enable()
        self.set_interval(FIGURES_SECONDS, self.view.tick)
        self.autosave.start()
        self.chat.show(Conversation(system=self.settings.chat.system))
        if self.options.resume is not None:
            self.open_chat(self.autosave.resume(self.options.resume))
        for notice in self.options.notices:
            self.say(notice, "warning")
        self.chat.start()
        # Loaded now, while the model is, so that tokens of the first reply need not wait for it.
        parser()

    def _leave_on_signals(self) -> None:
        """Give the terminal back before an end from outside, as after one from inside."""
        if self.is_headless or sys.platform == "win32":
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, partial(self.exit, None, 128 + number))

    def on_unmount(self) -> None:
        self._link.close()
        self.farewell = self.autosave.close()

    # Messages of the terminal, the panes and the engine -------------------------------------

    async def on_event(self, event: ScreenEvent) -> None:
        """Keys wait for the dialogue that a key before them opens: they are meant for it.

        Once the app is left nothing can be shown any more, and what tries to would end it with a fault.
        """
        if self.return_code is not None and isinstance(event, (InputEvent, Paste, Callback)):
            return
        if isinstance(event, (InputEvent, Paste)) and not self.screen.is_mounted:
            await AwaitMount(self.screen, [self.screen])
        if isinstance(event, Key):
            self.prompt.key_came(event.key in self.keys["leave"])
        if isinstance(event, (Key, Paste)) and self.screen is self.chat_screen:
            # What is typed is for the prompt, wherever the focus is.
            self.prompt.claim(event)
        await super().on_event(event)

    def on_resize(self, event: Resize) -> None:
        self._fit(event.size)

    def _fit(self, size: Size) -> None:
        self.fit(size)
        # What was hidden missed the figures meanwhile.
        self.call_after_refresh(self.view.figures_changed)

    @on(FromEngine)
    def _from_engine(self, message: FromEngine) -> None:
        if isinstance(message.event, Loaded):
            remember_model(self.options.folder, message.event.path)
        self.chat.handle(message.event)

    @on(ChatWindow.FromStore)
    def _from_store(self, message: ChatWindow.FromStore) -> None:
        if message.sentence:
            self.say(message.sentence, "warning")
        self.show_header()

    @on(PromptArea.Sent)
    @on(Starters.Chosen)
    def _sent(self, message: PromptArea.Sent | Starters.Chosen) -> None:
        if self.waits_for_chat(partial(self._sent, message)):
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
        await self.action_perform(message.name, message.argument)

    @on(Attachments.CountWanted)
    def _count_wanted(self, message: Attachments.CountWanted) -> None:
        self.view.count(message.identity, message.text)

    @on(PromptArea.Remembered)
    def _remembered(self, message: PromptArea.Remembered) -> None:
        history.append(self.history_file, message.text)

    @on(Transcript.VersionWanted)
    def _version_wanted(self, message: Transcript.VersionWanted) -> None:
        self.chat.walk_versions(message.step, message.index)
        self.transcript.reveal(message.index, message.y)

    @on(SpeculationStrip.Pressed)
    def _toggle_panel(self) -> None:
        if self.size.width >= WIDE:
            self.panel_wanted = not self.panel_wanted
        else:
            self.panel_over = not self.panel_over
        self._fit(self.size)

    # Actions --------------------------------------------------------------------------------

    async def action_perform(self, name: str, argument: str = "") -> None:
        """Do what a key, a slash command or the palette asks for."""
        perform = self._actions[name]
        done = perform(argument) if BY_NAME[name].takes else perform()
        if isawaitable(done):
            await done

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every action of the table by its slash command, with its keys below."""
        for action in ACTIONS:
            if action.slash and action.name != "command_palette":
                for choice in action.choices or ("",):
                    title = f"/{action.slash} {choice}".ljust(14) + action.summary
                    keys = self.keys[action.name]
                    perform = partial(self.action_perform, action.name, choice)
                    yield SystemCommand(title, shown_keys(keys) if keys else action.group, perform)

    def _stop(self) -> None:
        if self.panel_over and self.size.width < WIDE and not self.chat.busy:
            self._toggle_panel()
        elif self.chat.busy or not self.prompt.leave_edit():
            self.chat.stop()

    def _next_proposer(self, name: str) -> None:
        problems = {option.name: option.problem for option in self.chat.speculation.options}
        if not name:
            self.chat.speculation.next_proposer()
        elif name not in problems:
            names = ", ".join(problems) or "auto, once the model is loaded"
            self.say(f"There is no proposer {name}: take {names}.", "warning")
        elif problem := problems[name]:
            self.say(f"{name} cannot be used: {problem}.", "warning")
        else:
            self.chat.speculation.set_proposer(name)

    def _automatic_k(self, k: str) -> None:
        if not k:
            self.chat.speculation.toggle_k()
            return
        with self._saying("/k auto, or"):
            self.chat.speculation.set_k(
                None if k == "auto" else int(str(typed(BY_PATH["speculation", "k"], k)))
            )

    def _next_colours(self) -> None:
        following: dict[Level, Level] = {0: 1, 1: 2, 2: 0}
        self.use_colours(following[self.transcript.colours[0]])

    def _last_answer(self) -> str:
        answers = [each.answer.text for each in self.chat.conversation.exchanges if each.answer]
        return answers[-1] if answers else ""

    def _copy_answer(self) -> None:
        answer = self._last_answer()
        self.copy_text(answer) if answer else self.say("There is no answer to copy yet.")

    def _copy_code(self) -> None:
        blocks = code_blocks(self._last_answer())
        if not blocks:
            self.say("The last answer has no code block.")
            return
        self._code_block = self._code_block % len(blocks) + 1
        self.copy_text(blocks[-self._code_block].text)

    def _temperature(self, number: str) -> None:
        if number:
            self._set("sampling", "temperature", number)
        else:
            self.prompt.begin("/temperature ")

    def _theme_named(self, name: str) -> None:
        names = list(THEMES)
        self._set("look", "theme", name or names[(names.index(self.settings.look.theme) + 1) % len(names)])

    def _set(self, section: str, name: str, text: str) -> None:
        """Give a setting the value that was typed, from now on."""
        field = BY_PATH[section, name]
        with self._saying(field.title):
            if self.keep_settings(put(self.settings, field, typed(field, text))):
                self.say(f"{field.title} {text}, saved to the settings.")

    @contextmanager
    def _saying(self, what: str) -> Iterator[None]:
        """Say what is wrong with a value that was typed, as `typed` words it."""
        try:
            yield
        except ValueError as error:
            self.say(f"{what}: {error}.", "warning")

    def _leave(self) -> None:
        """Ctrl+C first does what it is expected to do in an editor; nothing is lost to one key."""
        selected = self.screen.get_selected_text()
        if selected:
            self.copy_text(selected)
            self.screen.clear_selection()
        elif not self.prompt.clear_or_copy() and not self.prompt.ask_to_leave(
            shown_keys(self.keys["leave"][:1])
        ):
            self.exit()

    async def action_quit(self) -> None:
        """What is being written is there again next time, one key up."""
        if self.prompt.draft.text.strip():
            history.append(self.history_file, self.prompt.draft.text)
        self.exit()
