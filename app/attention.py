"""Flash attention on a CPU: chosen by what it costs here, and by how much a person reads and writes.

With it llama.cpp reads somewhat faster on a CPU. But its kernel takes as long for each further token of a
pass as for the first, so passes behind a document take several times as long. What weighs more depends on
the CPU, on the model's heads, and on what is done with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from app.engine.events import Finished
from app.errors import SpecchatError
from app.knowledge import Knowledge
from app.llama.attention import DRAFTED, READING, AttentionHeads, AttentionTiming, measure_attention
from app.llama.build import build_and_cpu
from app.llama.settings import ContextSettings, FlashAttention
from app.llama.threads import performance_cores
from app.models.gguf import Array, Header

_NOT_QUANTISED = ("f32", "f16", "bf16")
# What a reply leaves of the sums before it: the last ten or so decide.
_KEPT = 0.9
_HABITS = "habits"
# Attention only ever takes longer the deeper it stands.
_DISTURBED = 2.0


class Habits(NamedTuple):
    """Sums over a person's replies, older ones fading.

    read: tokens of prompts that were not cached; passes; drafted: tokens. read_depth: for each token read,
    the tokens before it, summed; pass_depth: the same of passes.
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


# Before anything is known: three times 600 tokens that are read and 200 written behind them, in 150 passes.
AT_FIRST = Habits(1800, 1800 * 300, 450, 450, 450 * 700)


def faster(points: Sequence[AttentionTiming], habits: Habits) -> Literal["on", "off"]:
    """Whether this is done sooner with flash attention or without, as far as they differ."""
    return "off" if expected_seconds(points, False, habits) < expected_seconds(points, True, habits) else "on"


def expected_seconds(points: Sequence[AttentionTiming], flash: bool, habits: Habits) -> float:
    """What attention takes of all that these habits add up to. Each drafted token makes a pass longer by the
    same; see `_at` for depths."""
    read, read_depth, passes, drafted, pass_depth = habits
    reading = read / READING * _at(points, flash, READING, read_depth / max(read, 1.0))
    depth = pass_depth / max(passes, 1.0)
    plain, wide = (_at(points, flash, width, depth) for width in (1, DRAFTED))
    return reading + passes * plain + drafted * (wide - plain) / (DRAFTED - 1)


def _at(points: Sequence[AttentionTiming], flash: bool, width: int, depth: float) -> float:
    """Seconds of a pass at any depth: attention grows by the same for each token before it, so it is linear
    between the depths that were measured, and goes on so beyond them."""
    line = sorted((each.depth, each.seconds) for each in points if (each.flash, each.width) == (flash, width))
    index = max(1, min(sum(at < depth for at, _ in line), len(line) - 1))
    (low, first), (high, second) = line[index - 1 : index + 1]
    return max(0.0, first + (second - first) / (high - low) * (depth - low))


def flash_attention_here(header: Header, settings: ContextSettings, knowledge: Knowledge) -> FlashAttention:
    """The setting, or in the place of "auto" what is faster on this CPU, for a model all of whose layers are
    there. Measured once for each shape of attention, and remembered; again where that was disturbed.

    It stays with llama.cpp's own choice where the cache is quantised (which needs flash attention), in exact
    mode (where a reply may not depend on a measurement), and for heads that cannot be measured.
    """
    if settings.flash_attention != "auto" or settings.exact or settings.cache_type not in _NOT_QUANTISED:
        return settings.flash_attention
    heads = heads_of(header)
    if heads is None:
        return "auto"
    name = name_of(heads, settings)
    points = points_of(knowledge.get(name))
    if not points or disturbed(points):
        try:
            points = measure_attention(heads, settings, header.context_length or 0)
        except (SpecchatError, OSError):
            # No memory or no disk to measure with: that must not keep anyone from loading the model.
            return "auto"
        knowledge.put(name, numbers_of(points))
        knowledge.save()
    return faster(points, habits_of(knowledge))


def disturbed(points: Sequence[AttentionTiming]) -> bool:
    """Whether something else ran while this was measured: a pass took far longer than a deeper one."""
    by_depth = sorted(points, key=lambda each: each.depth)
    return any(
        (one.flash, one.width) == (other.flash, other.width) and one.seconds > _DISTURBED * other.seconds
        for one, other in combinations(by_depth, 2)
    )


def name_of(heads: AttentionHeads, settings: ContextSettings) -> str:
    """Under which it is remembered: all that it depends on."""
    threads = settings.threads or performance_cores()
    return " ".join(map(str, ("attention", build_and_cpu(), *heads, settings.cache_type, threads)))


def numbers_of(points: Sequence[AttentionTiming]) -> tuple[float, ...]:
    """What was measured, with what it was measured at, as it is remembered."""
    return tuple(float(number) for point in points for number in point)


def points_of(numbers: Sequence[float]) -> tuple[AttentionTiming, ...]:
    """The same from these numbers; () where they are not what is measured now."""
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
    """The model's attention; None where it has none, or one that is not measured (latent attention, keys of
    another length than values). Where layers differ, the widest counts."""
    queries = _most(header, "attention.head_count")
    cached = _most(header, "attention.head_count_kv") or queries
    if not queries or not cached or queries % cached or header.count("attention.key_length_mla"):
        return None
    length = header.count("attention.key_length") or (header.embedding_length or 0) // queries
    if length != (header.count("attention.value_length") or length) or length < 2 or length % 2:
        return None
    return AttentionHeads(queries, cached, length) if queries * length % 32 == 0 else None


def _most(header: Header, key: str) -> int:
    """The number at `key`; of a list with one for each layer the largest."""
    name = f"{header.architecture}.{key}"
    if isinstance(header.metadata.get(name), Array):
        return max(map(int, header.array(name)), default=0)
    return header.count(key) or 0


def habits_of(knowledge: Knowledge) -> Habits:
    """What this person does."""
    sums = knowledge.get(_HABITS)
    return Habits(*sums) if len(sums) == len(AT_FIRST) and min(sums) >= 0 else AT_FIRST


def keep_habits(knowledge: Knowledge, reply: Finished) -> None:
    """Count a reply among them; one that was stopped before its first pass says nothing."""
    if reply.passes:
        knowledge.put(_HABITS, habits_of(knowledge).after(reply))
