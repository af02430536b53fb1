"""What is kept on the disk is read, judged, and left as it was."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import pytest

from app.chat.conversation import Conversation
from app.chat.store import Store
from app.doctor.disk import (
    catalogue_check,
    chats_check,
    folder_check,
    folder_checks,
    folders_of,
    learned_check,
    settings_check,
)
from app.measurements import Measurements


def listing(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_chats_are_counted_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    assert chats_check(path).finding == "none kept yet" and not path.exists()
    store = Store(path)
    store.create(Conversation(), "title", "model")
    # Another specchat has it open: what it wrote last is in its log.
    assert chats_check(path).finding.startswith("1 kept")
    store.close()
    before = listing(tmp_path)
    assert chats_check(path).state == "ok"
    assert listing(tmp_path) == before


def test_damaged_chats_are_told_before_they_are_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = Store(path)
    for number in range(60):
        store.create(Conversation(), f"{number} {'long title ' * 40}", "model")
    store.close()
    data = bytearray(path.read_bytes())
    data[4096 : 3 * 4096] = b"\xff" * (2 * 4096)
    path.write_bytes(data)
    check = chats_check(path)
    assert check.state == "warning" and "Copy it" in check.advice
    path.write_bytes(b"this is no database, and was never one" * 30)
    assert chats_check(path).state == "warning"


def test_chats_of_a_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    assert "newer" in chats_check(path).finding


def test_the_line_of_a_faulty_setting_is_named(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    assert settings_check(path)[0].state == "ok"
    path.write_text("[model]\nthreads = 3\n")
    check, settings = settings_check(path)
    assert check.state == "ok" and settings.model.threads == 3
    path.write_text("[model]\n\ncontext_length = 'much'\n")
    check, settings = settings_check(path)
    assert check.state == "fault" and "line 3" in check.finding
    assert settings.model.threads is None


def test_a_folder_that_is_not_there_is_judged_and_not_made(tmp_path: Path) -> None:
    check = folder_check("x", tmp_path / "a" / "b", "Lost", 1)
    assert check.state == "ok" and "made when it is needed" in check.finding
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    check = folder_check("x", tmp_path / "file", "Nothing is kept", 1)
    assert check.state == "warning" and "Nothing is kept" in check.advice
    if sys.platform != "win32" and os.geteuid():
        tmp_path.chmod(0o500)
        assert folder_check("x", tmp_path, "Nothing is kept", 1).state == "warning"


def test_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    check = folder_check("x", tmp_path, "Lost", 1 << 62)
    assert check.state == "warning" and "free" in check.finding


def test_a_wrong_address_of_the_hub_hides_no_folder() -> None:
    checks = folder_checks(folders_of({"HF_ENDPOINT": "nonsense"}))
    assert [check.state for check in checks] == ["ok", "ok", "ok", "warning"]
    assert "HF_ENDPOINT" in checks[-1].finding


def test_a_faulty_catalogue_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "models.toml"
    monkeypatch.setattr("app.models.catalogue.user_catalogue_file", lambda: own)
    assert catalogue_check().state == "ok"
    own.write_text("[mine]\ntarget = 3\n")
    check = catalogue_check()
    assert check.state == "warning" and "line" in check.finding


def test_what_was_learned(tmp_path: Path) -> None:
    path = tmp_path / "measurements.json"
    assert "nothing yet" in learned_check(path).finding
    measurements = Measurements(path)
    measurements.put("costs a", (0.0, 0.0, 1.0, 1.0, 0.1))
    measurements.put("amx a", (0.0,))
    measurements.put("acceptance a lookup", (0.5,))
    measurements.save()
    assert learned_check(path).finding.startswith("costs of 1 model, acceptance of 1 proposer")
    path.write_text("{")
    assert learned_check(path).command == "specchat calibrate --forget"
