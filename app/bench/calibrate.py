"""`specchat calibrate`: what a pass of each width costs on this machine, as a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from app.arguments import Parser, whole
from app.bench.workbench import open_assembly
from app.config.values import LoadSettings
from app.engine.control import Controller
from app.errors import SpecchatError
from app.measurements import Measurements, measurements_file

_COLUMNS = 40
_SECONDS = 2.0


def picture(costs: Mapping[int, float]) -> str:
    """A bar for each width, with milliseconds and how many plain passes that is."""
    most = max(costs.values())
    lines = [f"{'width':>5}{'ms':>9}{'× plain':>9}"]
    for width, seconds in sorted(costs.items()):
        bar = "█" * max(1, round(_COLUMNS * seconds / most))
        lines.append(f"{width:>5}{seconds * 1e3:>9.2f}{seconds / costs[1]:>9.2f}  {bar}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Measure, save and print the costs; or with --forget remove all that was learned."""
    parser = Parser(prog="specchat calibrate", description=__doc__)
    add = parser.add_argument
    add("model", nargs="?", help="a .gguf or a name of the catalogue (default: the bundled one)")
    add("--context", type=whole(1), default=512, help="tokens before the pass (default: 512)")
    add("--json", action="store_true", help="print seconds by width as a JSON object")
    add("--forget", action="store_true", help="remove what was learned of every model")
    options = parser.parse_args(arguments)
    if options.forget:
        return _forget()
    with open_assembly(LoadSettings(name=options.model)) as assembly:
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
    path = measurements_file()
    try:
        Measurements(path).forget()
    except OSError as error:
        raise SpecchatError(f"{path} cannot be removed: {error.strerror}.") from error
    print("Removed. Costs and acceptance are measured again.")
    return 0
