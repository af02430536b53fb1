"""Ctrl+C at every moment, and readers that leave: `specchat -p` in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import QUICK, check, running
from tests.tiny import write_tiny

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to another process")


@pytest.fixture(scope="session")
def wide_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with room for a prompt and a reply that take many seconds."""
    return write_tiny(tmp_path_factory.mktemp("wide") / "wide.gguf", context=60_000, end_scale=0.0)


@POSIX
def test_ctrl_c_while_decoding_keeps_what_was_said(wide_path: Path) -> None:
    """Lost otherwise: a reply lost, or a program deaf to Ctrl+C."""
    process = running(*QUICK, "-p", "hi", "--model", wide_path, "--max-tokens", "50000")
    assert process.stdout is not None
    first = process.stdout.read(4)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and len(first) == 4 and out.endswith(b"\n")
    assert err.count(b"\n") == 1 and b"interrupted" in err and b"seed 5" in err


INTERRUPTED = """
import os, signal, sys
from app.cli import main
from app.commands.status import StatusLine
def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)
setattr(StatusLine, sys.argv[1], interrupt)
sys.exit(main(sys.argv[2:]))
"""


@POSIX
@pytest.mark.parametrize(("moment", "reply"), [("show", False), ("clear", True)])
def test_ctrl_c_leaves_valid_json(wide_path: Path, tmp_path: Path, moment: str, reply: bool) -> None:
    """Lost otherwise: half an object, which no script can read. Sent while it reads, and while it writes."""
    document = tmp_path / "long.txt"
    document.write_text("word " * 4000 if moment == "show" else "word")
    process = running(
        *(moment, *QUICK, "--json", "-p", "hi", document, "--model", wide_path, "--max-tokens", "30000"),
        script=INTERRUPTED,
    )
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, b"")
    figures = check(json.loads(out))
    assert figures["finish_reason"] == "cancelled"
    assert bool(figures["passes"]) == reply and len(figures["token_ids"]) < 30_000
    if not reply:
        assert figures["text"] == "" and figures["speedup"] is None and figures["tokens_per_s"] is None


@POSIX
def test_ctrl_c_in_a_long_prompt(wide_path: Path, tmp_path: Path) -> None:
    """Lost otherwise: Ctrl+C that waits until a long document has been read."""
    document = tmp_path / "long.txt"
    document.write_text("word " * 8000)
    terminal, end = os.openpty()
    process = running(*QUICK, "-p", "hi", document, "--model", wide_path, stderr=end)
    os.close(end)
    shown = b""
    while b"reading" not in shown:
        shown += os.read(terminal, 1000)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    while b"interrupted" not in shown:
        shown += os.read(terminal, 1000)
    os.close(terminal)
    assert (process.returncode, out) == (130, b"") and b"Traceback" not in shown


@POSIX
def test_ctrl_c_while_a_pipe_stays_open(tiny_path: Path) -> None:
    """Lost otherwise: a program that nothing but a kill ends, when its input never comes."""
    script = """
import os, signal, sys
from types import SimpleNamespace
from app.cli import main
pipe = sys.stdin.buffer
def read():
    os.kill(os.getpid(), signal.SIGINT)
    return pipe.read()
sys.stdin = SimpleNamespace(isatty=lambda: False, buffer=SimpleNamespace(read=read))
sys.exit(main())
"""
    process = running(*QUICK, "-p", "hi", "--model", tiny_path, script=script, stdin=subprocess.PIPE)
    assert process.wait(timeout=60) == 130
    assert process.communicate() == (b"", b"")


@POSIX
def test_ctrl_c_while_the_model_loads(tiny_path: Path) -> None:
    """Lost otherwise: "cannot be loaded" for a good file, after a Ctrl+C."""
    script = """
import os, signal, sys
import app.assembly.loader, app.oneshot
from app.cli import main
from app.models.locate import open_model
def opened(path, settings, progress):
    def told(share):
        os.kill(os.getpid(), signal.SIGINT)
        while progress(share):
            pass
        return False
    return open_model(path, settings, told)
app.assembly.loader.open_model = opened
sys.exit(main())
"""
    process = running(*QUICK, "-p", "hi", "--model", tiny_path, script=script)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_reader_that_leaves_causes_no_traceback(wide_path: Path, form: tuple[str, ...]) -> None:
    """Lost otherwise: a page of errors after `specchat -p … | head`."""
    process = running(*QUICK, *form, "-p", "hi", "--model", wide_path, "--max-tokens", "900")
    assert process.stdout is not None and process.stderr is not None
    if not form:
        assert len(process.stdout.read(10)) == 10
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), err) == (0, b"")


def test_an_output_that_has_no_code_for_a_character(tiny_path: Path) -> None:
    """Lost otherwise: a traceback at the first emoji, on a terminal of another encoding."""
    process = running(
        *(*QUICK, "-p", "hi", "--model", tiny_path, "--max-tokens", "60"),
        environment={"PYTHONIOENCODING": "ascii"},
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and b"?" in out and b"Traceback" not in err
