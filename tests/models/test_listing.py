"""Rows of the list of models: what is here, what can be downloaded, and what each fits with."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from app.models.catalogue import Entry
from app.models.disk_search import Found
from app.models.facts import facts_of
from app.models.fit import Memory
from app.models.gguf import read_header
from app.models.hub import HubFile
from app.models.listing import look, rows
from app.models.row import ModelRow, Room, readable_context, readable_count
from tests.tiny import write_tiny

PLENTY = Memory(64_000_000_000)
TARGET = HubFile("org/big-GGUF", "big-Q4_K_M.gguf", 100_000, None)
DRAFT = HubFile("org/small-GGUF", "small-Q8_0.gguf", 50_000, None)
ENTRY = Entry("big", TARGET, DRAFT, "draft", "Apache-2.0", 5_000_000_000, False, None)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No model of the person who runs the tests is looked at."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "LLAMA_CACHE", "OLLAMA_MODELS", "JAN_DATA_FOLDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return tmp_path


def in_hub(home: Path, part: HubFile, **about: object) -> Path:
    """A tiny model where the hub's cache would have this part."""
    commit = "a" * 40
    repository = home / "hf" / "hub" / f"models--{part.repository.replace('/', '--')}"
    folder = repository / "snapshots" / commit
    folder.mkdir(parents=True, exist_ok=True)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(commit, encoding="utf-8")
    return write_tiny(folder / part.file, **about)  # type: ignore[arg-type]


def rows_of(*paths: Path, memory: Memory = PLENTY, **entries: Entry) -> dict[str, ModelRow]:
    """Rows of these files, called by their names and found in the hub's cache."""
    found = [Found(path, path.name, "somewhere", path.stat().st_size) for path in paths]
    known = dict(facts_of(paths))
    headers = {path: read_header(path) for path in paths if known[path].problem is None}
    here = {
        part: path for entry in entries.values() for part in entry.parts for path in paths
        if path.name == part.file
    }  # fmt: skip
    return {row.name: row for row in rows(found, known, headers, entries, here, memory)}


def test_what_is_known_of_a_file(tmp_path: Path) -> None:
    """Lost otherwise: what a person chooses a model by."""
    row = rows_of(write_tiny(tmp_path / "one.gguf"))["one.gguf"]
    assert (row.origin, row.architecture, row.quantisation) == ("somewhere", "llama", "F32")
    assert (row.context_length, row.layers, row.title) == (512, 2, "tiny 0")
    assert row.parameters is not None and row.size == (tmp_path / "one.gguf").stat().st_size
    assert row.room is not None and row.room.fits and row.room.words == "yes, 512"


def test_which_drafts_fit_and_why_others_do_not(tmp_path: Path) -> None:
    """Lost otherwise: a draft is guessed at, and refused when it is loaded."""
    big = write_tiny(tmp_path / "big.gguf", layers=3)
    small = write_tiny(tmp_path / "small.gguf", layers=1)
    other = write_tiny(tmp_path / "other.gguf", layers=1, vocabulary=900)
    listed = rows_of(big, small, other)
    assert [each.name for each in listed["big.gguf"].fitting] == ["small.gguf"]
    refused = {each.name: each.problem for each in listed["big.gguf"].drafts if each.problem}
    assert "900 tokens" in refused["other.gguf"]
    assert (
        "not smaller" in {each.name: each.problem or "" for each in listed["small.gguf"].drafts}["big.gguf"]
    )


def test_an_entry_of_the_catalogue_that_is_here_is_one_row(tmp_path: Path) -> None:
    """Lost otherwise: one model stands twice, and its licence with the other."""
    target = write_tiny(tmp_path / TARGET.file, layers=3)
    listed = rows_of(target, big=ENTRY)
    assert list(listed) == ["big"]
    row = listed["big"]
    assert row.path == str(target) and row.architecture == "llama" and row.licence == "Apache-2.0"
    assert row.partner is not None and row.partner.path is None and row.missing == DRAFT.size
    draft = write_tiny(tmp_path / DRAFT.file, layers=1)
    row = rows_of(target, draft, big=ENTRY)["big"]
    assert row.partner is not None and row.partner.path == str(draft) and row.missing == 0
    assert [each.name for each in row.fitting] == [DRAFT.file]


def test_an_entry_that_is_not_here(tmp_path: Path) -> None:
    """Lost otherwise: gigabytes are downloaded for a model that memory cannot hold."""
    target = replace(TARGET, file="head.gguf")
    head = replace(ENTRY, name="head", target=target, draft=None, kind="mtp")
    head = replace(head, unverified=True, memory_kind="hybrid")
    listed = rows_of(big=ENTRY, head=head)
    assert listed["big"].missing == 150_000 and listed["big"].parts == (TARGET, DRAFT)
    assert listed["big"].quantisation == "Q4_K_M" and listed["big"].path is None
    assert listed["big"].partner is not None and listed["big"].partner.words == "small-Q8_0"
    assert listed["head"].unverified and listed["head"].memory_kind == "hybrid"
    assert listed["big"].room == Room(True, 5_000_000_000)
    short = rows_of(big=ENTRY, memory=Memory(4_000_000_000))["big"].room
    assert short is not None and short.words == "no, 5.0 GB"
    spread = rows_of(big=ENTRY, memory=Memory(4_000_000_000, (4_000_000_000,)))["big"].room
    assert spread is not None and spread.fits


def test_two_entries_of_one_file_are_two_rows(tmp_path: Path) -> None:
    """Lost otherwise: a person's own name for a model, once it is downloaded."""
    target = write_tiny(tmp_path / TARGET.file, layers=3)
    listed = rows_of(target, big=ENTRY, again=replace(ENTRY, name="again"))
    assert [listed[name].path for name in ("again", "big")] == [str(target)] * 2 and len(listed) == 2


def test_a_head_that_nothing_can_run_is_not_offered(tmp_path: Path) -> None:
    """Lost otherwise: gigabytes of a head that no proposer can use, or one model offered twice."""
    head = replace(ENTRY, name="head", kind="eagle3")
    alone = replace(head, name="alone", target=replace(TARGET, file="alone.gguf"))
    listed = rows_of(big=ENTRY, head=head, alone=alone)
    assert list(listed) == ["big", "alone"]
    assert listed["alone"].partner is None and listed["alone"].parts == (alone.target,)


def test_memory_that_is_short_is_told(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "one.gguf")
    room = rows_of(path, memory=Memory(201_000_000))["one.gguf"].room
    assert room is not None and not room.fits and room.remark is not None and "are free" in room.remark
    on_gpu = rows_of(path, memory=Memory(10**10, (10**10,)))["one.gguf"].room
    assert on_gpu is not None and on_gpu.words == "yes, 512, GPU"
    assert Room(True, 1, 8192, 20, 33).words == "yes, 8k, GPU 20/33"


def test_what_cannot_be_chatted_with_comes_last(tmp_path: Path) -> None:
    """Lost otherwise: why a file that is there is not in the list."""
    bad = write_tiny(tmp_path / "a-projector.gguf", extra={"general.type": "mmproj"})
    good = write_tiny(tmp_path / "good.gguf")
    (tmp_path / "b-cut.gguf").write_bytes(good.read_bytes()[:3000])
    listed = rows_of(bad, tmp_path / "b-cut.gguf", good, big=ENTRY)
    assert list(listed) == ["good.gguf", "big", "a-projector.gguf", "b-cut.gguf"]
    assert "projector" in (listed["a-projector.gguf"].problem or "") and listed["b-cut.gguf"].problem
    assert listed["good.gguf"].drafts == () and listed["b-cut.gguf"].room is None


def test_look_finds_what_is_on_the_disk(own_home: Path) -> None:
    """Lost otherwise: files of other programs are downloaded once more."""
    target = in_hub(own_home, TARGET, layers=3)
    two = HubFile("org/two-GGUF", "one-Q8_0.gguf", 0, None)
    in_hub(own_home, two)
    in_hub(own_home, replace(two, file="two-Q8_0.gguf"))
    folder = own_home / "mine"
    folder.mkdir()
    mine = write_tiny(folder / "mine.gguf")
    (folder / "bad.gguf").write_bytes(b"nothing")
    told: list[tuple[int, int]] = []
    listing = look([folder], PLENTY, bundled=mine, named=target, report=lambda *so: told.append(so))
    here = {row.name: row for row in listing.rows if row.path}
    # A repository with one model here is name enough for it; `find_model` takes both.
    names = ["mine.gguf", "org/big-GGUF", "org/two-GGUF:one-Q8_0.gguf", "org/two-GGUF:two-Q8_0.gguf"]
    assert list(here) == names and here["mine.gguf"].origin == str(folder)
    assert here["org/big-GGUF"].path is not None and os.path.samefile(here["org/big-GGUF"].path, target)
    assert here["org/big-GGUF"].file_name == "org/big-GGUF:big-Q4_K_M.gguf"
    assert told[-1] == (4, 4) and listing.fault is None
    assert [each.reason.startswith("bad.gguf is not a GGUF file") for each in listing.unusable] == [True]
    assert {"qwen3-8b", "llama-3.1-8b"} <= {row.name for row in listing.rows}
    only_here = look([folder], PLENTY, here_only=True)
    assert all(row.path for row in only_here.rows)


def test_a_file_in_none_of_the_places(own_home: Path) -> None:
    path = write_tiny(own_home / "else.gguf")
    (row,) = look([], PLENTY, named=path, here_only=True).rows
    assert (row.name, row.origin) == ("else.gguf", "file")
    assert look([], PLENTY, bundled=own_home / "gone.gguf", here_only=True).rows == ()


def test_a_fault_in_the_own_catalogue_costs_only_that(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost otherwise: one wrong letter, and there is no list at all."""
    own = own_home / "models.toml"
    own.write_text("[mine]\ntarget = 3\n", encoding="utf-8")
    monkeypatch.setattr("app.models.catalogue.user_catalogue_file", lambda: own)
    listing = look([], PLENTY)
    assert listing.fault is not None and "models.toml line 1" in listing.fault
    assert "qwen3-8b" in {row.name for row in listing.rows}


def test_numbers_as_people_write_them() -> None:
    contexts = [readable_context(tokens) for tokens in (512, 8192, 40960, 131072, 1048576)]
    assert contexts == ["512", "8k", "40k", "128k", "1M"]
    counts = [readable_count(number) for number in (134_500_000, 1_710_000_000, 70_600_000_000)]
    assert counts == ["134M", "1.71B", "70.6B"]
