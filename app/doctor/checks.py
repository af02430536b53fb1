"""Every check, in the order of the report. Each stands on its own: none hides another."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from app.config.values import LoadSettings
from app.doctor.check import Check
from app.doctor.disk import (
    Folders,
    catalogue_check,
    chats_check,
    folder_checks,
    folders_of,
    learned_check,
    settings_check,
)
from app.doctor.engine import (
    answer_check,
    build_check,
    cpu_flags,
    gpu_check,
    gpu_libraries,
    heads_check,
    library_folder,
    memory_check,
    model_check,
    rewind_check,
    threads_check,
)
from app.doctor.facts import AnswerFacts, BuildFacts
from app.doctor.hardware import graphics_cards
from app.doctor.host import Host, this_host
from app.doctor.native import ask_answer, ask_build
from app.doctor.packages import packages_check, python_check
from app.doctor.terminal import Terminal, terminal_checks
from app.models.memory import system_memory


def run_checks(quick: bool, model: str | None = None) -> Iterator[Check]:
    """The checks of this machine, each as soon as it is done. quick: no model is loaded. model: one to try in
    place of the bundled one, by name or path."""
    host = this_host()
    folders = folders_of(os.environ)
    settings_line, settings = settings_check(folders.settings)
    yield python_check(host)
    yield packages_check(host)
    yield from engine_checks(host, settings.model, quick, model)
    yield memory_check(system_memory())
    yield from terminal_checks(this_terminal())
    yield settings_line
    yield from disk_checks(folders)


def engine_checks(
    host: Host, settings: LoadSettings, quick: bool, model: str | None = None
) -> Iterator[Check]:
    """What hangs on llama.cpp; its own line only where it cannot be loaded. model: as `run_checks` has it."""
    name = model or settings.name
    facts = ask_build(name)
    yield build_check(facts, host, cpu_flags(Path("/")))
    if not isinstance(facts, BuildFacts):
        return
    yield gpu_check(facts, graphics_cards(), gpu_libraries(library_folder()), host)
    yield threads_check(facts, settings.threads)
    yield heads_check(facts)
    yield model_check(facts, name, host, asked=model is not None)
    if quick or (model and facts.problem):
        return
    answer = ask_answer(Path(facts.model) if model else None)
    yield answer_check(answer, host)
    if model and isinstance(answer, AnswerFacts):
        yield rewind_check(answer)


def disk_checks(folders: Folders) -> Iterator[Check]:
    """What is kept on the disk, but for the settings."""
    yield from folder_checks(folders)
    yield catalogue_check()
    yield chats_check(folders.data / "sessions.db")
    yield learned_check(folders.cache / "measurements.json")


def this_terminal() -> Terminal:
    """Where this runs; nothing is asked of it. A report that goes into a pipe is still about the terminal
    that it was asked for in."""
    streams = [each for each in (sys.stdin, sys.stdout, sys.stderr) if each is not None and each.isatty()]
    size = None
    for stream in streams:
        with suppress(OSError):
            size = size or os.get_terminal_size(stream.fileno())
    return Terminal(
        environment=os.environ,
        interactive=bool(streams),
        size=(size.columns, size.lines) if size and size.columns and size.lines else None,
        system=sys.platform,
    )
