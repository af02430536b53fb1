"""How long a document and the reply to it take: the default beside flash attention on and off.

Every way has a context of its own. They read and reply side by side, a chunk or a pass here and one there:
a machine's speed drifts by more than what is to be told apart.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.resources import files
from statistics import median

from app.arguments import Parser, whole
from app.assembly.assembly import Assembly
from app.assembly.template import template_for
from app.bench.progress import with_progress
from app.bench.sweep import in_turn
from app.chat.documents import Document, with_documents
from app.chat.message import Message
from app.chat.prompt import encode
from app.config.values import LoadSettings
from app.engine.events import Event, Prefill, Request
from app.engine.settings import Sampling
from app.errors import ContextError
from app.llama.model import Model
from app.llama.settings import FlashAttention

LENGTHS = (500, 1500, 3000)
DEFAULT: FlashAttention = "auto"
WAYS: tuple[FlashAttention, ...] = (DEFAULT, "on", "off")
_QUESTION = "Retell all of this in your own words, in the same order."
_CALIBRATION_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Reading:
    """A document read and answered. way: as --flash-attention has it. Seconds; those of a reply that ended
    early are as for a whole one."""

    document: int
    round: int
    way: FlashAttention
    read_s: float
    reply_s: float

    @property
    def total(self) -> float:
        return self.read_s + self.reply_s


@dataclass(frozen=True, slots=True)
class Row:
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
        turned = paragraphs[index:] + paragraphs[:index]
        tokens = model.tokenise("\n\n".join(turned), special=False)[:length]
        found[length] = model.detokenise(tokens).decode("utf-8", "ignore")
    return found


class Bench:
    """The three ways, each with an engine of its own."""

    def __init__(self, assemblies: Mapping[FlashAttention, Assembly], tokens: int) -> None:
        """tokens: of each reply. Raises ContextError where none of the documents fits."""
        first = assemblies[DEFAULT]
        template = template_for(first.target)

        def prompt(text: str) -> tuple[int, ...]:
            asked = with_documents(_QUESTION, [Document("report", text)])
            return tuple(encode([Message("user", asked)], template, first.target))

        prompts = {length: prompt(text) for length, text in documents(first.target).items()}
        needed = max(map(len, prompts.values())) + tokens
        self._tokens = tokens
        self._engines = {way: assembly.engine("auto", needed) for way, assembly in assemblies.items()}
        capacity = min(engine.target.capacity for engine in self._engines.values())
        self.prompts = {length: ids for length, ids in prompts.items() if len(ids) + tokens <= capacity}
        if not self.prompts:
            raise ContextError(f"No document leaves room for {tokens:,} tokens in {capacity:,}: give fewer.")
        # What the default turned out to be.
        self.chosen = self._engines[DEFAULT].target.settings.flash_attention
        for way, engine in self._engines.items():
            engine.calibrate([max(assemblies[way].target.bos, 0)], _CALIBRATION_SECONDS)

    def run(self, rounds: int) -> Iterator[Reading]:
        """Every document, each way; which way begins changes."""
        for number in range(rounds):
            for turn, (length, prompt) in enumerate(self.prompts.items(), start=number):
                order = [WAYS[(turn + place) % len(WAYS)] for place in range(len(WAYS))]
                read = dict.fromkeys(order, 0.0)
                replies = in_turn([self._reply(way, prompt, read) for way in order])
                for way, finished in zip(order, replies, strict=True):
                    each = finished.decode_seconds / max(1, len(finished.token_ids))
                    yield Reading(length, number, way, read[way], each * self._tokens)

    def _reply(
        self, way: FlashAttention, prompt: tuple[int, ...], read: dict[FlashAttention, float]
    ) -> Iterator[Event]:
        """read: is told how long the prompt took; the reply's own figure counts what others did meanwhile."""
        engine = self._engines[way]
        engine.target.rollback(0)
        before = engine.target.seconds
        for event in engine.generate(Request(prompt, Sampling(temperature=0.0), 0, self._tokens)):
            if isinstance(event, Prefill):
                read[way] = engine.target.seconds - before
            yield event


def summarised(readings: Sequence[Reading]) -> list[Row]:
    """A row for each way with each document."""
    rows = []
    for document in dict.fromkeys(each.document for each in readings):
        ways = {
            way: [each for each in readings if (each.document, each.way) == (document, way)] for way in WAYS
        }
        totals = {way: median(each.total for each in found) for way, found in ways.items()}
        better = ways[min(WAYS[1:], key=totals.__getitem__)]
        for way, found in ways.items():
            ratio = median(each.total / other.total for each, other in zip(found, better, strict=True))
            read, reply = (
                median(part) for part in zip(*((each.read_s, each.reply_s) for each in found), strict=True)
            )
            rows.append(Row(document, way, read, reply, totals[way], ratio))
    return rows


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with --json an object."""
    parser = Parser(prog="specchat bench documents", description=__doc__)
    parser.add_argument("--model", help="a .gguf (default: the bundled model)")
    parser.add_argument("--rounds", type=whole(1), default=5, help="default: 5")
    parser.add_argument("--tokens", type=whole(2), default=150, help="of each reply (default: 150)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        assemblies = {
            way: stack.enter_context(
                Assembly(
                    LoadSettings(name=options.model, flash_attention=way),
                    stop=lambda: False,
                    say=lambda line: print(line, file=sys.stderr),
                )
            )
            for way in WAYS
        }
        bench = Bench(assemblies, options.tokens)
        expected = options.rounds * len(bench.prompts) * len(WAYS)
        rows = summarised(list(with_progress(bench.run(options.rounds), expected, "replies")))
    if options.json:
        print(json.dumps({"chosen": bench.chosen, "rows": [asdict(row) for row in rows]}))
        return 0
    print(f"{'tokens':>6}  {'attention':<14}{'read s':>9}{'reply s':>9}{'total s':>9}{'over better':>13}")
    for row in rows:
        way = f"default ({bench.chosen})" if row.way == DEFAULT else row.way
        figures = f"{row.read_s:>9.2f}{row.reply_s:>9.2f}{row.total_s:>9.2f}{row.ratio:>13.3f}"
        print(f"{row.document:>6}  {way:<14}{figures}")
    return 0
