"""Each proposer on the same prompt with the same seed, in turn, round after round: medians in a table."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from app.arguments import Parser, ask, whole
from app.assembly import Assembly, Setup, template_for
from app.bench.comparer import PLAIN, Case, Comparer, Terms, reports
from app.bench.progress import with_progress
from app.bench.prompts import load_prompts
from app.bench.sweep import spread
from app.chat.conversation import Question, title_of
from app.chat.export import write_new
from app.chat.gate import clean
from app.chat.message import Message
from app.chat.prompt import encode
from app.engine.control import LONGEST
from app.engine.settings import Sampling
from app.errors import ContextError, SpecchatError, UsageError
from app.llama.settings import ContextSettings
from app.models.naming import with_draft
from app.oneshot import documents_of
from app.process.report import Report
from app.process.report_svg import as_svg
from app.process.report_text import as_json, as_markdown, as_text
from proposers.registry import PROPOSERS


def main(arguments: Sequence[str]) -> int:
    """Print a table for each prompt and one of all, or the same as Markdown, JSON or a picture."""
    options = _parser().parse_intermixed_args(arguments)
    named = _named(options.proposers)
    terms = Terms(Sampling(temperature=options.temp), options.seed, options.tokens, options.k)
    asked = _asked(options.texts)
    picture = _picture(options.svg)
    with _interruptible() as interrupted:
        try:
            found = _measured(options, named, terms, asked, interrupted)
        except SpecchatError:
            if interrupted():
                return 130  # an interrupted load looks like one that failed
            raise
        if not found:
            print("Interrupted before each proposer had answered: nothing is measured.", file=sys.stderr)
            return 130
        _show(found, options)
        if picture is not None:
            print(f"Written: {clean(str(write_new(picture, as_svg(found[-1]))))}")
        return 130 if interrupted() else 0


def _parser() -> Parser:
    parser = Parser(
        prog="specchat bench compare",
        usage="specchat bench compare [PROMPT [FILE…]] [options]",
        description=f"{__doc__} Without a PROMPT: one of each category of the project's own.",
    )
    add = parser.add_argument
    add("texts", nargs="*", metavar="PROMPT | FILE", help="files and piped text go before the prompt")
    add("--model", metavar="M", help="path of a .gguf or a name of the catalogue (default: the bundled one)")
    add("--draft", metavar="D", help="a smaller model with the same vocabulary")
    add("--bridge", action="store_true", help="allow a draft with another vocabulary, by way of its text")
    add(
        "--proposers",
        metavar="A,B",
        help=f"of {', '.join(_names())} (default: all that can be; off is always run)",
    )
    add(
        "--k",
        type=whole(1, LONGEST),
        metavar="N",
        help="tokens to draft a pass (default: as the controller chooses)",
    )
    add("--rounds", type=whole(1), default=3, metavar="N", help="default: 3")
    add("--tokens", type=whole(2), default=128, metavar="N", help="of each reply (default: 128)")
    add("--temp", type=float, default=0.0, metavar="T", help="temperature (default: 0, argmax)")
    add("--seed", type=whole(0), default=0, metavar="S", help="default: 0")
    add(
        "--ctx",
        type=whole(2, 2**31 - 1),
        metavar="N",
        help="tokens of context (default: 8192, more if needed)",
    )
    add("--exact", action="store_true", help="the same greedy stream whatever is drafted, bit for bit (CPU)")
    add("--template", metavar="NAME", help="chat template: chatml, …, or a Jinja file")
    add("--yes", action="store_true", help="write a layer-skipped copy above 1 GB without asking")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="one JSON object, null for what was not measured")
    shown.add_argument("--markdown", action="store_true")
    shown.add_argument("--svg", type=Path, metavar="FILE", help="the table, and a picture in a new file")
    return parser


def _names() -> tuple[str, ...]:
    return (*PROPOSERS, "auto")


def _named(text: str | None) -> tuple[str, ...]:
    """The proposers that were asked for, each once; () where none were."""
    if text is None:
        return ()
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in _names():
            raise UsageError(f"There is no proposer {name!r}: choose from {', '.join(_names())}.")
    return names


def _asked(texts: Sequence[str]) -> list[tuple[str, str]]:
    """The prompts to compare on, each with its title."""
    documents = tuple(documents_of(texts[1:]))
    if not texts:
        if documents:
            raise UsageError("What was piped in has no prompt: write one that says what to do with it.")
        return [(each.category, each.prompt) for each in spread(load_prompts(), 1)]
    if not texts[0].strip():
        raise UsageError("The prompt is empty: write one, or leave it out to take the project's own.")
    question = Question(texts[0], documents)
    return [(title_of(question), question.content)]


def _picture(path: Path | None) -> Path | None:
    """Where the picture goes. Raises SpecchatError before minutes are spent on what cannot be written."""
    if path is not None and not path.expanduser().absolute().parent.is_dir():
        raise SpecchatError(f"There is no folder {path.parent} for the picture: make it first.")
    return path


def _measured(
    options: Namespace,
    named: Sequence[str],
    terms: Terms,
    asked: Sequence[tuple[str, str]],
    interrupted: Callable[[], bool],
) -> tuple[Report, ...]:
    setup = Setup(
        model=options.model,
        draft=options.draft,
        context_length=options.ctx,
        context_settings=ContextSettings(exact=options.exact),
        bridge=options.bridge,
    )
    with Assembly(
        setup,
        stop=interrupted,
        agree=lambda question: options.yes or ask(question),
        say=lambda line: print(line, file=sys.stderr),
        progress=lambda share: not interrupted(),
    ) as assembly:
        target = assembly.target
        template = template_for(target, options.template)
        cases = [
            Case(title, tuple(encode([Message("user", prompt)], template, target))) for title, prompt in asked
        ]
        if not all(case.tokens for case in cases):
            raise SpecchatError("The chat template wrote nothing: choose another with --template.")
        needed = max(len(case.tokens) for case in cases) + terms.tokens
        able = [kind.name for kind in PROPOSERS.values() if kind.model != "draft" or options.draft]
        names = tuple(dict.fromkeys((PLAIN, *(named or (*able, "auto")))))
        # What was asked for by its name must run; of the others the table says why they did not.
        required = named or (("draft",) if options.draft else ())
        comparer = Comparer(assembly, names, required, terms, needed)
        if len(cases) > 1:
            cases = _fitting(cases, comparer.capacity, terms.tokens)
        expected = options.rounds * len(cases) * len(comparer.names)
        runs = list(with_progress(comparer.runs(cases, options.rounds), expected, "replies"))
        titles = [case.title for case in cases]
        model = with_draft(assembly.name, assembly.draft_name)
        return reports(runs, titles, names, comparer.problems, model, terms)


def _fitting(cases: Sequence[Case], capacity: int, tokens: int) -> list[Case]:
    """The cases whose replies have room; the others are named on stderr."""
    fitting = [case for case in cases if len(case.tokens) + tokens <= capacity]
    if not fitting:
        raise ContextError(
            f"None of the project's prompts leaves room for {tokens:,} tokens in a context of {capacity:,}: "
            "give fewer --tokens, or a prompt."
        )
    left_out = [case.title for case in cases if case not in fitting]
    if left_out:
        print(f"Left out, as the context is too short: {', '.join(left_out)}.", file=sys.stderr)
    return fitting


def _show(found: Sequence[Report], options: Namespace) -> None:
    """Print the reports; the last is the one of them all."""
    if options.json:
        print(as_json(found[-1], found[:-1]), end="")
    else:
        print("\n".join(map(as_markdown if options.markdown else as_text, found)), end="")


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl+C as something to ask for, so that what was measured is still shown; the second one leaves."""
    wanted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal wanted
        wanted = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: wanted
    finally:
        signal.signal(signal.SIGINT, before)
