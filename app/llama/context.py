"""A context: the cache of one model, and forward passes over it.

Tokens occupy positions 0 … length - 1 of llama.cpp's sequence 0. A forward appends; a rollback cuts. A tree
of tokens is read in one pass too: each of its branches is a sequence of its own until one is committed.
Nothing here copies logits: rows are views into llama.cpp's buffer, valid until the next forward.

Memory that cannot be cut goes back to an earlier place, see memory.py. What lies between that and the place
that was asked for counts as held all the same: the next forward reads it again, in the same pass.
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
from app.llama.memory import CopiedMemory, Role, memory_of
from app.llama.model import MemoryShort, Model, memory_was_short
from app.llama.native import array_at, native_log
from app.llama.parameters import MAX_ROWS, context_parameters
from app.llama.settings import ContextSettings
from app.llama.threads import Threads, performance_cores

# On a CPU llama.cpp gives a position the same bits in passes of 2 to 48 positions, and other bits in
# a pass of 1 and in wider ones (measured).
_EXACT_WIDTHS = (2, 48)


class Interrupted(Exception):
    """A long forward was stopped by `Context.stop`; the cache holds a whole prefix of its tokens."""


class Context:
    """The cache of a model, and the only way to run it. Close it before its model."""

    def __init__(self, model: Model, length: int, settings: ContextSettings | None = None) -> None:
        """Make a cache for `length` tokens.

        Raises SpecchatError where llama.cpp cannot (cache types), MemoryShort where a buffer of it was
        refused. Linux seldom refuses: it hands out more than there is and ends the process that uses it.
        """
        settings = settings or ContextSettings()
        if settings.branches > 1 and (model.recurrent or model.window):
            raise ValueError("trees are for memory that can be cut")
        log = native_log()
        log.faults.clear()
        threads = settings.threads or performance_cores()
        self.threads = Threads(threads, threads)
        parameters = context_parameters(model, length, settings, self.threads)
        self._vocabulary_size = model.vocabulary.size
        # A pass for candidates alone may be taken back altogether.
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
        self.leader: Context | None = None  # whose numbers of threads are taken over, pass by pass
        self.pointer = pointer
        self.narrowest, self._most = _EXACT_WIDTHS if settings.exact else (1, MAX_ROWS)
        self.capacity = length
        # In exact mode the cache may not depend on the width of its passes either: what it holds of an
        # earlier prompt was read in other chunks.
        chunk = self._most if settings.exact else settings.chunk
        self._chunk = ChunkSize(chunk, adapts=model.on_gpu and not settings.exact)
        self.seconds = 0.0
        self.stop: Callable[[], bool] = _never
        self._memory = llama_cpp.llama_get_memory(pointer)
        # Tokens in llama.cpp's memory, and the tree that the last pass put behind them.
        self._held = 0
        self._tree: Tree | None = None
        # Where rows cannot simply be cut: how it goes back, and what it has to read again then.
        self._rewinder = memory_of(model, pointer, settings, length)
        self._pending: list[int] = []
        # How many tokens were read again from a place on, along with others in pass after pass; and after how
        # many they are read alone, which costs a pass and is the end of it.
        self._carried = (0, 0)
        self.patience = 8
        # Exact mode reads a single token that is pending in a pass with others.
        self.widest = self._most - 1 if self._rewinder and settings.exact else self._most
        self._batch = Batch(int(parameters.n_batch), settings.branches)
        self._row_views: dict[tuple[int, int], NDArray[np.float32]] = {}
        self._abort = llama_cpp.ggml_abort_callback(lambda _: self.stop())
        self._no_abort = llama_cpp.ggml_abort_callback()
        self._free = weakref.finalize(self, _free_context, pointer, self._batch.native, self._top_k)

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._free()

    @property
    def length(self) -> int:
        """Tokens that the next forward follows."""
        return self._held + len(self._pending)

    @property
    def pending(self) -> int:
        """How many of them the next forward has to read again."""
        return len(self._pending)

    @property
    def copies(self) -> bool:
        """Whether going back far needs a copy that was kept, see `keep`."""
        return self._rewinder is not None and self._rewinder.copies

    @property
    def memory_kind(self) -> str:
        """How the memory goes back, in a word or two."""
        return self._rewinder.label if self._rewinder else "attention"

    @property
    def state_bytes(self) -> int:
        """Bytes of the part of the memory that cannot be cut, which a copy of it takes; 0 for attention."""
        return self._rewinder.state_bytes if self._rewinder else 0

    def use_threads(self, threads: Threads) -> None:
        """Make passes with so many threads from the next one on, which costs 20 µs; builds without OpenMP
        (macOS) make a pool of threads for each pass anyway."""
        if threads != self.threads:
            llama_cpp.llama_set_n_threads(self.pointer, *threads)
            self.threads = threads

    @property
    def candidates(self) -> int:
        """How many of each row's largest logits `forward_candidates` gives; 0 where it cannot."""
        return self._top_k.count

    def forward(self, tokens: Sequence[int], rows: int = 1) -> NDArray[np.float32]:
        """Append tokens; logits (rows, V) after the last `rows` of them.

        More tokens than `widest` are read in chunks, and only then `stop` is asked, between chunks and, on
        a CPU, inside them: the caller wants an answer within 200 ms, and a chunk can take seconds.
        The result is a view that the next forward overwrites.

        Raises Interrupted (the cache then holds the chunks that were finished), and SpecchatError
        where llama.cpp fails.
        """
        total = len(tokens)
        length = self.length
        if length + total > self.capacity:
            raise ValueError(f"{total} tokens do not fit behind {length}")
        if rows > min(self.widest, total):
            raise ValueError(f"{rows} rows asked of {total} tokens")
        if self._pending:
            tokens = self._with_pending(tokens)
            total = len(tokens)
        # Where hidden states are wanted llama.cpp gives a row for every token of a pass.
        head = total - rows if total > self._most or self.settings.hidden_states else 0
        if head:
            self._read(tokens[:head])
        if rows == 0:
            if head == 0:
                self._decode_silent(tokens)
            return np.empty((0, self._vocabulary_size), np.float32)
        return self._decode_rows(tokens[head:], rows)

    def forward_candidates(self, tokens: Sequence[int]) -> Candidates | None:
        """Append tokens, at most `widest`; the largest logits after each of them. None where
        the device turns out to have no top-k: the tokens are appended all the same."""
        if len(tokens) > min(self.widest, self.capacity - self.length):
            raise ValueError(f"{len(tokens)} rows asked behind {self.length} tokens")
        if self._pending:
            self._read(self._with_pending(()))
        self._top_k.put_in(self.pointer)
        self._decode(tokens, len(tokens))
        return self._top_k.of_last_pass(self.pointer, len(tokens))

    def _with_pending(self, tokens: Sequence[int]) -> Sequence[int]:
        """What the next pass reads. A rejection leaves accepted tokens pending, and several in a row ever
        more: then these are read first, alone, and the memory can go back to the place behind them."""
        pending, self._pending = self._pending, []
        start, carried = self._carried
        carried = len(pending) + (carried if start == self._held else 0)
        self._carried = (self._held, carried)
        if carried <= self.patience or len(pending) < self.narrowest:
            return [*pending, *tokens]
        self._read(pending)
        return tokens

    def _read(self, tokens: Sequence[int]) -> None:
        """Append many tokens without logits, chunk by chunk; `stop` may end it at any time, but on a GPU only
        between chunks."""
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
        if 0 < len(tokens) < self.narrowest:
            self._decode_rows(tokens, 1)
        else:
            self._decode(tokens, 0)

    def _decode_rows(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        """One pass with logits. Where exact mode widens it, the rest of the product is thrown away."""
        self._top_k.take_out(self.pointer)
        if rows >= self.narrowest:
            self._decode(tokens, rows)
            return self._rows(rows)
        end = self._held + len(tokens)
        padding = max(0, self.narrowest - len(tokens))
        asked = self.narrowest
        self._decode([*tokens, *[tokens[-1]] * padding], asked)
        if padding:
            self.rollback(end)
        first = asked - rows - padding
        return self._rows(asked)[first : first + rows]

    def _decode(self, tokens: Sequence[int], rows: int) -> None:
        count, length = len(tokens), self._held
        self._batch.fill(tokens, length, rows)
        # A plain pass is not taken back.
        if self._rewinder is not None and count > 1:
            self._rewinder.prepare(count)
        self._run(count, rows)
        self._held = length + count
        if self._rewinder is not None:
            self._rewinder.decoded(tokens)

    def _run(self, count: int, rows: int) -> None:
        """One pass over what is in the batch. Where it raises, the memory is in order."""
        if self.leader is not None:
            self.use_threads(self.leader.threads)
        started = time.perf_counter()
        hidden = self.settings.hidden_states and rows > 0
        if hidden:
            llama_cpp.llama_set_embeddings(self.pointer, True)
        status = llama_cpp.llama_decode(self.pointer, self._batch.native)
        if hidden:
            llama_cpp.llama_set_embeddings(self.pointer, False)
        # On a GPU a decode returns before its work is done; asking for the logits waits for it. What is only
        # read is waited for as well, else the pass behind it pays for a whole prompt.
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
            # Making a view costs more than the rest of this call; addresses rarely change.
            view = array_at(address, rows, self._vocabulary_size, np.float32)
            self._row_views[address, rows] = view
        return view

    def hidden_states(self, rows: int) -> NDArray[np.float32]:
        """Final hidden states (rows, width) of the last forward's rows, a view like its logits."""
        if not self.settings.hidden_states:
            raise ValueError("the context was made without hidden states")
        address = ctypes.cast(llama_cpp.llama_get_embeddings(self.pointer), ctypes.c_void_p).value or 0
        return array_at(address, rows, self.model.width, np.float32)

    def rollback(self, length: int) -> None:
        """Keep the first `length` tokens. Raises SpecchatError where the memory cannot be cut."""
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
        """Keep as many of the first `length` tokens as need not be read again; how many."""
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
        """Passes will be made here and taken back: where rows cannot be cut, make that cheap."""
        if self._rewinder is not None:
            self._rewinder.hold(Role.MARK)

    def keep(self) -> None:
        """A later prompt is likely to share what is held now: where rows cannot be cut, keep a copy."""
        if self._rewinder is not None:
            self._rewinder.hold(Role.TURN)

    def recover(self) -> None:
        """Something else has used llama.cpp's memory behind the tokens that are held, or a pass failed: hold
        what is certain to be right, where rows can be cut all of it."""
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
        """One pass over the next token, the root, and a tree of tokens behind it; logits (len(tokens), V), a
        row for each of them. `commit` says which branch stays, before anything else is done.

        The branches' cells lie beside each other afterwards. Later rows are those of a chain up to
        rounding, and not to the last bit.

        Raises ValueError where the tree does not fit, and Interrupted and SpecchatError as `forward` does.
        """
        branches = len(tree.parents) - len(set(tree.parents) - {-1})
        if branches > self.settings.branches or len(tokens) > min(self.widest, self.capacity - self.length):
            raise ValueError(f"no room for {len(tokens)} tokens in {branches} branches")
        self._top_k.take_out(self.pointer)
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
        """Keep the last tree's root and what leads from it to a node, -1 for the root alone; the rest is
        dropped."""
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
