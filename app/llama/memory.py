"""Rewinding memory whose rows cannot simply be cut.

Attention keeps a row for each token, and a rollback cuts rows (context.py does that itself). A recurrent
layer keeps one state for all tokens, and a sliding window keeps only the last rows. Such memory is rewound in
one of three ways:

    window     cut rows, if the window before the cut is still there
    snapshots  restore one of the states that llama.cpp keeps for the last few tokens of a pass
    copy       load a copy of the state that was saved earlier, and read the tokens after it again

Each way falls back on those below it, and the last one on reading everything again. llama.cpp reports success
for some cuts that leave a wrong state, so the rules are checked here:

- a cut in a window is right only if the positions it leaves are those that the next token sees;
- a pass writes as many snapshots as it has tokens, so cutting all of them would restore a stale one;
- there can be only one cut between two passes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from app.llama.parameters import MAX_ROWS
from app.llama.settings import LEAST_TURNS, MOST_TURN_BYTES, MOST_TURNS, ContextSettings

if TYPE_CHECKING:
    from app.llama.model import Model

_PARTIAL = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY

State = NDArray[np.uint8]


class CopyRole(IntEnum):
    """What a copy is for. The greater role wins where two copies have the same length."""

    PASS = 0
    """The next pass may be rolled back. Only the last such copy is kept."""
    MARK = 1
    """Several passes will be made here and rolled back. Only the last such copy is kept."""
    TURN = 2
    """A later prompt is likely to begin with all that was read so far."""


class NativeSequence:
    """llama.cpp's memory of sequence 0."""

    def __init__(self, context: object) -> None:
        self._context = context
        self._memory = llama_cpp.llama_get_memory(context)

    def cut(self, length: int) -> bool:
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, 0, length, -1))

    def positions(self) -> tuple[int, int]:
        """The first and the last position that every layer still has, -1 if there is none."""
        return (
            llama_cpp.llama_memory_seq_pos_min(self._memory, 0),
            llama_cpp.llama_memory_seq_pos_max(self._memory, 0),
        )

    @property
    def size(self) -> int:
        """Current bytes of the part that cannot be cut."""
        return int(llama_cpp.llama_state_seq_get_size_ext(self._context, 0, _PARTIAL))

    def save(self) -> State | None:
        """A copy of that part; None if there is no memory for it."""
        try:
            state = np.empty(self.size, np.uint8)
        except MemoryError:
            return None
        if llama_cpp.llama_state_seq_get_data_ext(self._context, _bytes(state), len(state), 0, _PARTIAL):
            return state
        return None

    def load(self, state: State, length: int) -> bool:
        """Restore a copy that was saved after `length` tokens, and cut the rows after them."""
        read = llama_cpp.llama_state_seq_set_data_ext(self._context, _bytes(state), len(state), 0, _PARTIAL)
        return bool(read) and self.cut(length) and self.positions()[1] == length - 1


@dataclass(slots=True, eq=False)
class _Saved:
    length: int
    role: CopyRole
    state: State


class CopiedMemory:
    """Rewinds to a copy that was saved earlier. tokens: all tokens in the memory."""

    label = "copied state"
    copies = True

    def __init__(self, native: NativeSequence) -> None:
        self.tokens: list[int] = []
        self._native = native
        # Sorted by length, at most one for each length.
        self._saved: list[_Saved] = []

    @property
    def state_bytes(self) -> int:
        """Bytes that a copy takes now."""
        return self._native.size

    @property
    def saved_bytes(self) -> int:
        """Bytes of all saved copies."""
        return sum(len(saved.state) for saved in self._saved)

    def prepare(self, width: int) -> None:
        """A pass of `width` tokens follows, which may be rolled back or fail."""
        self.save(CopyRole.PASS)

    def decoded(self, tokens: Sequence[int]) -> None:
        """A pass has added these tokens to the memory."""
        self.tokens += tokens

    def save(self, role: CopyRole) -> None:
        """Keep a copy of the memory, so that `rewind` can return to it. Without memory for one, `rewind` must
        go further back."""
        length = len(self.tokens)
        if length == 0:
            return
        last = self._saved[-1] if self._saved else None
        if last is None or last.length != length:
            self._drop(role)
            state = self._native.save()
            if state is not None:
                self._saved.append(_Saved(length, role, state))
        elif role > last.role:
            self._drop(role)
            last.role = role

    def rewind(self, length: int) -> list[int]:
        """Go back to `length` tokens or fewer. Returns those that must be read again to reach `length`."""
        self._forget(length)
        while self._saved and not self._native.load(self._saved[-1].state, self._saved[-1].length):
            self._saved.pop()
        reached = self._saved[-1].length if self._saved else 0
        if reached == 0:
            # All of a sequence can always be removed.
            self._native.cut(0)
        again = self.tokens[reached:length]
        del self.tokens[reached:]
        return again

    def recover(self) -> None:
        """A pass failed, or other code has used the memory: go back to a copy."""
        CopiedMemory.rewind(self, len(self.tokens))

    def _keep(self, length: int) -> list[int]:
        """The memory now holds `length` tokens, none of which must be read again."""
        self._forget(length)
        del self.tokens[length:]
        return []

    def _forget(self, length: int) -> None:
        """Drop copies that hold more than `length` tokens."""
        while self._saved and self._saved[-1].length > length:
            self._saved.pop()

    def _drop(self, role: CopyRole) -> None:
        """Make room for one more copy of this role."""
        held = [saved for saved in self._saved if saved.role == role]
        if role == CopyRole.TURN:
            size = sum(len(saved.state) for saved in held)
            room = MOST_TURN_BYTES * len(held) // max(1, size)
            held = held[: max(0, len(held) + 1 - max(LEAST_TURNS, min(MOST_TURNS, room)))]
        for saved in held:
            self._saved.remove(saved)


class SnapshotMemory(CopiedMemory):
    """Restores one of the states that llama.cpp kept from the last pass."""

    label = "snapshots"

    def __init__(self, native: NativeSequence, count: int) -> None:
        """count: states that are kept besides the last one."""
        super().__init__(native)
        self._count = count
        # Usable snapshots of the last pass, counting its final state; 0 if none may be restored.
        self._fresh = 0

    def prepare(self, width: int) -> None:
        if width - 1 > self._count:
            super().prepare(width)

    def decoded(self, tokens: Sequence[int]) -> None:
        super().decoded(tokens)
        self._fresh = min(len(tokens), self._count + 1)

    def rewind(self, length: int) -> list[int]:
        fresh, self._fresh = self._fresh, 0
        if length and 0 < len(self.tokens) - length < fresh and self._native.cut(length):
            return self._keep(length)
        return super().rewind(length)

    def recover(self) -> None:
        self._fresh = 0
        super().recover()


class WindowMemory(CopiedMemory):
    """Cuts rows, if the window before the cut is still there."""

    label = "sliding window"

    def __init__(self, native: NativeSequence, window: int, spare: int) -> None:
        """spare: how many rows the windowed layers keep beyond the window."""
        super().__init__(native)
        self._window, self._spare = window, spare

    def prepare(self, width: int) -> None:
        if width > self._spare:
            super().prepare(width)

    def save(self, role: CopyRole) -> None:
        # Drafts are shorter than the spare rows.
        if role != CopyRole.MARK:
            super().save(role)

    def rewind(self, length: int) -> list[int]:
        first, _ = self._native.positions()
        whole = 0 <= first <= max(0, length - self._window + 1)
        if length and whole and self._native.cut(length) and self._native.positions()[1] == length - 1:
            return self._keep(length)
        return super().rewind(length)

    def recover(self) -> None:
        self.rewind(len(self.tokens))


class WholeWindowMemory(WindowMemory):
    """Keeps all rows of the windowed layers, so that it needs no copies."""

    copies = False

    def save(self, role: CopyRole) -> None:
        pass


def memory_for(model: Model, pointer: object, settings: ContextSettings, length: int) -> CopiedMemory | None:
    """How to rewind the memory of a context of `length` tokens; None if its rows can be cut."""
    native = NativeSequence(pointer)
    if model.recurrent:
        # llama.cpp accepts any number, but many architectures have no snapshots.
        snapshots = int(llama_cpp.llama_n_rs_seq(pointer))
        return SnapshotMemory(native, snapshots) if snapshots else CopiedMemory(native)
    if not model.window:
        return None
    if settings.whole_window or settings.exact:
        return WholeWindowMemory(native, model.window, length)
    # llama.cpp keeps this many more rows, and rounds up.
    return WindowMemory(native, model.window, max(settings.chunk, MAX_ROWS))


def _bytes(state: State) -> ctypes._Pointer[ctypes.c_uint8]:
    return state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
