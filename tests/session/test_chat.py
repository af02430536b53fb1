"""The chat without a screen: what a person asked is never lost, mixed up, or waited for for ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.chat.conversation import Answer, Conversation, Question
from app.config.values import LoadSettings
from app.engine.settings import Sampling
from app.process.commands import (
    Cancel,
    Compare,
    Count,
    FindDrafts,
    FindModels,
    Generate,
    Load,
    SetDraft,
    SetProposer,
)
from app.process.events import (
    Cancelled,
    ComparisonEnded,
    Counted,
    Crashed,
    Event,
    LoadProgress,
    Shortened,
    Switched,
    TooLong,
)
from app.session import engine as session
from app.session.chat import Chat
from app.session.engine import GenerationSettings
from app.session.state import ComparingReplies, LoadingModel, Ready, Replying, Stopped
from tests.tui.engine import LOADED, OPTIONS, ScriptedEngine, finished

FIRST, SECOND, THIRD = Question("First"), Question("Second"), Question("Third")
KILLED = Crashed("was killed by SIGKILL", "")


class Seen:
    """A View that remembers what it was told, by method."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: self.calls.append((name, given))

    def given(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of a method."""
        return [given for called, given in self.calls if called == name]

    def of(self, name: str) -> list[Any]:
        """The first argument of each call of a method."""
        return [given[0] if given else None for given in self.given(name)]


class Desk:
    """A chat over a scripted engine, with what it showed and what it kept."""

    def __init__(self, loaded: bool = True) -> None:
        self.engine, self.seen = ScriptedEngine(), Seen()
        self.events: list[Event] = []
        generation = GenerationSettings(Sampling(), seed=1)
        self.chat = Chat(
            self.engine,
            self.seen,
            deliver=self.events.append,
            load=LoadSettings("model.gguf"),
            generation=generation,
            proposer="auto",
            k=None,
        )
        self.chat.start()
        if loaded:
            self.tell(LOADED)

    @property
    def kept(self) -> list[Conversation]:
        return self.seen.of("keep")

    def tell(self, *events: Event) -> None:
        """Let the engine say this, and the chat hear it, and all that follows."""
        self.engine.tell(*events)
        self.hear()

    def hear(self) -> None:
        while self.events:
            self.chat.handle(self.events.pop(0))

    def reply(self, *words: str) -> None:
        self.engine.reply(*words)
        self.hear()

    @property
    def asked(self) -> list[str]:
        return [exchange.question.text for exchange in self.chat.conversation.exchanges]

    @property
    def sent(self) -> list[str]:
        """The last message of every request so far."""
        return [each.messages[-1].content for each in self.engine.sent if isinstance(each, Generate)]


def test_a_question_that_waits_for_the_model_belongs_to_its_chat() -> None:
    """Else: another chat's last question is answered again, and its stored answer is lost."""
    other = Conversation().asked(Question("Old")).answered(Answer("An answer.", end="stop"))
    for conversation in (other, Conversation()):
        desk = Desk(loaded=False)
        desk.chat.send(FIRST)
        assert isinstance(desk.chat.state, LoadingModel) and desk.chat.state.then == "answer"
        desk.chat.show(conversation)
        desk.tell(LOADED)
        assert desk.sent == [] and desk.chat.conversation == conversation
        # It is stored with its own chat, and answered when that is gone on with.
        assert [each.question for each in desk.kept[-1].exchanges] == [FIRST]
        desk.chat.show(desk.kept[-1])
        desk.chat.continue_reply()
        assert desk.sent == ["First"]


def test_a_question_that_waits_is_sent_once_the_model_is_there() -> None:
    desk = Desk(loaded=False)
    desk.chat.send(FIRST)
    desk.chat.send(SECOND)
    assert desk.asked == ["First"] and desk.chat.queued == (SECOND,)
    desk.tell(LOADED)
    desk.reply("One.")
    desk.reply("Two.")
    assert desk.sent == ["First", "Second"] and desk.asked == ["First", "Second"]
    assert isinstance(desk.chat.state, Ready) and not desk.chat.queued


def test_questions_asked_during_a_reply_are_asked_after_it_one_by_one() -> None:
    """Else: several at once are never answered, and Esc does nothing."""
    desk = Desk()
    for question in (FIRST, SECOND, THIRD):
        desk.chat.send(question)
    assert desk.sent == ["First"]
    for number in range(3):
        desk.reply(f"Answer {number}.")
    assert desk.sent == ["First", "Second", "Third"]
    answers = [each.answer.text for each in desk.chat.conversation.exchanges if each.answer]
    assert answers == ["Answer 0.", "Answer 1.", "Answer 2."]


def test_escape_takes_back_what_waits_and_then_stops() -> None:
    desk = Desk()
    for question in (FIRST, SECOND, THIRD):
        desk.chat.send(question)
    desk.chat.stop()
    assert desk.seen.of("gives_back") == [(SECOND, THIRD)] and desk.chat.queued == ()
    assert not any(isinstance(each, Cancel) for each in desk.engine.sent)
    desk.chat.stop()
    assert desk.engine.sent[-1] == Cancel(desk.engine.generate.identity)


@pytest.mark.parametrize("fate", ["crash", "failure", "too long", "context", "cancelled"])
def test_what_waits_comes_back_where_the_reply_ends_badly(fate: str) -> None:
    desk = Desk()
    desk.chat.send(FIRST)
    desk.chat.send(SECOND)
    number = desk.engine.generate.identity
    if fate == "crash":
        desk.tell(KILLED)
    elif fate == "failure":
        desk.engine.fail(Generate, "The template failed.")
        desk.hear()
    elif fate == "too long":
        desk.tell(TooLong(number, 9000, 8192, 8192))
    else:
        desk.engine.reply("word", reason=fate)  # type: ignore[arg-type]
        desk.hear()
    assert desk.seen.of("gives_back") == [(SECOND,)] and desk.sent == ["First"]


def test_a_small_command_that_fails_ends_nothing_else() -> None:
    """Else: the reply ends on the screen, the engine goes on, and the next question hangs."""
    desk = Desk()
    desk.chat.send(FIRST)
    desk.chat.request(FindDrafts())
    desk.engine.fail(FindDrafts, "The model was moved.")
    desk.chat.request(FindModels())
    desk.engine.fail(FindModels, "There is no list.")
    desk.chat.speculation.set_proposer("lookup")
    desk.engine.fail(SetProposer, "It cannot be.")
    desk.chat.speculation.set_draft("d.gguf")
    desk.engine.fail(SetDraft, "There is no such file.")
    desk.hear()
    found = [(type(command), event.message) for command, event in desk.seen.given("found")]
    assert found == [(FindDrafts, "The model was moved."), (FindModels, "There is no list.")]
    assert isinstance(desk.chat.state, Replying)
    desk.reply("Whole.")
    last = desk.chat.conversation.last
    assert last is not None and last.answer is not None and last.answer.end == "stop"


def test_a_comparison_ends_however_it_ends() -> None:
    """Else: Esc during F5 locks the chat until the engine dies."""
    for end in ("done", "cancelled", "failed", "killed"):
        desk = Desk()
        desk.chat.send(FIRST)
        desk.reply("One.")
        assert desk.chat.compare() is not None and isinstance(desk.chat.state, ComparingReplies)
        desk.chat.send(SECOND)
        assert desk.chat.queued == (SECOND,)
        number = desk.chat.state.identity
        if end == "done":
            desk.tell(ComparisonEnded(number))
        elif end == "failed":
            desk.engine.fail(Compare, "No.")
        elif end == "killed":
            desk.tell(KILLED)
            desk.tell(LOADED)
        else:
            desk.chat.stop()
            desk.chat.stop()
            assert desk.engine.sent[-1] == Cancel(number)
            desk.tell(Cancelled(number))
        desk.hear()
        assert isinstance(desk.chat.state, (Ready, Replying)), end
        back = [question for questions in desk.seen.of("gives_back") for question in questions]
        assert "Second" in desk.sent or SECOND in back, end


def test_all_that_was_loaded_comes_back() -> None:
    """Else: the panel names a draft that a restart, a larger context or a setting has thrown away."""
    desk = Desk()
    desk.chat.speculation.set_draft("d.gguf")
    desk.tell(Switched("draft", OPTIONS, "d.gguf", None))
    desk.chat.speculation.set_k(5)
    desk.tell(KILLED)
    assert desk.engine.starts == 2 and desk.engine.load.settings.draft == "d.gguf"
    desk.tell(LOADED)
    desk.chat.enlarge(4096)
    assert desk.engine.load.settings == LoadSettings("model.gguf", draft="d.gguf", context_length=4096)
    desk.tell(LOADED)
    settings = LoadSettings("other.gguf")
    desk.chat.reload(settings, replace(settings, threads=3))
    assert desk.engine.load.settings == LoadSettings(
        "model.gguf", draft="d.gguf", context_length=4096, threads=3
    )
    desk.tell(LOADED)
    desk.chat.send(FIRST)
    assert (desk.engine.generate.proposer, desk.engine.generate.k) == ("draft", 5)
    desk.reply("One.")
    desk.chat.speculation.set_draft(None)
    desk.tell(Switched("auto", OPTIONS, None, None))
    assert desk.chat.load.draft is None


def test_what_was_chosen_last_is_what_is_on() -> None:
    """Else: two quick changes end with the first one."""
    desk = Desk()
    desk.chat.speculation.set_proposer("lookup")
    first = max(desk.chat._commands.open)
    desk.chat.speculation.set_proposer("off")
    desk.tell(Switched("lookup", OPTIONS, None, None, first))
    assert desk.chat.speculation.proposer == "off"
    desk.tell(Switched("off", OPTIONS, None, None))
    assert desk.chat.speculation.proposer == "off"


def test_a_setting_that_loads_again_goes_on_with_the_reply() -> None:
    desk = Desk()
    desk.chat.send(FIRST)
    desk.engine.reply("Half", reason=None)
    desk.hear()
    desk.chat.reload(LoadSettings(), LoadSettings(threads=2))
    # What the old engine still says is nobody's.
    desk.reply("Late.")
    assert isinstance(desk.chat.state, LoadingModel)
    desk.tell(LOADED)
    assert desk.engine.generate.begun == (0,) and isinstance(desk.chat.state, Replying)


def test_another_model_takes_over_while_one_is_being_loaded() -> None:
    desk = Desk(loaded=False)
    desk.chat.send(FIRST)
    first = desk.chat.state.identity  # type: ignore[union-attr]
    desk.chat.use_model(LoadSettings("small.gguf"))
    assert Cancel(first) in desk.engine.sent
    desk.tell(replace(LOADED, identity=first))
    assert desk.sent == []
    desk.tell(LOADED)
    assert desk.sent == ["First"]


def test_a_model_that_cannot_be_loaded_leaves_the_question_for_the_next() -> None:
    desk = Desk(loaded=False)
    desk.chat.send(FIRST)
    desk.engine.fail(Load, "There is no such file.")
    desk.hear()
    assert isinstance(desk.chat.state, Stopped) and desk.seen.of("say")[-1] == "There is no such file."
    desk.chat.use_model(LoadSettings("other.gguf"))
    desk.tell(LOADED)
    assert desk.sent == ["First"]


def test_an_engine_that_does_not_stop_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    desk.chat.send(FIRST)
    desk.chat.stop()
    desk.chat.stop()
    assert desk.engine.starts == 1
    monkeypatch.setattr(session, "PATIENCE_SECONDS", -1.0)
    desk.chat.stop()
    assert desk.engine.starts == 2 and isinstance(desk.chat.state, LoadingModel)
    desk.hear()
    desk.tell(LOADED)
    desk.chat.continue_reply()
    assert desk.sent == ["First", "First"]


def test_a_question_with_settings_of_its_own_is_answered_by_them_once() -> None:
    """Else: a starter that says that it is made at temperature 0 is not, or all that follows it is."""
    desk = Desk(loaded=False)
    own = GenerationSettings(Sampling(temperature=0.0), max_tokens=300)
    desk.chat.send(FIRST, own)
    desk.tell(LOADED)
    assert (desk.engine.generate.sampling, desk.engine.generate.max_tokens) == (own.sampling, 300)
    desk.reply("One.")
    compare = desk.chat.compare()
    assert compare is not None and compare.sampling == own.sampling
    assert isinstance(desk.chat.state, ComparingReplies)
    desk.tell(ComparisonEnded(desk.chat.state.identity))
    desk.chat.send(Question("First"))
    assert desk.engine.generate.sampling == Sampling()
    desk.reply("Two.")
    desk.chat.walk_versions(-1)
    desk.chat.regenerate()
    assert desk.engine.generate.sampling == Sampling()


def test_the_news_of_a_death_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: the engine that was started meanwhile is taken for dead, and what it has loaded is left out."""
    monkeypatch.setattr(session, "PATIENCE_SECONDS", -1.0)
    desk = Desk()
    desk.chat.send(FIRST)
    desk.chat.stop()
    desk.engine.tell(KILLED)
    desk.chat.stop()
    desk.hear()
    assert desk.engine.starts == 2 and isinstance(desk.chat.state, LoadingModel)
    desk.tell(LOADED)
    assert isinstance(desk.chat.state, Ready)


def test_the_oldest_turns_are_dropped_by_one_command() -> None:
    """Else: a long chat is encoded again for every turn that goes, for seconds in which Esc does nothing."""
    desk = Desk()
    for number in range(9):
        desk.chat.send(Question(f"Question {number}"))
        desk.reply(f"Answer {number}.")
    desk.chat.send(FIRST)
    desk.tell(TooLong(desk.engine.generate.identity, 9000, 8192, 8192))
    desk.chat.drop_oldest()
    assert desk.engine.generate.shorten
    desk.tell(Shortened(desk.engine.generate.identity, 7))
    desk.reply("It fits.")
    assert desk.chat.conversation.unsent == 7
    assert [each.unsent for each in desk.kept][-1] == 7


def test_the_gauge_is_of_what_would_be_sent_now() -> None:
    """Else: it shows what another chat took, or nothing."""
    desk = Desk()
    assert desk.chat.figures.used == 0
    old = Conversation().asked(FIRST).answered(Answer("An answer.", (5,), end="stop"))
    desk.chat.show(old)
    count = desk.engine.sent[-1]
    assert isinstance(count, Count) and desk.chat.figures.used is None
    assert [message.content for message in count.messages] == ["First", "An answer."]
    desk.chat.show(Conversation())
    desk.tell(Counted(count.identity, 77))
    assert desk.chat.figures.used == 0
    desk.chat.show(old)
    number = desk.engine.sent[-1].identity
    desk.tell(Counted(number, 77))
    assert desk.chat.figures.used == 77
    assert finished([]).reason == "stop"


def test_an_engine_that_died_before_it_began_to_load_is_started_again() -> None:
    """Else: a model that is chosen at the moment of a death is never loaded."""
    desk = Desk()
    desk.chat.use_model(LoadSettings("other.gguf"))
    desk.tell(KILLED)
    assert desk.engine.starts == 2 and desk.engine.load.settings.name == "other.gguf"
    # This engine was started for the model: whatever kills it may do so for ever.
    desk.tell(KILLED)
    assert desk.engine.starts == 2 and isinstance(desk.chat.state, Stopped)
    desk.chat.use_model(LoadSettings("other.gguf"))
    desk.tell(LOADED)
    assert isinstance(desk.chat.state, Ready)
    desk.chat.use_model(LoadSettings("large.gguf"))
    desk.tell(LoadProgress("large.gguf", 0.5))
    desk.tell(KILLED)
    assert isinstance(desk.chat.state, Stopped)
