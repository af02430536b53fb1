"""The engine's process starts wherever the person is."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.values import LoadSettings
from app.process.commands import Load
from app.process.events import Loaded
from tests.process.engine import serving


def test_a_folder_with_an_app_of_its_own_is_no_matter(
    tmp_path: Path, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many projects have a package called app: a chat opened there must not run it."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise SystemExit('the wrong app')")
    monkeypatch.chdir(tmp_path)
    with serving() as session:
        session.send(Load(LoadSettings(str(tiny_path))))
        assert isinstance(session.until(Loaded), Loaded)
