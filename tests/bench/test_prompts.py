"""The prompt set: without these a comparison runs on fewer or other prompts than it says."""

from collections import Counter
from pathlib import Path

import pytest

from app.bench.prompts import load_prompts
from app.errors import SpecchatError

CATEGORIES = ("summarise", "question", "edit", "extract", "translate", "reason", "prose", "chat", "repeat")
GOOD = '{"id": "a", "category": "chat", "prompt": "Hi"}'


def test_the_shipped_set_covers_each_category_evenly() -> None:
    """Else: an average is that of one kind of request."""
    prompts = load_prompts()
    assert Counter(prompt.category for prompt in prompts) == dict.fromkeys(CATEGORIES, 8)
    assert len({prompt.prompt for prompt in prompts}) == len(prompts)
    for prompt in prompts:
        if prompt.category in ("summarise", "question", "extract"):
            assert 150 < len(prompt.prompt.split()) < 480, prompt.id


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"id": "b"}',
        '{"id": "b", "category": "chat", "prompt": 3}',
        '{"id": "b", "category": "chat", "prompt": " "}',
        '{"id": "b", "category": "chat", "prompt": "x", "extra": "y"}',
        GOOD,
    ],
)
def test_a_bad_line_is_told_by_its_number(tmp_path: Path, line: str) -> None:
    """Else: a typing mistake in one's own set is a traceback, or a prompt less."""
    path = tmp_path / "own.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n", encoding="utf-8")
    with pytest.raises(SpecchatError, match=r"Line 3 of .*own\.jsonl"):
        load_prompts(path)


def test_a_file_that_is_missing_empty_or_not_text_says_so(tmp_path: Path) -> None:
    """Else: a sweep of nothing that ends well."""
    path = tmp_path / "own.jsonl"
    with pytest.raises(SpecchatError, match="cannot be read"):
        load_prompts(path)
    path.write_text("\n")
    with pytest.raises(SpecchatError, match="no prompt"):
        load_prompts(path)
    path.write_bytes(b"\xff\xff")
    with pytest.raises(SpecchatError, match="UTF-8"):
        load_prompts(path)


def test_line_separators_inside_a_prompt_do_not_cut_it(tmp_path: Path) -> None:
    """Else: a pasted text with U+2028 in it makes the set unreadable."""
    path = tmp_path / "own.jsonl"
    path.write_text(GOOD.replace("Hi", "a\u2028b"), encoding="utf-8")
    assert load_prompts(path)[0].prompt == "a\u2028b"
