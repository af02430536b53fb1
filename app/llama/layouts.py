"""Layouts of weights for this CPU, and a check of llama.cpp's AMX code, which does not work in every build.

llama.cpp copies weights into the layouts that its fastest kernels for this CPU read. It calls them extra
buffer types (CPU_REPACK, AMX) and uses the first one on its list that suits a tensor. Some compilers break
the AMX kernels (gcc 12 drops the stores of the tile configuration), and then the first pass over more than
one token kills the process. So where AMX is on the list, it is tried once, in a process of its own, and
removed from the list if it fails. The other layouts stay.
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
# Kernels round activations to 8 bits in different blocks; a broken kernel is off by far more.
_TOLERANCE = 0.05
# Remembered as the exit code of a process that survived but computed something else.
_WRONG_NUMBERS = -1000.0


def choose_layouts(layouts: Layouts) -> bool:
    """Set which layouts the next model may use; False if only the one in its file."""
    if layouts == "plain":
        return False
    listed = _listed()
    if listed is None:
        return True
    place, handles = listed
    without_amx = [handle for handle in handles if _name(handle) != AMX]
    kept = without_amx if layouts == "safe" and amx().fault else handles
    for index in range(len(handles)):
        place[index] = kept[index] if index < len(kept) else None
    return True


def layouts_in_use() -> frozenset[str]:
    """Names of the layouts that models use here, besides the ones in their files."""
    listed = _listed()
    names = frozenset(map(_name, listed[1])) if listed else frozenset()
    return names - {AMX} if amx().fault else names


class Amx(NamedTuple):
    """fault: what happens when llama.cpp uses AMX here, such as "was killed by SIGILL"; None if it works, or
    if this build or CPU has no AMX. new: whether this run found it out."""

    fault: str | None
    new: bool = False


@cache
def amx() -> Amx:
    """Whether AMX works here. Tried once for each build and CPU, in separate processes."""
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
    """The exit code to remember; None for a process that hung, as one may on a busy machine."""
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
    """llama.cpp's list of extra buffer types, and its original contents; None if a build hides it.

    The list is a static vector in ggml (ggml-cpu.cpp) that every load reads again, up to a null pointer.
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
    name = ggml("ggml_backend_buft_name", ctypes.c_char_p, ctypes.c_void_p)
    return (name(handle) or b"").decode() if name else ""
