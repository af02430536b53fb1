"""A conversation with an engine, event by event, as the real one had it.

`trace.txt` is recorded from the real engine. The real engine and the scripted one of the tests both have to
answer the same commands with the same events, so neither can drift away from what the chat was built on.
After a wanted change: python -m tests.process.trace > tests/process/trace.txt
"""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from app.chat.message import Message
from app.config.values import LoadSettings
from app.engine.settings import Sampling
from app.process.client import EngineClient, Link
from app.process.commands import (
    Cancel,
    Compare,
    Count,
    FindDrafts,
    FindModels,
    Load,
    SetDraft,
    SetK,
    SetProposer,
    Task,
)
from app.process.events import (
    Compared,
    Done,
    Event,
    Loaded,
    Noted,
    PromptProgress,
    Steps,
    Switched,
    ended_by,
)
from tests.process.engine import ASK, GREEDY, generate
from tests.tiny import write_tiny

RECORDED = Path(__file__).with_name("trace.txt")
LONG = (Message("user", "word " * 20_000),)


def commands(folder: Path) -> dict[str, Task]:
    """What is asked, by what is said of it. "stop …" is stopped, and "kill …" ends the engine, once the reply
    grows. Models are written into `folder`."""
    missing = str(folder / "missing.gguf")
    ending = write_tiny(folder / "ending.gguf", context=8192)
    endless = write_tiny(folder / "endless.gguf", context=8192, end_scale=0.0)
    compare = Compare(0, ASK, GREEDY, 1, ("off", "lookup", "draft"), None, 6)
    return {
        "ask without a model": generate(max_tokens=6),
        "find models without a model": FindModels((missing,)),
        "load what is missing": Load(LoadSettings(missing)),
        "load a model whose replies end": Load(LoadSettings(str(ending), threads=1)),
        "ask for a whole reply": generate(max_tokens=None, sampling=Sampling(temperature=1.0)),
        "load another": Load(LoadSettings(str(endless), threads=1)),
        "ask": generate(max_tokens=6),
        "use lookup": SetProposer("lookup"),
        "use a draft that is not loaded": SetProposer("draft"),
        "use what there is not": SetProposer("nonsense"),
        "fix k": SetK(3),
        "load a draft that is missing": SetDraft(missing),
        "find drafts": FindDrafts((missing,)),
        "count": Count(text="some words"),
        "ask too much": generate(messages=LONG, max_tokens=6),
        "compare": compare,
        "stop a reply": generate(max_tokens=None),
        "kill the engine": generate(max_tokens=None),
        "ask the dead": generate(max_tokens=6),
        "count for the dead": Count(text="some words"),
    }


def outline(name: str, events: Sequence[Event]) -> str:
    """One line: the events behind a command, by name and by what the chat goes by. Runs of one are told
    once; what nobody asked for (Noted) depends on the machine and is left out."""
    told = [_told(event) for event in events if not isinstance(event, Noted)]
    return f"{name}: {', '.join(word for word, _ in groupby(told))}"


def _told(event: Event) -> str:
    words: list[object] = [type(event).__name__]
    match event:
        case Loaded():
            words += [option.name for option in event.options if option.problem is None]
        case Switched():
            words += [event.proposer, "refused" if event.problem else "", event.draft or "without a draft"]
        case Done():
            words += [event.finished.reason]
        case Compared():
            words += [event.proposer, "failed" if event.problem else "made"]
    return " ".join(str(word) for word in words if word)


def check_reply(events: Sequence[Event]) -> None:
    """What holds of the events of every reply, whoever makes it: figures are sums over the passes."""
    done = next((event for event in events if isinstance(event, Done)), None)
    if done is None:
        return
    finished = done.finished
    steps = [step for event in events if isinstance(event, Steps) for step in event.steps]
    passes = [step.entry for step in steps]
    assert all(len(step.pieces) == len(step.entry.tokens) for step in steps)
    assert "".join(piece for step in steps for piece in step.pieces) == finished.text
    assert "".join(each.text for each in passes) + finished.rest == finished.text
    assert tuple(token for each in passes for token in each.tokens) == finished.token_ids
    assert tuple(origin for each in passes for origin in each.origins) == finished.origins
    assert tuple(len(each.drafted) for each in passes) == finished.k_history
    assert len(passes) == finished.passes == sum(each.passes for each in finished.by_proposer.values())
    assert sum(len(each.drafted) for each in passes) == finished.drafted
    assert sum(each.accepted for each in passes) == finished.accepted
    assert sum(each.committed for each in passes) == len(finished.token_ids) + finished.trimmed
    read = [event.prefill for event in events if isinstance(event, PromptProgress)][-1]
    assert read.done == read.total == finished.prompt_tokens - 1


def played(link: Link, die: Callable[[], None], folder: Path) -> Iterator[str]:
    """The outline of every command of the trace, as this engine answers it. die: kills it."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    link.start(events.put)
    for number, (name, command) in enumerate(commands(folder).items(), start=1):
        seen: list[Event] = []
        link.send(replace(command, identity=number))
        while not any(ended_by(event) == number for event in seen):
            seen.append(events.get(timeout=60))
            if isinstance(seen[-1], Steps) and sum(isinstance(event, Steps) for event in seen) == 1:
                if name.startswith("stop"):
                    link.send(Cancel(number))
                elif name.startswith("kill"):
                    die()
        check_reply(seen)
        yield outline(name, seen)


if __name__ == "__main__":
    client = EngineClient()
    with TemporaryDirectory() as folder:
        for line in played(client, lambda: os.kill(client.process_id or 0, signal.SIGKILL), Path(folder)):
            print(line)
    client.close()
