"""Whether a model fits into memory, and which context and GPU layers to use where none were set."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.models.estimate import NO_COPIES, Copies, Parts, parts, snapshots_worth
from app.models.gguf import Header
from app.models.shape import Shape

# Context of a chat when none is set, if the model was trained for as much, and the least worth having.
DEFAULT_CONTEXT = 8192
SMALLEST_CONTEXT = 512
_STEP = 256
# Left free, because an estimate is one and the system needs room: a share, and at least so many bytes
# (more on a GPU, whose drivers and kernels take buffers of their own).
_MARGIN = 0.05
_LEAST_SYSTEM, _LEAST_GPU = 200_000_000, 500_000_000
_WINDOW_NOTE = (
    "Layers with a sliding window keep no more than they see, as memory is short: "
    "after an edit far back the chat is read again."
)
_WIDE_TYPES = ("f32", "f16", "bf16")


@dataclass(frozen=True, slots=True)
class Memory:
    """Free bytes. gpus: of each GPU that layers can be placed on. shared: they use the system's memory."""

    system: int
    gpus: tuple[int, ...] = ()
    shared: bool = False

    @property
    def system_usable(self) -> int:
        return self.system - max(_LEAST_SYSTEM, int(self.system * _MARGIN))

    @property
    def gpu_usable(self) -> int:
        return sum(max(0, free - max(_LEAST_GPU, int(free * _MARGIN))) for free in self.gpus)


@dataclass(frozen=True, slots=True)
class Fit:
    """What to use. gpu_layers: -1 for all, also where there is no GPU.

    needed: bytes of the system's memory as if all ran on the CPU; gpu: of the GPUs' memory. whole_window:
    layers with a sliding window keep all rows. problem: a sentence, where memory will be short all the
    same. context_note, layers_note, window_note: a sentence, where less was chosen than could be.
    """

    context_length: int
    gpu_layers: int
    needed: int
    gpu: int = 0
    whole_window: bool = True
    problem: str | None = None
    context_note: str | None = None
    layers_note: str | None = None
    window_note: str | None = None


@dataclass(frozen=True, slots=True)
class _Need:
    """Bytes of the system's memory and of the GPUs' together."""

    system: int
    gpu: int

    def fits(self, memory: Memory) -> bool:
        whole = self.system + (self.gpu if memory.shared else 0)
        return whole <= memory.system_usable and self.gpu <= memory.gpu_usable

    def short(self, memory: Memory) -> tuple[str, str]:
        """What is needed and what is free, of the memory that is short."""
        if self.gpu > memory.gpu_usable:
            return f"{_size(self.gpu)} of the GPU", _size(sum(memory.gpus))
        return _size(self.system + (self.gpu if memory.shared else 0)), _size(memory.system)


def fit(
    header: Header,
    memory: Memory,
    context_length: int | None = None,
    gpu_layers: int = -1,
    cache_type: str = "f16",
    *,
    needed: int = 0,
    beside: Sequence[Header] = (),
    flash_attention: bool = True,
    copies: Copies = NO_COPIES,
    whole_window: bool | None = None,
) -> Fit:
    """Choose what is None (context_length, whole_window) or -1 (gpu_layers); say where what is set does not
    fit.

    needed: tokens that the context should hold, where the model was trained for so many. beside: models
    that are loaded with it, such as a draft, each with a context as long. whole_window: layers with a sliding
    window keep all rows, which is chosen unless memory is short.
    """
    headers = (header, *beside)
    wanted = context_length or max(DEFAULT_CONTEXT, needed)
    if context_length is None and header.context_length:
        wanted = min(header.context_length, wanted)

    def fitted(whole: bool) -> Fit:
        def pieces(length: int) -> list[Parts]:
            return [
                parts(
                    each,
                    length,
                    cache_type,
                    flash_attention=flash_attention,
                    copies=copies,
                    whole_window=whole or each is not header,
                    snapshots=snapshots_worth(each) if each is header else 0,
                )
                for each in headers
            ]

        chosen = _choose(pieces, memory, wanted, context_length is not None, gpu_layers, cache_type)
        return replace(chosen, whole_window=whole)

    chosen = fitted(whole_window is not False)
    is_short = any((chosen.problem, chosen.context_note, chosen.layers_note))
    if whole_window is None and is_short and Shape(header).window:
        short = fitted(False)
        if _room(short) > _room(chosen):
            return replace(short, window_note=_WINDOW_NOTE)
    return chosen


def _room(chosen: Fit) -> tuple[bool, int, float]:
    """Whether it fits into memory, with how much context, and how many layers on a GPU."""
    layers = math.inf if chosen.gpu_layers < 0 else chosen.gpu_layers
    return chosen.problem is None, chosen.context_length, layers


def _choose(
    pieces: Callable[[int], list[Parts]],
    memory: Memory,
    wanted: int,
    fixed: bool,
    gpu_layers: int,
    cache_type: str,
) -> Fit:
    """The context and the layers on a GPU. pieces: of all models, by the length of the context. fixed: the
    length `wanted` was asked for."""

    def need(length: int, count: int) -> _Need:
        each = [_need(held, count) for held in pieces(length)]
        return _Need(sum(one.system for one in each), sum(one.gpu for one in each))

    least = min(SMALLEST_CONTEXT, wanted)
    every = len(pieces(least)[0].layers) + 1
    layers = 0 if not memory.gpus else every if gpu_layers < 0 else min(gpu_layers, every)
    if memory.gpus and gpu_layers < 0:
        layers = _most(lambda count: need(wanted, count).gpu <= memory.gpu_usable, every)
    longest = wanted
    if not need(wanted, layers).fits(memory):
        steps = _most(lambda step: need(least + step * _STEP, layers).fits(memory), (wanted - least) // _STEP)
        longest = least + steps * _STEP
    length = wanted if fixed else longest
    problem = context_note = layers_note = None
    if not need(length, layers).fits(memory):
        shorter = longest if longest < length and need(longest, layers).fits(memory) else None
        problem = _problem(need(length, layers), memory, cache_type, shorter)
    elif length < wanted:
        size, free = need(wanted, layers).short(memory)
        context_note = f"The context is {length:,} tokens: {wanted:,} need about {size} and {free} are free"
        context_note += "; --kv-type q8_0 halves the cache." if cache_type in _WIDE_TYPES else "."
    whole = layers == every or not memory.gpus
    if not whole and gpu_layers < 0:
        size, free = _size(need(wanted, every).gpu), _size(sum(memory.gpus))
        layers_note = (
            f"{layers} of {every} layers go on the GPU: all need about {size} and {free} are free there."
        )
    return Fit(
        context_length=length,
        gpu_layers=gpu_layers if gpu_layers >= 0 or whole else layers,
        needed=need(length, 0).system,
        gpu=need(length, layers).gpu,
        problem=problem,
        context_note=context_note,
        layers_note=layers_note,
    )


def _need(held: Parts, count: int) -> _Need:
    """Where a model's bytes lie with `count` layers on the GPUs. The output counts as the last layer."""
    first = len(held.layers) - max(0, min(count - 1, len(held.layers)))
    gpu = sum(held.layers[first:]) + sum(held.cache[first:])
    system = sum(held.layers[:first]) + sum(held.cache[:first]) + held.table + held.rest + held.rows
    if count:
        gpu += (held.head or held.table) + held.products
    else:
        system += held.head or held.table_copy
    if first:
        system += held.products
    return _Need(system, gpu)


def _problem(need: _Need, memory: Memory, cache_type: str, shorter: int | None) -> str:
    size, free = need.short(memory)
    advice = ["a smaller quantisation"]
    if need.gpu > memory.gpu_usable:
        advice.append("fewer --gpu-layers")
    if cache_type in _WIDE_TYPES:
        advice.append("--kv-type q8_0")
    if shorter is not None:
        advice.append(f"--ctx {shorter}")
    choices = ", ".join(advice[:-1]) + (" or " if len(advice) > 1 else "") + advice[-1]
    return f"The model needs about {size} and {free} are free: choose {choices}."


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB"


def _most(holds: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` that `holds`, where smaller ones hold as well; 0 where none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
