"""What a streaming answer costs the screen, and that what is saved there is not seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.segment import Segment

from app.process.events import Steps
from tests.tui.chatting import NARROW, WIDE, Chatting, chatting, run
from tests.tui.engine import step

WORDS = (
    "the",
    " harbour",
    " was",
    " quiet,",
    " 港の灯",
    " and",
    " ships",
    "\n\n",
    " passed",
    " the",
    " light",
)


def test_a_growing_answer_looks_as_if_all_of_it_were_painted_anew(tmp_path: Path) -> None:
    """Lost otherwise: rows of another place, width, focus or selection, left over in the answer."""

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("Tell me")
            transcript = chat.app.transcript
            grow(chat, 400)
            await looks_anew(chat)
            for happens in (
                lambda: transcript.scroll_relative(y=-5, animate=False),
                transcript.focus,
                lambda: transcript.scroll_relative(y=2, animate=False),
                transcript.go_to_end,
                chat.app.prompt.focus_editor,
                lambda: setattr(chat.app, "theme", "specchat-light"),
                lambda: setattr(chat.app, "theme", "specchat-terminal"),
                lambda: chat.app.call_later(chat.app.action_perform, "colours"),
                lambda: chat.app.call_later(chat.app.action_perform, "panel"),
            ):
                happens()
                await looks_anew(chat)
                grow(chat, 30)
                await looks_anew(chat)
            transcript.focus()
            await chat.settle()
            plain = painted(chat)
            await chat.pilot.mouse_down(transcript, offset=(5, 3))
            await chat.pilot.hover(transcript, offset=(30, 6))
            await chat.pilot.mouse_up(transcript, offset=(30, 6))
            await looks_anew(chat)
            assert painted(chat) != plain
            chat.app.screen.clear_selection()
            await chat.settle()
            assert painted(chat) == plain
            await chat.pilot.resize_terminal(100, 30)
            await looks_anew(chat)

    run(body)


def test_the_scrollbar_stands_where_the_view_is(tmp_path: Path) -> None:
    """Lost otherwise: where in a long chat the reader is."""

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            transcript = chat.app.transcript
            await chat.ask("Tell me")
            chat.engine.reply(*(f"word{number}\n" for number in range(100)))
            await chat.settle()
            bar = transcript.vertical_scrollbar
            assert bar.position == transcript.scroll_y > 0
            transcript.scroll_to(y=10, animate=False)
            assert bar.position == 10
            assert bar.window_virtual_size == transcript.virtual_size.height
            conversation = chat.app.chat.conversation
            chat.app.new_chat()
            await chat.settle()
            chat.app.chat.show(conversation)
            await chat.settle()
            assert bar.position == transcript.scroll_y > 10

    run(body)


def test_text_that_comes_lays_out_nothing(tmp_path: Path) -> None:
    """Lost otherwise: a tenth of the tokens a second, on a processor that the model fills."""

    async def body() -> None:
        for size in (WIDE, NARROW):
            async with chatting(tmp_path, size=size) as chat:
                await chat.ask("Tell me")
                grow(chat, 400)
                await chat.settle()
                screen = chat.app.screen
                layouts: list[object] = []
                screen.screen_layout_refresh_signal.subscribe(screen, layouts.append)
                top = chat.app.transcript.scroll_y
                for _ in range(10):
                    grow(chat, 14)
                    await chat.settle()
                assert chat.app.transcript.scroll_y > top
                assert not layouts

    run(body)


def test_a_pane_is_left_alone_when_another_one_changes(tmp_path: Path) -> None:
    """Lost otherwise: as above. Each pane that is asked for its lines takes time from the model."""

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            app = chat.app
            app.transcript.note("One.")
            await chat.settle()
            asked: list[str] = []
            for pane in (app.header, app.panel):
                watched(pane, asked)
            app.transcript.note("Two.")
            await chat.settle()
            assert not asked

    run(body)


def watched(pane: object, asked: list[str]) -> None:
    """Note when the pane is asked for its lines."""
    render: Callable[..., object] = pane.render_lines  # type: ignore[attr-defined]

    def noted(*arguments: object) -> object:
        asked.append(type(pane).__name__)
        return render(*arguments)

    pane.render_lines = noted  # type: ignore[attr-defined]


def grow(chat: Chatting, tokens: int) -> None:
    steps = tuple(
        step(WORDS[number % len(WORDS)], number, rejected=" sea" if number % 9 == 0 else "")
        for number in range(tokens)
    )
    chat.engine.tell(Steps(chat.engine.generate.identity, steps))


async def looks_anew(chat: Chatting) -> None:
    """What is shown equals what is shown after all that was kept is forgotten."""
    await chat.settle()
    kept = painted(chat)
    chat.app.transcript.forget_painted()
    chat.app.transcript.refresh()
    chat.app.panel.refresh()
    assert painted(chat) == kept
    await chat.settle()


def painted(chat: Chatting) -> list[list[Segment]]:
    # The blinking cursor and what lies below it are no matter of the panes that grow.
    bottom = chat.app.transcript.region.bottom
    return [list(strip) for strip in chat.app.screen._compositor.render_strips()[:bottom]]
