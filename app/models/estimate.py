"""How much memory a model will take, told from its header alone.

What llama.cpp allocates hangs on shapes: the weights as they are, a cache row for each token and layer,
and one buffer for the products of a pass. The formulas of the last two were fitted to what llama.cpp
reports (0.3.36) for families with other shapes; tests hold them to it.
"""

from __future__ import annotations

import platform
from collections.abc import Collection
from dataclasses import dataclass

from app.llama.settings import LEAST_TURNS, MOST_TURN_BYTES, MOST_TURNS
from app.models.gguf import Array, Header, Tensor
from app.models.gguf_types import TENSOR_TYPES

# Rows of logits that a pass is made for (app.llama.context.MAX_ROWS); those that one with the longest
# draft hands out, of which alone the memory is ever touched; what llama.cpp rounds a context up to.
LOGIT_ROWS = 64
_HANDED_ROWS = 33
_CELLS = 256
# Bytes that were measured beside the buffers: for each token of the vocabulary, each merge of a BPE
# tokenizer and each position of the cache.
_TOKEN, _MERGE, _POSITION = 155, 195, 128
_FLOAT = 4

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
# Families without a cache of keys and values.
_RECURRENT = ("mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7")
# Of so many layers one attends to the whole context, the others to a window.
_PERIODS = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "cohere2": 4, "olmo2": 4}
_GATED = ("qwen3next", "qwen35", "qwen35moe")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes of memory. weights: with the vocabulary and reordered copies.

    spare: of the weights, pages of the file that are not needed again once it is loaded; the system takes
    them back when memory gets short.
    """

    weights: int
    cache: int
    buffers: int
    spare: int = 0

    @property
    def total(self) -> int:
        """What the process grows by. llama.cpp writes the whole cache when it makes it, so this does not
        hang on how much of the context is used."""
        return self.weights + self.cache + self.buffers

    @property
    def needed(self) -> int:
        """What must be free."""
        return self.total - self.spare


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


@dataclass(frozen=True, slots=True)
class Parts:
    """An estimate, piece by piece. layers, copies, cache: for each layer, first to last.

    copies: of `layers`, what is held a second time on the CPU. head: the product with the vocabulary,
    0 where it shares the table of embeddings, which `table` holds. rest: vocabulary and bookkeeping.
    products: the buffer of a pass. rows: the logits that are handed out.
    """

    layers: tuple[int, ...]
    copies: tuple[int, ...]
    cache: tuple[int, ...]
    table: int
    head: int
    head_copy: int
    rest: int
    products: int
    rows: int


def estimate(
    header: Header,
    context_length: int,
    cache_type: str,
    chunk: int = 512,
    *,
    flash_attention: bool = True,
    mmap: bool = True,
    copies: Copies | None = None,
) -> Estimate:
    """Memory of a model that runs on the CPU with this context.

    cache_type: as --kv-type has it. chunk: tokens of one prefill step. copies: which weights the CPU holds
    reordered; None for what this kind of processor usually does.
    """
    held = parts(header, context_length, cache_type, chunk, flash_attention=flash_attention, copies=copies)
    return on_cpu(held, mmap=mmap)


def on_cpu(held: Parts, *, mmap: bool) -> Estimate:
    """The pieces together, where all of them are on the CPU."""
    weights = sum(held.layers) + held.table + held.head
    copied = sum(held.copies) + held.head_copy
    # Without a map there is no file beside the copy, save for a table that is both looked up and copied.
    doubled = copied if mmap else (held.head_copy if not held.head else 0)
    return Estimate(
        weights=weights + doubled + held.rest,
        cache=sum(held.cache),
        buffers=held.products + held.rows,
        spare=sum(held.copies) + (held.head_copy if held.head else 0) if mmap else 0,
    )


def parts(
    header: Header,
    context_length: int,
    cache_type: str,
    chunk: int = 512,
    *,
    flash_attention: bool = True,
    copies: Copies | None = None,
    whole_window: bool = True,
    snapshots: int = 0,
) -> Parts:
    """The pieces of an estimate, for a model that is spread over devices. whole_window: layers with a sliding
    window keep all rows. snapshots: of recurrent layers' state, beside the last one."""
    if copies is None:
        arm = platform.machine().lower() in ("arm64", "aarch64")
        copies = Copies(_REPACKED_ARM if arm else _REPACKED_X86)
    shape = _Shape(header)
    cells = -(-context_length // _CELLS) * _CELLS
    tokens = min(cells, max(chunk, LOGIT_ROWS))
    layers, copied = [0] * shape.layers, [0] * shape.layers
    table = head = head_copy = 0
    tied = all(tensor.name != "output.weight" for tensor in header.tensors)
    for tensor in header.tensors:
        # A table that is the product with the vocabulary as well is held once as each.
        table_only = tensor.name.startswith(_TABLES) and not (tied and tensor.name == "token_embd.weight")
        copy = 0 if table_only else copies.of(tensor)
        layer = _layer(tensor.name)
        if layer is not None and layer < shape.layers:
            layers[layer] += tensor.size
            copied[layer] += copy
        elif tensor.name.startswith("output"):
            head += tensor.size
            head_copy += copy
        else:
            table += tensor.size
            head_copy += copy
    if tied:
        table, head = table + head, 0
    merges = header.metadata.get("tokenizer.ggml.merges")
    rest = shape.vocabulary * _TOKEN + (merges.length if isinstance(merges, Array) else 0) * _MERGE
    elements, size = _BLOCKS[cache_type]
    return Parts(
        layers=tuple(layers),
        copies=tuple(copied),
        cache=tuple(
            shape.cached(layer)
            * (cells if whole_window else shape.cells(layer, cells, tokens))
            * size
            // elements
            + shape.state(layer) * (1 + snapshots)
            for layer in range(shape.layers)
        ),
        table=table,
        head=head,
        head_copy=head_copy,
        rest=rest + cells * _POSITION + _saved_bytes(state_bytes(header)),
        products=shape.products(cells, tokens, flash_attention),
        rows=(_HANDED_ROWS + 1) * shape.vocabulary * _FLOAT,
    )


def state_bytes(header: Header) -> int:
    """Bytes of the state that recurrent layers keep, which each copy or snapshot of it takes; 0 without."""
    shape = _Shape(header)
    return sum(shape.state(layer) for layer in range(shape.layers))


def _saved_bytes(state: int) -> int:
    """Bytes that copies of a state may take: of turns, and of the two places that passes go back to."""
    return 2 * state + max(LEAST_TURNS * state, min(MOST_TURNS * state, MOST_TURN_BYTES))


def keeps_rows(header: Header) -> bool:
    """Whether any layer keeps keys and values of each token."""
    shape = _Shape(header)
    return any(map(shape.cached, range(shape.layers)))


def has_window(header: Header) -> bool:
    """Whether less memory is needed where layers with a sliding window only keep what they see."""
    return _Shape(header).window > 0


def snapshots_worth(header: Header) -> int:
    """How many snapshots of the state are worth their time in each pass: as many as are small beside the
    weights, which a pass reads as well."""
    state = state_bytes(header)
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


def _layer(name: str) -> int | None:
    """The number of the layer that a tensor belongs to; None where it belongs to none."""
    first, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    return int(number) if first == "blk" and number.isdecimal() else None


class _Shape:
    """What the header says of widths and heads, by llama.cpp's rules (llama-model.cpp, load_hparams)."""

    def __init__(self, header: Header) -> None:
        self._header = header
        blocks = header.block_count or 0
        # Prediction layers after the last one have a context of their own.
        self.layers = max(0, blocks - self._number("nextn_predict_layers"))
        self.vocabulary = header.vocabulary_size or 0
        self.width = header.embedding_length or 0
        self._heads = self._each("attention.head_count", 0)
        most = max(self._heads, default=0)
        self._cache_heads = self._each("attention.head_count_kv", None) or self._heads
        self._key = self._number("attention.key_length", self.width // most if most else 0)
        self._value = self._number("attention.value_length", self.width // most if most else 0)
        self._recurrent = self._recurrent_layers()
        self._windows = self._window_layers()

    def _number(self, key: str, default: int = 0) -> int:
        return self._header.count(key) or default

    def _each(self, key: str, default: int | None) -> tuple[int, ...]:
        """A number for each layer: the header has one for all, or a list."""
        name = f"{self._header.architecture}.{key}"
        if isinstance(self._header.metadata.get(name), Array):
            # A file may hold anything there, which llama.cpp refuses.
            values = tuple(value if isinstance(value, int) else 0 for value in self._header.array(name))
            return (*values, *[0] * self.layers)[: self.layers]
        number = self._header.count(key)
        if number is None and default is None:
            return ()
        return (number or default or 0,) * self.layers

    def _recurrent_layers(self) -> tuple[bool, ...]:
        architecture = self._header.architecture or ""
        if architecture in _RECURRENT:
            return (True,) * self.layers
        listed = self._each("attention.recurrent_layers", None)
        if listed:
            return tuple(map(bool, listed))
        interval = self._number("full_attention_interval", 4 if architecture in _GATED else 0)
        if interval:
            return tuple((layer + 1) % interval != 0 for layer in range(self.layers))
        return tuple(heads == 0 for heads in self._cache_heads) or (False,) * self.layers

    def _window_layers(self) -> tuple[bool, ...]:
        """Which layers attend to a sliding window, where that changes their shape."""
        if not self._number("attention.key_length_swa"):
            return (False,) * self.layers
        key = "attention.sliding_window_pattern"
        if isinstance(self._header.metadata.get(f"{self._header.architecture}.{key}"), Array):
            return tuple(map(bool, self._each(key, 0)))
        pattern = self._number(key)
        return tuple(bool(pattern) and layer % pattern < pattern - 1 for layer in range(self.layers))

    @property
    def window(self) -> int:
        """Tokens that layers with a sliding window see, where it is known which layers these are; else 0."""
        return self._number("attention.sliding_window") if any(map(self._slides, range(self.layers))) else 0

    def cells(self, layer: int, cells: int, tokens: int) -> int:
        """Rows that a layer keeps of `cells` where its window is cut short. tokens: of the widest pass."""
        short = -(-(self.window + tokens) // _CELLS) * _CELLS
        return min(cells, short) if self._slides(layer) else cells

    def _slides(self, layer: int) -> bool:
        """Whether a layer has a sliding window, by llama.cpp's rule for its architecture."""
        architecture = self._header.architecture or ""
        if not self._number("attention.sliding_window") or architecture not in _PERIODS:
            return False
        key = "attention.sliding_window_pattern"
        if isinstance(self._header.metadata.get(f"{architecture}.{key}"), Array):
            return bool(self._each(key, 0)[layer])
        period = self._number(key, _PERIODS[architecture])
        return layer % period < period - 1

    def cached(self, layer: int) -> int:
        """Numbers that a layer keeps for each token."""
        shared = self._number("attention.shared_kv_layers")
        recurrent = self._recurrent[layer] and self._header.architecture != "falcon-h1"
        if recurrent or (shared and layer >= self.layers - shared):
            return 0
        key, value = self._key, self._value
        if self._windows[layer]:
            key = self._number("attention.key_length_swa", key)
            value = self._number("attention.value_length_swa", value)
        if self._number("attention.key_length_mla"):
            value = 0  # latent attention computes the values from what it keeps as keys
        return self._cache_heads[layer] * (key + value)

    def state(self, layer: int) -> int:
        """Bytes of a recurrent layer's state."""
        if not (self._recurrent[layer] or self._header.architecture == "falcon-h1"):
            return 0
        number = self._number
        inner, state = number("ssm.inner_size"), number("ssm.state_size")
        if number("wkv.head_size"):
            kept = self.width * (number("token_shift_count", 2) + number("wkv.head_size"))
        elif number("shortconv.l_cache"):
            kept = self.width * (number("shortconv.l_cache") - 1)
        else:
            convolved = inner + 2 * number("ssm.group_count") * state
            kept = max(0, number("ssm.conv_kernel") - 1) * convolved + inner * state
        return kept * _FLOAT

    def products(self, cells: int, tokens: int, flash_attention: bool) -> int:
        """Bytes of the buffer that a pass of `tokens` computes in: its hungriest stage and the masks."""
        number, width = self._number, self.width
        heads, cache_heads = max(self._heads, default=0), max(self._cache_heads, default=0)
        queries = heads * number("attention.key_length_mla", self._key)
        dense = max(self._each("feed_forward_length", 0), default=0)
        experts, expert = number("expert_used_count"), number("expert_feed_forward_length", dense)
        if not number("expert_count"):
            experts = 0
        inner = max(3 * dense, experts * (3 * expert + width))
        feed_forward = tokens * (3 * width + queries + inner)
        attention = tokens * (3 * width + 2 * queries + cache_heads * (self._key + self._value))
        if not flash_attention:
            attention += tokens * heads * cells
        logits = LOGIT_ROWS * (self.vocabulary + width)
        masks = 2 if number("attention.sliding_window") else 1
        mask = masks * cells * tokens * (2 if flash_attention else _FLOAT)
        # What a product with quantised weights rounds its other side to, in buffers of the CPU's own.
        rounded = tokens * max(width, dense, experts * expert)
        return _FLOAT * max(feed_forward, attention, logits) + mask + rounded
