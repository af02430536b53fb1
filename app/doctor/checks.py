"""Every check, in the order of the report. No fault keeps another check from being made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from app.config.values import LoadSettings
from app.doctor.disk import (
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
from app.doctor.facts import Installation, TrialAnswer, ask_answer, ask_installation
from app.doctor.hardware import graphics_cards
from app.doctor.install import Host, this_host
from app.doctor.packages import packages_check, python_check
from app.doctor.report import Check
from app.doctor.terminal import terminal_checks, this_terminal
from app.models.memory import system_memory


def run_checks(quick: bool, model: str | None = None) -> Iterator[Check]:
    """The checks of this machine, each as soon as it is made. quick: load no model. model: name or path of
    one to try in place of the bundled one."""
    host = this_host()
    folders = folders_of(os.environ)
    settings_line, settings = settings_check(folders.settings)
    yield python_check(host)
    yield packages_check(host)
    yield from engine_checks(host, settings.model, quick, model)
    yield memory_check(system_memory())
    yield from terminal_checks(this_terminal())
    yield settings_line
    yield from folder_checks(folders)
    yield catalogue_check()
    yield chats_check(folders.data / "sessions.db")
    yield learned_check(folders.cache / "knowledge.json")


def engine_checks(
    host: Host, settings: LoadSettings, quick: bool, model: str | None = None
) -> Iterator[Check]:
    """What depends on llama.cpp; where it cannot be loaded, only that. model: as in `run_checks`."""
    name = model or settings.name
    facts = ask_installation(name)
    yield build_check(facts, host, cpu_flags(Path("/")))
    if not isinstance(facts, Installation):
        return
    yield gpu_check(facts, graphics_cards(), gpu_libraries(library_folder()), host)
    yield threads_check(facts, settings.threads)
    yield heads_check(facts)
    yield model_check(facts, name, host, asked=model is not None)
    if quick or (model and facts.problem):
        return
    answer = ask_answer(Path(facts.model) if model else None)
    yield answer_check(answer, host)
    if model and isinstance(answer, TrialAnswer):
        yield rewind_check(answer)
