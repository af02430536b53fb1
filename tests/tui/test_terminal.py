"""The whole chat as a person meets it: real processes, a real model, a terminal that is read as one."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pyte
import pytest

from tests.tiny import write_tiny
from tests.tui.terminal import PATIENCE, SAID, SPECCHAT, Home, Terminal, children, python

REPORT = Path(__file__).parents[1] / "texts" / "report.md"
QUICK = ("--threads", "1", "--seed", "1")
READY = "ask, paste, @file"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture(scope="session")
def wordy_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that writes words with numbers, and whose replies take many seconds."""
    folder = tmp_path_factory.mktemp("wordy")
    return write_tiny(folder / "wordy.gguf", vocabulary=6000, context=32_000, end_scale=0.0)


def long_chat(model: Path, *arguments: str) -> tuple[str, ...]:
    """A chat whose replies do not end while a test looks."""
    return python(*QUICK, "--model", model, "--ctx", "32000", "--proposer", "off", *arguments)


def words(text: str) -> str:
    """The model's words of a text, whatever the lines and marks between them."""
    return " ".join(re.findall(r"w\d+", text))


def answer_on(terminal: Terminal) -> str:
    """The words of the answer that are on the screen, without those that an edge of it may cut."""
    return words(terminal.text).partition(" ")[2].rpartition(" ")[0]


def stored_answer(home: Home) -> str:
    last = home.newest().last
    return words(last.answer.text) if last and last.answer else ""


def wait_for_growth(terminal: Terminal, times: int = 2) -> None:
    """Wait until the answer on the screen has grown so many times."""
    for _ in range(times):
        before = answer_on(terminal)
        terminal.wait_for(lambda before=before: answer_on(terminal) not in ("", before))  # type: ignore[misc]


def modes(raw: bytes) -> dict[int, str]:
    """Each private mode of the terminal that was set (h) or reset (l), as it was left."""
    return {int(number): way.decode() for number, way in re.findall(rb"\x1b\[\?(\d+)([hl])", raw)}


def assert_given_back(terminal: Terminal) -> None:
    """The terminal is as it was before the chat."""
    left = modes(bytes(terminal.output))
    # The alternate screen, the mouse, focus and pastes in brackets are off, cursor and line wrap on.
    assert {left[mode] for mode in (1049, 1000, 1003, 1006, 1015, 1004, 2004)} == {"l"}
    assert {left[mode] for mode in (25, 7)} == {"h"}
    # What keys are told by (the keyboard protocol of kitty) was put back behind the last time it was set.
    assert terminal.output.rindex(b"\x1b[<u") > terminal.output.rindex(b"\x1b[>")
    assert terminal.attributes == terminal.attributes_before


def test_a_document_is_pasted_summarised_compared_and_resumed(home: Home) -> None:
    """Lost otherwise: the product. What each part does alone does not work together, or not in a terminal."""
    model = write_tiny(home.folder / "roomy.gguf", context=8192, end_scale=0.0)
    chat = (*QUICK, "--model", str(model))
    options = ("--proposer", "lookup", "--temp", "0", "--max-tokens", "160")
    with Terminal(home, python(*chat, *options), (120, 36)) as terminal:
        terminal.wait_for(READY)
        terminal.wait_for(" F32")
        terminal.paste(REPORT.read_text("utf-8"))
        terminal.wait_for("▣ pasted")
        terminal.ask("Summarise this in five points.")
        terminal.wait_for(SAID)
        terminal.wait_for("lookup · k auto")
        terminal.wait_for("done · 160 tokens")
        terminal.key("f2")
        terminal.wait_for("skip · k auto")
        terminal.key("f5")
        terminal.wait_for("Speedups are over plain decoding")
        for proposer in ("off", "lookup", "skip", "auto"):
            terminal.wait_for(re.compile(rf"│ +{proposer} +[\d,.]+ +(?:[\d.]+×|–|never drafted) +[\d.]+ "))
        terminal.wait_for("Compare · done")
        terminal.close("Compare · done")
        # The copy that skips layers was written long ago.
        terminal.wait_for("next: skip · k auto", 5)
        conversation = [line.partition("│")[0].rstrip() for line in terminal.lines[:30]]
        terminal.key("ctrl+q")
        assert terminal.end() == 0
    with Terminal(home, python("--resume", *chat, "--proposer", "off"), (120, 36)) as terminal:
        terminal.wait_for(" F32")
        terminal.wait_for(SAID)
        assert [line.partition("│")[0].rstrip() for line in terminal.lines[:30]] == conversation
        terminal.key("ctrl+q")
        assert terminal.end() == 0


def test_an_engine_that_is_killed_is_started_again_and_its_reply_goes_on(
    home: Home, wordy_path: Path
) -> None:
    """Lost otherwise: the chat and the answer, when the model's process runs out of memory or crashes."""
    with Terminal(home, long_chat(wordy_path)) as terminal:
        terminal.wait_for(" F32")
        terminal.ask("Go on and on")
        wait_for_growth(terminal)
        seen = answer_on(terminal)
        (engine,) = children(terminal.process)
        os.kill(engine, signal.SIGKILL)
        terminal.wait_for("The engine was killed by SIGKILL and was started again")
        kept = stored_answer(home)
        assert seen in kept and answer_on(terminal) in kept
        terminal.wait_for(lambda: "loading" not in terminal.text)
        assert children(terminal.process) not in ([], [engine])
        terminal.key("ctrl+l")
        wait_for_growth(terminal)
        terminal.key("escape")
        terminal.wait_for("stopped by you")
        whole = stored_answer(home)
        assert whole.startswith(kept) and len(whole) > len(kept) and answer_on(terminal) in whole
        terminal.key("ctrl+q")
        assert terminal.end() == 0


def test_a_chat_that_is_killed_has_lost_at_most_its_last_second(home: Home, wordy_path: Path) -> None:
    """Lost otherwise: an answer of minutes, when the terminal's window or the machine goes."""
    with Terminal(home, long_chat(wordy_path)) as terminal:
        terminal.wait_for(" F32")
        terminal.ask("Go on and on")
        wait_for_growth(terminal)
        terminal.read_for(1.0)
        seen = answer_on(terminal)
        terminal.read_for(1.5)
        # Where the machine is slow, what was read since may not have been drawn yet.
        wait_for_growth(terminal)
        (engine,) = children(terminal.process)
        os.kill(terminal.process, signal.SIGKILL)
        assert terminal.end() == -signal.SIGKILL
        deadline = time.monotonic() + PATIENCE
        while (gone := _ended(engine)) is False and time.monotonic() < deadline:
            time.sleep(0.02)
        assert gone, "the engine goes on without a chat"
    stored = stored_answer(home)
    assert len(seen) > 100 and seen in stored
    with Terminal(home, long_chat(wordy_path, "--resume")) as terminal:
        terminal.wait_for(" F32")
        terminal.wait_for(lambda: answer_on(terminal) != "")
        assert answer_on(terminal) in stored and stored.endswith(words(terminal.text)[-100:])
        terminal.key("ctrl+l")
        wait_for_growth(terminal)
        terminal.key("escape")
        terminal.wait_for("stopped by you")
        assert stored_answer(home).startswith(stored[: stored.rindex(" ")])


def _ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    # Where nobody has collected it, a process that has ended is still listed.
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"


RAISING = f"""
from app.tui.app import SpecchatApp
def action_perform(self, name):
    raise RuntimeError("a fault of ours")
SpecchatApp.action_perform = action_perform
{SPECCHAT}
"""


@pytest.mark.parametrize(
    ("end", "code"), [("quit", 0), ("fault", 1), (signal.SIGTERM, 128 + 15), (signal.SIGHUP, 128 + 1)]
)
def test_the_terminal_is_given_back_however_the_chat_ends(
    home: Home, tiny_path: Path, end: str | signal.Signals, code: int
) -> None:
    """Lost otherwise: the terminal. No echo, no cursor, and mouse moves that type numbers into the shell."""
    script = RAISING if end == "fault" else SPECCHAT
    with Terminal(home, python(*QUICK, "--model", tiny_path, script=script)) as terminal:
        terminal.wait_for(" F32")
        assert (
            modes(bytes(terminal.output))[1049] == "h" and terminal.attributes != terminal.attributes_before
        )
        (engine,) = children(terminal.process)
        if isinstance(end, signal.Signals):
            os.kill(terminal.process, end)
        else:
            terminal.key("ctrl+q" if end == "quit" else "f4")
        assert terminal.end() == code
        assert_given_back(terminal)
        assert _ended(engine)
        after = bytes(terminal.output).rpartition(b"\x1b[?1049l")[2]
        assert (b"a fault of ours" in after) == (end == "fault")


def test_a_suspended_chat_gives_the_terminal_back_and_comes_back_whole(home: Home, wordy_path: Path) -> None:
    """Lost otherwise: Ctrl+Z, as everywhere in a terminal; and after fg a screen with holes in it."""
    with Terminal(home, long_chat(wordy_path)) as terminal:
        terminal.wait_for(" F32")
        terminal.ask("Go on and on")
        wait_for_growth(terminal)
        terminal.key("ctrl+z")
        terminal.wait_for_stop()
        assert_given_back(terminal)
        seen, begun = answer_on(terminal), children(terminal.process)
        # A terminal clears the alternate screen as it is entered again.
        terminal.screen.reset()
        os.kill(terminal.process, signal.SIGCONT)
        wait_for_growth(terminal)
        assert modes(bytes(terminal.output))[1049] == "h"
        assert terminal.attributes != terminal.attributes_before
        terminal.key("escape")
        terminal.wait_for("stopped by you")
        assert children(terminal.process) == begun and seen in stored_answer(home)
        assert_whole(terminal)
        terminal.key("ctrl+q")
        assert terminal.end() == 0


def assert_whole(terminal: Terminal) -> None:
    """Header, prompt and foot are where they belong, once each."""
    lines = terminal.lines
    assert lines[0].startswith(" specchat · wordy F32"), terminal.text
    assert lines[-1].lstrip().startswith("F1 help"), terminal.text
    assert lines[-3] == f" › {READY}" and set(lines[-4]) == {"─"}, terminal.text
    for once in ("specchat · ", READY, "F1 help", " of 32,000 tokens"):
        assert terminal.text.count(once) == 1, terminal.text


NOISY = """
import os, sys
import app.process.child as child
import app.process.service as service
def noisily(function):
    def noisy(*arguments):
        os.write(1, b"NATIVE\\x1b[2JNOISE")
        os.write(2, b"NATIVE\\x1b[2JNOISE")
        print("NATIVE\\x1b[2JNOISE", flush=True)
        return function(*arguments)
    return noisy
for name in ("run", "_load", "_generate"):
    setattr(service.Service, name, noisily(getattr(service.Service, name)))
child.main()
"""
WITH_A_NOISY_ENGINE = f"""
import sys
from functools import partial
from app.process import client
client.EngineClient = partial(client.EngineClient, (sys.executable, "-c", {NOISY!r}))
{SPECCHAT}
"""


def test_what_native_code_prints_stays_off_the_screen(home: Home, tiny_path: Path) -> None:
    """Lost otherwise: a screen torn by the model's library, which prints when it likes."""
    command = python(*QUICK, "--model", tiny_path, "--max-tokens", "40", script=WITH_A_NOISY_ENGINE)
    with Terminal(home, command) as terminal:
        terminal.wait_for(" F32")
        terminal.ask("Hello")
        terminal.wait_for(SAID)
        terminal.key("ctrl+q")
        assert terminal.end() == 0
        assert b"NATIVE" not in terminal.output and b"NOISE" not in terminal.output


def test_a_terminal_that_is_dragged_shows_a_right_screen(home: Home, wordy_path: Path) -> None:
    """Lost otherwise: a screen of leftovers, when the window is resized while an answer is written."""
    with Terminal(home, long_chat(wordy_path)) as terminal:
        terminal.wait_for(" F32")
        terminal.ask("Go on and on")
        wait_for_growth(terminal)
        for step in range(20):
            terminal.resize(84 + step * 37 % 80, 22 + step * 7 % 23)
            terminal.read_for(0.02)
        terminal.resize(39, 12)
        terminal.wait_for("This terminal has 39 × 12 cells.")
        assert READY not in terminal.text and "w1" not in terminal.text
        start = len(terminal.output)
        terminal.resize(80, 24)
        terminal.wait_for(READY)
        wait_for_growth(terminal)
        terminal.key("escape")
        terminal.wait_for("stopped by you")
        assert_whole(terminal)
        # All of it was drawn since: a new terminal would show the same.
        anew = pyte.Screen(80, 24)
        pyte.ByteStream(anew).feed(bytes(terminal.output[start:]))
        assert [line.rstrip() for line in anew.display] == terminal.lines
        assert answer_on(terminal) in stored_answer(home)


def test_a_piped_document_is_attached_and_the_keyboard_is_the_terminals(home: Home, tiny_path: Path) -> None:
    """Lost otherwise: `cat report.md | specchat`, which would read its keys from the end of a pipe."""
    document = home.folder / "report.md"
    document.write_text("A few words about rivers.", encoding="utf-8")
    chat = python(*QUICK, "--model", tiny_path, "--max-tokens", "20")
    with Terminal(home, ("/bin/sh", "-c", 'cat "$0" | "$@"', str(document), *chat)) as terminal:
        terminal.wait_for("▣ standard input  5 words")
        terminal.wait_for(" F32")
        terminal.ask("What is it about?")
        terminal.wait_for(SAID)
        terminal.key("ctrl+q")
        assert terminal.end() == 0
    question = home.newest().exchanges[0].question
    assert question.text == "What is it about?" and [each.name for each in question.documents] == [
        "standard input"
    ]


def test_a_chat_whose_input_is_closed_is_typed_into(home: Home, tiny_path: Path) -> None:
    """Lost otherwise: the chat, to a traceback, where a script closed what it does not need."""
    command = ("sh", "-c", 'exec "$@" <&-', "sh", *python(*QUICK, "--model", tiny_path))
    with Terminal(home, command) as terminal:
        terminal.wait_for(READY)
        terminal.type("typed all the same")
        terminal.wait_for("typed all the same")


def test_a_chat_without_a_screen_says_what_to_do(home: Home) -> None:
    """Lost otherwise: a file full of escape sequences, and a terminal that waits for keys unseen."""
    with Terminal(home, ("/bin/sh", "-c", '"$0" "$@" > out', *python())) as terminal:
        assert terminal.end() == 2
        said = terminal.output.decode()
    assert (
        said
        == "specchat: The chat needs a terminal: ask with specchat -p PROMPT to write to a pipe or file.\r\n"
    )
    assert (home.folder / "out").read_bytes() == b""


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("[sampling]\ntemperature = 0.5\nseed = 'one'\n", 3),
        ("[sampling]\n\n\ntemperature 0.5\n", 4),
        ("[looks]\n", 1),
    ],
)
def test_wrong_settings_are_told_with_their_line_before_the_screen_is_taken(
    home: Home, settings: str, line: int
) -> None:
    """Lost otherwise: a setting that is silently not used, or a traceback of the file's reader."""
    home.write_settings(settings)
    with Terminal(home, python()) as terminal:
        assert terminal.end() == 3
        said = terminal.output.decode()
    assert said.startswith(f"specchat: settings.toml line {line}") and said.count("\n") == 1
    assert "\x1b" not in said and "Traceback" not in said


def test_wrong_keys_lock_nobody_out(home: Home, tiny_path: Path) -> None:
    """Lost otherwise: the chat, to a typing mistake in its keys: no key would leave it."""
    home.write_settings('[keys]\nhelp = "ctrl+hyper+q"\nleave = "f12"\n')
    with Terminal(home, python(*QUICK, "--model", tiny_path)) as terminal:
        terminal.wait_for("The keys of the settings are not used.")
        terminal.key("f1")
        terminal.wait_for("Esc close")
        terminal.close("Esc close")
        terminal.key("ctrl+q")
        assert terminal.end() == 0


def test_a_real_document_is_summarised_by_the_bundled_model(home: Home, bundled: Path) -> None:
    """Lost otherwise: what the chat is for, with a model that people use."""
    text = REPORT.read_text("utf-8")[:2600]
    options = ("--temp", "0", "--proposer", "lookup", "--max-tokens", "24")
    with Terminal(home, python(*QUICK, "--model", bundled, *options), (120, 36)) as terminal:
        terminal.wait_for(READY)
        terminal.paste(text)
        terminal.wait_for("▣ pasted")
        terminal.ask("Summarise this.")
        terminal.wait_for(SAID, 240)
        terminal.key("ctrl+q")
        assert terminal.end() == 0
    answer = home.newest().exchanges[0].answer
    assert answer is not None and len(answer.text.split()) > 8 and answer.text.isascii()
