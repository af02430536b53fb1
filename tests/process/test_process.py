"""The engine in its own process: what it answers, and that neither its noise nor its death does harm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from app.chat.message import Message
from app.config.values import LoadSettings
from app.process.commands import Cancel, Compare, Count, FindDrafts, Load, SetDraft, SetK, SetProposer
from app.process.events import (
    Cancelled,
    Compared,
    ComparisonEnded,
    ComparisonProgress,
    Counted,
    Crashed,
    Done,
    Drafts,
    Failed,
    Noted,
    Shortened,
    Steps,
    Switched,
    TooLong,
)
from tests.process.engine import ASK, GREEDY, generate, serving
from tests.tiny import write_tiny


def test_every_pass_arrives_once_and_its_pieces_are_the_text(tiny_path: Path) -> None:
    with serving(tiny_path) as session:
        batches, done = session.reply(generate(max_tokens=60, k=4))
    steps = [step for batch in batches for step in batch.steps]
    finished = done.finished
    assert len(steps) == finished.passes
    assert sum(step.entry.accepted for step in steps) == finished.accepted
    assert [token for step in steps for token in step.entry.tokens] == list(finished.token_ids)
    assert [origin for step in steps for origin in step.entry.origins] == list(finished.origins)
    assert "".join(piece for step in steps for piece in step.pieces) == finished.text
    assert all(len(step.pieces) == len(step.entry.tokens) for step in steps)
    assert any(step.rejected for step in steps)


def test_a_cancelled_reply_ends_and_the_next_is_not_touched_by_it(tiny_path: Path) -> None:
    with serving(tiny_path) as session:
        session.send(generate(1, max_tokens=None))
        session.until(Steps)
        session.send(Cancel(1))
        _, done = session.reply(generate(2, max_tokens=8))
        if done.identity == 1:
            assert done.finished.reason == "cancelled"
            _, done = session.reply(generate(3, max_tokens=8))
    assert done.finished.reason == "length"


def test_proposer_and_k_change_in_mid_reply(tiny_path: Path) -> None:
    with serving(tiny_path) as session:
        session.send(generate(1, proposer="off", max_tokens=300, k=2))
        session.until(Steps)
        session.send(SetK(5))
        session.send(SetProposer("lookup", identity=9))
        while (switched := session.until(Switched)).identity != 9:
            pass
        assert switched.proposer == "lookup"
        session.seen.clear()
        assert session.until(Done).finished.passes > 0
        changed = [step.entry for event in session.seen if isinstance(event, Steps) for step in event.steps]
    assert any(entry.proposer == "lookup" and len(entry.drafted) > 2 for entry in changed)


def test_a_reply_is_continued_where_it_was_cut(tiny_path: Path) -> None:
    with serving(tiny_path) as session:
        events, whole = session.reply(generate(1, proposer="off", max_tokens=24))
        pieces = [piece for event in events for step in event.steps for piece in step.pieces]
        begun = {"begun": whole.finished.token_ids[:9], "begun_text": "".join(pieces[:9])}
        _, rest = session.reply(generate(2, proposer="off", **begun))
    expected = whole.finished.token_ids
    # What ended in mid character is generated again.
    assert any(expected[at:] == rest.finished.token_ids[: 24 - at] for at in range(4, 10))


def test_a_prompt_that_does_not_fit_is_told_with_its_size(tiny_path: Path) -> None:
    with serving(tiny_path) as session:
        session.send(generate(messages=(Message("user", "word " * 2000),)))
        told = session.until(TooLong)
    assert told.capacity == 512 and told.tokens > 2000


def test_the_oldest_exchanges_are_left_out_until_it_fits(tiny_path: Path) -> None:
    """One command, whatever must go: encoding it all again for each exchange took seconds, deaf to Esc."""
    turns = [
        (Message("user", f"Question {number} " + "word " * 9), Message("assistant", "An answer."))
        for number in range(60)
    ]
    told = tuple(message for turn in turns for message in turn)
    with serving(tiny_path) as session:
        session.send(generate(3, messages=(*told, *ASK), shorten=True, max_tokens=4))
        left_out = session.until(Shortened)
        done = session.until(Done)
        room = 512 - done.finished.prompt_tokens
        # One more exchange, and the control tokens around it, would not have fitted.
        assert 0 < left_out.exchanges < 60 and 0 <= room < 60
        session.send(generate(4, messages=(*told, Message("user", "word " * 2000)), shorten=True))
        assert session.until(TooLong).identity == 4
        assert [each.exchanges for each in session.seen if isinstance(each, Shortened)][-1] == 60


def test_what_cannot_be_done_is_said_and_the_process_goes_on(tiny_path: Path, tmp_path: Path) -> None:
    with serving() as session:
        session.send(generate())
        assert "No model is loaded" in session.until(Failed).message
        session.send(Load(LoadSettings(str(tmp_path / "none.gguf")), identity=6))
        failed = session.until(Failed)
        assert failed.identity == 6 and "none.gguf" in failed.message
        session.load(tiny_path)
        session.send(Count(7, "some words"))
        counted = session.until(Counted)
        assert counted.identity == 7 and counted.tokens > 0
        session.send(SetProposer("draft"))
        switched = session.until(Switched)
        assert switched.proposer == "off" and "load one first" in (switched.problem or "")


def test_a_draft_is_loaded_used_and_unloaded(tiny_path: Path, tiny_draft_path: Path, tmp_path: Path) -> None:
    other = write_tiny(tmp_path / "other.gguf", vocabulary=700)
    with serving(tiny_path) as session:
        session.send(FindDrafts((str(tmp_path), str(tiny_draft_path.parent))))
        found = {each.name: each for each in session.until(Drafts).candidates}
        assert found["draft.gguf"].problem is None
        assert found["tiny.gguf"].problem == "it is the model itself"
        assert "vocabulary" in (found["other.gguf"].problem or "")
        session.send(SetDraft(str(other)))
        refused = session.until(Switched)
        assert refused.draft is None and "cannot draft" in (refused.problem or "")
        session.send(SetDraft(str(tiny_draft_path)))
        assert (loaded := session.until(Switched)).proposer == "draft" and loaded.draft == "draft F32"
        _, done = session.reply(generate(2, proposer="draft", k=4))
        assert done.finished.by_proposer["draft"].accepted > 0
        places = FindDrafts((str(tiny_draft_path.parent),))
        session.send(SetProposer("skip"))
        session.send(places)
        # The copy that skips layers is another file, and takes nothing from the draft.
        assert [each.name for each in session.until(Drafts).candidates if each.loaded] == ["draft.gguf"]
        session.send(SetProposer("draft"))
        assert session.until(Switched).proposer == "draft"
        session.send(SetDraft(None))
        unloaded = session.until(Switched)
        assert unloaded.draft is None and unloaded.proposer == "auto"
        session.send(places)
        assert not any(each.loaded for each in session.until(Drafts).candidates)


def test_a_draft_that_fails_is_told_and_the_reply_goes_on(
    tiny_path: Path, tiny_draft_path: Path, tmp_path: Path
) -> None:
    """Lost otherwise: this reply and each one that follows, and the target gets the blame."""
    broken = write_tiny(tmp_path / "broken.gguf", extra={"llama.rope.freq_base": float("nan")})
    with serving(tiny_path) as session:
        session.send(SetDraft(str(broken)))
        assert session.until(Switched).proposer == "draft"
        _, done = session.reply(generate(1, proposer="draft", k=3))
        assert (done.finished.reason, len(done.finished.token_ids)) == ("length", 24)
        (noted,) = [event for event in session.seen if isinstance(event, Noted)]
        assert "broken.gguf is switched off" in noted.sentence and "choose another" in noted.sentence
        (switched,) = [event for event in session.seen if isinstance(event, Switched)]
        assert switched.proposer == "off"
        (option,) = [option for option in switched.options if option.name == "draft"]
        assert option.problem == noted.sentence
        # It is not tried again, by whatever name.
        _, done = session.reply(generate(2, proposer="auto"))
        assert done.finished.reason == "length"
        assert not any(isinstance(event, (Noted, Failed)) for event in session.seen)
        _, done = session.reply(generate(3, proposer="draft"))
        (refused,) = [event for event in session.seen if isinstance(event, Switched)]
        assert refused.problem == noted.sentence and done.finished.reason == "length"
        session.seen.clear()
        session.send(Compare(4, ASK, GREEDY, 1, ("off", "draft"), 8, 3))
        assert session.until(Compared).problem == noted.sentence
        assert session.until(Compared).finished and session.until(ComparisonEnded).identity == 4
        session.send(SetDraft(str(tiny_draft_path)))
        assert session.until(Switched).problem is None
        _, done = session.reply(generate(5, proposer="draft", k=3))
        assert done.finished.by_proposer["draft"].accepted > 0


def test_a_comparison_says_which_draft_failed(tiny_path: Path, tmp_path: Path) -> None:
    """Lost otherwise: figures of plain decoding under a draft's name."""
    broken = write_tiny(tmp_path / "broken.gguf", extra={"llama.rope.freq_base": float("nan")})
    with serving(tiny_path) as session:
        session.send(SetDraft(str(broken)))
        session.until(Switched)
        session.send(Compare(1, ASK, GREEDY, 1, ("off", "draft", "lookup", "auto"), 8, 3))
        rows = {row.proposer: row for row in (session.until(Compared) for _ in range(4))}
        session.until(ComparisonEnded)
        noted = [event for event in session.seen if isinstance(event, Noted)]
        _, done = session.reply(generate(2, proposer="auto"))
        assert done.finished.reason == "length" and len(noted) == 1
    assert all(rows[name].finished for name in ("off", "lookup", "auto"))
    draft = rows["draft"]
    assert draft.finished is None and "broken.gguf is switched off" in (draft.problem or "")


def test_compare_runs_each_proposer_and_says_where_replies_part(tiny_path: Path) -> None:
    names = ("off", "lookup", "draft")
    with serving(tiny_path) as session:
        session.send(Compare(5, ASK, GREEDY, 1, names, 4, 32))
        rows = [session.until(Compared) for _ in names]
        session.until(ComparisonEnded)
    assert [row.proposer for row in rows] == ["draft", "off", "lookup"]
    draft, off, lookup = rows
    assert off.finished and off.divergence is None
    assert lookup.finished and (lookup.divergence is None) == (
        lookup.finished.token_ids == off.finished.token_ids
    )
    assert draft.finished is None and draft.problem


def test_a_comparison_that_is_stopped_ends_once_and_the_next_question_is_answered(tmp_path: Path) -> None:
    """Lost otherwise: the chat, which waits for the comparison's end."""
    with serving(write_tiny(tmp_path / "roomy.gguf", context=8192, end_scale=0.0)) as session:
        session.send(Compare(2, ASK, GREEDY, 1, ("off", "lookup", "auto"), 4, 7000))
        while (grown := session.until(ComparisonProgress)).proposer != "lookup":
            assert grown.proposer == "off"
        session.send(Cancel(2))
        assert session.until(Cancelled).identity == 2
        told = [event for event in session.seen if isinstance(event, ComparisonProgress)]
        rows = [event for event in session.seen if isinstance(event, Compared)]
        # A reply that had not begun has no row.
        assert [row.proposer for row in rows][:2] == ["off", "lookup"]
        for row in rows:
            assert row.finished and row.divergence is None and row.finished.reason == "cancelled"
            own = [event for event in told if event.proposer == row.proposer]
            assert row.finished.text.startswith("".join(event.text for event in own))
            assert own[-1].left and 0 < own[-1].tokens <= len(row.finished.token_ids)
        _, done = session.reply(generate(3, max_tokens=8))
        assert done.finished.reason == "length"
        assert not any(isinstance(event, (Compared, Cancelled, ComparisonEnded)) for event in session.seen)


def test_a_killed_process_is_told_and_started_again(tiny_path: Path) -> None:
    with serving(tiny_path) as session:
        session.send(generate(1, max_tokens=None))
        session.until(Steps)
        os.kill(session.client.process_id or 0, signal.SIGKILL)
        assert session.until(Crashed).reason == "was killed by SIGKILL"
        session.start()
        session.load(tiny_path)
        _, done = session.reply(generate(2, max_tokens=8))
    assert done.finished.reason == "length"


NOISY = """
import os
import app.process.child as child
import app.process.service as service
serve = service.Service.run
def noisy(self):
    os.write(1, b"native noise")
    os.write(2, b"ggml: the last words")
    serve(self)
service.Service.run = noisy
answer = service.Service._answer
def aborting(self, command):
    return os.abort() if type(command).__name__ == "Count" else answer(self, command)
service.Service._answer = aborting
child.main()
"""


def test_native_noise_stays_out_and_an_abort_leaves_its_last_words(tiny_path: Path) -> None:
    with serving(tiny_path, (sys.executable, "-c", NOISY)) as session:
        _, done = session.reply(generate(max_tokens=8))
        assert done.finished.reason == "length"
        session.send(Count(2, "x"))
        crashed = session.until(Crashed)
    assert crashed.reason == "was killed by SIGABRT"
    assert "native noise" in crashed.details and "last words" in crashed.details


def test_the_process_leaves_when_its_parent_dies(tiny_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from tests.process.engine import Session
session = Session()
session.start()
session.load(Path(sys.argv[1]))
print(session.client.process_id, flush=True)
sys.stdin.read()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tiny_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _runs(child):
        time.sleep(0.02)
    assert not _runs(child)


def _runs(process: int) -> bool:
    try:
        # Where nobody has collected it, a process that has ended is still listed.
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
