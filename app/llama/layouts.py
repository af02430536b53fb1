"""How weights are laid out for this CPU, and what is done where llama.cpp's code for AMX does not work.

llama.cpp copies weights into layouts that its fastest kernels for this CPU read; it calls them extra
buffer types (CPU_REPACK, AMX) and takes the first of its list that suits a tensor. Some compilers break
the kernels for AMX (gcc 12 drops the stores of the tile configuration): the first pass over more than one
token then kills the process. So where AMX is on the list it is tried once, in a process of its own, and
taken off the list if it fails. The other layouts stay.
"""

from __future__ import annotations

import ctypes
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from app.children import how_it_ended
from app.llama.build import build_and_cpu
from app.llama.devices import cpu_device_function, ggml
from app.llama.probe_model import write_probe_model
from app.llama.settings import Layouts, ModelSettings
from app.llama.trial import Trial, try_model
from app.measurements import Measurements, measurements_file

AMX = "AMX"
_TRIED: tuple[Layouts, Layouts] = ("all", "plain")
# Kernels round activations to 8 bits in blocks of their own; a broken one is off by far more.
_TOLERANCE = 0.05
# Remembered as the exit code of a process that lived and computed something else.
_WRONG_NUMBERS = -1000.0


def choose_layouts(layouts: Layouts) -> bool:
    """Set which layouts the next model may be held in; False if only its file's own."""
    if layouts == "plain":
        return False
    listed = _listed()
    if listed is None:
        return True
    place, handles = listed
    without_amx = [handle for handle in handles if _name(handle) != AMX]
    kept = without_amx if layouts == "sound" and amx().fault else handles
    for index in range(len(handles)):
        place[index] = kept[index] if index < len(kept) else None
    return True


def layouts_in_use() -> frozenset[str]:
    """Names of the layouts that models are held in here, beside their files' own."""
    listed = _listed()
    names = frozenset(map(_name, listed[1])) if listed else frozenset()
    return names - {AMX} if amx().fault else names


class Amx(NamedTuple):
    """fault: what happens when llama.cpp uses AMX here, such as "was killed by SIGILL"; None where it works,
    and where this build or this CPU has none. new: whether that was found out in this run."""

    fault: str | None
    new: bool = False


@cache
def amx() -> Amx:
    """How AMX does here. It is tried once for each build and CPU, in processes of their own."""
    listed = _listed()
    if listed is None or AMX not in map(_name, listed[1]):
        return Amx(None)
    measurements, name = Measurements(measurements_file()), f"amx {build_and_cpu()}"
    remembered = measurements.get(name)
    if remembered:
        return Amx(_fault(remembered[0]))
    with tempfile.TemporaryDirectory() as folder:
        path = write_probe_model(Path(folder) / "probe.gguf")
        outcome = _outcome(*(try_model(path, ModelSettings(0, layouts=kind)) for kind in _TRIED))
    if outcome is None:
        return Amx("did not answer", new=True)
    measurements.put(name, (outcome,))
    measurements.save()
    return Amx(_fault(outcome), new=True)


def _outcome(with_amx: Trial, without: Trial) -> float | None:
    """The exit code to remember; None for a process that hung, as it may on a busy machine."""
    if with_amx.status is None:
        return None
    same = with_amx.status or np.allclose(with_amx.logits, without.logits, atol=_TOLERANCE)
    return float(with_amx.status) if same else _WRONG_NUMBERS


def _fault(outcome: float) -> str | None:
    if outcome == _WRONG_NUMBERS:
        return "computes wrong numbers"
    return how_it_ended(int(outcome)) if outcome else None


@cache
def _listed() -> tuple[Any, tuple[int, ...]] | None:
    """llama.cpp's list of extra buffer types, and what it held at first; None where a build hides it.

    The list is a static vector of ggml's (ggml-cpu.cpp) that every load reads anew, up to a null pointer.
    """
    found = cpu_device_function("ggml_backend_dev_get_extra_bufts")
    if found is None:
        return None
    device, address = found
    get = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)(address)
    place = get(device)
    handles: list[int] = []
    while place and (handle := place[len(handles)]):
        handles.append(handle)
    return place, tuple(handles)


def _name(handle: int) -> str:
    name = ggml("ggml_backend_buft_name")
    if name is None:
        return ""
    name.argtypes, name.restype = [ctypes.c_void_p], ctypes.c_char_p
    return (name(handle) or b"").decode()
