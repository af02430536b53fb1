"""What a header says of a model's layers: which attend, which slide or recur, and what each of them keeps.

The rules are llama.cpp's (llama-model.cpp, `load_hparams`).
"""

from __future__ import annotations

from app.models.gguf import Header
from app.models.gguf_source import Array

# Of so many layers one attends to the whole context, the others to a sliding window.
WINDOW_PERIODS = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "cohere2": 4, "olmo2": 4}
WINDOW_PATTERN = "attention.sliding_window_pattern"
# The same for recurrent layers: of four, one attends.
_GATED_PERIODS = dict.fromkeys(("qwen3next", "qwen35", "qwen35moe"), 4)
# Families without a cache of keys and values.
_RECURRENT = ("mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7")
# This one keeps both in each layer.
_BOTH = "falcon-h1"

# Rows of logits that a pass is made for (app.llama.context.MAX_ROWS).
LOGIT_ROWS = 64
# What llama.cpp rounds a context up to.
CELLS = 256
FLOAT = 4


def memory_kind(header: Header) -> str | None:
    """recurrent, hybrid (recurrent layers beside attention) or sliding window; None for plain attention.

    The catalogue uses the same words."""
    shape = Shape(header)
    if shape.state_bytes:
        return "hybrid" if shape.keeps_rows else "recurrent"
    named = any(header.value(key) is not None for key in (WINDOW_PATTERN, "attention.key_length_swa"))
    return "sliding window" if shape.window or (named and shape.number("attention.sliding_window")) else None


class Shape:
    """Numbers of layers, heads and widths. Sizes are in bytes unless they are said to be numbers."""

    def __init__(self, header: Header) -> None:
        self._header = header
        architecture = header.architecture or ""
        # Prediction layers after the last one have a context of their own.
        self.layers = max(0, (header.block_count or 0) - self.number("nextn_predict_layers"))
        self.vocabulary = header.vocabulary_size or 0
        self.width = self.number("embedding_length")
        self._both = architecture == _BOTH
        self._heads = self._each("attention.head_count", 0)
        most = max(self._heads, default=0)
        self._cache_heads = self._each("attention.head_count_kv", None) or self._heads
        self._key = self.number("attention.key_length", self.width // most if most else 0)
        self._value = self.number("attention.value_length", self.width // most if most else 0)
        self._recurrent = self._recurrent_layers(architecture)
        nowhere = (False,) * self.layers
        # Layers with a window may have heads of another size.
        self._other_heads = self._window_layers(0) if self.number("attention.key_length_swa") else nowhere
        window, period = self.number("attention.sliding_window"), WINDOW_PERIODS.get(architecture)
        self._slides = self._window_layers(period) if window and period else nowhere
        # Tokens that layers with a sliding window see, where it is known which layers these are; else 0.
        self.window = window if any(self._slides) else 0

    def number(self, key: str, default: int = 0) -> int:
        """The positive number at this key of the architecture, else `default`."""
        return self._header.count(key) or default

    def _each(self, key: str, default: int | None) -> tuple[int, ...]:
        """A number for each layer: the header has one for all, or a list."""
        if isinstance(self._header.value(key), Array):
            # A file may hold anything there, which llama.cpp refuses.
            listed = self._header.array(f"{self._header.architecture}.{key}")
            values = tuple(value if isinstance(value, int) else 0 for value in listed)
            return (*values, *[0] * self.layers)[: self.layers]
        number = self._header.count(key)
        if number is None and default is None:
            return ()
        return (number or default or 0,) * self.layers

    def _recurrent_layers(self, architecture: str) -> tuple[bool, ...]:
        if architecture in _RECURRENT:
            return (True,) * self.layers
        listed = self._each("attention.recurrent_layers", None)
        if listed:
            return tuple(map(bool, listed))
        period = self.number("full_attention_interval", _GATED_PERIODS.get(architecture, 0))
        if period:
            return tuple((layer + 1) % period != 0 for layer in range(self.layers))
        return tuple(heads == 0 for heads in self._cache_heads) or (False,) * self.layers

    def _window_layers(self, period: int) -> tuple[bool, ...]:
        """Which layers have a window: as the header lists them, or all but each n-th; period: n where the
        header does not say."""
        if isinstance(self._header.value(WINDOW_PATTERN), Array):
            return tuple(map(bool, self._each(WINDOW_PATTERN, 0)))
        period = self.number(WINDOW_PATTERN, period)
        return tuple(bool(period) and layer % period < period - 1 for layer in range(self.layers))

    @property
    def state_bytes(self) -> int:
        """The state that recurrent layers keep, which each copy or snapshot of it takes; 0 without."""
        return sum(map(self.state, range(self.layers)))

    @property
    def keeps_rows(self) -> bool:
        """Whether any layer keeps keys and values of each token."""
        return any(map(self.cached, range(self.layers)))

    def cells(self, layer: int, cells: int, tokens: int) -> int:
        """Rows that a layer keeps of `cells` where its window is cut short. tokens: of the widest pass."""
        short = -(-(self.window + tokens) // CELLS) * CELLS
        return min(cells, short) if self._slides[layer] else cells

    def cached(self, layer: int) -> int:
        """Numbers that a layer keeps for each token."""
        shared = self.number("attention.shared_kv_layers")
        if (self._recurrent[layer] and not self._both) or (shared and layer >= self.layers - shared):
            return 0
        key, value = self._key, self._value
        if self._other_heads[layer]:
            key = self.number("attention.key_length_swa", key)
            value = self.number("attention.value_length_swa", value)
        if self.number("attention.key_length_mla"):
            value = 0  # latent attention computes the values from what it keeps as keys
        return self._cache_heads[layer] * (key + value)

    def state(self, layer: int) -> int:
        """A recurrent layer's state."""
        if not (self._recurrent[layer] or self._both):
            return 0
        number = self.number
        inner, state = number("ssm.inner_size"), number("ssm.state_size")
        if number("wkv.head_size"):
            kept = self.width * (number("token_shift_count", 2) + number("wkv.head_size"))
        elif number("shortconv.l_cache"):
            kept = self.width * (number("shortconv.l_cache") - 1)
        else:
            convolved = inner + 2 * number("ssm.group_count") * state
            kept = max(0, number("ssm.conv_kernel") - 1) * convolved + inner * state
        return kept * FLOAT

    def products(self, cells: int, tokens: int, flash_attention: bool) -> int:
        """The buffer that a pass of `tokens` computes in: its hungriest stage and the masks."""
        number, width = self.number, self.width
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
        mask = masks * cells * tokens * (2 if flash_attention else FLOAT)
        # What a product with quantised weights rounds its other side to, in buffers of the CPU's own.
        rounded = tokens * max(width, dense, experts * expert)
        return FLOAT * max(feed_forward, attention, logits) + mask + rounded
