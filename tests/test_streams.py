"""Streams that are closed or full, and Ctrl+C before anything has begun, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import QUICK, running
from tests.conftest import Ask

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="a shell closes the streams, and sends SIGINT"
)

START = "import sys; from app.start import main; sys.exit(main())"
COMMANDS = (
    ("-p", "hi", "--max-tokens", "8"),
    ("-p", "hi", "--max-tokens", "8", "--json"),
    ("models", "--here"),
    ("models", "--here", "--json"),
    ("doctor", "--quick"),
    ("bench", "--help"),
    ("bench", "lookup", "--json"),
    ("compare", "--help"),
    ("--help",),
)


def redirected(streams: str, *arguments: str | Path) -> tuple[int, str, str]:
    """Run `specchat` with streams as a shell redirects them: its exit code, and what it wrote."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-c", START, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def with_model(arguments: tuple[str, ...], model: Path) -> tuple[str | Path, ...]:
    return (*arguments, *QUICK, "--model", model) if arguments[0] == "-p" else arguments


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(("streams", "what"), [(">/dev/full", "make room"), (">&-", "is closed")])
def test_an_output_that_takes_nothing_ends_in_a_sentence(
    tiny_path: Path, streams: str, what: str, arguments: tuple[str, ...]
) -> None:
    """Lost otherwise: an answer, to a traceback that does not say so."""
    if "full" in streams and not Path("/dev/full").exists():
        pytest.skip("this system has no full device")
    code, out, err = redirected(streams, *with_model(arguments, tiny_path))
    assert (code, out) == (5, "") and what in err, err
    said = [line for line in err.splitlines() if line.startswith("specchat: ")]
    assert len(said) == 1 and said[0].endswith(".") and "Traceback" not in err and "Error" not in err


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", "2>&- <&-"])
@pytest.mark.parametrize("arguments", [COMMANDS[0], COMMANDS[1], COMMANDS[2]], ids=" ".join)
def test_an_error_stream_that_takes_nothing_costs_no_text(
    tiny_path: Path, streams: str, arguments: tuple[str, ...]
) -> None:
    """Lost otherwise: the answer, or its figures in the middle of it."""
    if "full" in streams and not Path("/dev/full").exists():
        pytest.skip("this system has no full device")
    command = with_model(arguments, tiny_path)
    code, out, _ = redirected(streams, *command)
    known_code, known, _ = redirected("", *command)
    assert code == known_code == 0 and out
    if arguments == COMMANDS[0]:
        assert out == known
    assert "tok/s" not in out.replace("tokens_per_s", "")


def test_an_error_stream_whose_reader_left_costs_no_text(tiny_path: Path) -> None:
    """Lost otherwise: the answer, and an exit code that says that all is well."""
    process = running(*QUICK, "-p", "hi", "--model", tiny_path, "--max-tokens", "8", "--proposer", "skip")
    assert process.stdout is not None and process.stderr is not None
    process.stderr.close()
    assert len(process.stdout.read()) > 1
    process.stdout.close()
    assert process.wait(timeout=60) == 0


def test_an_input_that_is_closed_is_none(ask: Ask, tiny_path: Path) -> None:
    """Lost otherwise: a traceback where a script or a service closed what it does not need."""
    code, out, err = redirected("<&-", *with_model(COMMANDS[0], tiny_path))
    assert code == 0 and out and "Traceback" not in err
    code, out, err = redirected("<&-", "--model", tiny_path)
    assert (code, out) == (2, "") and err.startswith("specchat: The chat needs a terminal")


INTERRUPTED = """
import os, signal, sys
from importlib.abc import MetaPathFinder
from app.start import main
wanted = sys.argv.pop(1)
class Interrupting(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == wanted:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.exit(main())
"""


@pytest.mark.parametrize(
    "module", ["app.cli", "argparse", "app.streams", "app.oneshot", "app.assembly.assembly", "numpy"]
)
def test_ctrl_c_while_it_is_imported(tiny_path: Path, module: str) -> None:
    """Lost otherwise: a page of the program's insides for a key that was pressed too early."""
    process = running(module, *QUICK, "-p", "hi", "--model", tiny_path, script=INTERRUPTED)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


BEFORE_THE_END = """
import os, signal, sys, threading
import app.start, app.oneshot
from app.oneshot import Assembly
class Interrupted(threading.Thread):
    def start(self):
        os.kill(os.getpid(), signal.SIGINT)
        super().start()
app.oneshot.threading.Thread = Interrupted
sys.exit(app.start.main())
"""


def test_ctrl_c_as_the_engine_starts(tiny_path: Path) -> None:
    """Lost otherwise: a Ctrl+C in a moment when nobody heeds it, and a reply that runs on."""
    process = running(
        *(*QUICK, "-p", "hi", "--model", tiny_path, "--max-tokens", "400"), script=BEFORE_THE_END
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and b"Traceback" not in err and len(out) < 10


def test_the_command_starts_where_an_interrupt_is_met() -> None:
    """Lost otherwise: all of the above, to an entry point that imports everything first."""
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    assert 'specchat = "app.start:main"' in project
    modules = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; had = {*sys.modules}; import app.start; print({*sys.modules} - had)",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert modules.strip() in ("{'app', 'app.start'}", "{'app.start', 'app'}")
