"""What going back in a model's memory costs, in plain passes: after a rejected draft, to the end of the last
turn, and by reading everything again.

Each rewind has a plain pass of its own just before it: a machine's speed drifts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from itertools import count, cycle, islice
from statistics import median

from app.arguments import Parser, whole
from app.assembly import Assembly, Setup
from app.bench.progress import with_progress
from app.engine.rewind_timing import STARTS, RewindTiming, time_rejection, time_return, tokens_needed
from app.errors import ContextError
from app.llama.context import Context
from app.llama.model import Model
from app.models.memory_words import said_of_memory

DRAFTED = 16
REJECTED = (0, 1, 4, 16)
TURN = 64
TO_TURN, ALL_AGAIN = "to the last turn's end", "all read again"
# Behind so many tokens, and behind so many windows where the model has one.
_DEPTH, _WINDOWS = 512, 2
_CALIBRATION_SECONDS = 1.0


def _named(rejected: int) -> str:
    return f"{rejected} of {DRAFTED} rejected"


WAYS = (*map(_named, REJECTED), TO_TURN, ALL_AGAIN)


@dataclass(frozen=True, slots=True)
class Row:
    """Medians over the rounds, in plain passes, each taken against the plain pass before it.

    again: tokens that are read again. before: the pass of the draft, or keeping the end of a turn; back: the
    rewind; next: the pass behind it, with what is read again; cost: back and next, less a plain pass.
    """

    way: str
    again: int
    before: float
    back: float
    next: float
    cost: float


def text_tokens(model: Model, length: int) -> list[int]:
    """So many tokens of the project's own paragraphs, again and again."""
    text = files("app.bench").joinpath("documents.txt").read_text(encoding="utf-8")
    return list(islice(cycle(model.tokenise(text, special=False)), length))


def usual_depth(model: Model) -> int:
    """Where to measure: windows fill up before they show what they cost."""
    return max(_DEPTH, _WINDOWS * model.window)


def run(context: Context, depth: int, rounds: int) -> Iterator[tuple[str, RewindTiming]]:
    """Every way back behind about `depth` tokens, round after round; a first one warms up and is left out."""
    tokens = text_tokens(context.model, depth + tokens_needed(DRAFTED, TURN))
    numbers = count()
    for number in range(rounds + 1):
        made = []
        for rejected in REJECTED:
            place = depth + next(numbers) % STARTS
            made.append((_named(rejected), time_rejection(context, tokens, place, DRAFTED, rejected)))
        made.append((TO_TURN, time_return(context, tokens, depth, depth, TURN)))
        made.append((ALL_AGAIN, time_return(context, tokens, depth, 0, TURN)))
        if number:
            yield from made


def summarised(made: Sequence[tuple[str, RewindTiming]]) -> list[Row]:
    """A row for each way back."""
    rows = []
    for way in dict.fromkeys(way for way, _ in made):
        found = [each for name, each in made if name == way]
        before, back, following = (
            median(part)
            for part in zip(
                *(
                    (each.before_s / each.plain_s, each.back_s / each.plain_s, each.next_s / each.plain_s)
                    for each in found
                ),
                strict=True,
            )
        )
        again = int(median(each.again for each in found))
        rows.append(Row(way, again, before, back, following, median(each.cost for each in found)))
    return rows


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with --json an object."""
    parser = Parser(prog="specchat bench rewind", description=__doc__)
    parser.add_argument("--model", help="a .gguf (default: the bundled model)")
    parser.add_argument("--rounds", type=whole(1), default=7, help="default: 7")
    parser.add_argument(
        "--depth",
        type=whole(1),
        metavar="N",
        help="tokens in front of what is taken back (default: 512, or two sliding windows)",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with Assembly(
        Setup(model=options.model), stop=lambda: False, say=lambda line: print(line, file=sys.stderr)
    ) as assembly:
        asked = options.depth or usual_depth(assembly.target)
        engine = assembly.engine("off", asked + tokens_needed(DRAFTED, TURN))
        context = engine.target
        depth = min(asked, context.capacity - tokens_needed(DRAFTED, TURN))
        if depth < 1:
            raise ContextError(
                f"A context of {context.capacity:,} tokens is too small for this: free some memory, or "
                "choose another model."
            )
        engine.calibrate([max(assembly.target.bos, 0)], _CALIBRATION_SECONDS)
        context.reread_limit = engine.controller.reread_limit
        context.rollback(0)
        expected = options.rounds * len(WAYS)
        made = list(with_progress(run(context, depth, options.rounds), expected, "rewinds"))
        memory, copy = context.memory_kind, context.state_bytes if context.copies else 0
    rows = summarised(made)
    plain = median(each.plain_s for _, each in made)
    if options.json:
        shown = {"memory": memory, "copy_bytes": copy, "depth": depth, "plain_ms": plain * 1e3}
        print(json.dumps({**shown, "rows": [asdict(row) for row in rows]}))
        return 0
    print(
        f"memory: {said_of_memory(memory, copy)}; a plain pass behind {depth:,} tokens: {plain * 1e3:.2f} ms"
    )
    print(f"{'in plain passes':<24}{'read again':>11}{'before':>9}{'back':>9}{'next':>9}{'cost':>9}")
    for row in rows:
        print(
            f"{row.way:<24}{row.again:>11}{row.before:>9.2f}{row.back:>9.2f}{row.next:>9.2f}{row.cost:>9.2f}"
        )
    return 0
