"""`specchat` without -p: settings and command line put together, the terminal taken and given back."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from dataclasses import replace

from app.chat.documents import Document, read_stdin
from app.config.fields import with_arguments
from app.config.file import read_settings, settings_path
from app.config.values import Settings
from app.errors import UsageError
from app.text import clean
from app.tui.options import ChatOptions, data_folder, last_model

_SWITCH_SECONDS = 0.0005


def run(given: Mapping[str, object]) -> int:
    """Chat until the person leaves; the exit code. given: what the command line says, by name.

    Raises SpecchatError before the screen is taken: for settings that are wrong, or without a terminal.
    """
    # What is loaded now stays: looking for garbage in it would only hold up the first frame.
    gc.disable()
    # The thread that writes to the terminal waits for the others no longer than this.
    sys.setswitchinterval(_SWITCH_SECONDS)
    settings = chosen_settings(read_settings(settings_path()), given)
    if settings.model.name is None:
        settings = replace(settings, model=replace(settings.model, name=last_model(data_folder())))
    # The screen is drawn on standard error, as Textual does, so that it must be a terminal too.
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        raise UsageError("The chat needs a terminal: ask with specchat -p PROMPT to write to a pipe or file.")
    documents = _piped()
    settings, notices = _usable_keys(settings)
    from app.process.client import EngineClient
    from app.tui.app import SpecchatApp
    from app.tui.terminal_input import teach_input
    from app.tui.terminal_output import teach_output

    teach_input()
    teach_output()
    resume = given.get("resume")
    options = ChatOptions(settings, None if resume is None else str(resume), documents, notices)
    app = SpecchatApp(options, EngineClient())
    app.run()
    if app.farewell:
        print(f"specchat: {clean(app.farewell)}", file=sys.stderr)
    return app.return_code or 0


def _usable_keys(settings: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Keys that cannot be bound must not lock anyone out: the default ones are used, and it is said."""
    from app.tui.keys import check_keys

    problem = check_keys(settings.keys)
    if problem is None:
        return settings, ()
    return replace(settings, keys={}), (f"The keys of the settings are not used. {problem}",)


def chosen_settings(settings: Settings, given: Mapping[str, object]) -> Settings:
    """The settings with what the command line gives in place of theirs.

    Raises UsageError for values and arguments that the chat has no use for.
    """
    for name in ("json", "stop", "yes"):
        if name in given:
            raise UsageError(f"--{name} is for specchat -p PROMPT: leave it out to chat.")
    files = given.get("files")
    if isinstance(files, list) and files:
        if len(files) > 1:
            raise UsageError("The chat takes one model: attach documents in it with /file, or ask with -p.")
        given = {"name": files[0], **given}
    return with_arguments(settings, given)


def _piped() -> tuple[Document, ...]:
    """What was piped in, to be attached; the keyboard is the terminal's again after that."""
    if sys.stdin is not None and sys.stdin.isatty():
        return ()
    data = sys.stdin.buffer.read() if sys.stdin is not None else b""
    try:
        terminal = os.open("CONIN$" if sys.platform == "win32" else "/dev/tty", os.O_RDONLY)
    except OSError as error:
        raise UsageError("There is no terminal to type on: ask with specchat -p PROMPT.") from error
    os.dup2(terminal, 0)
    os.close(terminal)
    sys.stdin = open(0, encoding="utf-8", errors="replace")  # noqa: SIM115 - it stays open
    return (read_stdin(data),) if data.strip() else ()
