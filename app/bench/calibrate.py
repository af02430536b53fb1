"""`specchat calibrate`: what a pass of each width costs on this machine, as a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from app.arguments import Parser, whole
from app.assembly import Assembly, Setup
from app.engine.control import Controller
from app.errors import SpecchatError
from app.knowledge import Knowledge, knowledge_file

_COLUMNS = 40
_SECONDS = 2.0


def picture(costs: Mapping[int, float]) -> str:
    """A bar a width: milliseconds, and times a plain pass."""
    most = max(costs.values())
    lines = [f"{'width':>5}{'ms':>9}{'× plain':>9}"]
    for width, seconds in sorted(costs.items()):
        bar = "█" * max(1, round(_COLUMNS * seconds / most))
        lines.append(f"{width:>5}{seconds * 1e3:>9.2f}{seconds / costs[1]:>9.2f}  {bar}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Measure, keep what was measured, and print it; or with --forget remove all that was learned."""
    parser = Parser(prog="specchat calibrate", description=__doc__)
    parser.add_argument(
        "model", nargs="?", help="a .gguf or a name of the catalogue (default: the bundled one)"
    )
    parser.add_argument("--context", type=whole(1), default=512, help="tokens before the pass (default: 512)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--forget", action="store_true", help="remove what was learned of every model")
    options = parser.parse_args(arguments)
    if options.forget:
        return _forget()
    with Assembly(Setup(model=options.model), stop=lambda: False) as assembly:
        engine = assembly.engine("off", options.context + 64)
        engine.controller = Controller()
        token = max(assembly.target.bos, 0)
        room = engine.target.capacity
        if options.context >= room:
            raise SpecchatError(f"The context holds {room:,} tokens: give a smaller --context.")
        engine.target.forward([token] * options.context, rows=0)
        costs = engine.calibrate([token], _SECONDS).seconds
        assembly.remember(engine)
    print(json.dumps(costs) if options.json else picture(costs))
    return 0


def _forget() -> int:
    path = knowledge_file()
    try:
        Knowledge(path).forget()
    except OSError as error:
        raise SpecchatError(f"{path} cannot be removed: {error.strerror}.") from error
    print("What was learned is forgotten: costs and acceptance are measured anew.")
    return 0
