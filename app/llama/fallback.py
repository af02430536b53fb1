"""Settings to fall back on when llama.cpp kills its process while it loads a model.

A build for another CPU, a broken driver or a faulty kernel ends the process without a word. Each feature that
is known to do so is left out in turn, in a separate process, and finally all of them. The first attempt that
survives is remembered for this model, build and CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from app.llama.build import build_and_cpu
from app.llama.settings import ContextSettings, ModelSettings
from app.llama.trial import try_model
from app.measurements import Measurements, measurements_file


class Fallback(NamedTuple):
    """Settings that leave something out. without: what, in words; "" for nothing."""

    without: str
    model: ModelSettings
    context: ContextSettings


def fallbacks(model: ModelSettings, context: ContextSettings) -> tuple[Fallback, ...]:
    """The settings as they are, then what is tried instead, in that order."""
    layouts = replace(model, layouts="plain")
    on_cpu = replace(model, gpu_layers=0, rpc=())
    without_flash = replace(context, flash_attention="off")
    return (
        Fallback("", model, context),
        Fallback("layouts of weights for this CPU", layouts, context),
        Fallback("flash attention", model, without_flash),
        Fallback("the GPU", on_cpu, context),
        Fallback("any optimisation", replace(on_cpu, layouts="plain"), without_flash),
    )


def remembered_fallback(identity: str, model: ModelSettings, context: ContextSettings) -> Fallback:
    """What this model is loaded with since it killed its process; the settings themselves if it never did.

    identity: of the model's file.
    """
    choices = fallbacks(model, context)
    known = Measurements(measurements_file()).get(_name(identity))
    index = int(known[0]) if known else 0
    return choices[index] if 0 <= index < len(choices) else choices[0]


def find_fallback(
    path: Path,
    identity: str,
    model: ModelSettings,
    context: ContextSettings,
    say: Callable[[str], None],
) -> Fallback | None:
    """Try the settings until a process survives, and remember what it left out. None if none does."""
    for index, choice in enumerate(fallbacks(model, context)):
        if index and (choice.model, choice.context) == (model, context):
            continue
        say(f"a trial without {choice.without}" if index else "a trial in a separate process")
        if try_model(path, choice.model, choice.context).status == 0:
            measurements = Measurements(measurements_file())
            measurements.put(_name(identity), (float(index),))
            measurements.save()
            return choice
    return None


def _name(identity: str) -> str:
    return f"fallback {build_and_cpu()} {identity}"
