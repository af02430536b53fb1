"""A context: the cache of one model, and forward passes over it.

Tokens occupy positions 0 … length - 1 of llama.cpp's sequence 0. A forward appends tokens and a rollback cuts
them. A tree of tokens is also read in one pass: each branch is a sequence until one of them is committed.
Logits are never copied: rows are views into llama.cpp's buffer, valid until the next forward.

Memory that cannot be cut is rewound to an earlier length, see memory.py. The tokens from there to the length
that was wanted are pending: they count as held, and the next forward reads them again in the same pass.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable, Sequence

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from app.errors import SpecchatError
from app.llama.batch import Batch, Tree
from app.llama.candidates import Candidates, DeviceTopK
from app.llama.chunks import ChunkSize
from app.llama.memory import CopiedMemory, CopyRole, memory_for
from app.llama.model import MemoryShort, Model, memory_was_short
from app.llama.native import NativeOwner, array_at, native_log
from app.llama.parameters import MAX_ROWS, context_parameters
from app.llama.settings import ContextSettings
from app.llama.threads import Threads, performance_cores

# On a CPU llama.cpp computes the same bits for a position in passes of 2 to 48 positions, and different bits
# in a pass of 1 or a wider one (measured).
_EXACT_WIDTHS = (2, 48)


class Interrupted(Exception):
    """`Context.stop` ended a long forward; the cache holds a prefix of its tokens."""


class Context(NativeOwner):
    """The cache of a model, and the only way to run it. Close it before its model."""

    def __init__(self, model: Model, length: int, settings: ContextSettings | None = None) -> None:
        """Make a cache for `length` tokens.

        Raises SpecchatError if llama.cpp fails (cache types), MemoryShort if it gets no memory. Linux seldom
        refuses memory: it promises more than there is, and ends the process that uses it.
        """
        settings = settings or ContextSettings()
        if settings.branches > 1 and (model.recurrent or model.window):
            raise ValueError("trees need memory that can be cut")
        log = native_log()
        log.faults.clear()
        threads = settings.threads or performance_cores()
        self.threads = Threads(threads, threads)
        parameters = context_parameters(model, length, settings, self.threads)
        self._vocabulary_size = model.vocabulary.size
        # A pass for candidates may be rolled back as a whole: recurrent memory would need a copy.
        candidates = 0 if model.recurrent else settings.candidates
        self._top_k = DeviceTopK(candidates, self._vocabulary_size, parameters)
        pointer = llama_cpp.llama_init_from_model(model.pointer, parameters)
        if not pointer:
            self._top_k.free()
            reason = log.faults[-1].strip() if log.faults else "llama.cpp gave no reason"
            kind = MemoryShort if memory_was_short(log.faults) else SpecchatError
            raise kind(
                f"No context of {length:,} tokens could be made ({reason}): "
                "try a smaller --ctx or another --kv-type."
            )
        self.model = model
        self.settings = settings
        # The context whose numbers of threads this one uses, in each pass.
        self.thread_source: Context | None = None
        self.pointer = pointer
        self.min_width, self._most = _EXACT_WIDTHS if settings.exact else (1, MAX_ROWS)
        self.capacity = length
        # In exact mode the cache must not depend on the width of passes either: an earlier prompt was read in
        # other chunks.
        chunk = self._most if settings.exact else settings.chunk
        self._chunk = ChunkSize(chunk, adapts=model.on_gpu and not settings.exact)
        self.seconds = 0.0
        self.stop: Callable[[], bool] = _never
        self._memory = llama_cpp.llama_get_memory(pointer)
        # Tokens in llama.cpp's memory, and the tree that the last pass added after them.
        self._held = 0
        self._tree: Tree | None = None
        # Where rows cannot simply be cut: how to rewind, and the tokens to read again after that.
        self._rewinder = memory_for(model, pointer, settings, length)
        self._pending: list[int] = []
        # A length, and how many tokens were read again after it, in pass after pass. Beyond the limit pending
        # tokens are read in a separate pass, and the memory can then return to the length after them.
        self._carried = (0, 0)
        self.reread_limit = 8
        # Exact mode reads a single pending token together with others.
        self.max_width = self._most - 1 if self._rewinder and settings.exact else self._most
        self._batch = Batch(int(parameters.n_batch), settings.branches)
        self._row_views: dict[tuple[int, int], NDArray[np.float32]] = {}
        self._abort = llama_cpp.ggml_abort_callback(lambda _: self.stop())
        self._no_abort = llama_cpp.ggml_abort_callback()
        self._free = weakref.finalize(self, _free_context, pointer, self._batch.native, self._top_k)

    @property
    def length(self) -> int:
        """Number of tokens before the next forward."""
        return self._held + len(self._pending)

    @property
    def pending(self) -> int:
        """How many of them the next forward must read again."""
        return len(self._pending)

    @property
    def copies(self) -> bool:
        """Whether rewinding far needs a copy, see `keep`."""
        return self._rewinder is not None and self._rewinder.copies

    @property
    def memory_kind(self) -> str:
        """How the memory is rewound, in a word or two."""
        return self._rewinder.label if self._rewinder else "attention"

    @property
    def state_bytes(self) -> int:
        """Bytes of the part of the memory that cannot be cut, and so of a copy of it; 0 for attention."""
        return self._rewinder.state_bytes if self._rewinder else 0

    def use_threads(self, threads: Threads) -> None:
        """Use these numbers of threads from the next pass on. A change costs 20 µs; builds without OpenMP
        (macOS) start threads for each pass anyway."""
        if threads != self.threads:
            llama_cpp.llama_set_n_threads(self.pointer, *threads)
            self.threads = threads

    @property
    def candidates(self) -> int:
        """How many of each row's largest logits `forward_candidates` returns; 0 if it is not supported."""
        return self._top_k.count

    def forward(self, tokens: Sequence[int], rows: int = 1) -> NDArray[np.float32]:
        """Append tokens; logits (rows, V) after the last `rows` of them.

        More than `max_width` tokens are read in chunks. Only then is `stop` called, between chunks and, on a
        CPU, within them: a chunk can take seconds, and a person should wait no longer than 200 ms.
        The result is a view that the next forward overwrites.

        Raises Interrupted (the cache then holds all finished chunks), and SpecchatError if llama.cpp fails.
        """
        total = len(tokens)
        length = self.length
        if length + total > self.capacity:
            raise ValueError(f"{total} tokens do not fit after {length}")
        if rows > min(self.max_width, total):
            raise ValueError(f"{rows} rows of {total} tokens")
        if self._pending:
            tokens = self._with_pending(tokens)
            total = len(tokens)
        # With hidden states llama.cpp gives a row for every token of a pass, so read the head without rows.
        head = total - rows if total > self._most or self.settings.hidden_states else 0
        if head:
            self._read(tokens[:head])
        if rows == 0:
            if head == 0:
                self._decode_silent(tokens)
            return np.empty((0, self._vocabulary_size), np.float32)
        return self._decode_rows(tokens[head:], rows)

    def forward_candidates(self, tokens: Sequence[int]) -> Candidates | None:
        """Append at most `max_width` tokens; the largest logits after each of them. None if the device turns
        out not to support top-k; the tokens are appended all the same."""
        if len(tokens) > min(self.max_width, self.capacity - self.length):
            raise ValueError(f"{len(tokens)} rows do not fit after {self.length} tokens")
        if self._pending:
            self._read(self._with_pending(()))
        self._top_k.attach(self.pointer)
        self._decode(tokens, len(tokens))
        return self._top_k.read(self.pointer, len(tokens))

    def _with_pending(self, tokens: Sequence[int]) -> Sequence[int]:
        """What the next pass reads. Each rejection leaves accepted tokens pending, and several in a row leave
        more and more. Beyond the limit these are read first, in a separate pass."""
        pending, self._pending = self._pending, []
        start, carried = self._carried
        carried = len(pending) + (carried if start == self._held else 0)
        self._carried = (self._held, carried)
        if carried <= self.reread_limit or len(pending) < self.min_width:
            return [*pending, *tokens]
        self._read(pending)
        return tokens

    def _read(self, tokens: Sequence[int]) -> None:
        """Append many tokens without logits, in chunks. `stop` can end it at any time, on a GPU only between
        chunks."""
        llama_cpp.llama_set_abort_callback(self.pointer, self._abort, None)
        try:
            start = 0
            while start < len(tokens):
                if self.stop():
                    raise Interrupted
                part = tokens[start : start + self._chunk.tokens]
                before = self.seconds
                self._decode_silent(part)
                start += len(part)
                self._chunk.observe(len(part), self.seconds - before)
        finally:
            llama_cpp.llama_set_abort_callback(self.pointer, self._no_abort, None)

    def _decode_silent(self, tokens: Sequence[int]) -> None:
        """One pass without logits."""
        if 0 < len(tokens) < self.min_width:
            self._decode_rows(tokens, 1)
        else:
            self._decode(tokens, 0)

    def _decode_rows(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        """One pass with logits. If exact mode widens it, the extra rows are dropped."""
        self._top_k.detach(self.pointer)
        if rows >= self.min_width:
            self._decode(tokens, rows)
            return self._rows(rows)
        end = self._held + len(tokens)
        padding = max(0, self.min_width - len(tokens))
        asked = self.min_width
        self._decode([*tokens, *[tokens[-1]] * padding], asked)
        if padding:
            self.rollback(end)
        first = asked - rows - padding
        return self._rows(asked)[first : first + rows]

    def _decode(self, tokens: Sequence[int], rows: int) -> None:
        count, length = len(tokens), self._held
        self._batch.fill(tokens, length, rows)
        # A plain pass is not rolled back.
        if self._rewinder is not None and count > 1:
            self._rewinder.prepare(count)
        self._run(count, rows)
        self._held = length + count
        if self._rewinder is not None:
            self._rewinder.decoded(tokens)

    def _run(self, count: int, rows: int) -> None:
        """One pass over the batch. If it raises, the memory is still consistent."""
        if self.thread_source is not None:
            self.use_threads(self.thread_source.threads)
        started = time.perf_counter()
        hidden = self.settings.hidden_states and rows > 0
        if hidden:
            llama_cpp.llama_set_embeddings(self.pointer, True)
        status = llama_cpp.llama_decode(self.pointer, self._batch.native)
        if hidden:
            llama_cpp.llama_set_embeddings(self.pointer, False)
        # On a GPU a decode returns before its work is done; asking for the logits waits for it. Without
        # logits, wait as well, or the time of a whole prompt would count towards the next pass.
        if status == 0 and rows:
            self._logits = llama_cpp.llama_get_logits(self.pointer)
        elif status == 0:
            llama_cpp.llama_synchronize(self.pointer)
        self.seconds += time.perf_counter() - started
        if status == 0:
            return
        # An aborted or failed pass may have left some of its tokens behind.
        self.recover()
        if status == 2:
            raise Interrupted
        fault = native_log().faults
        raise SpecchatError(
            f"llama.cpp could not run a pass of {count} tokens (code {status}"
            f"{': ' + fault[-1].strip() if fault else ''}): try a smaller --ctx."
        )

    def _rows(self, rows: int) -> NDArray[np.float32]:
        address = ctypes.addressof(self._logits.contents)
        view = self._row_views.get((address, rows))
        if view is None:
            # Making a view costs more than the rest of this call, and addresses rarely change.
            view = array_at(address, rows, self._vocabulary_size, np.float32)
            self._row_views[address, rows] = view
        return view

    def hidden_states(self, rows: int) -> NDArray[np.float32]:
        """Final hidden states (rows, width) for the rows of the last forward; a view, like the logits."""
        if not self.settings.hidden_states:
            raise ValueError("the context was made without hidden states")
        address = ctypes.cast(llama_cpp.llama_get_embeddings(self.pointer), ctypes.c_void_p).value or 0
        return array_at(address, rows, self.model.width, np.float32)

    def rollback(self, length: int) -> None:
        """Keep only the first `length` tokens. Raises SpecchatError if the memory cannot be cut."""
        held = self.length
        if length > held:
            raise ValueError(f"cannot roll {held} tokens back to {length}")
        if length == held:
            return
        if self._rewinder is not None:
            self._go_back(self._rewinder, length)
            return
        self._cut(length)
        self._held = length

    def rewind(self, length: int) -> int:
        """Keep those of the first `length` tokens that need not be read again, and return how many."""
        self.rollback(length)
        self._pending = []
        return self._held

    def _go_back(self, rewinder: CopiedMemory, length: int) -> None:
        read = self._held
        if length >= read:
            del self._pending[length - read :]
            return
        started = time.perf_counter()
        self._pending = rewinder.rewind(length)
        self._held = len(rewinder.tokens)
        self.seconds += time.perf_counter() - started

    def checkpoint(self) -> None:
        """Passes made from here will be rolled back: if rows cannot be cut, save a copy for that."""
        if self._rewinder is not None:
            self._rewinder.save(CopyRole.MARK)

    def keep(self) -> None:
        """A later prompt is likely to begin with these tokens: if rows cannot be cut, keep a copy."""
        if self._rewinder is not None:
            self._rewinder.save(CopyRole.TURN)

    def recover(self) -> None:
        """A pass failed, or other code has used llama.cpp's memory: keep only what is certainly right, which
        is everything if rows can be cut."""
        if self._rewinder is None:
            llama_cpp.llama_memory_seq_keep(self._memory, 0)
            self._cut(self._held)
        else:
            self._pending = []
            self._rewinder.recover()
            self._held = len(self._rewinder.tokens)

    def _cut(self, length: int) -> None:
        if not llama_cpp.llama_memory_seq_rm(self._memory, 0, length, -1):
            raise SpecchatError(
                f"The memory of {self.model.path.name} cannot be cut back to {length} tokens: "
                "load the model again."
            )

    def forward_tree(self, tokens: Sequence[int], tree: Tree) -> NDArray[np.float32]:
        """One pass over the next token, as the root, and a tree of tokens below it; logits (len(tokens), V).
        `commit` must be called next, to say which branch stays.

        The cells of all branches lie side by side, so later rows equal those of a chain only up to rounding.

        Raises ValueError if the tree does not fit, and Interrupted and SpecchatError like `forward`.
        """
        branches = len(tree.parents) - len(set(tree.parents) - {-1})
        if branches > self.settings.branches or len(tokens) > min(
            self.max_width, self.capacity - self.length
        ):
            raise ValueError(f"no room for {len(tokens)} tokens in {branches} branches")
        self._top_k.detach(self.pointer)
        count = self._batch.fill_tree(tokens, tree, self._held)
        for branch in range(1, count):
            llama_cpp.llama_memory_seq_cp(self._memory, 0, branch, -1, -1)
        try:
            self._run(len(tokens), len(tokens))
        finally:
            self._batch.clear_tree(len(tokens))
        self._tree = tree
        return self._rows(len(tokens))

    def commit(self, node: int) -> None:
        """Keep the root of the last tree and the path from it to a node, -1 for the root alone."""
        tree, start = self._tree, self._held
        if tree is None:
            raise ValueError("the last pass was not over a tree")
        self._tree = None
        branch, self._held = 0, start + 1
        if node >= 0:
            branch = tree.branches()[node][0]
            self._held += tree.depths()[node]
        if branch:
            self._cut(start)
            llama_cpp.llama_memory_seq_cp(self._memory, branch, 0, start, -1)
        llama_cpp.llama_memory_seq_keep(self._memory, 0)
        self._cut(self._held)


def _never() -> bool:
    return False


def _free_context(pointer: object, batch: object, top_k: DeviceTopK) -> None:
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(pointer)
    top_k.free()
