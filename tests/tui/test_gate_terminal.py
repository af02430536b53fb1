"""Foreign text on a real terminal: whichever way it comes, its letters are shown and nothing is done."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from app.chat.conversation import Answer, Conversation, Exchange, Question
from app.chat.documents import Document
from app.chat.store import Store
from app.chat.store_rows import packed
from app.cli import main
from app.engine.events import Prefill
from app.process import client
from app.process.commands import Command, Compare, FindDrafts, Generate, Load, SetProposer
from app.process.events import (
    Asked,
    Candidate,
    Compared,
    ComparisonEnded,
    Crashed,
    Divergence,
    Done,
    Drafts,
    Failed,
    Loaded,
    LoadProgress,
    PromptProgress,
    ProposerOption,
    Steps,
    Switched,
)
from tests.tiny import write_tiny
from tests.tui.engine import ScriptedEngine, finished, step
from tests.tui.terminal import SAID, SPECCHAT, Home, Terminal, python

# Markup, tags of prompts, the clipboard, the screen cleared in three ways, the alternate screen left, the
# writing direction turned; and marks that have to stay. 777 is in no sequence of ours.
LETTERS = "[/INST] [@click=app.quit]x[/]"
CONTROLS = (
    "\x1b]52;c;SFVNQlVH\x07\x1b[2;777J\x9b2;777J\x1b[?1049l\x1bc\x90q\x9c\u202e\u2067\u200fm\u200dn\r\x08"
)
HOSTILE = f"{LETTERS} {CONTROLS}"
# A file's name has no slashes.
HOSTILE_NAME = HOSTILE.replace("/", "")

# All that the terminal may be told beside text: looks, the cursor's and the pointer's, modes, and what
# it is asked that it can do.
ALLOWED = re.compile(
    r"\x1b\]22;[a-z-]+\x07|\x1b\[[0-9;]*m|\x1b\[[0-9]+;[0-9]+H|\x1b\[\?[0-9]+\$p|\x1b\[>[0-9]+u|\x1b\[<u"
    r"|\x1b\[\?(?:7|25|1000|1003|1004|1006|1015|1049|2004|2026)[hl]"
)
FORBIDDEN = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def assert_harmless(terminal: Terminal) -> None:
    """Nothing but sequences of ours, and each of them for the reason that we have for it."""
    written = terminal.output.decode("utf-8")
    found = FORBIDDEN.search(rest := ALLOWED.sub("", written))
    assert found is None, f"{rest[found.start() - 40 : found.start() + 40]!r} reached the terminal"
    if terminal.code == 0:
        # The alternate screen was entered and left once.
        assert re.findall(r"\x1b\[\?1049([hl])", written) == ["h", "l"]


OPTIONS = (
    ProposerOption("off", "plain", None),
    ProposerOption("lookup", f"way-summary {HOSTILE}", None),
    ProposerOption("draft", "smaller", f"way-option {HOSTILE}"),
    ProposerOption("skip", "fewer", None),
)


class HostileEngine(ScriptedEngine):
    """Says all that an engine can say in hostile words; to "fail" and "crash" it does so first."""

    def __init__(self) -> None:
        super().__init__()
        self._crashed = False

    def send(self, command: Command) -> None:
        super().send(command)
        if isinstance(command, Load):
            self._load()
        elif isinstance(command, Generate):
            self._answer(command)
        elif isinstance(command, SetProposer):
            self._switch(command)
        elif isinstance(command, FindDrafts):
            fits = Candidate(f"/way-path {HOSTILE}", f"way-fits {HOSTILE}", 1000, None, False)
            not_fit = Candidate("/b.gguf", "b.gguf", 1000, f"way-unfit {HOSTILE}", False)
            self.tell(Drafts((fits, not_fit)))
        elif isinstance(command, Compare):
            done = finished([step("a")])
            parting = Divergence(0, f"way-one{CONTROLS}", f"way-two{CONTROLS}", 0.01)
            identity = command.identity
            self.tell(Compared(identity, "off", done, None, None))
            self.tell(Compared(identity, "lookup", done, parting, None))
            self.tell(Compared(identity, "skip", None, None, f"way-not-run {HOSTILE}"))
            self.tell(ComparisonEnded(identity))

    def _load(self) -> None:
        if self._crashed:
            self.tell(Crashed("was killed by SIGKILL", f"way-details {HOSTILE}\n" * 3))
            return
        self.tell(LoadProgress(f"way-loading {HOSTILE}", 0.5))
        name = f"way-model {HOSTILE}"
        self.tell(Loaded(name, f"/way {HOSTILE}", 8192, 8192, OPTIONS, "d.gguf"))

    def _switch(self, command: SetProposer) -> None:
        if command.name == "skip":
            self.tell(Asked("skip", f"way-asked {HOSTILE}?"))
        else:
            self.tell(Switched(command.name, OPTIONS, "d.gguf", f"way-switched {HOSTILE}"))

    def _answer(self, command: Generate) -> None:
        asked = command.messages[-1].content
        identity = command.identity
        if asked == "fail":
            self.tell(Failed(identity, f"way-failed {HOSTILE}"))
            return
        if asked == "crash":
            self._crashed = True
            self.tell(Crashed("was killed by SIGKILL", HOSTILE))
            return
        text = (
            f"<think>way-thought {HOSTILE}</think>\n# way-heading {HOSTILE}\n\nway-text {HOSTILE}\n\n"
            f"| way-cell |\n|---|\n| {HOSTILE} |\n\n- way-item {HOSTILE}\n\n"
            f"```way{CONTROLS}\nway-code {HOSTILE}\n```\n"
        )
        # Cut so that no sequence arrives in one piece.
        steps = [
            step(text[at : at + 3], at, rejected=f"way-draft{CONTROLS}") for at in range(0, len(text), 3)
        ]
        self.tell(PromptProgress(identity, Prefill(12, 12, 0)))
        self.tell(Steps(identity, tuple(steps)))
        self.tell(Done(identity, finished(steps)))


@contextmanager
def chatting(home: Home, *arguments: str | Path, script: str = "") -> Iterator[Terminal]:
    """A chat over the hostile engine, or of another script. It is left at the end, and all that it wrote
    looked at: first of all where something else fails, as that is then the cause."""
    with Terminal(home, python(*arguments, script=script or SCRIPT), (130, 50)) as terminal:
        try:
            yield terminal
            terminal.key("ctrl+q")
            assert terminal.end() == 0
        finally:
            assert_harmless(terminal)


def hostile_chat() -> None:
    """`specchat` over that engine: run in a process of its own."""
    with mock.patch.object(client, "EngineClient", HostileEngine):
        sys.exit(main())


SCRIPT = "from tests.tui.test_gate_terminal import hostile_chat; hostile_chat()"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_what_an_engine_says(home: Home) -> None:
    """Lost otherwise: a model, which repeats what it read somewhere, writes to the clipboard."""
    with chatting(home) as terminal:
        terminal.wait_for("way-model [/INST]")
        terminal.wait_for("draft  way-option [/INST]")
        terminal.ask("Hello")
        terminal.wait_for(SAID)
        for way in ("heading", "text", "item", "code"):
            terminal.wait_for(f"way-{way} {LETTERS}")
        terminal.key("ctrl+g")
        terminal.wait_for(f"way-thought {LETTERS}")
        terminal.key("f4")
        terminal.wait_for("way-draft")
        terminal.ask("fail")
        terminal.wait_for(f"way-failed {LETTERS}")
        terminal.key("f2")
        terminal.wait_for(f"way-switched {LETTERS}")
        terminal.key("f7")
        terminal.wait_for("way-fits [/INST]")
        terminal.wait_for("way-unfit [/INST]")
        terminal.close("way-unfit")


def test_what_an_engine_says_in_dialogues(home: Home) -> None:
    """Lost otherwise: the same, through questions, comparisons and a crash's last words."""
    with chatting(home, "--proposer", "lookup") as terminal:
        terminal.wait_for("way-model [/INST]")
        terminal.ask("Hello")
        terminal.wait_for(SAID)
        terminal.key("f5")
        terminal.wait_for("way-not-run [/INST]")
        terminal.wait_for("way-one")
        terminal.close("way-one")
        terminal.key("f2")
        terminal.wait_for(f"way-asked {LETTERS}")
        terminal.close("way-asked")
        terminal.ask("crash")
        terminal.wait_for("while it loaded the model")
        terminal.type("d")
        terminal.wait_for(f"way-details {LETTERS}")
        terminal.close("way-details")


def test_what_a_person_recalls_attaches_and_pastes(home: Home) -> None:
    """Lost otherwise: a text copied from a page, or a file of somebody else, acts on the terminal."""
    home.data.mkdir(parents=True)
    (home.data / "history.jsonl").write_text(json.dumps(f"way-history {HOSTILE}") + "\n", encoding="utf-8")
    (home.folder / "way-attached [INST] [@click=app.quit]x[bold].txt").write_text(
        f"way-document {HOSTILE}\n" * 3, encoding="utf-8"
    )
    with chatting(home) as terminal:
        terminal.wait_for("way-model")
        terminal.key("up")
        terminal.wait_for(f"way-history {LETTERS}")
        terminal.key("ctrl+c")
        terminal.wait_for("ask, paste, @file")
        terminal.type("/file way-att")
        terminal.wait_for(" way-attached [INST] [@click=app.quit]x[bold].txt")
        terminal.key("tab")
        terminal.key("enter")
        terminal.wait_for("▣ way-attached")
        terminal.key("left")
        terminal.wait_for("Enter opens")
        terminal.key("enter")
        terminal.wait_for(f"way-document {LETTERS}")
        terminal.close("way-document")
        terminal.close("Enter opens")
        terminal.paste(f"way-pasted {HOSTILE}\n" * 30)
        terminal.wait_for("▣ pasted")
        terminal.paste(f"way-typed {HOSTILE}")
        terminal.wait_for(f"way-typed {LETTERS}")
        terminal.key("enter")
        terminal.wait_for(SAID)
        terminal.wait_for(f"way-typed {LETTERS}")


def test_what_a_person_pastes_into_dialogues(home: Home) -> None:
    """Lost otherwise: the same, where a search, a name or a setting is pasted."""
    with chatting(home) as terminal:
        terminal.wait_for("way-model [/INST]")
        terminal.ask("Hello")
        terminal.wait_for(SAID)
        for key, title in (
            ("f7", "─ Draft model ─"),
            ("f8", "─ Sessions ─"),
            ("ctrl+p", "Search for commands"),
        ):
            terminal.key(key)
            terminal.wait_for(title)
            terminal.paste(f"way-{key} {HOSTILE}")
            terminal.wait_for(f"way-{key} [/INST]")
            terminal.close(f"way-{key} [/INST]")
            terminal.wait_for("Enter sends")


def test_what_the_settings_hold(home: Home) -> None:
    """Lost otherwise: the same, through a file of settings that was copied from somewhere."""
    system, name = json.dumps(f"way-system {HOSTILE}"), json.dumps(f"way-name {HOSTILE}")
    home.write_settings(f"[chat]\nsystem = {system}\n[model]\nname = {name}\n")
    with chatting(home) as terminal:
        terminal.wait_for("way-model")
        terminal.key("f9")
        terminal.wait_for("Temperature")
        terminal.key("right")
        terminal.wait_for("way-system [/INST]")
        terminal.key("right")
        terminal.wait_for("way-name [/INST]")
        terminal.close("─ Settings ─")


def store_hostile_chat(home: Home, **figures: object) -> None:
    """A session as no specchat writes it: somebody else did."""
    path = home.data / "sessions.db"
    store = Store(path)
    answer = Answer("text", (1,), ("piece",), ("lookup",), ((0, "ghost"),), "stop")
    store.create(
        Conversation((Exchange(Question("question", (Document("d", "t"),)), answer),)), "title", "model"
    )
    store.close()
    details = json.loads(zlib.decompress(packed(answer)))
    details |= {
        "pieces": [f"way-text {HOSTILE}"],
        "origins": [[f"way-origin {HOSTILE}", 1]],
        "ghosts": [[0, f"way-ghost {HOSTILE}"]],
        "figures": {
            "proposer": f"way-proposer {HOSTILE}",
            **dict.fromkeys(("tokens", "tokens_per_second", "plain_tokens_per_second", "speedup"), 1),
            **dict.fromkeys(("acceptance_rate", "tokens_per_pass", "prefill_seconds", "read_tokens"), 1),
            "seed": 1,
            **figures,
        },
    }
    with sqlite3.connect(path) as connection:
        for table, changes in {
            "session": ("title", "model", "system"),
            "exchange": ("question",),
            "document": ("name", "text"),
            "answer": ("text",),
        }.items():
            for column in changes:
                connection.execute(f"UPDATE {table} SET {column} = ?", (f"way-{column} {HOSTILE}",))
        connection.execute(
            "UPDATE answer SET details = ?", (zlib.compress(json.dumps(details).encode("ascii")),)
        )
    connection.close()


def test_what_a_store_of_somebody_else_holds(home: Home) -> None:
    """Lost otherwise: a copied or synchronised file of chats acts on every terminal that opens it."""
    store_hostile_chat(home)
    with chatting(home, "--resume") as terminal:
        terminal.wait_for(f"way-question {LETTERS}")
        terminal.wait_for(f"way-text {LETTERS}")
        terminal.wait_for("▣ way-name [/INST]")
        terminal.wait_for("way-title [/INST]")
        # Accepted drafts are marked from the start; with F4 rejected ones are shown too.
        terminal.wait_for("way-origin [/INST]")
        terminal.key("f4")
        terminal.wait_for("way-ghost")
        terminal.key("f8")
        terminal.wait_for("changed")
        terminal.type("way")
        terminal.wait_for("just now")
        terminal.close("─ Sessions ─")


def test_figures_of_a_store_of_somebody_else(home: Home) -> None:
    """Lost otherwise: the same, where a number was expected."""
    store_hostile_chat(home, seed=f"way-seed {HOSTILE}")
    with chatting(home, "--resume") as terminal:
        terminal.wait_for("way-model")
        terminal.read_for(0.1)


def test_a_model_file_of_somebody_else(home: Home) -> None:
    """Lost otherwise: a downloaded model acts on the terminal by its name, its file's or its template."""
    template = "{{ raise_exception('way-template " + HOSTILE + "') }}"
    model = write_tiny(
        home.folder / f"way-file {HOSTILE_NAME}.gguf",
        template=template,
    )
    unknown = f"way-session {HOSTILE}"
    arguments = ("--threads", "1", "--model", model, "--resume", unknown)
    with chatting(home, *arguments, script=SPECCHAT) as terminal:
        terminal.wait_for("way-session [/INST]")
        terminal.wait_for("way-file [INST]")
        terminal.ask("Hello")
        terminal.wait_for("way-template [/INST]")
        terminal.key("f7")
        terminal.wait_for("─ Draft model ─")
        terminal.close("─ Draft model ─")


@pytest.mark.parametrize("place", ["argument", "settings"])
def test_faults_told_before_the_screen(home: Home, place: str) -> None:
    """Lost otherwise: the same, through a message that quotes what is wrong."""
    if place == "settings":
        home.write_settings(f"[chat]\n{json.dumps(f'way-key {HOSTILE}')} = 1\n")
    arguments = ("--ctx", f"way-argument {HOSTILE}") if place == "argument" else ()
    with Terminal(home, python(*arguments)) as terminal:
        assert terminal.end() == (2 if place == "argument" else 3)
        said = terminal.output.decode("utf-8")
    assert "way-" in said and FORBIDDEN.search(said) is None
