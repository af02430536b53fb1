"""What is left out where llama.cpp kills its process as it loads a model.

A build for another CPU, a broken driver or a faulty kernel ends the process without a word. Each thing that
is known to do so is left out apart, in processes of their own, then all of them; the first that lives is
remembered for this model, build and CPU.
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


class Plainer(NamedTuple):
    """Settings that leave something out. without: what, in words; "" for nothing."""

    without: str
    model: ModelSettings
    context: ContextSettings


def plainer_settings(model: ModelSettings, context: ContextSettings) -> tuple[Plainer, ...]:
    """The settings as they are, then what is tried instead, in its order."""
    layouts = replace(model, layouts="plain")
    on_cpu = replace(model, gpu_layers=0, rpc=())
    without_flash = replace(context, flash_attention="off")
    return (
        Plainer("", model, context),
        Plainer("layouts of weights for this CPU", layouts, context),
        Plainer("flash attention", model, without_flash),
        Plainer("the GPU", on_cpu, context),
        Plainer("all that makes it faster", replace(on_cpu, layouts="plain"), without_flash),
    )


def remembered(identity: str, model: ModelSettings, context: ContextSettings) -> Plainer:
    """What a model is loaded with here since it killed its process; the settings themselves if it never did.

    identity: of the model's file.
    """
    choices = plainer_settings(model, context)
    known = Measurements(measurements_file()).get(_name(identity))
    index = int(known[0]) if known else 0
    return choices[index] if 0 <= index < len(choices) else choices[0]


def find_what_lives(
    path: Path,
    identity: str,
    model: ModelSettings,
    context: ContextSettings,
    say: Callable[[str], None],
) -> Plainer | None:
    """Try the settings until a process lives, and remember what it left out. None where none does."""
    for index, choice in enumerate(plainer_settings(model, context)):
        if index and (choice.model, choice.context) == (model, context):
            continue
        say(f"a trial without {choice.without}" if index else "a trial in a process of its own")
        if try_model(path, choice.model, choice.context).status == 0:
            measurements = Measurements(measurements_file())
            measurements.put(_name(identity), (float(index),))
            measurements.save()
            return choice
    return None


def _name(identity: str) -> str:
    return f"plainer {build_and_cpu()} {identity}"
