"""How long a document and the reply to it take: the default beside flash attention on and off.

Each way has a context of its own. They read and reply side by side, a chunk or a pass here and one there: a
machine's speed drifts by more than the ways differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import files
from statistics import median

from app.assembly.assembly import Assembly
from app.bench.sweep import in_turn
from app.bench.workbench import (
    bench_parser,
    calibrate,
    chat_tokens,
    greedy_request,
    grouped,
    open_assembly,
    print_rows,
    with_progress,
)
from app.chat.documents import Document, with_documents
from app.config.values import LoadSettings
from app.engine.events import Event, Prefill
from app.errors import ContextError
from app.llama.model import Model
from app.llama.settings import FlashAttention

LENGTHS = (500, 1500, 3000)
DEFAULT: FlashAttention = "auto"
WAYS: tuple[FlashAttention, ...] = (DEFAULT, "on", "off")
_QUESTION = "Retell all of this in your own words, in the same order."
_CALIBRATION_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class DocumentReply:
    """A document of about so many tokens, read and answered. way: as --flash-attention has it. Seconds; those
    of a reply that ended early are as for a whole one."""

    document: int
    way: FlashAttention
    read_s: float
    reply_s: float

    @property
    def total_s(self) -> float:
        return self.read_s + self.reply_s


@dataclass(frozen=True, slots=True)
class DocumentTimes:
    """Medians over the rounds. ratio: the total over that of the better of on and off, round by round."""

    document: int
    way: FlashAttention
    read_s: float
    reply_s: float
    total_s: float
    ratio: float


def documents(model: Model) -> dict[int, str]:
    """Texts of about LENGTHS tokens by length, of the project's own paragraphs; each begins with another."""
    paragraphs = files("app.bench").joinpath("documents.txt").read_text(encoding="utf-8").split("\n\n")
    found = {}
    for index, length in enumerate(LENGTHS):
        rotated = paragraphs[index:] + paragraphs[:index]
        tokens = model.tokenise("\n\n".join(rotated), special=False)[:length]
        found[length] = model.detokenise(tokens).decode("utf-8", "ignore")
    return found


class DocumentBench:
    """The three ways, each with an engine of its own."""

    def __init__(self, assemblies: Mapping[FlashAttention, Assembly], tokens: int) -> None:
        """tokens: of each reply. Raises ContextError where none of the documents fits."""
        target = assemblies[DEFAULT].target
        prompts = {
            length: chat_tokens(target, with_documents(_QUESTION, [Document("report", text)]))
            for length, text in documents(target).items()
        }
        needed = max(map(len, prompts.values())) + tokens
        self._tokens = tokens
        self._engines = {way: assembly.engine("auto", needed) for way, assembly in assemblies.items()}
        capacity = min(engine.target.capacity for engine in self._engines.values())
        self.prompts = {length: ids for length, ids in prompts.items() if len(ids) + tokens <= capacity}
        if not self.prompts:
            raise ContextError(f"No document leaves room for {tokens:,} tokens in {capacity:,}: give fewer.")
        # What the default turned out to be.
        self.chosen = self._engines[DEFAULT].target.settings.flash_attention
        for engine in self._engines.values():
            calibrate(engine, _CALIBRATION_SECONDS)

    def run(self, rounds: int) -> Iterator[DocumentReply]:
        """Every document, each way; which way begins changes."""
        for number in range(rounds):
            for turn, (length, prompt) in enumerate(self.prompts.items(), start=number):
                order = [WAYS[(turn + place) % len(WAYS)] for place in range(len(WAYS))]
                read = dict.fromkeys(order, 0.0)
                replies = in_turn([self._reply(way, prompt, read) for way in order])
                for way, finished in zip(order, replies, strict=True):
                    per_token = finished.decode_seconds / max(1, len(finished.token_ids))
                    yield DocumentReply(length, way, read[way], per_token * self._tokens)

    def _reply(
        self, way: FlashAttention, prompt: tuple[int, ...], read: dict[FlashAttention, float]
    ) -> Iterator[Event]:
        """read: gets the time of the prompt; the reply's own figure counts what others did meanwhile."""
        target = self._engines[way].target
        target.rollback(0)
        before = target.seconds
        for event in self._engines[way].generate(greedy_request(prompt, self._tokens)):
            if isinstance(event, Prefill):
                read[way] = target.seconds - before
            yield event


def medians(replies: Sequence[DocumentReply]) -> Iterator[DocumentTimes]:
    """One record for each way with each document. replies: of each, round after round."""
    for document, found in grouped(replies, lambda reply: reply.document).items():
        ways = grouped(found, lambda reply: reply.way)
        totals = {way: median(reply.total_s for reply in ways[way]) for way in WAYS}
        better = ways[min(WAYS[1:], key=totals.__getitem__)]
        for way in WAYS:
            yield DocumentTimes(
                document,
                way,
                median(reply.read_s for reply in ways[way]),
                median(reply.reply_s for reply in ways[way]),
                totals[way],
                median(one.total_s / other.total_s for one, other in zip(ways[way], better, strict=True)),
            )


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with --json an object."""
    options = bench_parser("documents", __doc__, rounds=5, tokens=150).parse_args(arguments)
    with ExitStack() as stack:
        assemblies = {
            way: stack.enter_context(open_assembly(LoadSettings(options.model, flash_attention=way)))
            for way in WAYS
        }
        bench = DocumentBench(assemblies, options.tokens)
        expected = options.rounds * len(bench.prompts) * len(WAYS)
        rows = list(medians(list(with_progress(bench.run(options.rounds), expected, "replies"))))
    if not options.json:
        print(f"The default is flash attention {bench.chosen} here; ratio: over the better of on and off.")
    return print_rows(rows, options.json, chosen=bench.chosen)
