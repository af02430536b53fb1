"""Which models there are, asked in the engine's process while it may be answering."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from app.assembly.machine import cpu_copies, machine_memory
from app.errors import told
from app.models.fit import Memory
from app.models.listing import look
from app.models.locate import bundled_model
from app.process.messages import Failed, FindModels, Models


def find_models(
    command: FindModels, memory: Memory | None, deliver: Callable[[Models | Failed], None]
) -> None:
    """Look for models in a thread, as headers that were never read take seconds, and tell what there is.

    memory: what was free before the loaded model took its share; None for what is free now.
    """

    def find() -> None:
        try:
            listing = look(
                [Path(folder) for folder in command.folders],
                memory or machine_memory(),
                bundled=bundled_model(),
                copies=cpu_copies(),
            )
        except Exception as error:
            # In a thread it would reach nobody, and the list would be waited for for ever.
            deliver(Failed(command.identity, told(error)))
        else:
            deliver(Models(listing, command.identity))

    threading.Thread(target=find, name="models", daemon=True).start()
