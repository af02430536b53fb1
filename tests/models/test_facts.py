"""What a table tells of files: right, quick the second time, and never stale."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.models import facts as module
from app.models.facts import facts_file, facts_of
from app.models.row import Facts
from tests.tiny import Extra, write_tiny


def facts(path: Path, kept: Path | None = None) -> Facts:
    """The facts of one file."""
    return dict(facts_of([path], kept))[path]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "facts.json"


def entries(kept: Path) -> dict[str, dict[str, object]]:
    found = json.loads(kept.read_text(encoding="utf-8"))["facts"]
    assert isinstance(found, dict)
    return found


def test_facts_of_a_model(tmp_path: Path, kept: Path) -> None:
    path = write_tiny(tmp_path / "some.gguf")
    found = facts(path, kept)
    assert found.parameters is not None and 20_000 < found.parameters < 60_000
    assert replace(found, parameters=None) == Facts(
        architecture="llama", quantisation="F32", context_length=512, layers=2, title="tiny 0"
    )
    assert facts(path, kept) == found


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"general.type": "mmproj"}, "some.gguf is a projector"),
        ({"llama.block_count": 0}, "some.gguf is damaged: it claims 0 layers"),
    ],
)
def test_why_a_file_cannot_be_chatted_with(tmp_path: Path, kept: Path, extra: Extra, said: str) -> None:
    """Lost otherwise: a row of the table that fails when it is chosen."""
    path = write_tiny(tmp_path / "some.gguf", extra=extra)
    for _ in range(2):
        found = facts(path, kept)
        assert found.problem is not None and found.problem.startswith(said)
        assert found.architecture == "llama"


def test_files_that_cannot_be_read(tmp_path: Path, kept: Path) -> None:
    """A lack of permission or a missing file may end; a damaged file stays so until it changes."""
    (tmp_path / "bad.gguf").write_bytes(b"GGUF")
    found = dict(facts_of([tmp_path / "gone.gguf", tmp_path / "bad.gguf", tmp_path], kept))
    assert all(each.problem and each == Facts(problem=each.problem) for each in found.values())
    assert "cannot be read" in (found[tmp_path / "gone.gguf"].problem or "")
    assert not any("gone.gguf" in key for key in entries(kept))
    assert any("bad.gguf" in key for key in entries(kept))


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="modes hold nobody back here")
def test_a_file_that_may_be_read_now(tmp_path: Path, kept: Path) -> None:
    """Lost otherwise: a model that stays unreadable after its permissions were mended."""
    path = write_tiny(tmp_path / "some.gguf")
    path.chmod(0)
    assert "cannot be read" in (facts(path, kept).problem or "")
    path.chmod(0o600)
    assert facts(path, kept).problem is None


def test_what_was_read_is_not_read_again(tmp_path: Path, kept: Path) -> None:
    """Lost otherwise: a second or two for each large model, each time that the table is shown."""
    path = write_tiny(tmp_path / "some.gguf")
    found = facts(path, kept)
    stamp = os.stat(path)
    path.write_bytes(b"x" * stamp.st_size)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert facts(path, kept) == found


def test_a_file_that_changed_is_read_again(tmp_path: Path, kept: Path) -> None:
    """Lost otherwise: the facts of a model that was there before."""
    path = write_tiny(tmp_path / "some.gguf")
    facts(path, kept)
    write_tiny(path, layers=3)
    assert facts(path, kept).layers == 3
    size = path.stat().st_size
    path.write_bytes(path.read_bytes().replace(b"tiny 0", b"tiny 9"))
    os.utime(path, ns=(0, 0))
    assert path.stat().st_size == size and facts(path, kept).title == "tiny 9"


def test_the_sentence_names_the_file_that_was_asked_for(tmp_path: Path, kept: Path) -> None:
    """Lost otherwise: a problem that names another link to the file."""
    path = write_tiny(tmp_path / "some.gguf", extra={"general.type": "adapter"})
    other = tmp_path / "other.gguf"
    os.link(path, other)
    try:
        (tmp_path / "linked.gguf").symlink_to(path)
    except OSError:
        pytest.skip("this system lets nobody but administrators make links")
    for name in ("some.gguf", "other.gguf", "linked.gguf"):
        problem = facts(tmp_path / name, kept).problem
        assert problem is not None and problem.startswith(name)


@pytest.mark.parametrize("damage", ["", "{", "[]", "[" * 100_000, '{"facts": []}', "\ud800", "null"])
def test_a_damaged_cache_is_written_anew(tmp_path: Path, kept: Path, damage: str) -> None:
    """Lost otherwise: the table, to a power cut."""
    path = write_tiny(tmp_path / "some.gguf")
    found = facts(path, kept)
    kept.write_bytes(damage.encode(errors="surrogatepass"))
    assert facts(path, kept) == found
    assert len(entries(kept)) == 1
    assert [each.name for each in kept.parent.iterdir()] == ["facts.json"]


@pytest.mark.parametrize(
    "changed",
    [
        {"layers": "2"},
        {"layers": True},
        {"name": 5},
        {"problem": ["x"]},
        {"more": 1},
    ],
)
def test_facts_of_other_kinds_are_not_believed(
    tmp_path: Path, kept: Path, changed: dict[str, object]
) -> None:
    path = write_tiny(tmp_path / "some.gguf")
    found = facts(path, kept)
    data = json.loads(kept.read_text(encoding="utf-8"))
    (entry,) = data["facts"].values()
    entry["facts"].update(changed)
    kept.write_text(json.dumps(data), encoding="utf-8")
    assert facts(path, kept) == found


def test_other_rules_judge_anew(tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: a model that a new release can load and an old one could not."""
    path = write_tiny(tmp_path / "some.gguf")
    facts(path, kept)
    data = kept.read_text(encoding="utf-8").replace('"tiny 0"', '"tiny 1"')
    kept.write_text(data, encoding="utf-8")
    assert facts(path, kept).title == "tiny 1"
    monkeypatch.setattr(module, "VERSION", module.VERSION + 1)
    assert facts(path, kept).title == "tiny 0"


def test_a_caller_who_stops_keeps_what_was_read(tmp_path: Path, kept: Path) -> None:
    """Lost otherwise: the work of a table that was closed early."""
    paths = [write_tiny(tmp_path / f"{name}.gguf") for name in "abc"]
    found = facts_of(paths, kept)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert len(entries(kept)) == 1


def test_the_cache_does_not_grow_for_ever(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    for name in "abc":
        facts(write_tiny(tmp_path / f"{name}.gguf"), kept)
    assert [os.path.basename(key) for key in entries(kept)] == ["b.gguf", "c.gguf"]


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    path = write_tiny(tmp_path / "some.gguf")
    assert facts(path, tmp_path / "file" / "facts.json").layers == 2


def test_a_split_model_is_counted_whole(tmp_path: Path, kept: Path) -> None:
    """Lost otherwise: parameters of a part, or facts that stay when a part has changed."""
    split: Extra = {"split.no": 0, "split.count": 2, "split.tensors.count": 42}
    first = write_tiny(tmp_path / "a-00001-of-00002.gguf", extra=split)
    assert "a-00002-of-00002.gguf" in (facts(first, kept).problem or "")
    one = facts(write_tiny(tmp_path / "whole.gguf"), kept).parameters
    write_tiny(tmp_path / "a-00002-of-00002.gguf", extra={**split, "split.no": 1})
    assert one is not None and facts(first, kept) == replace(
        facts(first, kept), parameters=2 * one, problem=None
    )


def test_a_name_without_end_is_cut(tmp_path: Path, kept: Path) -> None:
    path = write_tiny(tmp_path / "some.gguf", extra={"general.name": "x" * 5000})
    assert facts(path, kept).title == "x" * 200


def test_facts_are_kept_with_the_apps(tmp_path: Path) -> None:
    assert facts(write_tiny(tmp_path / "some.gguf")).layers == 2
    assert facts_file().is_file()
