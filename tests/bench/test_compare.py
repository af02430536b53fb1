"""The comparison on the command line: what it runs, what its figures mean, and what bad input gets."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app.assembly.assembly import Assembly
from app.bench.comparer import ComparedReply, Comparer, reports
from app.config.values import LoadSettings
from app.engine.events import Request, Tally
from app.engine.settings import Sampling
from app.process.events import Compared, Divergence
from app.process.report_text import as_text, verdict
from tests.command import running
from tests.conftest import Ask
from tests.tiny import write_tiny
from tests.tui.engine import finished

ALL = ("off", "lookup", "draft", "skip", "auto")
REQUEST = Request((), Sampling(temperature=0.0), seed=7, max_tokens=8)
ONE = finished([])


def run(
    number: int, title: str, name: str, tokens: int, seconds: float, parting: bool = False
) -> ComparedReply:
    drafted = 0 if name == "off" else tokens
    reply = replace(ONE, token_ids=(1,) * tokens, kept=tokens, decode_seconds=seconds)
    reply = replace(reply, passes=tokens, drafted=drafted)
    reply = replace(reply, by_proposer={name: Tally(tokens, drafted)})
    divergence = Divergence(3, "a", "b", 0.5) if parting else None
    return ComparedReply(number, title, Compared(0, name, reply, divergence, None))


def test_a_speedup_is_the_median_of_the_ratios_of_each_round() -> None:
    """Else: a machine that slows down between two rounds makes a proposer look fast or slow."""
    # In the first round the machine was slow by a factor of 4.
    seconds = {"off": (4.0, 1.0, 1.0), "lookup": (2.0, 0.5, 0.4)}
    runs = [run(number, "t", name, 10, seconds[name][number]) for number in range(3) for name in seconds]
    (report,) = reports(runs, ("off", "lookup"), {}, "m", REQUEST)
    assert [row.speedup for row in report.rows] == [1.0, 2.0]
    assert [row.tokens_per_second for row in report.rows] == [10.0, 20.0]
    assert "Medians of 3 rounds" in as_text(report)


def test_of_all_prompts_tokens_and_seconds_are_summed_first() -> None:
    """Else: a short reply counts as much as a long one."""
    runs = [
        *(run(0, "a", "off", 10, 1.0), run(0, "a", "lookup", 10, 0.1)),
        *(run(0, "b", "off", 90, 9.0), run(0, "b", "lookup", 90, 4.9, parting=True)),
    ]
    first, second, together = reports(runs, ("off", "lookup"), {}, "m", REQUEST)
    assert first.rows[1].speedup == pytest.approx(10.0) and first.rows[1].outcome == "identical"
    assert second.rows[1].divergence is not None
    assert together.title == "All 2 prompts" and together.rows[1].tokens == 100
    assert together.rows[1].speedup == pytest.approx(2.0)
    assert verdict(together.rows[1]) == "differs on some of the prompts"


def test_one_parting_in_any_round_is_told() -> None:
    """Else: a proposer that changed the text once in three rounds is called identical."""
    runs = [
        run(number, "t", name, 10, 1.0, name != "off" and number == 1) for number in range(3) for name in ALL
    ]
    (report,) = reports(runs, ALL, {}, "m", REQUEST)
    assert [row.outcome for row in report.rows] == ["first", *["differs"] * 4]


def test_a_turn_that_was_cut_short_is_left_out() -> None:
    """Else: after Ctrl+C a speedup is the ratio of different rounds, or all that was measured is lost."""
    runs = [*(run(0, "t", name, 10, 1.0) for name in ALL), run(1, "t", "off", 10, 9.0)]
    (report,) = reports(runs, ALL, {}, "m", REQUEST)
    assert report.rounds == 1 and report.rows[0].tokens_per_second == 10.0
    assert reports(runs[:2], ALL, {}, "m", REQUEST) == ()
    both = [run(0, title, name, 10, 1.0) for title in "tu" for name in ALL]
    begun = [run(1, "t", name, 10, 0.1) for name in ALL]
    *_, together = reports([*both, *begun], ALL, {}, "m", REQUEST)
    assert together.rounds == 1 and together.rows[0].tokens_per_second == 10.0


def test_a_stop_ends_it(tiny_path: Path) -> None:
    """Else: Ctrl+C waits for all rounds, or a reply that was cut short is taken for one."""
    stopped = False
    with Assembly(LoadSettings(name=str(tiny_path)), stop=lambda: stopped) as assembly:
        comparer = Comparer(assembly, ("off", "lookup", "auto"), (), REQUEST, 64)
        ids = tuple(assembly.target.tokenise("one two one two one", False))
        seen = []
        for each in comparer.runs({"t": ids, "u": ids}, 9):
            seen.append((each.round, each.title, each.compared.proposer))
            stopped = len(seen) == 10
    names = ("off", "lookup", "auto")
    turns = [(number, title, name) for number in range(2) for title in "tu" for name in names]
    assert seen == turns[:10]


def test_a_prompt_with_files_and_piped_text(
    ask: Ask, tiny_path: Path, tiny_draft_path: Path, tmp_path: Path
) -> None:
    """Else: the figures are of another prompt than the one that was given."""
    document = tmp_path / "a.md"
    document.write_text("word " * 20)
    model = ("--model", tiny_path, "--draft", tiny_draft_path)
    options = ("--rounds", 2, "--tokens", 12, "--k", 4, "--exact", "--json")
    outcome = ask("bench", "compare", "Go\x1b[2J on", *model, document, *options, stdin=b"and this")
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    assert tuple(row["proposer"] for row in report["rows"]) == ALL
    assert [row["outcome"] for row in report["rows"]] == ["first", *["identical"] * 4]
    assert {row["tokens"] for row in report["rows"]} == {12}
    assert report["title"] == "Go[2J on" and report["rounds"] == 2 and "prompts" not in report
    assert report["rows"][0]["speedup"] == 1.0 and report["rows"][0]["acceptance_rate"] is None
    assert report["rows"][2]["acceptance_rate"] > 0
    assert "10 of 10 replies" in outcome.err
    # Both documents are in the prompt: each alone fits.
    long = ("bench", "compare", "Hi", "--model", tiny_path, "--proposers", "off", "--tokens", 4)
    document.write_text("word " * 80)
    codes = [
        ask(*long, *files, stdin=b"word " * 80 * piped).code
        for files in ((), (document,))
        for piped in (0, 1)
    ]
    assert codes == [0, 0, 0, 4]


def test_without_a_prompt_one_of_each_category_that_fits(ask: Ask, tiny_path: Path, tmp_path: Path) -> None:
    """Else: a model with a short context cannot be compared, or says nothing of what was left out."""
    picture = tmp_path / "a.svg"
    options = ("--model", tiny_path, "--proposers", "lookup", "--rounds", 1, "--tokens", 4)
    outcome = ask("bench", "compare", *options, "--json")
    told = json.loads(outcome.out)
    assert "Left out, as the context is too short: summarise, " in outcome.err
    assert [each["title"] for each in told["prompts"]] == ["reason", "prose", "chat", "repeat"]
    assert told["title"] == "All 4 prompts" and [row["proposer"] for row in told["rows"]] == ["off", "lookup"]
    outcome = ask("bench", "compare", *options, "--svg", picture)
    assert "All 4 prompts" in outcome.out and f"Written: {picture}" in outcome.out
    assert "All 4 prompts" in ElementTree.parse(picture).getroot()[0].text  # type: ignore[operator]
    assert ask("bench", "compare", *options[:-1], 500).code == 4


def test_markdown_of_samples(ask: Ask, tiny_path: Path, tiny_draft_path: Path) -> None:
    """Else: above temperature 0 a lawful sample of a draft is called a fault."""
    options = ("--proposers", "draft,off", "--temp", 0.8, "--seed", 3, "--rounds", 1, "--k", 4)
    model = ("--model", tiny_path, "--draft", tiny_draft_path)
    outcome = ask("bench", "compare", "Say it", *model, *options, "--tokens", 40, "--markdown")
    assert outcome.code == 0, outcome.err
    rows = [line for line in outcome.out.splitlines() if line.startswith(("| off", "| draft"))]
    assert [row.split(" | ")[0] for row in rows] == ["| off", "| draft"]
    assert "another sample of the same distribution" in rows[1] and "seed 3" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ("Hi", "--proposers", "off,none"),
            2,
            "There is no proposer 'none': choose from off, lookup, draft,",
        ),
        (("Hi", "--proposers", "draft"), 2, "The proposer draft needs a draft model: give --draft"),
        (("Hi", "--draft", "no.gguf"), 3, 'There is no model "no.gguf": give the path of a .gguf file'),
        (("Hi", "no.md"), 3, "There is no file no.md: check the path."),
        (("Hi", "--k", "0"), 2, "Argument --k: '0' is not a whole number of at least 1."),
        (("Hi", "--k", "33"), 2, "Argument --k: 33 is more than 32."),
        (("Hi", "--temp", "-1"), 2, "temperature is -1.0: give a number from 0.0 to 100.0."),
        (("Hi", "--svg", "none/a.svg"), 3, "There is no folder none for the picture: make it first."),
        (("Hi", "--json", "--markdown"), 2, "not allowed with argument"),
        (("Hi", "--ctx", "4", "--proposers", "off"), 4, "shorten it, or give --ctx"),
        ((" ",), 2, "The prompt is empty: write one, or leave it out"),
    ],
)
def test_bad_input_gets_one_sentence(
    ask: Ask, tiny_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    outcome = ask("bench", "compare", *arguments, "--model", tiny_path)
    assert (outcome.code, outcome.out) == (code, "")
    assert said in outcome.err and outcome.err.count("\n") == 1


def test_piped_text_without_a_prompt_is_not_taken_for_one(ask: Ask) -> None:
    """Else: minutes on the project's prompts in place of the document."""
    outcome = ask("bench", "compare", stdin=b"a document")
    assert outcome.code == 2 and "The piped text has no prompt" in outcome.err


def test_what_cannot_run_is_a_row_unless_it_was_named(
    ask: Ask, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else: one refused copy on the disk costs the whole comparison, or a named proposer is missing."""
    monkeypatch.setattr("app.assembly.proposers.ASK_ABOVE_BYTES", 0)
    options = ("Hi", "--model", tiny_path, "--rounds", 1, "--tokens", 4)
    outcome = ask("bench", "compare", *options)
    assert outcome.code == 0, outcome.err
    assert "skip could not run: The copy of tiny.gguf" in outcome.out
    assert ask("bench", "compare", *options, "--proposers", "skip").code == 2
    assert "could not run" not in ask("bench", "compare", *options, "--yes").out


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to another process")
def test_ctrl_c_shows_what_was_measured(tmp_path: Path) -> None:
    """Else: an hour of rounds is lost to one key."""
    model = write_tiny(tmp_path / "tiny.gguf", end_scale=0.0)
    options = ("--proposers", "lookup", "--rounds", "100000", "--tokens", "8")
    process = running("bench", "compare", "Hi", "--model", model, *options)
    assert process.stderr is not None
    shown = b""
    while b"\r5 of " not in shown:
        shown += process.stderr.read(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and b"Traceback" not in err
    assert b"off" in out and b"lookup" in out and b"Medians of" in out
