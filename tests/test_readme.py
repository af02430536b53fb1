"""README's parts that are made from the code, against the code."""

from __future__ import annotations

from pathlib import Path

from app.tui.keys import keys_table

README = Path(__file__).parents[1] / "README.md"


def test_the_table_of_keys_is_the_one_in_force() -> None:
    """Else README names keys that do something else. The assertion's text is what it has to hold."""
    assert keys_table().strip() in README.read_text("utf-8")


def test_the_picture_is_there() -> None:
    text = README.read_text("utf-8")
    assert "](app/bench/screen.svg)" in text and (README.parent / "app/bench/screen.svg").is_file()
