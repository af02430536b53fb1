"""The comparison: without these a person reads figures that nobody measured, or loses them."""

from __future__ import annotations

import asyncio
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from textual.app import App
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Static

from app.engine.events import Finished, FinishReason, Tally
from app.engine.settings import Sampling
from app.process.events import Cancelled, Compared, ComparisonEnded, ComparisonProgress, Divergence, Failed
from app.process.report import Report, build
from app.process.report_svg import as_svg
from app.process.report_text import as_json, as_markdown, basis, cells, line, notes, verdict
from app.tui.compare.picture import bars
from app.tui.compare.screen import CompareScreen, ReplyColumn
from app.tui.theme import THEMES

GREEDY, WARM = Sampling(temperature=0.0), Sampling(temperature=0.8)
PARTING = Divergence(36, " the", " a", 0.0213)
ORDER = ("off", "lookup", "draft", "skip")
TITLE = "Summarise [/b] <this> & the | table\x1b[2J"


def reply(
    seconds: float,
    tokens: int = 100,
    plain: float | None = 0.01,
    drafted: int = 80,
    reason: FinishReason = "length",
) -> Finished:
    accepted = drafted // 2
    ids = tuple(range(tokens))
    tallies = {"lookup" if drafted else "off": Tally(tokens - accepted, drafted, accepted)}
    return Finished(
        reason, ids, ("plain",) * tokens, "", "", 7, 200, 0, 0.5,
        passes=tokens - accepted, drafted=drafted, accepted=accepted, kept=tokens, by_proposer=tallies,
        decode_seconds=seconds, model_seconds=seconds, plain_seconds=plain,
    )  # fmt: skip


def compared(name: str, finished: Finished | None, parting: Divergence | None = None) -> Compared:
    problem = None if finished else "No [/INST] draft is loaded: press F7."
    return Compared(1, name, finished, parting, problem)


def four() -> list[Compared]:
    return [
        compared("off", reply(1.0, drafted=0)),
        compared("lookup", reply(0.5)),
        compared("draft", reply(0.8), PARTING),
        compared("skip", None),
    ]


def report(sampling: Sampling = GREEDY) -> Report:
    return build(TITLE, "Model_A", 7, sampling, four())


def test_a_speedup_is_over_the_plain_reply_and_there_is_none_for_nothing() -> None:
    """Else: a ratio where nothing was drafted, which is noise; or plain decoding beside itself is not 1."""
    assert [row.speedup for row in report().rows] == [1.0, 2.0, 1.25, None]
    assert "over plain decoding (off), made in turn: 100.0 tok/s" in basis(report())
    idle = build("t", "m", 7, GREEDY, [four()[0], compared("lookup", reply(0.48, drafted=0))])
    assert idle.rows[1].speedup is None and idle.rows[0].speedup == 1.0
    assert cells(idle.rows[1])[1:3] == ("208.3", "never drafted")
    for told in (as_markdown(idle), as_svg(idle)):
        assert "never drafted" in told and "2.08" not in told
    alone = build("t", "m", 7, GREEDY, [compared("lookup", reply(0.5))])
    assert alone.rows[0].speedup is None and "not measured" in basis(alone)


def test_a_parting_is_told_with_both_tokens_and_the_gap() -> None:
    """Else: nobody can tell a near tie from a fault."""
    said = verdict(report().rows[2])
    assert said == "differs from token 37 on (“ the” or “ a”, logit gap 0.021)"
    newline = build(
        "t", "m", 7, GREEDY, [four()[0], compared("draft", reply(1), Divergence(3, "\n", "", None))]
    )
    assert verdict(newline.rows[1]) == "differs from token 4 on (“↵” or the end)"
    assert any("near tie" in note for note in notes(report()))


def test_another_sample_is_not_called_a_fault() -> None:
    """Else: lawful sampling reads as lost quality, while a lookup that strays goes unseen."""
    draft = report(WARM).rows[2]
    assert verdict(draft) == "another sample of the same distribution"
    assert "differs" not in as_markdown(report(WARM))
    lookup = build("t", "m", 7, WARM, [four()[0], compared("lookup", reply(1.0), PARTING)]).rows[1]
    assert lookup.outcome == "differs"


def test_what_was_stopped_is_not_called_different() -> None:
    """Else: Esc in the middle of a comparison leaves a row that accuses the proposer."""
    cut = compared("lookup", reply(0.2, tokens=40, reason="cancelled"))
    row = build("t", "m", 7, GREEDY, [four()[0], cut]).rows[1]
    assert row.outcome == "stopped"
    assert "40 tokens" in verdict(row)


def test_json_holds_numbers_and_nulls() -> None:
    """Else: a script that reads the export gets dashes, or a file that is no JSON."""
    endless = compared("draft", reply(0.5), Divergence(1, "a", "b", float("inf")))
    read = json.loads(as_json(build(TITLE, "m", 7, GREEDY, [*four()[:2], endless, four()[3]])))
    assert read["title"] == "Summarise [/b] <this> & the | table[2J"
    assert read["rows"][1]["speedup"] == 2.0
    assert read["rows"][2]["divergence"]["gap"] is None
    assert read["rows"][3]["tokens_per_second"] is None
    assert read["sampling"]["temperature"] == 0.0


def test_markdown_survives_what_prompts_contain() -> None:
    """Else: a bar in a token's text breaks the table, and a tag in the title becomes HTML."""
    piped = compared("draft", reply(1.0), Divergence(0, "|", "\x1b]52;c;", 0.5))
    text = as_markdown(build(TITLE, "Model_A", 7, GREEDY, [four()[0], piped]))
    assert "\\<this\\>" in text and "\x1b" not in text
    rows = [each for each in text.splitlines() if each.startswith("| ")]
    assert len(rows) == 4
    assert {each.replace("\\|", "").count("|") for each in rows} == {8}


def test_lines_of_the_table_stand_under_each_other() -> None:
    """Else: figures cannot be compared down a column, or the table does not fit 80 columns."""
    lines = [line(cells(row)) for row in report().rows]
    assert {text.index("%") for text in lines[1:3]} == {lines[1].index("%")}
    assert max(map(len, lines)) <= 74
    assert "–" in lines[3] and " 0" not in lines[3]


def test_bars_grow_with_the_rate_and_show_the_plain_one() -> None:
    """Else: the picture says another thing than the table."""
    for width in (40, 74, 108):
        drawn = bars(report(), ORDER, width, "dark").plain.splitlines()
        assert [len(each) <= width for each in drawn] == [True] * 5
        lengths = [each.count("█") for each in drawn]
        assert lengths[1] > lengths[2] > lengths[0] > lengths[3] == 0
        assert "│" in drawn[1] and "┊" in drawn[3] and "plain 100.0" in drawn[4]
        assert [each.split()[-1] for each in drawn[:4]] == ["100.0", "200.0", "125.0", "–"]


def test_svg_is_xml_that_needs_nothing_else() -> None:
    """Else: the exported picture is empty in a browser, or fetches something from somewhere."""
    for rows in (four(), four()[3:], []):
        text = as_svg(build(TITLE + "\uffff", "m", 7, GREEDY, rows))
        root = ElementTree.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert text.count("http") == 1
        assert "prefers-color-scheme" in text
    drawn = [each for each in root.iter() if each.tag.endswith("title")]
    assert drawn[0].text == "Summarise [/b] <this> & the | table[2J"


class Host(App[None]):
    """Opens a comparison and remembers what it asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = "specchat-dark"
        self.folder = folder
        self.comparison = self.comparing(ORDER)
        self.stopped = 0
        self.copied: list[str] = []

    def comparing(self, proposers: tuple[str, ...]) -> CompareScreen:
        return CompareScreen(
            TITLE, "Model_A", 7, GREEDY, proposers, stop=self.stop, copy=self.copy, folder=self.folder
        )

    def on_mount(self) -> None:
        self.push_screen(self.comparison)

    def stop(self) -> None:
        self.stopped += 1

    def copy(self, text: str) -> str:
        self.copied.append(text)
        return "Copied."

    @property
    def title_of_dialog(self) -> str:
        return str(self.comparison.query_one("#dialog").border_title)

    def shown(self, name: str) -> str:
        content = self.comparison.query_one(f"#{name}", Static).content
        assert isinstance(content, Content | str)
        return str(content)


async def opened(pilot: Pilot[None]) -> None:
    for _ in range(50):
        await pilot.pause()
        if pilot.app.screen.query("#table"):
            return
    raise AssertionError("the comparison did not open")


def test_the_screen_fills_in_while_it_runs(tmp_path: Path) -> None:
    """Else: a minute of waiting shows nothing."""

    async def body() -> None:
        app = Host(tmp_path)
        async with app.run_test(size=(80, 24)) as pilot:
            await opened(pilot)
            assert app.shown("table").count("waiting") == 4
            app.comparison.take(four()[0])
            app.comparison.take(ComparisonProgress(1, "lookup", "text", 57, 9, 0.5, 3.0))
            await pilot.pause()
            table = app.shown("table")
            assert "100.0" in table and "57 tokens" in table and "114.0" in table
            assert table.count("waiting") == 2 and app.title_of_dialog == "Compare · about 3 s left"
            assert not app.comparison.query_one("#columns").display
            for each in four()[1:]:
                app.comparison.take(each)
            await pilot.pause()
            assert "differs at token 37" in app.shown("table")
            assert "could not run: No [/INST] draft is loaded" in app.shown("notes")
            keys = app.comparison.query_one("#foot").region
            app.comparison.take(ComparisonEnded(1))
            assert app.title_of_dialog == "Compare · done"
            assert keys.bottom < 24 and app.comparison.query_one("#notes").region.bottom <= keys.y

    asyncio.run(body())


def test_two_replies_grow_side_by_side(tmp_path: Path) -> None:
    """Else: where there is room, nobody sees what plain decoding and the chat's own way come to."""

    async def body() -> None:
        app = Host(tmp_path)
        async with app.run_test(size=(110, 30)) as pilot:
            await opened(pilot)
            left, right = app.comparison.query(ReplyColumn)
            assert (left.border_title, right.border_title) == ("plain (off) · waiting", "skip · waiting")
            for number in range(40):
                for name, seconds in (("off", 1.0), ("skip", 0.5)):
                    news = f"[/b] line{number}\x1b[2J\n"
                    count = number + 1
                    app.comparison.take(ComparisonProgress(1, name, news, count, 0, seconds * count, 9.0))
            await pilot.pause()
            assert left.border_title == "plain (off) · 1.0 tok/s · 40.0 s · 1.00×"
            # It has drafted nothing so far.
            assert right.border_title == "skip · 2.0 tok/s · 20.0 s"
            app.comparison.take(ComparisonProgress(1, "lookup", "text", 10, 4, 5.0, 9.0))
            assert "2.00×" in app.shown("table") and app.shown("table").count("1.00×") == 1
            await pilot.pause()
            await pilot.pause()
            shown = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
            assert shown.count("[/b] line39[2J") == 2 and "line1 " not in shown
            app.comparison.take(compared("off", reply(1.0, drafted=0)))
            app.comparison.take(compared("skip", reply(0.5, drafted=0)))
            assert "1.00×" in str(left.border_title) and "never drafted" in str(right.border_title)
            assert app.comparison.query_one("#foot").region.bottom < 30

    asyncio.run(body())


def test_exports_never_replace_a_file(tmp_path: Path) -> None:
    """Else: the second comparison of the day takes the first one's file."""

    async def body() -> None:
        app = Host(tmp_path)
        async with app.run_test(size=(80, 24)) as pilot:
            await opened(pilot)
            await pilot.press("m", "y")
            assert "wait for the first reply" in app.shown("said")
            for each in four():
                app.comparison.take(each)
            await pilot.press("m", "m", "j", "s")
            assert app.shown("said").startswith("Written to ")
            await pilot.press("y")
            await pilot.pause()
            names = {path.name.removeprefix("specchat-compare") for path in tmp_path.iterdir()}
            assert names == {".md", "-2.md", ".json", ".svg"}
            assert app.shown("said") == "Copied."
            assert app.copied == [(tmp_path / "specchat-compare.md").read_text("utf-8")]

    asyncio.run(body())


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    """Else: an export that failed ends the app, or looks like one that worked."""

    async def body() -> None:
        app = Host(tmp_path / "gone")
        async with app.run_test(size=(80, 24)) as pilot:
            await opened(pilot)
            app.comparison.take(four()[0])
            await pilot.press("s")
            assert "gone" in app.shown("said")
            assert app.comparison.query_one("#said").has_class("-problem")

    asyncio.run(body())


def test_what_comes_before_the_screen_is_drawn_is_shown(tmp_path: Path) -> None:
    """Else: an engine that answers at once ends the app, or its answer is lost."""

    async def body() -> None:
        app = Host(tmp_path)
        app.comparison.take(four()[0])
        app.comparison.take(ComparisonProgress(1, "lookup", "text", 3, 0, 0.1, None))
        app.comparison.take(Failed(1, "The engine ended: press F5 again."))
        async with app.run_test(size=(160, 50)) as pilot:
            await opened(pilot)
            await pilot.pause()
            assert "100.0" in app.shown("table") and app.shown("table").count("not run") == 2
            assert app.shown("said") == "The engine ended: press F5 again."

    asyncio.run(body())


def test_escape_stops_then_closes(tmp_path: Path) -> None:
    """Else: the engine goes on comparing behind a closed screen, what was measured is lost, or a later reply
    is stopped."""

    async def body() -> None:
        app = Host(tmp_path)
        async with app.run_test(size=(80, 24)) as pilot:
            await opened(pilot)
            for each in four()[:2]:
                app.comparison.take(each)
            await pilot.press("escape")
            await pilot.pause()
            assert app.screen is app.comparison and app.stopped == 1
            assert app.title_of_dialog == "Compare · stopping …"
            app.comparison.take(Cancelled(1))
            await pilot.pause()
            assert "200.0" in app.shown("table") and app.shown("table").count("not run") == 2
            await pilot.press("escape")
            await pilot.pause()
            assert app.screen is not app.comparison and app.stopped == 1

    asyncio.run(body())


def test_more_proposers_than_rows_can_be_scrolled(tmp_path: Path) -> None:
    """Else: on a small terminal the keys or the last rows are out of reach."""

    async def body() -> None:
        app = Host(tmp_path)
        names = tuple(f"proposer{number}" for number in range(9))
        app.comparison = app.comparing(names)
        async with app.run_test(size=(60, 18)) as pilot:
            await opened(pilot)
            for name in names:
                app.comparison.take(compared(name, reply(1.0)))
            app.comparison.take(Failed(1, "The engine ended: press F5 again."))
            await pilot.pause()
            dialog = app.comparison.query_one("#dialog")
            assert dialog.max_scroll_y > 0
            assert app.comparison.query_one("#foot").region.bottom < 18
            await pilot.press("end")
            await pilot.pause()
            assert "press F5 again" in app.shown("said")

    asyncio.run(body())
