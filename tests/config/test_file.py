"""settings.toml: without these a person's choices are lost, misread, or their own file is spoiled."""

from __future__ import annotations

import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.config.fields import BY_PATH, FIELDS, Field, Value, choices_of, default, get, put, typed
from app.config.file import line_of, parse_settings, read_settings
from app.config.values import ChatSettings, LookSettings, SamplingSettings, Settings
from app.config.write import updated, write_changes, write_settings
from app.errors import SpecchatError
from app.tui.theme import THEMES
from proposers.registry import PROPOSERS

# Every manner in which TOML lets a section be written, with comments that must stay.
MANNERS = (
    "",
    "# mine\n[sampling]\ntemperature = 0.5 # calm\n\n"
    "[chat]\nsystem = '''\nOne \"\"\"two\"\"\"\n# no comment\n'''\n",
    "sampling.temperature = 1\nsampling.'top_k' = 3\nlook.theme = 'light' # day\n[model]\nname = 'a'",
    "sampling = { temperature = 0.5, seed = 7 } # inline\nlook = {}\nkeys = { help = 'f1' }\n",
    '["sampling"]\r\n"seed" = 1 # one\r\n\r\n[model]\r\n'
    'draft_folders = [ # where\r\n  "a", # first\r\n  "]",\r\n]\r\nthreads = 2\r\n',
    '[keys]\nhelp = """f1"""\n[speculation]\nk = 0x4\n# end',
    '[chat]\nsystem = """\\\n   a \\""" = b\n[look]\n""""\n[look]\npanel = false',
    "look.theme = 'light'\nsampling.seed = 4 # four\nlook.panel = false\nsampling.top_k = 1\n",
)

# What a text may end or be cut by where its writer forgot to escape it.
SCRAPS = ('"""', '"', "\\", "\n", "\r", "a", "'''", "[look]", "#")


def _values(field: Field) -> st.SearchStrategy[Value]:
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    kinds: dict[str, st.SearchStrategy[Value]] = {
        "number": st.floats(field.low, field.high),
        "whole": st.integers(int(field.low), int(field.high)),
        # What is empty means None where None is allowed.
        "text": texts.filter(bool),
        "lines": st.one_of(texts, st.lists(st.sampled_from(SCRAPS)).map("".join)),
        "switch": st.booleans(),
        "choice": st.sampled_from(choices_of(field)),
        "texts": st.lists(texts).map(tuple),
    }
    values = st.one_of(st.just(default(field)), kinds[field.kind])
    return st.one_of(st.none(), values) if field.empty else values


@st.composite
def _settings(draw: st.DrawFn) -> Settings:
    result = Settings()
    for field in draw(st.lists(st.sampled_from(FIELDS), max_size=6, unique=True)):
        result = put(result, field, draw(_values(field)))
    names = st.sampled_from(["help", "stop", "leave", "a b", 'q"', ""])
    return replace(
        result, keys=draw(st.dictionaries(names, st.sampled_from(["f1", "ctrl+r,f2", ""]), max_size=3))
    )


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(MANNERS), st.lists(_settings(), min_size=1, max_size=3))
def test_what_was_written_is_read_again(text: str, steps: list[Settings]) -> None:
    """Else: a setting is changed in the dialogue and is another one at the next start."""
    for wanted in steps:
        text = updated(text, wanted)
        assert parse_settings(text) == wanted
        assert updated(text, wanted) == text


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_system_prompt_of_any_signs_survives(newline: str) -> None:
    """Else: a prompt that quotes TOML, or ends in a quotation mark, makes the file unreadable."""
    for scraps in itertools.product(SCRAPS, repeat=3):
        wanted = replace(Settings(), chat=ChatSettings("\n".join(scraps)))
        assert parse_settings(updated(f"[look]{newline}", wanted)) == wanted


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(MANNERS[1:]), _settings())
def test_comments_stay(text: str, wanted: Settings) -> None:
    """Else: the notes that somebody put into the file are gone after one visit to the dialogue."""
    after = updated(text, wanted)
    for comment in ("# mine", "# calm", "# day", "# inline", "# one", "# end", "# four"):
        assert (comment in text) == (comment in after)


def test_only_what_changed_is_touched() -> None:
    """Else: a file kept under version control changes all over with each visit."""
    text = (
        "# of mine\n[look]\ntheme   =   'light'  # by day\n\n[sampling]\n  top_k = 5\n# loose\n\n"
        "[model]\nexact = true\n"
    )
    wanted = parse_settings(text)
    wanted = replace(
        wanted, sampling=replace(wanted.sampling, top_k=6, seed=9), look=LookSettings(theme="dark")
    )
    assert updated(text, wanted) == (
        '# of mine\n[look]\ntheme   =   "dark"  # by day\n\n[sampling]\n  top_k = 6\n# loose\nseed = 9\n\n'
        "[model]\nexact = true\n"
    )
    gone = replace(wanted, sampling=SamplingSettings(top_k=6))
    assert "seed" not in updated(updated(text, wanted), gone)


def test_a_new_file_holds_only_what_is_not_the_default(tmp_path: Path) -> None:
    """Else: a later version's better defaults never reach this person."""
    path = tmp_path / "folder" / "settings.toml"
    write_settings(path, replace(Settings(), chat=ChatSettings('Be brief.\nAnd "kind".')))
    written = path.read_text("utf-8")
    assert written.partition("\n\n")[2] == '[chat]\nsystem = """\nBe brief.\nAnd "kind"."""\n'
    assert read_settings(path).chat.system == 'Be brief.\nAnd "kind".'
    assert read_settings(tmp_path / "none.toml") == Settings()


def test_a_value_for_one_run_is_not_kept(tmp_path: Path) -> None:
    """Else: `specchat --temp 0`, once, and every later chat is at temperature 0."""
    path = tmp_path / "settings.toml"
    path.write_text("[look]\npanel = false\n")
    run = replace(Settings(), sampling=SamplingSettings(temperature=0.0))
    write_changes(path, run, replace(run, chat=ChatSettings("Be brief."), keys={"help": "f10"}))
    kept = read_settings(path)
    assert kept == Settings(
        chat=ChatSettings("Be brief."), look=LookSettings(panel=False), keys={"help": "f10"}
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '\n\n[sampling]\n\n# x\n\ntemperature = "hot"',
            'line 7: temperature is "hot": give a number from 0 to 100.',
        ),
        ("[sampling]\nseed = -1", "line 2: seed is -1: give a whole number of at least 0, or remove"),
        ("[sampling]\ntop_k = true", "line 2: top_k is true: give a whole number of at least 0."),
        ("[sampling]\ntop_k = 4.5", "line 2: top_k is 4.5: give a whole number"),
        ("[sampling]\ntop_p = nan", "line 2: top_p is nan: give a number from 0 to 1."),
        ("[sampling]\ntemperatur = 1", 'line 2: there is no key temperatur in [sampling]; did you mean "tem'),
        ("[look]\ntemperature = 1", "line 2: temperature belongs under [sampling], not [look]: move"),
        ("\ntemperature = 1", "line 2: temperature belongs under [sampling]: move it there."),
        ("a = 1\n[samplin]\n", "line 1: there is no section [a]; there are [sampling]"),
        ("\n[samplin]\n", "line 2: there is no section [samplin]; did you mean [sampling]?"),
        ("\nlook = 3", "line 2: look is 3: write [look] on a line of its own"),
        ("[[look]]\n", "line 1: look is a list"),
        (
            "[chat]\nsystem='''\n[look]\ntheme=0'''\n[look]\ntheme='x'",
            'line 6: theme is "x": give "dark", "light" or',
        ),
        ("look = { panel = true,\ttheme = 'x' }", 'line 1: theme is "x"'),
        ('model."threads" = 0', "line 1: threads is 0: give a whole number from 1 to 512, or"),
        ("[speculation]\nk = 33", "line 2: k is 33: give a whole number from 1 to 32, or remove the line."),
        ("[speculation]\nproposer = 'lokup'", 'line 2: proposer is "lokup": give "auto", "off", "lookup"'),
        ("[model]\ndraft_folders = [\n 1]", "line 2: draft_folders is a list: give a list of texts"),
        ("[keys]\nhelp = 1", "line 2: help is 1: give keys in quotation marks"),
        ("[look]\ntheme = dark", "line 2, column 9: invalid value; correct it or remove the line"),
        ("[look]\npanel = true\npanel = true\n", "line 3, column 13: cannot overwrite a value"),
        ("[chat]\nsystem = '''\na\n", "line 3"),
        ("[chat]\nsystem = " + "[" * 100_000, "line 2"),
        ("[sampling]\nseed = " + "9" * 5000, "line 2"),
    ],
)
def test_a_fault_names_its_line_and_what_to_do(tmp_path: Path, text: str, said: str) -> None:
    """Else: somebody looks for one wrong word in a file of fifty lines, or meets a traceback."""
    path = tmp_path / "settings.toml"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    with pytest.raises(SpecchatError) as caught:
        read_settings(path)
    assert str(caught.value).startswith(f"settings.toml {said}")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    """Else: a file saved in an old encoding, or a folder of that name, is a traceback at the start."""
    path = tmp_path / "settings.toml"
    path.write_bytes(b"[chat]\nsystem = 'caf\xe9'")
    with pytest.raises(SpecchatError, match="line 2: not UTF-8"):
        read_settings(path)
    path.write_bytes("\ufeff[look]\ntheme = 'light'".encode())
    assert read_settings(path).look.theme == "light"
    with pytest.raises(SpecchatError, match="cannot be read"):
        read_settings(tmp_path)


def test_an_unreadable_file_is_not_overwritten(tmp_path: Path) -> None:
    """Else: one wrong bracket costs everything that the file held."""
    path = tmp_path / "settings.toml"
    for text in ("[look\n", "look = 3", "[look]\nunknown = 1", "[[look]]\ntheme = 'x'"):
        path.write_text(text)
        with pytest.raises(SpecchatError, match="line"):
            write_settings(path, replace(Settings(), look=LookSettings(theme="light")))
        assert path.read_text() == text
    path.write_text("[look]\ntheme = 3 # wrong\n")
    write_settings(path, replace(Settings(), look=LookSettings(theme="light")))
    assert path.read_text() == '[look]\ntheme = "light" # wrong\n'


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: a full disk empties the settings, or leaves scraps beside them."""

    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    path = tmp_path / "settings.toml"
    path.write_text("[look]\n")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(SpecchatError, match=r"cannot be written: No space left on device\.$"):
        write_settings(path, replace(Settings(), look=LookSettings(theme="light")))
    assert [each.name for each in tmp_path.iterdir()] == ["settings.toml"]
    assert path.read_text() == "[look]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_linked_file_stays_linked(tmp_path: Path) -> None:
    """Else: settings that are kept in a repository are cut off from it."""
    (tmp_path / "kept").mkdir()
    real = tmp_path / "kept" / "real.toml"
    real.write_text("")
    link = tmp_path / "settings.toml"
    link.symlink_to(real)
    write_settings(link, replace(Settings(), look=LookSettings(theme="light")))
    assert link.is_symlink()
    assert "light" in real.read_text()


def test_ranges_are_those_of_the_engine() -> None:
    """Else: the dialogue lets a value pass that the engine then refuses, in the middle of a chat."""
    for field in FIELDS:
        if field.section == "sampling":
            for bound in (field.low, field.high):
                value: Value = int(bound) if field.kind == "whole" else float(bound)
                assert get(put(Settings(), field, value), field) == value
    assert set(THEMES) == set(BY_PATH["look", "theme"].choices)
    assert choices_of(BY_PATH["speculation", "proposer"]) == ("auto", *PROPOSERS)
    assert Settings().sampling.for_engine() == type(Settings().sampling.for_engine())()


def test_what_is_typed_means_what_was_meant() -> None:
    """Else: an empty field is a fault instead of "as the program likes it", or 0,8 becomes 8."""
    assert typed(BY_PATH["sampling", "temperature"], " 0,8 ") == 0.8
    assert typed(BY_PATH["sampling", "seed"], "  ") is None
    assert typed(BY_PATH["model", "name"], "") is None
    for text in ("", "x", "--5", "1e999", "nan"):
        with pytest.raises(ValueError, match="give a number from 0 to 100"):
            typed(BY_PATH["sampling", "temperature"], text)


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        (MANNERS[1], ("sampling",), 2),
        (MANNERS[1], ("chat", "system"), 6),
        (MANNERS[2], ("sampling", "top_k"), 2),
        (MANNERS[2], ("model", "name"), 5),
        (MANNERS[3], ("sampling", "seed"), 1),
        (MANNERS[4], ("model", "threads"), 9),
        (MANNERS[6], ("look",), 6),
        ("# [look]\n[look] # x\n[[a]]\n", ("a",), 3),
        ("[look]\n", ("other",), 1),
    ],
)
def test_every_place_is_found(text: str, path: tuple[str, ...], line: int) -> None:
    """Else: a fault is told with the line of another key."""
    assert line_of(text, path) == line
