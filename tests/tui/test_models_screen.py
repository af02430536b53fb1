"""The picker of models: without these a model cannot be changed, or a download is lost or never ends."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from app.config.values import LoadSettings, Settings
from app.errors import SpecchatError
from app.models.hub import HubFile, downloaded, hub_of
from app.models.row import Listing, ModelRow, Partner, Room, UsableDraft
from app.models.transfer import DownloadProgress
from app.process.commands import Cancel, FindModels, Load
from app.process.events import Done, Failed, Models
from app.tui.models.drawing import ColumnWidths, files, line
from app.tui.models.screen import ModelChoice, ModelScreen, arranged
from app.tui.theme import THEMES
from tests.models.hub_server import Fault, Gate, HubServer, hub_server
from tests.tui.chatting import NARROW, chatting, hosted, until
from tests.tui.chatting import run as run_chat
from tests.tui.engine import LOADED, finished, step

DATA = random.Random(3).randbytes(400_000)
PARTS = (HubFile("org/big", "big.gguf", 400_000, None), HubFile("org/small", "small.gguf", 100_000, None))
FITS = Room(True, 1_000_000_000, 8192)
TEST = ModelRow(name="test", origin="bundled", path=LOADED.path, size=98_000_000, room=FITS)
MINE = ModelRow(
    name="org/mine-GGUF",
    origin="Ollama",
    path="/m/mine.gguf",
    size=4_920_000_000,
    title="Mine [/b]",
    architecture="llama",
    quantisation="Q4_K_M",
    context_length=131072,
    parameters=8_030_000_000,
    room=FITS,
    drafts=(
        UsableDraft("small.gguf", "/m/small.gguf", 1, None),
        UsableDraft("no.gguf", "/m/no.gguf", 1, "it is large"),
    ),
)
LARGE = ModelRow(
    name="large",
    origin="Ollama",
    path="/m/large.gguf",
    size=42_000_000_000,
    room=Room(False, 48_000_000_000, 512),
)
PAIR = ModelRow(
    name="pair",
    origin="Hugging Face",
    path="/m/pair.gguf",
    size=1,
    room=FITS,
    partner=Partner("d.gguf", 1, "/m/d.gguf"),
)
AWAY = ModelRow(
    name="away",
    origin="",
    path=None,
    size=400_000,
    room=FITS,
    partner=Partner("small.gguf", 100_000, None),
    licence="Apache-2.0",
    unverified=True,
    parts=PARTS,
    missing=500_000_000,
)
BROKEN = ModelRow(
    name="broken.gguf", origin="Ollama", path="/m/broken.gguf", size=1, problem="broken.gguf is damaged."
)
ALL = Listing((LARGE, MINE, PAIR, TEST, AWAY, BROKEN))


class Host(App[None]):
    """Opens the picker and remembers what it returned."""

    def __init__(self) -> None:
        super().__init__()
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = "specchat-dark"
        self.picker = ModelScreen(LOADED.path)
        self.answers: list[ModelChoice | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.picker, self.answers.append)

    def said(self, name: str = "said") -> str:
        return str(self.picker.query_one(f"#{name}", Static).content)

    @property
    def text(self) -> str:
        return "\n".join(strip.text.rstrip() for strip in self.screen._compositor.render_strips())


Body = Callable[[Host, Pilot[None]], Awaitable[None]]


def run(body: Body, size: tuple[int, int] = (80, 24), listing: Listing | None = ALL) -> Host:
    async def listed(app: Host, pilot: Pilot[None]) -> None:
        if listing is not None:
            app.picker.take(Models(listing))
            await pilot.pause()
        await body(app, pilot)

    return hosted(Host(), listed, size)


def test_it_opens_before_the_models_are_known() -> None:
    """Else: reading headers freezes the chat with nothing on the screen."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        assert "looking for models" in app.text
        app.picker.take(Models(ALL))
        await pilot.pause()
        assert "looking for models" not in app.text and "org/mine-GGUF" in app.text

    run(body, listing=None)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_what_is_shown_of_each(size: tuple[int, int]) -> None:
    """Else: a model is chosen blindly."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        lines = app.text.splitlines()
        titles = next(each for each in lines if "on this disk" in each)
        mine = next(each for each in lines if "org/mine-GGUF" in each)
        # In columns.
        assert mine[titles.index("quant") :].startswith("Q4_K_M") and "128k" in mine and "4.9 GB" in mine
        assert mine[titles.index("fits") :].startswith("yes, 8k")
        assert any("● test" in each and "loaded" in each for each in lines)
        assert "no, 48.0 GB" in app.text and "broken" not in app.text
        assert lines.index(mine) < next(at for at, each in enumerate(lines) if "to download" in each)
        await pilot.press(*"mine")
        await pilot.pause()
        assert "Mine [/b] · 8.03B parameters · llama · Ollama" in app.text
        assert "drafts that fit: small.gguf" in app.text and "no.gguf" not in app.text

    run(body, size)


def test_the_loaded_one_is_where_it_begins() -> None:
    """Else: Enter by mistake loads another model."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        assert app.said() == "test is loaded already."

    assert run(body).answers == []


def test_enter_loads_what_is_here_with_the_draft_of_the_catalogue() -> None:
    """Else: the model that was picked is not the one that answers."""

    async def one(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press(*"mine", "enter")

    async def pair(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press(*"pair", "enter")

    async def moved(app: Host, pilot: Pilot[None]) -> None:
        # From the loaded one over the top's heading to the bottom's, and back.
        await pilot.press("up", "up", "enter")

    async def clicked(app: Host, pilot: Pilot[None]) -> None:
        await pilot.click(OptionList, offset=(5, 2))

    assert run(one).answers == [ModelChoice("/m/mine.gguf", None)]
    assert run(pair).answers == [ModelChoice("/m/pair.gguf", "/m/d.gguf")]
    assert run(moved).answers == [ModelChoice("/m/mine.gguf", None)]
    assert run(clicked).answers == [ModelChoice("/m/mine.gguf", None)]


def test_one_that_is_too_large_is_loaded_only_when_asked_twice() -> None:
    """Else: a slip costs the model that is loaded, or an estimate forbids what would work."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press(*"large", "enter")
        assert "Enter again" in app.said() and app.answers == []
        await pilot.press("enter")

    assert run(body).answers == [ModelChoice("/m/large.gguf", None)]


def test_a_path_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: a file in a folder that is not looked through cannot be used."""
    (tmp_path / "my.gguf").write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    for typed in ("my.gguf", "./my.gguf", str(tmp_path / "my.gguf")):
        heading, row = arranged(ALL.rows, typed)
        assert heading is None and row is not None and row.path is not None
        assert row.problem is None and os.path.samefile(row.path, tmp_path / "my.gguf")
    # A name of the hub is no path.
    assert [row.name for row in arranged(ALL.rows, "org/mi") if row] == ["org/mine-GGUF"]

    async def body(app: Host, pilot: Pilot[None]) -> None:
        app.picker.query_one(Input).value = "./no.gguf"
        await pilot.pause()
        await pilot.press("enter")
        assert "There is no file ./no.gguf" in app.said() and app.answers == []
        await pilot.press("escape")

    assert run(body).answers == [None]


def test_nothing_matches_and_there_is_no_list() -> None:
    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press(*"zzz", "enter")
        assert "Nothing matches" in app.text
        app.picker.take(Failed(1, "It [b]cannot\x07 be."))
        assert app.said() == "It [b]cannot be."

    assert run(body).answers == []


def test_a_fault_in_the_own_catalogue_is_said() -> None:
    async def body(app: Host, pilot: Pilot[None]) -> None:
        assert app.said() == "models.toml line 1: a fault."

    run(body, listing=Listing((TEST,), (), "models.toml line 1: a fault."))


def test_names_that_are_too_long_lose_their_publisher_first() -> None:
    row = ModelRow(name="publisher/Some-Model-Name-8B-GGUF", origin="x", path="/x", size=1)
    narrow, wide = (line(row, False, ColumnWidths.of([row]), columns).plain for columns in (60, 150))
    assert "  …/Some-Model-Name" in narrow and len(narrow) <= 60
    assert "publisher/Some-Model-Name-8B-GGUF" in wide


def test_progress_does_not_jump() -> None:
    """Else: the figures cannot be read while they grow."""
    told = [
        DownloadProgress("a.gguf", 1_000_000_000, 5_030_000_000, 8e6, 509.0),
        DownloadProgress("a.gguf", 1_710_000_000, 5_030_000_000, 48e6, 69.2),
    ]
    first, second = (files(("a.gguf", "b.gguf"), {"a.gguf": each}, 70).plain for each in told)
    assert "33 %  1.71 GB of 5.03 GB   48.0 MB/s     1 min left" in second
    assert [len(each) for each in first.splitlines()] == [len(each) for each in second.splitlines()]
    assert "waiting, 9 s" in files(("a",), {"a": DownloadProgress("a", 0, 9, 0.0, 9.0, "waiting")}, 70).plain


def test_no_text_of_a_file_acts_on_the_terminal_or_is_markup() -> None:
    """Else: a file's name clears the screen, moves the clipboard, or ends the app."""
    hostile = "[/b] [@click=app.quit]x[/]\x1b]52;c;aGk=\x07\x1b[2J\u202e\n"
    part = HubFile(f"org/{hostile}", hostile, 1, None)
    here = ModelRow(
        name=f"one {hostile}",
        origin=hostile,
        path=f"/{hostile}",
        size=1,
        file_name=hostile,
        title=hostile,
        architecture=hostile,
        quantisation=hostile,
        room=Room(False, 1, 1, remark=hostile),
        drafts=(UsableDraft(hostile, hostile, 1, None),),
        licence=hostile,
        memory_kind=hostile,
    )
    away = replace(here, name=f"two {hostile}", path=None, parts=(part,), missing=1)
    away = replace(away, partner=Partner(hostile, 1, None))
    seen: list[str] = []

    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press(*"one")
        seen.append(app.text)
        await pilot.press("backspace", "backspace", "backspace", *"two")
        seen.append(app.text)
        await pilot.press("enter")
        seen.append(app.text)
        app.picker.post_message(ModelScreen.Told(DownloadProgress(hostile, 1, 2, 1.0, 1.0)))
        app.picker.post_message(ModelScreen.Ended((), SpecchatError(hostile)))
        await pilot.pause()
        seen.append(app.text)

    run(body, (160, 50), Listing((here, away)))
    for text in seen:
        assert "[/b]" in text and not any(letter in text for letter in "\x1b\x07\u202e")


# Downloads -----------------------------------------------------------------------------------------


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A stand-in for the hub with both files, and an empty cache."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    huggingface_hub.close_session()
    with hub_server() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        server.add("org/big", "big.gguf", DATA)
        server.add("org/small", "small.gguf", DATA[:100_000])
        yield server
    huggingface_hub.close_session()


def test_one_that_is_not_here_is_asked_about_then_downloaded_and_loaded(hub: HubServer) -> None:
    """Else: gigabytes come without a question, or a model that came is not used."""

    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press(*"away", "enter")
        await pilot.pause()
        assert "500 MB in all" in app.text and "big.gguf" in app.text and "small.gguf" in app.text
        assert "Licence: Apache-2.0" in app.text and "never checked" in app.text and "download" in app.text
        await pilot.press("escape")
        assert "org/mine-GGUF" not in app.text and app.picker.query_one(Input).value == "away"
        assert hub.requests == [] and app.answers == []
        await pilot.press("enter", "enter")
        await until(pilot, lambda: bool(app.answers))

    big, small = (downloaded(part) for part in PARTS)
    assert big is None and small is None
    answers = run(body).answers
    big, small = (downloaded(part) for part in PARTS)
    assert big is not None and big.read_bytes() == DATA
    assert answers == [ModelChoice(str(big), str(small))]


def test_the_draft_of_a_model_that_is_here_can_be_downloaded(hub: HubServer) -> None:
    """Else: who has the model already never gets its draft, or gets the model twice."""
    here = replace(AWAY, name="lonely", path="/m/big.gguf", origin="Ollama", missing=100_000)

    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press(*"pair", "ctrl+d")
        assert "is not here" not in app.text and "is not on this disk" not in app.text
        await pilot.press(*["backspace"] * 4, *"lonely")
        assert "its draft small (0 MB) is not here: Ctrl+D downloads it" in app.text
        await pilot.press("ctrl+d")
        await pilot.pause()
        assert "The draft of lonely is not on this disk" in app.text and "0 MB in all" in app.text
        assert "big.gguf" not in app.text and "small.gguf" in app.text
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.answers))

    (answer,) = run(body, listing=Listing((here, PAIR))).answers
    small = downloaded(PARTS[1])
    assert small is not None and small.read_bytes() == DATA[:100_000] and downloaded(PARTS[0]) is None
    assert answer == ModelChoice("/m/big.gguf", str(small))


def test_escape_stops_a_download_and_what_came_is_kept(hub: HubServer) -> None:
    """Else: a download cannot be ended, or begins anew."""
    gate = Gate()
    hub.faults["CDN"].append(Fault(gate=gate))

    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press(*"away", "enter", "enter")
        await until(pilot, gate.reached.is_set)
        assert "big.gguf" in app.text and "what came is kept" in app.text
        await pilot.press("escape")
        gate.opened.set()
        await until(pilot, lambda: "Stopped" in app.said())
        assert app.answers == []
        partial = [path.stat().st_size for path in hub_of(os.environ).own.rglob("*.incomplete")]
        assert partial and partial[0] > 0
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.answers))

    run(body)
    assert hub.ranges[1] is not None and hub.ranges[1] != "bytes=0-"


def test_what_goes_wrong_is_a_sentence_in_the_screen(hub: HubServer) -> None:
    """Else: the picker closes, or stands there for ever."""
    del hub.files["org/small", "small.gguf"]

    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press(*"away", "enter", "enter")
        await until(pilot, lambda: "org/small has no file small.gguf" in app.said())
        await pilot.press("escape", "escape")

    assert run(body).answers == [None]


def test_a_closed_app_does_not_wait_for_a_download(hub: HubServer) -> None:
    """Else: the terminal is not given back while a slow network is waited for."""
    gate = Gate()
    hub.faults["CDN"].append(Fault(gate=gate))

    async def body(app: Host, pilot: Pilot[None]) -> None:
        await pilot.press(*"away", "enter", "enter")
        await until(pilot, gate.reached.is_set)

    run(body)
    gate.opened.set()
    for thread in threading.enumerate():
        if thread.name == "download":
            assert thread.daemon
            thread.join(20)


# In the chat ---------------------------------------------------------------------------------------


def test_the_chat_goes_on_with_another_model(tmp_path: Path) -> None:
    """Else: the conversation is lost with the model, or the wrong one is loaded."""

    async def body() -> None:
        settings = Settings(model=LoadSettings(draft_folders=("/drafts",), threads=3))
        async with chatting(tmp_path, settings, size=NARROW) as chat:
            await chat.ask("Hello")
            chat.engine.reply("Hello yourself.")
            await chat.settle()
            await chat.press("shift+f7")
            assert chat.engine.sent[-1] == FindModels(("/drafts",))
            chat.engine.tell(Models(ALL))
            await chat.settle()
            await chat.type("pair")
            await chat.press("enter")
            assert chat.engine.load.settings == replace(
                settings.model, name="/m/pair.gguf", draft="/m/d.gguf"
            )
            chat.engine.tell(LOADED)
            await chat.settle()
            assert "Hello yourself." in chat.text and not (tmp_path / "settings.toml").exists()
            await chat.ask("Who are you?")
            assert chat.engine.generate.messages[0].content == "Hello"

    run_chat(body)


def test_a_reply_that_is_being_made_is_kept(tmp_path: Path) -> None:
    """Else: choosing a model throws away what was written."""

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await chat.ask("Hello")
            chat.engine.reply("Some", " words", reason=None)
            identity = chat.engine.generate.identity
            await chat.press("shift+f7")
            chat.engine.tell(Models(ALL))
            await chat.settle()
            await chat.type("mine")
            await chat.press("enter")
            assert (
                chat.engine.sent[-2] == Cancel(identity) and chat.engine.load.settings.name == "/m/mine.gguf"
            )
            steps = [step("Some", 0), step(" words", 1)]
            chat.engine.tell(Done(identity, finished(steps, "cancelled")), LOADED)
            await chat.settle()
            assert "Some words" in chat.text

    run_chat(body)


def test_without_a_model_another_can_be_chosen(tmp_path: Path) -> None:
    """Else: a model that cannot be loaded leaves a chat that cannot be used."""

    async def body() -> None:
        async with chatting(tmp_path, loaded=None) as chat:
            chat.engine.fail(Load, "It cannot be loaded.")
            await chat.settle()
            await chat.type("/models")
            await chat.press("enter")
            chat.engine.fail(FindModels, "There is no list.")
            await chat.settle()
            assert "There is no list." in chat.text
            await chat.press("escape", "shift+f7")
            chat.engine.tell(Models(ALL))
            await chat.settle()
            await chat.type("mine")
            await chat.press("enter")
            assert chat.engine.load.settings.name == "/m/mine.gguf"

    run_chat(body)
