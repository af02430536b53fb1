"""What going back in a model's memory costs, in plain passes: after a rejected draft, to the end of the last
turn, and by reading everything again.

Each rewind has a plain pass of its own just before it: a machine's speed drifts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import count, cycle, islice
from statistics import median

from app.arguments import whole
from app.bench.workbench import bench_parser, calibrate, grouped, open_assembly, print_rows, with_progress
from app.config.values import LoadSettings
from app.engine.rewind_timing import STARTS, RewindTiming, time_rejection, time_return, tokens_needed
from app.errors import ContextError
from app.llama.context import Context
from app.llama.model import Model
from app.models.memory_words import said_of_memory

DRAFTED = 16
REJECTED = (0, 1, 4, 16)
TURN = 64
TO_TURN, ALL_AGAIN = "to the last turn's end", "all read again"
WAYS = (*(f"{number} of {DRAFTED} rejected" for number in REJECTED), TO_TURN, ALL_AGAIN)
# Measured after so many tokens, or so many sliding windows where the model has them.
_DEPTH, _WINDOWS = 512, 2
_CALIBRATION_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RewindCost:
    """Medians over the rounds, in plain passes, each taken against the plain pass before it.

    again: tokens that are read again. before: the pass of the draft, or keeping the end of a turn; back: the
    rewind; next: the pass after it, with what is read again; cost: back and next, less a plain pass.
    """

    way: str
    again: int
    before: float
    back: float
    next: float
    cost: float


def text_tokens(model: Model, length: int) -> list[int]:
    """So many tokens of the project's own paragraphs, repeated as often as needed."""
    text = files("app.bench").joinpath("documents.txt").read_text(encoding="utf-8")
    return list(islice(cycle(model.tokenise(text, special=False)), length))


def usual_depth(model: Model) -> int:
    """Where to measure: windows fill up before they show what they cost."""
    return max(_DEPTH, _WINDOWS * model.window)


def run(context: Context, depth: int, rounds: int) -> Iterator[tuple[str, RewindTiming]]:
    """Every way back after about `depth` tokens, round after round; a first round warms up only."""
    tokens = text_tokens(context.model, depth + tokens_needed(DRAFTED, TURN))
    numbers = count()
    for number in range(rounds + 1):
        made = [
            *(
                time_rejection(context, tokens, depth + next(numbers) % STARTS, DRAFTED, each)
                for each in REJECTED
            ),
            time_return(context, tokens, depth, depth, TURN),
            time_return(context, tokens, depth, 0, TURN),
        ]
        if number:
            yield from zip(WAYS, made, strict=True)


def medians(made: Sequence[tuple[str, RewindTiming]]) -> list[RewindCost]:
    """One record for each way back."""
    return [
        RewindCost(
            way,
            int(median(each.again for _, each in found)),
            median(each.before_s / each.plain_s for _, each in found),
            median(each.back_s / each.plain_s for _, each in found),
            median(each.next_s / each.plain_s for _, each in found),
            median(each.cost for _, each in found),
        )
        for way, found in grouped(made, lambda each: each[0]).items()
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with --json an object."""
    parser = bench_parser("rewind", __doc__, rounds=7)
    parser.add_argument(
        "--depth",
        type=whole(1),
        metavar="N",
        help="tokens in front of what is taken back (default: 512, or two sliding windows)",
    )
    options = parser.parse_args(arguments)
    with open_assembly(LoadSettings(name=options.model)) as assembly:
        asked = options.depth or usual_depth(assembly.target)
        engine = assembly.engine("off", asked + tokens_needed(DRAFTED, TURN))
        context = engine.target
        depth = min(asked, context.capacity - tokens_needed(DRAFTED, TURN))
        if depth < 1:
            raise ContextError(
                f"A context of {context.capacity:,} tokens is too small for this: free some memory, or "
                "choose another model."
            )
        calibrate(engine, _CALIBRATION_SECONDS)
        context.reread_limit = engine.controller.reread_limit
        context.rollback(0)
        expected = options.rounds * len(WAYS)
        made = list(with_progress(run(context, depth, options.rounds), expected, "rewinds"))
        memory, copy = context.memory_kind, context.state_bytes if context.copies else 0
    plain_ms = 1e3 * median(each.plain_s for _, each in made)
    if not options.json:
        print(
            f"memory: {said_of_memory(memory, copy)}; a plain pass after {depth:,} tokens: {plain_ms:.2f} ms"
        )
    about = {"memory": memory, "copy_bytes": copy, "depth": depth, "plain_ms": plain_ms}
    return print_rows(medians(made), options.json, **about)
