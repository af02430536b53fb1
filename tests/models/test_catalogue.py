"""models.toml: what is shipped is whole, and a fault in a person's own file is told with its line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from app.errors import SpecchatError
from app.models.catalogue import (
    RUNNABLE,
    Kind,
    catalogue,
    read_catalogue,
    shipped_catalogue,
    user_catalogue_file,
)
from app.models.hub import HubFile
from proposers.registry import PROPOSERS

SHIPPED = Path(__file__).parents[2] / "models.toml"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ENTRY = f"""\
[mine]
target.repository = "org/repo"
target.file = "some.gguf"
target.size = 1.06
draft.repository = "org/small"
draft.file = "folder/small.GGUF"
draft.size = 2
draft.revision = "{COMMIT}"
licence = "MIT"
memory = 4
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's own file, not there yet."""
    path = tmp_path / "models.toml"
    monkeypatch.setattr("app.models.catalogue.user_catalogue_file", lambda: path)
    return path


def fault(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(SpecchatError) as caught:
        read_catalogue(path)
    said = str(caught.value)
    assert said.startswith(f"{path} line ") and "\n" not in said
    return said.removeprefix(f"{path} ")


def test_what_is_shipped_is_whole() -> None:
    """Lost otherwise: a download of something else, or of nothing."""
    entries = shipped_catalogue()
    assert len(entries) == 20
    for name, entry in entries.items():
        assert entry.name == name and entry.kind in get_args(Kind) and entry.licence
        parts = [entry.target, *([entry.draft] if entry.draft else [])]
        assert len({(part.repository, part.file) for part in parts}) == len(parts)
        # A model takes its file's size and then some; a draft is much smaller.
        assert sum(part.size for part in parts) < entry.memory < 2.5 * entry.target.size
        assert entry.draft is None or entry.draft.size < entry.target.size / 2
    assert {entry.kind for entry in entries.values()} == set(get_args(Kind))
    assert entries["qwen3-8b"].draft == entries["qwen3-4b"].draft
    assert entries["qwen3-8b-eagle3"].target == entries["qwen3-8b"].target
    assert entries["qwen3.5-4b"].draft is None and entries["qwen3.5-4b"].memory_kind == "hybrid"
    assert not entries["qwen3-8b"].unverified and entries["qwen3-14b"].unverified


def test_what_can_run_is_what_has_a_proposer() -> None:
    """Lost otherwise: a head that is not offered though a proposer can run it, or offered in vain."""
    assert set(RUNNABLE) == set(get_args(Kind)) & set(PROPOSERS)


def test_sizes_are_gigabytes_in_the_file_and_bytes_after(tmp_path: Path) -> None:
    """Lost otherwise: a warning about memory that is off by a factor."""
    (tmp_path / "m.toml").write_text(ENTRY)
    entry = read_catalogue(tmp_path / "m.toml")["mine"]
    assert entry.target == HubFile("org/repo", "some.gguf", 1_060_000_000, None)
    assert entry.draft == HubFile("org/small", "folder/small.GGUF", 2_000_000_000, COMMIT)
    assert (entry.memory, entry.kind, entry.unverified) == (4_000_000_000, "draft", False)


def test_own_entries_add_and_take_the_place_of_whole_ones(own: Path) -> None:
    """Lost otherwise: a person's own models, or half of another entry mixed into one."""
    assert catalogue() == shipped_catalogue()
    own.write_text(
        "\ufeff"  # some editors begin a file so
        + ENTRY
        + '[qwen3-4b]\ntarget.repository = "me/mine"\ntarget.file = "q.gguf"\ntarget.size = 3\n'
        + 'licence = "own"\nmemory = 5\n'
        + '[tuned]\ntarget.same_as = "mine"\ndraft.same_as = "qwen3-8b"\nlicence = "own"\nmemory = 5\n',
        encoding="utf-8",
    )
    entries = catalogue()
    assert len(entries) == len(shipped_catalogue()) + 2
    assert entries["qwen3-4b"].draft is None and entries["qwen3-4b"].target.repository == "me/mine"
    assert entries["tuned"].target == entries["mine"].target
    assert entries["tuned"].draft == entries["qwen3-8b"].draft == shipped_catalogue()["qwen3-4b"].draft


def test_a_fault_in_the_own_file_is_said_and_the_shipped_one_stays(own: Path) -> None:
    """Lost otherwise: an entry that is silently not there, or the whole catalogue to one slip."""
    own.write_text("[mine]\nlicence = 5\n")
    with pytest.raises(SpecchatError, match=re.escape(f"{own} line 1: mine has no target")):
        catalogue()
    assert "qwen3-8b" in shipped_catalogue()


def test_the_own_file_is_beside_the_settings() -> None:
    assert user_catalogue_file().name == "models.toml"
    assert "specchat" in user_catalogue_file().parts


@pytest.mark.parametrize(
    ("line", "put", "says"),
    [
        (1, '["my/model"]', 'line 1: a name is of letters, digits and . _ -, not "my/model".'),
        (1, '["a b"]', "line 1: a name is of letters, digits and . _ -"),
        (2, 'target.repositry = "a/b"', "line 2: mine has no key target.repositry; did you mean target.rep"),
        (2, 'target.sha = "a"', "line 2: mine has no key target.sha; there are repository, file, size, rev"),
        (2, "", "line 3: mine has no target.repository: add it, or target.same_as"),
        (2, 'target.repository = "repo"', 'line 2: repository is "repo": write it as org/repo.'),
        (2, 'target.repository = "a/b/c"', "line 2: repository is"),
        (2, 'target.repository = "../b"', "line 2: repository is"),
        (2, 'target.repository = "a/b--c"', "line 2: repository is"),
        (2, 'target.repository = ["a/b"]', "line 2: repository is a list: give a text in quotation marks"),
        (3, "target.file = 5", "line 3: file is 5: give a text"),
        (3, 'target.file = "some.bin"', 'line 3: file is "some.bin": name a file that ends in .gguf.'),
        (3, 'target.file = "../some.gguf"', 'line 3: file is "../some.gguf": write its path'),
        (3, 'target.file = "a/../../b.gguf"', "line 3: file is"),
        (3, 'target.file = "/b.gguf"', "line 3: file is"),
        (3, 'target.file = "a//b.gguf"', "line 3: file is"),
        (3, "target.file = 'a\\b.gguf'", "line 3: file is"),
        (3, 'target.file = "C:b.gguf"', "line 3: file is"),
        (3, 'target.file = "a\\u001b[31m.gguf"', 'line 3: file is "a[31m.gguf": give a text'),
        (4, "target.size = 0", "line 4: size is 0: give a number of GB above 0."),
        (4, "target.size = -1.5", "line 4: size is -1.5: give a number of GB above 0."),
        (4, "target.size = nan", "line 4: size is nan: give"),
        (4, "target.size = inf", "line 4: size is inf: give it in GB"),
        (4, "target.size = 1060000000", "line 4: size is 1060000000: give it in GB, not in bytes."),
        (4, "target.size = true", "line 4: size is true: give a number of GB, such as 4.92."),
        (4, 'target.size = "1.06"', 'line 4: size is "1.06": give a number of GB'),
        (4, "target.size = 2026-01-01", "line 4: size is a date or time: give a number"),
        (5, 'draft.same_as = "x"', "line 6: mine has no key draft.file; there are same_as"),
        (7, "", "line 5: mine has no draft.size: add it, or draft.same_as"),
        (8, 'draft.revision = "main"', 'line 8: revision is "main": give the 40 digits'),
        (8, f'draft.revision = "{COMMIT[1:]}"', "line 8: revision is"),
        (8, f'draft.revision = "{COMMIT.upper()}"', "line 8: revision is"),
        (8, "draft.revision = 5", "line 8: revision is 5"),
        (9, "", "line 1: mine has no licence: add it."),
        (9, 'licence = " "', 'line 9: licence is "": give a text'),
        (9, 'licence = "a\\nb"', "line 9: licence is"),
        (10, "memory = []", "line 10: memory is a list"),
        (10, "memory = 4\nkind = 'medusa'", 'line 11: kind is "medusa": give "draft", "eagle3" or "mtp".'),
        (10, "memory = 4\nunverified = 1", "line 11: unverified is 1: give true or false."),
        (10, "memory = 4\nmemory_kind = false", "line 11: memory_kind is false: give a text"),
        (10, "memory = 4\nmemry = 4", "line 11: mine has no key memry; did you mean memory"),
        (10, "memory = 4\n\n[mine]", "line 12, column 6: cannot declare"),
        (10, "memory = 4\nmemory = 5", "line 11"),
        (10, "memory = 4\nlicence MIT", "line 11, column 9: expected '='"),
        (10, "memory = 4\n[[more]]", "line 11: more is a list: write [more] on a line of its own"),
        (10, "memory = 4\n[more]\ntarget = 'x'", "line 11: more has no licence"),
        (10, f"memory = {'9' * 5000}", "line 10"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, line: int, put: str, says: str) -> None:
    """Lost otherwise: an afternoon with a file of a hundred lines and the words "invalid catalogue"."""
    lines = ENTRY.splitlines()
    lines[line - 1] = put
    assert fault(tmp_path / "m.toml", "\n".join(lines)).startswith(says)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mine", "line 14: draft is the same as in mine, which names another: name that one."),
        ("other", "line 14: draft is the same as in other, which names another: name that one."),
        ("bare", "line 14: bare has no draft that could be the same; name another entry."),
        ("bar", 'line 14: same_as is "bar", which is no entry; did you mean "bare"?'),
        ("qwen3.5-4b", "line 14: qwen3.5-4b has no draft that could be the same"),
        ("gone", 'line 14: same_as is "gone", which is no entry; name an entry that there is.'),
    ],
)
def test_same_as_leads_to_an_entry_that_says_it_itself(tmp_path: Path, name: str, says: str) -> None:
    """Lost otherwise: a reader that runs in circles."""
    bare = ENTRY.splitlines()[1:4] + ENTRY.splitlines()[8:]
    lines = ["[bare]", *bare, "[mine]", *bare, "", f'draft.same_as = "{name}"', "[other]", *bare]
    path = tmp_path / "m.toml"
    path.write_text("\n".join([*lines, 'draft.same_as = "mine"']))
    with pytest.raises(SpecchatError) as caught:
        read_catalogue(path, shipped_catalogue())
    assert str(caught.value).startswith(f"{path} {says}")


def test_faults_of_the_file_itself(tmp_path: Path) -> None:
    assert fault(tmp_path / "m.toml", b"[mine]\nlicence = '\xff'\n").startswith("line 2: not UTF-8")
    assert fault(tmp_path / "m.toml", "mine = 5\n").startswith("line 1: mine is 5: write [mine] on a line")
    with pytest.raises(SpecchatError, match="cannot be read"):
        read_catalogue(tmp_path)
    (tmp_path / "m.toml").write_text("# nothing yet\n")
    assert read_catalogue(tmp_path / "m.toml") == {}


def test_whatever_is_changed_is_read_or_told_with_a_line(tmp_path: Path) -> None:
    """Lost otherwise: a traceback in place of a line, on the slip that nobody thought of."""
    text = SHIPPED.read_text(encoding="utf-8")
    rng = np.random.default_rng(11)
    signs = list("\"'[]{}=.,#\\\n-0a ")
    outcomes = {True: 0, False: 0}
    for _ in range(120):
        changed = list(text)
        for at in rng.integers(0, len(text), rng.integers(1, 4)):
            changed[at] = str(rng.choice(signs))
        path = tmp_path / "m.toml"
        path.write_text("".join(changed), encoding="utf-8")
        try:
            read_catalogue(path)
            outcomes[True] += 1
        except SpecchatError as error:
            assert re.match(re.escape(str(path)) + r" line \d+", str(error)), error
            outcomes[False] += 1
    assert min(outcomes.values()) > 5
