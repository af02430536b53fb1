"""`specchat doctor`: what works on this machine, what does not, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from app.arguments import Parser
from app.commands.table import paint_for, width_of
from app.doctor.checks import run_checks
from app.doctor.report import Check, as_json, is_ok, lines_of, summary_of
from app.errors import SpecchatError


def main(arguments: Sequence[str]) -> int:
    """Print the report; the exit code is 3 where something is at fault."""
    parser = Parser(
        prog="specchat doctor",
        description="Check this machine: Python, llama.cpp and its devices, the model, the terminal, folders "
        "and files. Nothing is sent anywhere and nothing is changed.",
        epilog="With a fault you cannot chat (exit code 3); a warning only costs something.",
    )
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a model to try, by name or path, with what a rewind costs in it (default: the bundled one)",
    )
    parser.add_argument("--quick", action="store_true", help="load no model")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    options = parser.parse_args(arguments)
    columns, colour = width_of(sys.stdout), paint_for(sys.stdout).on
    checks: list[Check] = []
    for check in run_checks(options.quick, options.model):
        checks.append(check)
        if not options.json:
            # Each at once: some take seconds.
            print("\n".join(lines_of(check, columns, colour)), flush=True)
    print(as_json(checks) if options.json else f"\n{summary_of(checks)}")
    return 0 if is_ok(checks) else SpecchatError.exit_code
