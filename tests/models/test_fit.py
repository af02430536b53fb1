"""What a model will take, held against llama.cpp, and what is chosen where memory is short."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
import pytest

from app.assembly.machine import cpu_copies
from app.llama.context import Context
from app.llama.layouts import choose_layouts
from app.llama.model import Model
from app.llama.native import native_log
from app.llama.placement import buffers, clear_buffers
from app.llama.quantise import FileType
from app.llama.settings import ContextSettings
from app.models.estimate import Parts, parts, repacked_types, snapshots_worth
from app.models.fit import DEFAULT_CONTEXT, SMALLEST_CONTEXT, Memory, fit
from app.models.gguf import Header, read_header
from app.models.shape import Shape
from tests.architectures import write_architecture
from tests.tiny import write_tiny

GB = 1_000_000_000
PLENTY = 1 << 40

# Resident bytes that a process gained by loading a model, reading a chunk and decoding some tokens, up to
# the end of the context where one chunk reaches that far.
USE = """
import sys
from pathlib import Path
import numpy
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings, ModelSettings
from app.llama.native import native_log

def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))

path, length, kind, rows, mapped = sys.argv[1:]
length, rows = int(length), int(rows)
native_log()
before = resident()
model = Model(Path(path), ModelSettings(mmap=mapped == "True"))
# Threads that share a busy core wait for each other.
context = Context(model, length, ContextSettings(cache_type=kind, threads=1))
context.forward([7] * (min(512, length) - rows - 8), 0)
for _ in range(8):
    context.forward([9])
context.forward(list(range(100, 100 + rows)), rows)
print(resident() - before)
"""


def bytes_used(path: Path, length: int, kind: str, rows: int, mmap: bool = True) -> int:
    command = [sys.executable, "-c", USE, str(path), str(length), kind, str(rows), str(mmap)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return int(done.stdout)


def total_bytes(held: Parts) -> int:
    """What a model takes on the CPU, without copies that are laid out for it."""
    return sum(held.layers) + held.head + held.table + held.rest + sum(held.cache) + held.products + held.rows


def needed_bytes(header: Header, length: int, kind: str = "f16") -> int:
    """What must be free for it."""
    held = parts(header, length, kind)
    return total_bytes(held) + held.table_copy


def copied_bytes(header: Header) -> int:
    """What the CPU holds a second time, beside the pages of a file that is mapped."""
    looked_up = ("token_embd.", "position_embd.", "token_types.")
    tied = all(tensor.name != "output.weight" for tensor in header.tensors)
    return sum(
        cpu_copies().of(tensor)
        for tensor in header.tensors
        if not tensor.name.startswith(looked_up) or (tied and tensor.name == "token_embd.weight")
    )


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")


@LINUX
@pytest.mark.parametrize(
    ("length", "kind", "rows"),
    [
        (512, "q8_0", 64),
        (8192, "f16", 1),
        *[
            pytest.param(*case, marks=pytest.mark.long)
            for case in ((512, "f16", 1), (2048, "f16", 33), (8192, "q8_0", 33))
        ],
    ],
)
def test_the_estimate_is_what_the_process_then_uses(length: int, kind: str, rows: int, bundled: Path) -> None:
    """Lost otherwise: a context that does not fit, or half the context that would have fitted."""
    header = read_header(bundled)
    told = total_bytes(parts(header, length, kind)) + copied_bytes(header)
    used = bytes_used(bundled, length, kind, rows)
    assert abs(told - used) <= 0.1 * used


@LINUX
@pytest.mark.parametrize("mmap", [True, False])
def test_weights_that_the_cpu_reorders_are_held_twice_beside_a_map(
    mmap: bool, requantised: Callable[[FileType], Path]
) -> None:
    """Lost otherwise: a third of what a Q4_0 or Q4_K model takes."""
    path = requantised("Q4_0")
    header = read_header(path)
    held = parts(header, 512, "f16", copies=cpu_copies())
    told = total_bytes(held) + (copied_bytes(header) if mmap else held.table_copy)
    used = bytes_used(path, 512, "f16", 33, mmap)
    assert abs(told - used) <= 0.1 * used
    copied = cpu_copies().amx or "Q4_0" in cpu_copies().repacked
    assert (copied_bytes(header) > 0.3 * path.stat().st_size) == copied
    # The file's pages may go once it is loaded, but for a table that is looked up as well.
    assert fit(header, Memory(PLENTY), 512, copies=cpu_copies()).needed <= told


# A tensor: its name, shape as GGUF has it, type.
Tensors = Sequence[tuple[str, tuple[int, ...], gguf.GGMLQuantizationType]]
F32, F16 = gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16


@dataclass(frozen=True, slots=True)
class Reported:
    """Bytes that llama.cpp said it would allocate."""

    cache: float
    products: float


def write_shape(
    path: Path, architecture: str, vocabulary: int, keys: Mapping[str, object], tensors: Tensors
) -> Path:
    """A file with the header of a model and zeros for weights, which take no room on most disks."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_string("tokenizer.ggml.model", "no_vocab")
    for key, value in {"context_length": 65536, "vocab_size": vocabulary, **keys}.items():
        name = f"{architecture}.{key}"
        if isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        else:
            writer.add_array(name, value)
    end = 0
    for name, shape, kind in tensors:
        number = np.dtype(np.float32 if kind == F32 else np.float16)
        size = int(np.prod(shape)) * number.itemsize
        writer.add_tensor_info(name, tuple(reversed(shape)), number, size, raw_dtype=kind)
        end += -(-size // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    start = -(-path.stat().st_size // 32) * 32
    os.truncate(path, start + end)
    return path


def attention(layer: int, width: int, heads: int, cache_heads: int, head: int) -> Tensors:
    block = f"blk.{layer}."
    return [
        (block + "attn_norm.weight", (width,), F32),
        (block + "attn_q.weight", (width, heads * head), F16),
        (block + "attn_k.weight", (width, cache_heads * head), F16),
        (block + "attn_v.weight", (width, cache_heads * head), F16),
        (block + "attn_output.weight", (heads * head, width), F16),
        (block + "ffn_norm.weight", (width,), F32),
    ]


def feed_forward(layer: int, width: int, inner: int) -> Tensors:
    names = ("ffn_gate", "ffn_up", "ffn_down")
    shapes = ((width, inner), (width, inner), (inner, width))
    return [(f"blk.{layer}.{name}.weight", shape, F16) for name, shape in zip(names, shapes, strict=True)]


def experts(layer: int, width: int, inner: int, count: int) -> Tensors:
    names = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
    shapes = ((width, inner, count), (width, inner, count), (inner, width, count))
    return [
        (f"blk.{layer}.ffn_gate_inp.weight", (width, count), F32),
        *[(f"blk.{layer}.{name}.weight", shape, F16) for name, shape in zip(names, shapes, strict=True)],
    ]


def norms(layer: int, head: int, names: Sequence[str]) -> Tensors:
    return [(f"blk.{layer}.{name}.weight", (head,), F32) for name in names]


def ends(width: int, vocabulary: int, tied: bool) -> Tensors:
    table = ("token_embd.weight", (width, vocabulary), F16)
    output = [] if tied else [("output.weight", (width, vocabulary), F16)]
    return [table, ("output_norm.weight", (width,), F32), *output]


def attention_keys(width: int, layers: int, heads: int, cache_heads: int, head: int) -> dict[str, object]:
    return {
        "embedding_length": width,
        "block_count": layers,
        "attention.head_count": heads,
        "attention.head_count_kv": cache_heads,
        "attention.key_length": head,
        "attention.value_length": head,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": head,
    }


def grouped(path: Path) -> Path:
    """Few heads in the cache, a wide feed-forward part: Llama 3."""
    tensors = [
        *ends(1024, 32000, False),
        *[t for n in range(4) for t in (*attention(n, 1024, 8, 2, 128), *feed_forward(n, 1024, 3584))],
    ]
    keys = {**attention_keys(1024, 4, 8, 2, 128), "feed_forward_length": 3584}
    return write_shape(path, "llama", 32000, keys, tensors)


def windowed(path: Path) -> Path:
    """Sliding windows, tied embeddings, heads wider than the stream: Gemma 3."""
    names = ("post_attention_norm", "post_ffw_norm")
    tensors = [
        *ends(640, 64000, True),
        *[
            t
            for n in range(12)
            for t in (
                *attention(n, 640, 4, 2, 256),
                *norms(n, 256, ("attn_q_norm", "attn_k_norm")),
                *norms(n, 640, names),
                *feed_forward(n, 640, 2048),
            )
        ],
    ]
    keys = {
        **attention_keys(640, 12, 4, 2, 256),
        "feed_forward_length": 2048,
        "attention.sliding_window": 512,
    }
    return write_shape(path, "gemma3", 64000, keys, tensors)


def mixture(path: Path) -> Path:
    """Experts of which few work at a time: Qwen 3 MoE."""
    tensors = [
        *ends(768, 24000, False),
        *[
            t
            for n in range(3)
            for t in (
                *attention(n, 768, 8, 2, 128),
                *norms(n, 128, ("attn_q_norm", "attn_k_norm")),
                *experts(n, 768, 256, 16),
            )
        ],
    ]
    keys = {
        **attention_keys(768, 3, 8, 2, 128),
        "feed_forward_length": 2048,
        "expert_feed_forward_length": 256,
        "expert_count": 16,
        "expert_used_count": 8,
    }
    return write_shape(path, "qwen3moe", 24000, keys, tensors)


def latent(path: Path) -> Path:
    """One compressed key for all heads, and no values in the cache: DeepSeek 2."""
    width, heads, rank, plain, turned = 512, 8, 256, 64, 32
    tensors = list(ends(width, 16000, False))
    for n in range(27):
        block = f"blk.{n}."
        tensors += [
            (block + "attn_norm.weight", (width,), F32),
            (block + "attn_q.weight", (width, heads * (plain + turned)), F16),
            (block + "attn_kv_a_mqa.weight", (width, rank + turned), F16),
            (block + "attn_kv_a_norm.weight", (rank,), F32),
            (block + "attn_k_b.weight", (plain, rank, heads), F16),
            (block + "attn_v_b.weight", (rank, plain, heads), F16),
            (block + "attn_output.weight", (heads * plain, width), F16),
            (block + "ffn_norm.weight", (width,), F32),
            *feed_forward(n, width, 2048),
        ]
    keys = {
        **attention_keys(width, 27, heads, 1, rank + turned),
        "attention.value_length": rank,
        "attention.key_length_mla": plain + turned,
        "attention.value_length_mla": plain,
        "attention.kv_lora_rank": rank,
        "rope.dimension_count": turned,
        "feed_forward_length": 2048,
        "leading_dense_block_count": 27,
        "expert_feed_forward_length": 256,
        "expert_count": 2,
        "expert_used_count": 1,
        "expert_shared_count": 1,
        "expert_weights_scale": 1.0,
    }
    return write_shape(path, "deepseek2", 16000, keys, tensors)


def reported(
    path: Path,
    length: int,
    kind: int,
    flash: bool,
    monkeypatch: pytest.MonkeyPatch,
    whole_window: bool = True,
) -> Reported:
    """llama.cpp's own figures: it goes through a load without allocating, and logs what it would take."""
    log = native_log()
    monkeypatch.setattr(log, "lines", deque(maxlen=100_000))
    model_parameters = llama_cpp.llama_model_default_params()
    model_parameters.no_alloc = True
    # Layouts of the CPU's take memory as they are chosen, which such a load cannot give (AMX's abort).
    model_parameters.use_extra_bufts = choose_layouts("plain")
    model_parameters.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE
    model = llama_cpp.llama_model_load_from_file(os.fsencode(path), model_parameters)
    assert model, list(log.faults)
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = length, 512, 512
    parameters.n_outputs_max = 64
    parameters.type_k = parameters.type_v = kind
    parameters.flash_attn_type = 1 if flash else 0
    parameters.swa_full, parameters.kv_unified = whole_window, True
    context = llama_cpp.llama_init_from_model(model, parameters)
    assert context, list(log.faults)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)

    def size(line: str, before: str) -> float:
        return float(line.split(before)[1].split("MiB")[0]) * (1 << 20)

    caches = [size(line, "size =") for line in log.lines if "cells," in line and "size =" in line]
    products = [size(line, "buffer size =") for line in log.lines if "compute buffer size =" in line]
    return Reported(sum(caches), sum(products))


@pytest.mark.skipif(sys.platform == "win32", reason="a file of zeros takes its whole room there")
@pytest.mark.parametrize("shape", [grouped, windowed, mixture, latent])
@pytest.mark.parametrize(
    ("length", "kind", "flash"),
    [(512, "f16", True), (8192, "q8_0", True), (40960, "f16", True), (4096, "f16", False)],
)
def test_families_of_other_shapes(
    shape: Callable[[Path], Path],
    length: int,
    kind: str,
    flash: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cache to the byte, as llama.cpp rounds it when it tells; its buffer for products nearly."""
    path = shape(tmp_path / "shape.gguf")
    told = reported(path, length, {"f16": 1, "q8_0": 8}[kind], flash, monkeypatch)
    held = parts(read_header(path), length, kind, flash_attention=flash)
    assert abs(sum(held.cache) - told.cache) < 0.02 * (1 << 20)
    assert abs(held.products - told.products) < 0.15 * told.products


def gemma(path: Path) -> Path:
    return write_architecture(path, "gemma3", layers=4, window=250, context=65536)


@pytest.mark.parametrize("length", [512, 8192, 40960])
def test_windows_that_are_cut_short_take_less(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a window may keep all of its rows is decided by what the two take."""
    path = gemma(tmp_path / "gemma.gguf")
    header = read_header(path)
    for whole_window in (True, False):
        told = reported(path, length, 1, True, monkeypatch, whole_window)
        held = parts(header, length, "f16", whole_window=whole_window)
        assert abs(sum(held.cache) - told.cache) < 0.02 * (1 << 20)
    assert Shape(header).window and not Shape(read_header(grouped(tmp_path / "shape.gguf"))).window


def test_a_context_is_longer_where_windows_are_cut_short(tmp_path: Path) -> None:
    """Lost otherwise: half the context of a Gemma on a small machine."""
    header = read_header(gemma(tmp_path / "gemma.gguf"))
    memory = Memory(system=260_000_000)
    lengths = [
        fit(header, memory, needed=40960, whole_window=whole).context_length for whole in (True, False)
    ]
    assert lengths[0] < lengths[1]
    chosen = fit(header, memory, needed=40960)
    assert chosen.context_length == lengths[1] and not chosen.whole_window and chosen.window_note
    assert fit(header, Memory(PLENTY), needed=40960).whole_window


def test_layers_without_a_cache_are_left_out(tmp_path: Path) -> None:
    """Lost otherwise: three quarters of the context of a hybrid model."""
    shape = {"llama.attention.head_count_kv": [2, 0, 0, 2]}
    hybrid = read_header(write_tiny(tmp_path / "hybrid.gguf", layers=4, extra=shape))
    plain = read_header(write_tiny(tmp_path / "plain.gguf", layers=4))
    every = parts(plain, 512, "f16").cache
    assert [size > 0 for size in parts(hybrid, 512, "f16").cache] == [True, False, False, True]
    assert every == (512 * 2 * 32 * 2,) * 4
    predicted = write_tiny(tmp_path / "m.gguf", layers=4, extra={"llama.nextn_predict_layers": 1})
    assert parts(read_header(predicted), 512, "f16").cache == every[:3]
    shared = write_tiny(tmp_path / "s.gguf", layers=4, extra={"llama.attention.shared_kv_layers": 2})
    assert parts(read_header(shared), 512, "f16").cache == (*every[:2], 0, 0)


def test_a_recurrent_state_does_not_grow_with_the_context(tmp_path: Path) -> None:
    keys = {"mamba2.ssm.inner_size": 64, "mamba2.ssm.state_size": 16, "mamba2.ssm.conv_kernel": 4}
    path = write_tiny(
        tmp_path / "mamba.gguf", architecture="mamba2", extra={**keys, "mamba2.ssm.group_count": 1}
    )
    short, long = (parts(read_header(path), length, "f16").cache for length in (512, 8192))
    assert short == long == ((3 * (64 + 2 * 16) + 64 * 16) * 4,) * 2


@pytest.mark.parametrize("architecture", ["lfm2", "qwen35"])
def test_snapshots_are_part_of_what_is_needed(architecture: str, tmp_path: Path) -> None:
    """Lost otherwise: a process that the system ends once the first draft is made."""
    path = write_architecture(tmp_path / "m.gguf", architecture)
    header = read_header(path)
    sizes = []
    for snapshots in (0, 4):
        with Model(path) as model:
            clear_buffers()
            Context(model, 256, ContextSettings(snapshots=snapshots)).close()
            sizes.append(sum(each.size for each in buffers() if each.kind == "RS"))
    estimated = [sum(parts(header, 256, "f16", snapshots=count).cache) for count in (0, 4)]
    # llama.cpp logs hundredths of a MiB.
    assert estimated[1] - estimated[0] == pytest.approx(sizes[1] - sizes[0], abs=20_000)
    assert estimated[1] > estimated[0]


def test_snapshots_are_part_of_what_is_shown(tmp_path: Path) -> None:
    """Lost otherwise: a list of models that calls a smaller number needed than the fit went by."""
    header = read_header(write_architecture(tmp_path / "m.gguf", "lfm2"))
    shown = fit(header, Memory(PLENTY), 256).needed
    assert snapshots_worth(header) > 0
    assert shown - needed_bytes(header, 256) == snapshots_worth(header) * Shape(header).state_bytes


def test_copies_of_a_state_are_part_of_what_is_needed(tmp_path: Path) -> None:
    """Lost otherwise: memory that grows from turn to turn beyond what was said to be needed."""
    path = write_architecture(tmp_path / "m.gguf", "mamba")
    header = read_header(path)
    with Model(path) as model, Context(model, 256) as context:
        for _ in range(40):
            context.forward([5, 6, 7, 8], rows=2)
            context.keep()
            context.checkpoint()
        assert context.state_bytes == pytest.approx(Shape(header).state_bytes, abs=1000)
        assert context._rewinder is not None
        held = context._rewinder.saved_bytes
    tokens = 256 * 128 + 288 * 155
    assert 10 * Shape(header).state_bytes < held <= parts(header, 256, "f16").rest - tokens


def test_a_context_is_rounded_up_and_grows(tiny_path: Path) -> None:
    header = read_header(tiny_path)
    assert parts(header, 300, "f16") == parts(header, 512, "f16")
    sizes = [needed_bytes(header, length, "q8_0") for length in (256, 512, 1024, 4096)]
    assert all(first < second for first, second in pairwise(sizes))
    assert sum(parts(header, 512, "q8_0").cache) < sum(parts(header, 512, "f16").cache)


def test_types_that_are_reordered_hang_on_the_cpu() -> None:
    assert repacked_types(("AVX2", "REPACK")) == {"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"}
    assert "Q2_K" in repacked_types(("AVX2", "AVX512", "REPACK"))
    assert "Q8_0" in repacked_types(("NEON", "DOTPROD", "REPACK"))
    assert repacked_types(("AVX2",)) == repacked_types(("SSE3", "REPACK")) == frozenset()


@pytest.fixture(scope="module")
def long_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose cache outweighs it: 1 GB for 32,768 tokens."""
    return write_tiny(
        tmp_path_factory.mktemp("fit") / "long.gguf", width=512, layers=16, heads=8, context=32768
    )


def test_with_room_the_default_is_taken(long_path: Path, tiny_path: Path) -> None:
    header, memory = read_header(long_path), Memory(PLENTY)
    chosen = fit(header, memory)
    assert (chosen.context_length, chosen.gpu_layers) == (DEFAULT_CONTEXT, -1)
    assert chosen.problem is chosen.context_note is chosen.layers_note is None
    assert chosen.needed == needed_bytes(header, DEFAULT_CONTEXT)
    assert fit(header, memory, needed=20_000).context_length == 20_000
    assert fit(header, memory, needed=100_000).context_length == 32768
    assert fit(read_header(tiny_path), memory).context_length == 512


def test_the_largest_context_that_fits_is_chosen(long_path: Path) -> None:
    """Lost otherwise: the reply, to the system that ends a process that took too much."""
    header = read_header(long_path)
    free = needed_bytes(header, 4096) + 200_000_000
    chosen = fit(header, Memory(free))
    assert chosen.context_length == 4096
    assert chosen.problem is None
    assert chosen.context_note is not None
    assert chosen.context_note.startswith("The context is 4,096 tokens: 8,192 need about 0.")
    assert "--kv-type q8_0" in chosen.context_note
    assert fit(header, Memory(free), cache_type="q8_0").context_length > 6000
    assert fit(header, Memory(free - 1_000_000)).context_length < 4096
    assert fit(header, Memory(free), beside=[header]).context_length < 4096


def test_where_nothing_fits_a_sentence_says_what_to_do(long_path: Path) -> None:
    chosen = fit(read_header(long_path), Memory(300_000_000))
    assert chosen.context_length == SMALLEST_CONTEXT
    assert chosen.problem is not None
    assert chosen.problem.startswith("The model needs about 0.")
    assert chosen.problem.endswith("and 0.3 GB are free: choose a smaller quantisation or --kv-type q8_0.")


def test_what_was_asked_for_is_kept_with_a_warning(long_path: Path) -> None:
    header = read_header(long_path)
    free = needed_bytes(header, 4096) + 200_000_000
    chosen = fit(header, Memory(free), 16_384)
    assert chosen.context_length == 16_384
    assert chosen.problem is not None and chosen.problem.endswith("or --ctx 4096.")
    assert fit(header, Memory(free), 4096).problem is None


def test_layers_go_to_the_gpu_as_far_as_they_fit(long_path: Path) -> None:
    """Lost otherwise: a load that fails for a GPU a little too small, or one that leaves it empty."""
    header = read_header(long_path)
    assert fit(header, Memory(PLENTY, (PLENTY,))).gpu_layers == -1
    assert fit(header, Memory(PLENTY, (PLENTY,)), gpu_layers=3).gpu_layers == 3
    counts = [
        fit(header, Memory(PLENTY, (500_000_000 + room,))).gpu_layers for room in range(0, GB, GB // 20)
    ]
    fitting = [17 if count == -1 else count for count in counts]
    assert fitting == sorted(fitting) and counts[0] == 0 and counts[-1] == -1 and len(set(counts)) > 4
    part = fit(header, Memory(PLENTY, (600_000_000,)))
    assert 0 < part.gpu_layers < 17
    assert part.layers_note is not None and part.layers_note.startswith(f"{part.gpu_layers} of 17 layers go")
    two = fit(header, Memory(PLENTY, (600_000_000,) * 2))
    assert two.gpu_layers > part.gpu_layers


def test_what_stays_on_the_cpu(long_path: Path) -> None:
    """Layers and their cache move to the GPU; a buffer for products stays while any layer does."""
    header = read_header(long_path)
    held = parts(header, 8192, "f16")

    def least(layers: int) -> int:
        low, high = 0, 8 * GB
        while low < high:
            middle = (low + high) // 2
            short = fit(header, Memory(middle, (PLENTY,)), 8192, layers).problem
            low, high = (middle + 1, high) if short else (low, middle)
        return low

    moved = held.head + sum(held.layers[-4:]) + sum(held.cache[-4:])
    assert least(0) - least(5) == moved
    rest = sum(held.layers[:-4]) + sum(held.cache[:-4]) + held.products
    assert least(5) - least(17) == rest


def test_too_many_layers_that_were_asked_for(long_path: Path) -> None:
    header = read_header(long_path)
    chosen = fit(header, Memory(PLENTY, (600_000_000,)), 8192, 17)
    assert (chosen.context_length, chosen.gpu_layers) == (8192, 17)
    assert chosen.problem is not None and "of the GPU" in chosen.problem
    assert "fewer --gpu-layers" in chosen.problem
    # Where the context is free, it makes room for them.
    assert 512 <= fit(header, Memory(PLENTY, (700_000_000,)), None, 17).context_length < 8192


def test_a_gpu_that_shares_memory_brings_none(long_path: Path) -> None:
    header = read_header(long_path)
    free = needed_bytes(header, 4096) + 200_000_000
    apart = fit(header, Memory(free, (PLENTY,))).context_length
    shared = fit(header, Memory(free, (PLENTY,), shared=True)).context_length
    assert shared < apart == 8192
