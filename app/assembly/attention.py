"""Flash attention on a CPU: chosen by what it costs here, and by how much a person reads and writes.

With it llama.cpp reads somewhat faster on a CPU. But its kernel takes as long for each further token of a
pass as for the first, so passes after a long document take several times as long. Which matters more depends
on the CPU, on the model's heads, and on what is done with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from app.engine.events import Finished
from app.errors import SpecchatError
from app.llama.attention import DRAFTED, READING, AttentionHeads, AttentionTiming, measure_attention
from app.llama.build import build_and_cpu
from app.llama.settings import ContextSettings, FlashAttention
from app.llama.threads import performance_cores
from app.measurements import Measurements
from app.models.gguf import Header
from app.models.gguf_source import Array

_NOT_QUANTISED = ("f32", "f16", "bf16")
# The share of the sums that stays after each reply: the last ten or so decide.
_KEPT = 0.9
_HABITS = "habits"
# A measurement is wrong where a pass is so much slower than one at a greater depth.
_DISTURBED = 2.0


class Habits(NamedTuple):
    """Sums over a person's replies; older ones fade.

    read: prompt tokens that were not cached. drafted: tokens. read_depth: the number of tokens before each
    token read, summed; pass_depth: the same for passes.
    """

    read: float
    read_depth: float
    passes: float
    drafted: float
    pass_depth: float

    def after(self, reply: Finished) -> Habits:
        """With one more reply."""
        read = reply.prompt_tokens - reply.cached_tokens
        before = reply.cached_tokens + read / 2
        behind = reply.prompt_tokens + len(reply.token_ids) / 2
        sums = (read, read * before, reply.passes, reply.drafted, reply.passes * behind)
        return Habits(*(_KEPT * old + new for old, new in zip(self, sums, strict=True)))


# Before anything is known: three times 600 tokens read and then 200 written, in 150 passes.
AT_FIRST = Habits(1800, 1800 * 300, 450, 450, 450 * 700)


def faster(points: Sequence[AttentionTiming], habits: Habits) -> Literal["on", "off"]:
    """Whether flash attention takes less time for this."""
    return "off" if expected_seconds(points, False, habits) < expected_seconds(points, True, habits) else "on"


def expected_seconds(points: Sequence[AttentionTiming], flash: bool, habits: Habits) -> float:
    """Seconds that attention takes for all that these habits sum up. Each drafted token adds the same to a
    pass; for depths see `_at`."""
    read, read_depth, passes, drafted, pass_depth = habits
    reading = read / READING * _at(points, flash, READING, read_depth / max(read, 1.0))
    depth = pass_depth / max(passes, 1.0)
    plain, wide = (_at(points, flash, width, depth) for width in (1, DRAFTED))
    return reading + passes * plain + drafted * (wide - plain) / (DRAFTED - 1)


def _at(points: Sequence[AttentionTiming], flash: bool, width: int, depth: float) -> float:
    """Seconds of a pass at any depth. Each token before it adds the same, so this is linear between the
    measured depths and beyond them."""
    line = sorted((each.depth, each.seconds) for each in points if (each.flash, each.width) == (flash, width))
    index = max(1, min(sum(at < depth for at, _ in line), len(line) - 1))
    (low, first), (high, second) = line[index - 1 : index + 1]
    return max(0.0, first + (second - first) / (high - low) * (depth - low))


def flash_attention_here(
    header: Header, settings: ContextSettings, measurements: Measurements
) -> FlashAttention:
    """The setting, with "auto" replaced by what is faster on this CPU, for a model that is all on it.
    Measured once for each shape of attention, and again where something disturbed that.

    "auto" stays, which is llama.cpp's own choice, where the cache is quantised (which needs flash attention),
    in exact mode (where a reply may not depend on a measurement), and for heads that cannot be measured.
    """
    if settings.flash_attention != "auto" or settings.exact or settings.cache_type not in _NOT_QUANTISED:
        return settings.flash_attention
    heads = heads_of(header)
    if heads is None:
        return "auto"
    name = name_of(heads, settings)
    points = points_of(measurements.get(name))
    if not points or disturbed(points):
        try:
            points = measure_attention(heads, settings, header.context_length or 0)
        except (SpecchatError, OSError):
            # Without memory or disk for a measurement the model is loaded all the same.
            return "auto"
        measurements.put(name, costs_to_numbers(points))
        measurements.save()
    return faster(points, habits_of(measurements))


def disturbed(points: Sequence[AttentionTiming]) -> bool:
    """Whether something else ran during the measurement: a pass took far longer than a deeper one."""
    by_depth = sorted(points, key=lambda each: each.depth)
    return any(
        (one.flash, one.width) == (other.flash, other.width) and one.seconds > _DISTURBED * other.seconds
        for one, other in combinations(by_depth, 2)
    )


def name_of(heads: AttentionHeads, settings: ContextSettings) -> str:
    """The name of its measurements: all that they depend on."""
    threads = settings.threads or performance_cores()
    return " ".join(map(str, ("attention", build_and_cpu(), *heads, settings.cache_type, threads)))


def costs_to_numbers(points: Sequence[AttentionTiming]) -> tuple[float, ...]:
    """Measurements as they are kept."""
    return tuple(float(number) for point in points for number in point)


def points_of(numbers: Sequence[float]) -> tuple[AttentionTiming, ...]:
    """The measurements in these numbers; () where they are not of the kind that is made now."""
    fours = zip(*(iter(numbers),) * 4, strict=False)
    points = tuple(
        AttentionTiming(bool(flash), int(width), depth, seconds) for flash, width, depth, seconds in fours
    )
    known = all(
        len({each.depth for each in points if (each.flash, each.width) == (flash, width)}) > 1
        for flash in (True, False)
        for width in (1, DRAFTED, READING)
    )
    return points if known else ()


def heads_of(header: Header) -> AttentionHeads | None:
    """The model's attention heads; None where there are none, or they cannot be measured (latent attention,
    keys and values of different lengths). Where layers differ, the widest counts."""
    queries = _most(header, "attention.head_count")
    cached = _most(header, "attention.head_count_kv") or queries
    if not queries or not cached or queries % cached or header.count("attention.key_length_mla"):
        return None
    length = header.count("attention.key_length") or (header.count("embedding_length") or 0) // queries
    if length != (header.count("attention.value_length") or length) or length < 2 or length % 2:
        return None
    return AttentionHeads(queries, cached, length) if queries * length % 32 == 0 else None


def _most(header: Header, key: str) -> int:
    """The number at `key`; of a list with one for each layer, the largest."""
    name = f"{header.architecture}.{key}"
    if isinstance(header.metadata.get(name), Array):
        return max(map(int, header.array(name)), default=0)
    return header.count(key) or 0


def habits_of(measurements: Measurements) -> Habits:
    """How this person uses the model."""
    sums = measurements.get(_HABITS)
    return Habits(*sums) if len(sums) == len(AT_FIRST) and min(sums) >= 0 else AT_FIRST


def keep_habits(measurements: Measurements, reply: Finished) -> None:
    """Add a reply to them; one that was stopped before its first pass says nothing."""
    if reply.passes:
        measurements.put(_HABITS, habits_of(measurements).after(reply))
