"""From settings to an engine: a loaded target, its proposers, and what was measured of both."""

from __future__ import annotations

import platform
from collections.abc import Callable

from app.assembly.attention import keep_habits
from app.assembly.loader import Loader
from app.assembly.machine import chosen_gpus
from app.assembly.proposers import Proposers
from app.assembly.threads import follow_threads
from app.config.values import LoadSettings
from app.engine.control import Controller
from app.engine.events import Finished
from app.engine.loop import Engine
from app.engine.saved_costs import costs_from_numbers, costs_to_numbers
from app.llama.devices import devices
from app.llama.model import Model
from app.llama.threads import Threads
from app.measurements import Measurements, measurements_file
from app.models.naming import name_of


class Assembly:
    """An open target with its proposers. Closes all that was opened."""

    def __init__(
        self,
        settings: LoadSettings,
        *,
        stop: Callable[[], bool],
        agree: Callable[[str], bool] = lambda question: False,
        say: Callable[[str], None] = lambda line: None,
        warn: Callable[[str], None] | None = None,
        progress: Callable[[float], bool] | None = None,
        died: str = "",
    ) -> None:
        """Load the target's weights.

        stop: asked between passes and during long ones. agree: puts a question about disk space. say: tells
        what is written there. warn: tells what memory is too short for; None for `say`. progress: takes the
        share that is loaded (0 to 1), False stops. died: how the process ended that loaded this model last,
        such as "was killed by SIGILL"; "" if none did. Raises SpecchatError where a file cannot be used.
        """
        self._measurements = Measurements(measurements_file())
        self.loader = Loader(
            settings,
            self._measurements,
            stop=stop,
            say=say,
            warn=warn or say,
            progress=progress,
            died=died,
        )
        self.proposers = Proposers(self.loader, self._measurements, agree, say)

    def __enter__(self) -> Assembly:
        return self

    def __exit__(self, *_: object) -> None:
        self.loader.stack.close()

    @property
    def target(self) -> Model:
        """The target's weights; others after `engine` where a GPU had no room for the context."""
        return self.loader.target

    @property
    def name(self) -> str:
        """The target as a person knows it."""
        return str(name_of(self.loader.header))

    @property
    def gpus(self) -> tuple[str, ...]:
        """What the GPUs that hold layers of the target call themselves; () where all are on the CPU."""
        placed = self.loader.placed
        if placed.gpu_layers == 0:
            return ()
        return tuple(device.description for device in chosen_gpus(devices(), placed.rpc))

    def engine(self, proposer: str, needed: int = 0) -> Engine:
        """An engine whose context holds `needed` tokens where the model and memory allow."""
        context = self.loader.make_context(needed)
        on_gpu = self.loader.placed.gpu_layers
        threads = follow_threads(context, f"{self.loader.digest} {on_gpu}", self._measurements)
        costs = costs_from_numbers(self._measurements.get(self._costs_name(context.threads)))
        engine = Engine(context, self.proposers.choose(proposer), Controller(costs))
        engine.threads = threads
        return engine

    def remember(self, engine: Engine, reply: Finished | None = None) -> None:
        """Keep what this engine learned, and what the reply says about habits, for later runs."""
        if reply is not None:
            keep_habits(self._measurements, reply)
        measured, threads = engine.controller.costs.measured, engine.target.threads
        # Costs measured with different numbers of threads are a mixture.
        if measured and (engine.threads is None or threads == engine.threads.first):
            self._measurements.put(self._costs_name(threads), costs_to_numbers(measured))
        for proposer in engine.sequence.proposers:
            self.proposers.keep(proposer)
        self._measurements.save()

    def _costs_name(self, threads: Threads) -> str:
        """All that the cost of a pass depends on, except its width and depth."""
        loader, context = self.loader, self.loader.context_settings
        parts = (
            *("costs", loader.digest, platform.node(), *threads, loader.placed.gpu_layers),
            *(context.flash_attention, context.cache_type, context.exact),
        )
        return " ".join(map(str, parts))
