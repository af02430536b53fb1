"""How much memory a model will take, told from its header alone.

What llama.cpp allocates follows from shapes: the weights as they are, a cache row for each token and layer,
and one buffer for the products of a pass. The formulas of the last two were fitted to what llama.cpp
reports (0.3.36) for families with other shapes; tests hold them to it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from app.llama.settings import LEAST_TURNS, MOST_TURN_BYTES, MOST_TURNS
from app.models.gguf import Header, Tensor
from app.models.gguf_source import Array
from app.models.gguf_types import TENSOR_TYPES
from app.models.shape import CELLS, FLOAT, Shape

# Tokens of one step of the prefill.
_CHUNK = 512
# Rows of logits that a pass with the longest draft hands out; memory for more is never touched.
_HANDED_ROWS = 33
# Bytes that were measured beside the buffers: for each token of the vocabulary, each merge of a BPE
# tokenizer and each position of the cache.
_TOKEN, _MERGE, _POSITION = 155, 195, 128

# Types that llama.cpp's CPU code keeps a second, reordered copy of: its own layouts (ggml-cpu/repack.cpp)
# and AMX's (ggml-cpu/amx/amx.cpp), each for tensors whose rows are a multiple of a number.
_REPACKED_X86 = frozenset({"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"})
_REPACKED_ARM = _REPACKED_X86 | {"Q5_K", "Q6_K", "Q8_0"}
_REPACKED_ROWS = 8
_AMX = frozenset({"Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "F16"})
_AMX_ROWS = 32
# A sum beside each block of 34 bytes.
_AMX_GROWTH = {"Q8_0": 38 / 34}
# Tables that are looked up, not multiplied with.
_TABLES = ("token_embd.", "per_layer_token_embd.", "position_embd.", "token_types.")

# Snapshots of recurrent states (Context's settings). Of a model with the widths of Qwen3.5 0.8B each made a
# pass 2 to 3 % longer; a copy costs about two of them, and the accepted tokens are read again behind it.
_MOST_SNAPSHOTS, _SNAPSHOT_SHARE = 16, 0.1

_BLOCKS = {label.lower(): (elements, size) for label, elements, size in TENSOR_TYPES.values()}


@dataclass(frozen=True, slots=True)
class Copies:
    """Which weights the CPU holds a second time, laid out for its kernels.

    repacked: labels of the types that llama.cpp's own layouts hold. amx: whether AMX's come first.
    """

    repacked: frozenset[str] = frozenset()
    amx: bool = False

    def of(self, tensor: Tensor) -> int:
        """Bytes of the copy of a tensor that is multiplied with, 0 for none."""
        if len(tensor.shape) < 2:
            return 0
        if self.amx and tensor.label in _AMX and tensor.shape[1] % _AMX_ROWS == 0:
            return int(tensor.size * _AMX_GROWTH.get(tensor.label, 1.0))
        return tensor.size if tensor.label in self.repacked and tensor.shape[1] % _REPACKED_ROWS == 0 else 0


NO_COPIES = Copies()


@dataclass(frozen=True, slots=True)
class Parts:
    """What a model takes, in bytes, piece by piece, so that it can be spread over devices. layers, cache: for
    each layer, first to last; llama.cpp writes the whole cache when it makes it.

    head: the product with the vocabulary, 0 where it shares the table of embeddings, which `table` holds;
    table_copy: what the CPU then holds of the table a second time. rest: vocabulary and bookkeeping.
    products: the buffer of a pass. rows: the logits that are handed out.
    """

    layers: tuple[int, ...]
    cache: tuple[int, ...]
    table: int
    head: int
    table_copy: int
    rest: int
    products: int
    rows: int


def parts(
    header: Header,
    context_length: int,
    cache_type: str,
    *,
    flash_attention: bool = True,
    copies: Copies = NO_COPIES,
    whole_window: bool = True,
    snapshots: int = 0,
) -> Parts:
    """The pieces of a model with this context. cache_type: as --kv-type has it. whole_window: layers with a
    sliding window keep all rows. snapshots: of recurrent layers' state, beside the last one."""
    shape = Shape(header)
    cells = -(-context_length // CELLS) * CELLS
    tokens = min(cells, _CHUNK)
    layers = [0] * shape.layers
    table = head = table_copy = 0
    tied = all(tensor.name != "output.weight" for tensor in header.tensors)
    for tensor in header.tensors:
        if tensor.layer is not None and tensor.layer < shape.layers:
            layers[tensor.layer] += tensor.size
        elif tensor.name.startswith("output"):
            head += tensor.size
        else:
            table += tensor.size
            # Beside a copy the pages of the file need not stay, but those of a table that is looked up too.
            multiplied = not tensor.name.startswith(_TABLES) or tensor.name == "token_embd.weight"
            table_copy += copies.of(tensor) if tied and multiplied else 0
    if tied:
        table, head = table + head, 0
    merges = header.metadata.get("tokenizer.ggml.merges")
    rest = shape.vocabulary * _TOKEN + (merges.length if isinstance(merges, Array) else 0) * _MERGE
    elements, size = _BLOCKS[cache_type]
    # Copies of a recurrent state: of turns, and of the two places that passes go back to.
    state = shape.state_bytes
    saved = 2 * state + max(LEAST_TURNS * state, min(MOST_TURNS * state, MOST_TURN_BYTES))

    def kept(layer: int) -> int:
        rows = cells if whole_window else shape.cells(layer, cells, tokens)
        return shape.cached(layer) * rows * size // elements + shape.state(layer) * (1 + snapshots)

    return Parts(
        layers=tuple(layers),
        cache=tuple(map(kept, range(shape.layers))),
        table=table,
        head=head,
        table_copy=table_copy,
        rest=rest + cells * _POSITION + saved,
        products=shape.products(cells, tokens, flash_attention),
        rows=(_HANDED_ROWS + 1) * shape.vocabulary * FLOAT,
    )


def snapshots_worth(header: Header) -> int:
    """How many snapshots of the state are worth their time in each pass: as many as are small beside the
    weights, which a pass reads as well."""
    state = Shape(header).state_bytes
    return min(_MOST_SNAPSHOTS, int(header.size * _SNAPSHOT_SHARE) // state) if state else 0


def repacked_types(cpu_features: Collection[str]) -> frozenset[str]:
    """Labels of the types that llama.cpp's own layouts hold, by the CPU's features as it names them."""
    if "REPACK" not in cpu_features:
        return frozenset()
    if "DOTPROD" in cpu_features or "MATMUL_INT8" in cpu_features:
        return _REPACKED_ARM
    if "AVX2" in cpu_features:
        return _REPACKED_X86 | ({"Q2_K"} if "AVX512" in cpu_features else frozenset())
    return frozenset()
