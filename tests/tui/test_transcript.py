"""The transcript: without these a person loses text, place, or the truth about an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection

from app.chat.conversation import Answer, Conversation, End, Exchange, Figures, Question
from app.chat.documents import Document
from app.engine.events import Pass
from app.process.events import Step
from app.tui.theme import THEMES, token_style
from app.tui.transcript.transcript import LAID_OUT, Transcript

FIGURES = Figures("lookup", 312, 128.44, 79.3, 1.624, 0.714, 3.21, 0.8, 4871, 42)
HARM = "[/INST] [@click=app.quit]x[/] <b>bold</b> \x1b]52;c;YQ==\x07\x1b[2J\x9b31m &#x202e;back [/b]"


class Host(App[None]):
    def __init__(self, theme: str = "dark") -> None:
        super().__init__()
        for each in THEMES.values():
            self.register_theme(each)
        self.theme = THEMES[theme].name

    def compose(self) -> ComposeResult:
        yield Transcript("a model")


def with_transcript(
    body: Callable[[Transcript, Pilot[None]], Awaitable[None]], size: tuple[int, int] = (80, 24)
) -> None:
    async def run() -> None:
        app = Host()
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await body(app.query_one(Transcript), pilot)

    asyncio.run(run())


def rows(transcript: Transcript) -> list[str]:
    return [transcript.render_line(y).text.rstrip() for y in range(transcript.size.height)]


def view(transcript: Transcript) -> str:
    return "\n".join(rows(transcript))


def step(pieces: Sequence[str], origins: Sequence[str] = (), rejected: str = "", accepted: int = 0) -> Step:
    origins = tuple(origins) or ("plain",) * len(pieces)
    tokens = tuple(range(len(pieces)))
    entry = Pass("lookup", tokens, accepted, len(tokens), tokens, origins, "".join(pieces), 0.1, 0.1, 0.0)
    return Step(entry, tuple(pieces), rejected)


def answered(text: str, end: End = "stop", figures: Figures | None = None) -> Answer:
    return Answer(text, end=end, figures=figures)


def long_conversation(count: int) -> Conversation:
    return Conversation(
        tuple(
            Exchange(Question(f"question {number}"), answered(f"answer {number}\n\n- one\n- two"))
            for number in range(count)
        )
    )


def test_an_empty_chat_says_what_to_do_and_a_full_one_does_not() -> None:
    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        assert "press Enter" in view(transcript)
        transcript.note("The model is loaded.")
        assert "The model is loaded." in view(transcript)
        transcript.ask(Question("Why?", (Document("report.md", "one two three"),)))
        shown = view(transcript)
        assert "press Enter" not in shown
        assert shown.split("\n")[:3] == ["you", "▣ report.md  3 words", "Why?"]

    with_transcript(body)


def test_text_that_would_act_on_the_terminal_or_the_app_is_only_shown() -> None:
    """Else: a model, a file name or an error message takes over the screen."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.model_name = HARM
        transcript.ask(Question(HARM, (Document(HARM, HARM),)))
        transcript.begin_answer()
        transcript.extend([step([HARM])])
        streaming = view(transcript)
        transcript.end_answer(answered(HARM + "\n\n<div>raw</div>\n\n```\n" + HARM + "\n```"))
        transcript.note(HARM, "error")
        done = view(transcript)
        await pilot.pause()
        for shown in (streaming, done):
            assert not set("\x1b\x07\x9b\u202e") & set(shown)
            assert "[/INST] [@click=app.quit]x[/] <b>bold</b>" in shown
        assert "<div>raw</div>" in done
        await pilot.click(Transcript, offset=(12, 6))
        assert pilot.app.is_running

    with_transcript(body, size=(160, 50))


def test_an_answer_grows_as_markdown() -> None:
    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.ask(Question("Go."))
        transcript.begin_answer()
        transcript.reading(2048, 4871)
        assert "reading 2,048 of 4,871 tokens" in view(transcript)
        transcript.extend([step(["Some", " **bold"])])
        assert "Some bold" in view(transcript) and "reading" not in view(transcript)
        transcript.extend([step(["** text", "\n\n1) one\n7"])])
        assert rows(transcript)[4:8] == ["Some bold text", "", "1) one", ""]
        transcript.extend([step([") two"])])
        grown = rows(transcript)[:8]
        assert grown[4:] == ["Some bold text", "", "1) one", "7) two"]
        pieces = ("Some ", "**bold** ", "text\n\n1) ", "one", "\n7) ", "two")
        origins = ("plain", *["lookup"] * 3, "bonus", "plain")
        transcript.end_answer(Answer("".join(pieces), (0,) * 6, pieces, origins, end="stop", figures=FIGURES))
        shown = view(transcript)
        assert rows(transcript)[:8] == grown
        assert "Lookup wrote 4 of 7 words: 1.6× faster." in shown and "tok/s" not in shown

    with_transcript(body)


@pytest.mark.parametrize("level", [0, 2])
def test_a_growing_answer_looks_as_if_it_had_been_there_at_once(level: int) -> None:
    """Else: words stand wrapped wrongly, or twice, until the answer is done."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.set_colours(2 if level else 0, "dark")
        transcript.ask(Question("Go."))
        transcript.begin_answer()
        text = (
            "musing on\n</think>\n" + "Wörter und 中文字符 mixed, averyveryverylongword" * 9 + "\n\n  x\n" * 2
        )
        for index in range(0, len(text), 5):
            piece = text[index : index + 5]
            rejected = " no" if index % 15 == 0 else ""
            transcript.extend([step([piece[:2], piece[2:]], ["lookup", "correction"], rejected, 1)])
        grown = rows(transcript)
        transcript.set_colours(0, "light")
        transcript.set_colours(2 if level else 0, "dark")
        assert rows(transcript) == grown

    with_transcript(body, size=(70, 60))


def test_thoughts_are_folded_and_can_be_read() -> None:
    """Else: a person wades through musing, or never learns what the model thought."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.ask(Question("Go."))
        transcript.begin_answer()
        transcript.extend([step(["<think>deep", " water"])])
        assert "thinking, 2 words" in view(transcript) and "deep" not in view(transcript)
        transcript.extend([step([" flows</think>", "Hello."])])
        assert "thought for 3 words · Ctrl+G unfolds" in view(transcript) and "Hello." in view(transcript)
        row = next(y for y, text in enumerate(rows(transcript)) if "thought" in text)
        await pilot.click(Transcript, offset=(6, row + 1))
        assert "deep water flows" in view(transcript)
        transcript.toggle_thoughts()
        transcript.end_answer(answered("<think>never closed", "cancelled"))
        assert "never closed" in view(transcript) and "stopped by you" in view(transcript)
        transcript.toggle_thoughts()
        assert "never closed" not in view(transcript) and "thought for 2 words" in view(transcript)

    with_transcript(body)


def test_colours_show_origins_and_rejected_drafts_with_a_legend_at_the_newest_answer_only() -> None:
    """Else: a person takes guesses for the model's words, or cannot read the colours."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        pieces, origins = ("one", " two", " three"), ("lookup", "correction", "plain")
        answer = Answer("one two three", (1, 2, 3), pieces, origins, ((1, " too"),), "stop")
        transcript.show(Conversation((Exchange(Question("1"), answer), Exchange(Question("2"), answer))))
        assert "guessed" not in view(transcript)
        before = rows(transcript)
        transcript.set_colours(1, "dark")
        shown = view(transcript)
        assert shown.count("\n\ntinted: guessed ahead and right, by lookup") == 1
        assert shown.index("tinted") > shown.rindex("one two three")
        assert "draft" not in shown and "too" not in shown
        last = before.index("2") + 4
        assert rows(transcript)[:last] == before[:last], "the text moves"
        styles = {segment.text: segment.style for segment in transcript.render_line(4)}
        look = styles["one"]
        assert look is not None and look.bgcolor == token_style("lookup", "dark").bgcolor
        transcript.set_colours(2, "dark")
        assert view(transcript).count("one too two three") == 2
        transcript.ask(Question("3"))
        transcript.begin_answer()
        transcript.extend([step(["new", " text"], ["draft", "correction"], " old", 1)])
        shown = view(transcript)
        assert "new old text" in shown
        assert "a model   tinted: guessed ahead and right, by draft   struck: guessed wrong" in shown
        assert "by lookup" not in shown

    with_transcript(body, size=(110, 40))


def test_an_answer_whose_tokens_do_not_make_its_text_is_not_coloured() -> None:
    """Else: other words are shown than the model wrote."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.set_colours(1, "dark")
        answer = Answer("real", (1,), ("false",), ("lookup",), (), "stop")
        transcript.show(Conversation((Exchange(Question("1"), answer),)))
        assert "real" in view(transcript) and "false" not in view(transcript)

    with_transcript(body)


def test_who_scrolled_up_is_never_pulled_away() -> None:
    """Else: a person who reads loses the line, again and again, while the answer grows."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.show(long_conversation(30))
        transcript.ask(Question("Go."))
        transcript.begin_answer()
        transcript.extend([step([f"streaming line {number}\n"]) for number in range(30)])
        transcript.focus()
        for _ in range(2):
            await pilot.press("pageup")
        await pilot.press("up")
        before = rows(transcript)[:-1]
        assert not transcript.following and "↓ newer below" in rows(transcript)[-1]
        transcript.extend([step(["more\n" * 50])])
        assert rows(transcript)[:-1] == before
        markdown = "<think>" + "hidden\n" * 40 + "</think>" + "- grown\n\n" * 40
        transcript.end_answer(answered(markdown, figures=FIGURES))
        transcript.note("Something happened.")
        transcript.toggle_thoughts()
        await pilot.pause()
        assert rows(transcript)[:-1] == before
        assert "↓ 2 new" in rows(transcript)[-1]
        await pilot.press("end")
        assert transcript.following and "Something happened." in view(transcript)

    with_transcript(body)


def test_a_reader_in_the_middle_of_an_answer_stays_when_it_becomes_markdown() -> None:
    """Else: the end of an answer throws its reader to another paragraph."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        text = "\n".join(f"# Part {number}\ntext of part {number}" for number in range(40))
        transcript.ask(Question("Go."))
        transcript.begin_answer()
        transcript.extend([step([text])])
        await pilot.pause()
        transcript.scroll_to(y=transcript.max_scroll_y // 2, animate=False)
        top = rows(transcript)[0].removeprefix("# ")
        transcript.end_answer(answered(text))
        assert rows(transcript)[0] == top
        transcript.set_colours(1, "dark")
        assert rows(transcript)[0].removeprefix("# ") == top
        await pilot.resize_terminal(50, 20)
        await pilot.pause()
        assert rows(transcript)[0].removeprefix("# ") == top

    with_transcript(body)


def test_who_is_at_the_end_stays_there() -> None:
    """Else: the answer grows out of sight."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.ask(Question("Go."))
        transcript.begin_answer()
        for number in range(100):
            transcript.extend([step([f"line {number}\n"])])
            assert f"line {number}" in view(transcript)
        transcript.focus()
        await pilot.press("up", "down", "pagedown")
        transcript.extend([step(["the last"])])
        assert "the last" in view(transcript)
        await pilot.resize_terminal(60, 18)
        await pilot.pause()
        assert "the last" in view(transcript)

    with_transcript(body)


def test_every_exchange_of_a_long_chat_can_be_reached_and_the_end_comes_at_once() -> None:
    """Else: the beginning of a chat is lost, or each key waits for it to be laid out."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.show(long_conversation(3 * LAID_OUT))
        assert f"answer {3 * LAID_OUT - 1}" in view(transcript)
        transcript.focus()
        for _ in range(6):
            await pilot.press("home")
            await pilot.pause()
        assert "question 0" in view(transcript) and "earlier" not in view(transcript)
        for _ in range(200):
            if transcript.following:
                break
            await pilot.press("pagedown")
        assert transcript.following

    with_transcript(body)


def test_a_long_question_is_folded_and_opens() -> None:
    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.ask(Question("\n".join(f"line {number}" for number in range(40))))
        assert "28 more lines" in view(transcript) and "line 39" not in view(transcript)
        transcript.toggle_questions()
        await pilot.pause()
        assert "line 39" in view(transcript)
        transcript.toggle_questions()
        await pilot.pause()
        assert "28 more lines" in view(transcript)
        row = next(y for y, text in enumerate(rows(transcript)) if "more lines" in text)
        await pilot.click(Transcript, offset=(6, row + 1))
        assert "line 20" in view(transcript) and "more lines" not in view(transcript)

    with_transcript(body)


def test_what_is_not_sent_any_more_is_marked_once() -> None:
    """Else: a person wonders why the model forgot what still stands on the screen."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.show(replace(long_conversation(3), unsent=2))
        shown = view(transcript)
        assert shown.count("no longer sent") == 1
        assert shown.index("answer 1") < shown.index("no longer sent") < shown.index("question 2")
        transcript.show(long_conversation(3))
        assert "no longer sent" not in view(transcript)

    with_transcript(body, size=(80, 50))


def test_an_answer_that_was_cut_goes_on_where_it_ended() -> None:
    """Else: what came before the crash is gone from the screen."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        cut = answered("Once upon", "crashed", FIGURES)
        transcript.show(Conversation((Exchange(Question("Go."), cut),)))
        assert "cut short, Ctrl+L continues" in view(transcript)
        transcript.begin_answer(cut)
        transcript.extend([step([" a time"])])
        assert "Once upon a time" in view(transcript) and "crashed" not in view(transcript)

    with_transcript(body)


def test_what_came_while_there_was_no_room_is_shown_when_there_is() -> None:
    """Else: an answer that grew behind a closed pane has holes."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.ask(Question("Go."))
        transcript.begin_answer()
        await pilot.resize_terminal(3, 3)
        await pilot.pause()
        transcript.extend([step(["<think>x</think>unseen"])])
        transcript.note("noted")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        transcript.extend([step([" seen"])])
        assert "unseen seen" in view(transcript) and "noted" in view(transcript)

    with_transcript(body)


def test_copied_text_has_its_own_line_breaks_and_no_drawing() -> None:
    """Else: copied prose is chopped, and copied code has bars and indents before each line."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        prose = "word " * 40 + "end."
        text = f"{prose}\n\n- {prose}\n\n```python\ndef f():\n    return 1\n```"
        transcript.show(Conversation((Exchange(Question("Go."), answered(text)),)))
        everything = transcript.get_selection(Selection(None, None))
        assert everything is not None
        assert f"\n{prose}\n\n• {prose}\n\ndef f():\n    return 1\n" in everything[0]
        row = next(y for y in range(40) if "word" in transcript.render_line(y).text)
        await pilot.mouse_down(Transcript, offset=(2, row + 1))
        await pilot.hover(Transcript, offset=(11, row + 1))
        await pilot.mouse_up(Transcript, offset=(11, row + 1))
        assert (pilot.app.screen.get_selected_text() or "").startswith("word word")
        pilot.app.screen.selections = {transcript: Selection(Offset(0, 0), Offset(3, 0))}
        assert pilot.app.screen.get_selected_text() == "you"

    with_transcript(body, size=(80, 44))


@pytest.mark.parametrize("theme", list(THEMES))
def test_a_change_of_the_theme_repaints_what_stands(theme: str) -> None:
    """Else: old text stays in the colours of the other theme, unreadable on its ground."""

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.show(Conversation((Exchange(Question("Go."), answered("Text.")),)))
        pilot.app.theme = THEMES[theme].name
        await pilot.pause()
        fresh = Host(theme)
        async with fresh.run_test(size=(80, 24)) as other:
            await other.pause()
            expected = fresh.query_one(Transcript)
            expected.show(Conversation((Exchange(Question("Go."), answered("Text.")),)))
            wanted = [list(expected.render_line(y)) for y in range(6)]
        assert [list(transcript.render_line(y)) for y in range(6)] == wanted

    with_transcript(body)


def test_a_very_long_answer_is_whole_and_a_table_is_readable() -> None:
    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        transcript.ask(Question("Go."))
        transcript.begin_answer()
        transcript.end_answer(answered("a line of **text**\n" * 5_000 + "the end"))
        assert "the end" in view(transcript)
        table = "| a | b |\n|---|--:|\n| " + "word " * 30 + "| 1 |\n\n" + "|" * 40 + "\n" + "|-" * 39 + "|"
        transcript.end_answer(answered(table))
        assert "word word" in view(transcript) and max(map(len, rows(transcript))) <= 80

    with_transcript(body)


def test_text_that_is_slow_to_draw_leaves_time_for_keys_and_is_shown_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else: a model that writes nothing but brackets locks the screen."""
    monkeypatch.setattr("app.tui.transcript.transcript.SHORTEST_REST", 0.0)
    monkeypatch.setattr("app.tui.transcript.transcript.RESTS", 1e4)

    async def body(transcript: Transcript, pilot: Pilot[None]) -> None:
        timers: list[Callable[[], None]] = []
        monkeypatch.setattr(transcript, "set_timer", lambda seconds, then: timers.append(then))
        transcript.ask(Question("Go."))
        transcript.begin_answer()
        for word in ("one", " two", " three"):
            transcript.extend([step([word])])
        assert "one two" in view(transcript) and "three" not in view(transcript)
        (then,) = timers
        then()
        assert "one two three" in view(transcript)

    with_transcript(body)
