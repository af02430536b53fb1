"""The list of models, asked of the engine's process: before a model is loaded, and while one answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.values import LoadSettings
from app.process.commands import FindModels, Load
from app.process.events import Done, Models, Steps
from tests.process.engine import generate, serving
from tests.tiny import write_tiny


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No model of the person who runs the tests is looked at."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


def test_models_are_listed_without_a_model(tmp_path: Path) -> None:
    """Lost otherwise: after a model that cannot be loaded no other can be chosen."""
    write_tiny(tmp_path / "some.gguf")
    with serving() as session:
        session.send(Load(LoadSettings(str(tmp_path / "gone.gguf"))))
        session.send(FindModels((str(tmp_path),)))
        listing = session.until(Models).listing
    rows = {row.name: row for row in listing.rows}
    assert rows["some.gguf"].room is not None and rows["some.gguf"].room.fits
    assert rows["qwen3-8b"].parts[0].repository == "Qwen/Qwen3-8B-GGUF"


def test_models_are_listed_in_mid_reply(tiny_path: Path, tmp_path: Path) -> None:
    """Lost otherwise: the picker stays empty until the reply has ended."""
    write_tiny(tmp_path / "some.gguf")
    with serving(tiny_path) as session:
        session.send(generate(1, max_tokens=None))
        session.until(Steps)
        session.send(FindModels((str(tmp_path),)))
        assert "some.gguf" in [row.name for row in session.until(Models).listing.rows]
        ended = any(isinstance(event, Done) for event in session.seen)
        assert ended or session.until(Done).identity == 1
