"""Each proposer on the same prompt with the same seed, in turn, round after round: medians in a table."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from app.arguments import Parser, add_model_options, ask, whole
from app.assembly.assembly import Assembly
from app.bench.comparer import PLAIN, Comparer, reports
from app.bench.prompts import load_prompts, spread
from app.bench.workbench import chat_tokens, with_progress
from app.chat.conversation import Question, title_of
from app.chat.export import write_new
from app.config.values import LoadSettings
from app.engine.events import Request
from app.engine.settings import LONGEST_DRAFT, Sampling
from app.errors import ContextError, SpecchatError, UsageError
from app.models.naming import with_draft
from app.oneshot import documents_of
from app.process.report import Report
from app.process.report_svg import as_svg
from app.process.report_text import as_json, as_markdown, as_text
from app.text import clean
from proposers.registry import PROPOSERS

_NAMES = (*PROPOSERS, "auto")


def main(arguments: Sequence[str]) -> int:
    """Print a table for each prompt and one of all, or the same as Markdown, JSON or a picture."""
    options = _parser().parse_intermixed_args(arguments)
    named = _named(options.proposers)
    request = Request((), Sampling(temperature=options.temp), options.seed, options.tokens, k=options.k)
    asked = _asked(options.texts)
    if options.svg is not None and not options.svg.expanduser().absolute().parent.is_dir():
        raise SpecchatError(f"There is no folder {options.svg.parent} for the picture: make it first.")
    with _interruptible() as interrupted:
        try:
            found = _measured(options, named, request, asked, interrupted)
        except SpecchatError:
            if interrupted():
                return 130  # an interrupted load looks like one that failed
            raise
        if not found:
            print("Interrupted before each proposer had answered: nothing is measured.", file=sys.stderr)
            return 130
        if options.json:
            print(as_json(found[-1], found[:-1]), end="")
        else:
            print("\n".join(map(as_markdown if options.markdown else as_text, found)), end="")
        if options.svg is not None:
            print(f"Written: {clean(str(write_new(options.svg, as_svg(found[-1]))))}")
        return 130 if interrupted() else 0


def _parser() -> Parser:
    parser = Parser(
        prog="specchat bench compare",
        usage="specchat bench compare [PROMPT [FILE…]] [options]",
        description=f"{__doc__} Without a PROMPT: one of each category of the project's own.",
    )
    add = parser.add_argument
    add("texts", nargs="*", metavar="PROMPT | FILE", help="files and piped text go before the prompt")
    add(
        "--proposers",
        metavar="A,B",
        help=f"of {', '.join(_NAMES)} (default: all that can be used; off is always run)",
    )
    add("--k", type=whole(1, LONGEST_DRAFT), metavar="N", help="tokens to draft a pass (default: automatic)")
    add("--rounds", type=whole(1), default=3, metavar="N", help="default: 3")
    add("--tokens", type=whole(2), default=128, metavar="N", help="of each reply (default: 128)")
    add("--temp", type=float, default=0.0, metavar="T", help="temperature (default: 0, argmax)")
    add("--seed", type=whole(0), default=0, metavar="S", help="default: 0")
    add_model_options(parser)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="one JSON object, null for what was not measured")
    shown.add_argument("--markdown", action="store_true")
    shown.add_argument("--svg", type=Path, metavar="FILE", help="the table, and a picture in a new file")
    return parser


def _named(text: str | None) -> tuple[str, ...]:
    """The proposers that were asked for, each once; () where none were."""
    if text is None:
        return ()
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in _NAMES:
            raise UsageError(f"There is no proposer {name!r}: choose from {', '.join(_NAMES)}.")
    return names


def _asked(texts: Sequence[str]) -> dict[str, str]:
    """The prompts to compare on, by title."""
    documents = tuple(documents_of(texts[1:]))
    if not texts:
        if documents:
            raise UsageError("The piped text has no prompt: write one that says what to do with it.")
        return {each.category: each.prompt for each in spread(load_prompts(), 1)}
    if not texts[0].strip():
        raise UsageError("The prompt is empty: write one, or leave it out to take the project's own.")
    question = Question(texts[0], documents)
    return {title_of(question): question.content}


def _measured(
    options: Namespace,
    named: Sequence[str],
    request: Request,
    asked: Mapping[str, str],
    interrupted: Callable[[], bool],
) -> tuple[Report, ...]:
    settings = LoadSettings(
        name=options.name,
        draft=options.draft,
        context_length=options.context_length,
        bridge=options.bridge,
        exact=options.exact,
    )
    with Assembly(
        settings,
        stop=interrupted,
        agree=lambda question: options.yes or ask(question),
        say=lambda line: print(line, file=sys.stderr),
        progress=lambda share: not interrupted(),
    ) as assembly:
        prompts = {
            title: chat_tokens(assembly.target, text, options.template) for title, text in asked.items()
        }
        if not all(prompts.values()):
            raise SpecchatError("The chat template wrote nothing: choose another with --template.")
        usable = [kind.name for kind in PROPOSERS.values() if kind.model != "draft" or options.draft]
        names = tuple(dict.fromkeys((PLAIN, *(named or (*usable, "auto")))))
        # A proposer that was asked for by name must run; of the others the table says why they did not.
        required = named or (("draft",) if options.draft else ())
        needed = max(map(len, prompts.values())) + request.max_tokens
        comparer = Comparer(assembly, names, required, request, needed)
        if len(prompts) > 1:
            prompts = _fitting(prompts, comparer.capacity, request.max_tokens)
        expected = options.rounds * len(prompts) * len(comparer.names)
        runs = list(with_progress(comparer.runs(prompts, options.rounds), expected, "replies"))
        model = with_draft(assembly.name, assembly.proposers.draft_name)
        return reports(runs, names, comparer.problems, model, request)


def _fitting(
    prompts: Mapping[str, tuple[int, ...]], capacity: int, tokens: int
) -> dict[str, tuple[int, ...]]:
    """The prompts whose replies have room; the others are named on stderr."""
    fitting = {title: ids for title, ids in prompts.items() if len(ids) + tokens <= capacity}
    if not fitting:
        raise ContextError(
            f"None of the project's prompts leaves room for {tokens:,} tokens in a context of {capacity:,}: "
            "give fewer --tokens, or a prompt."
        )
    left_out = [title for title in prompts if title not in fitting]
    if left_out:
        print(f"Left out, as the context is too short: {', '.join(left_out)}.", file=sys.stderr)
    return fitting


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl+C was pressed, so that what was measured is still shown; the second one ends at once."""
    pressed = False

    def note(*_: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
