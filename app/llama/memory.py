"""Memory that cannot simply be cut, and the ways back in it.

Attention keeps a row for each token, and a rollback cuts rows (context.py does that itself). A recurrent
layer keeps one state for all tokens, a sliding window only the last rows. Such a memory goes back in one of
three ways:

    window     rows are cut, where the window in front of the cut is still there
    snapshots  llama.cpp keeps the states of the last few tokens of a pass, and takes one of them up again
    copy       a copy of the state that was saved earlier is loaded; what was read behind it is read again

Each can fall back on the ones below it, and the last on reading everything again. llama.cpp answers "done" to
some cuts that leave a wrong state behind, so what it can do is decided here and not by its answer:

- a window's cut is right where the positions that it leaves are those that the next token sees;
- a pass writes as many snapshots as it has tokens: cutting off all of them takes up a stale one. And there is
  one cut between two passes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from app.llama.model import Model
from app.llama.parameters import MAX_ROWS
from app.llama.settings import LEAST_TURNS, MOST_TURN_BYTES, MOST_TURNS, ContextSettings

_PARTIAL = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY

State = NDArray[np.uint8]


class Role(IntEnum):
    """What a copy is for; of two at one place the greater counts."""

    PASS = 0
    """The pass that comes next may be taken back. Only the last one stays."""
    MARK = 1
    """Passes are made here and taken back again, or tokens drafted. Only the last one stays."""
    TURN = 2
    """A later prompt is likely to share what was read until here."""


class NativeSequence:
    """llama.cpp's memory of sequence 0."""

    def __init__(self, context: object) -> None:
        self._context = context
        self._memory = llama_cpp.llama_get_memory(context)

    def cut(self, length: int) -> bool:
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, 0, length, -1))

    def positions(self) -> tuple[int, int]:
        """The first and the last position that every layer still has, -1 where there is none."""
        return (
            llama_cpp.llama_memory_seq_pos_min(self._memory, 0),
            llama_cpp.llama_memory_seq_pos_max(self._memory, 0),
        )

    @property
    def size(self) -> int:
        """Bytes of the part that cannot be cut, as it is now."""
        return int(llama_cpp.llama_state_seq_get_size_ext(self._context, 0, _PARTIAL))

    def save(self) -> State | None:
        """A copy of that part; None where there is no memory for it."""
        try:
            state = np.empty(self.size, np.uint8)
        except MemoryError:
            return None
        if llama_cpp.llama_state_seq_get_data_ext(self._context, _bytes(state), len(state), 0, _PARTIAL):
            return state
        return None

    def load(self, state: State, length: int) -> bool:
        """Take up a copy that was saved behind `length` tokens; the rows behind them are cut."""
        read = llama_cpp.llama_state_seq_set_data_ext(self._context, _bytes(state), len(state), 0, _PARTIAL)
        return bool(read) and self.cut(length) and self.positions()[1] == length - 1


class _Saved:
    __slots__ = ("length", "role", "state")

    def __init__(self, length: int, role: Role, state: State) -> None:
        self.length, self.role, self.state = length, role, state


class CopiedMemory:
    """Goes back to a copy that was saved earlier. tokens: what the memory holds, from the first on."""

    label = "copied state"
    copies = True

    def __init__(self, native: NativeSequence) -> None:
        self.tokens: list[int] = []
        self._native = native
        # In the order of their lengths, one at each.
        self._saved: list[_Saved] = []

    @property
    def state_bytes(self) -> int:
        """Bytes of a copy, as of now."""
        return self._native.size

    @property
    def saved_bytes(self) -> int:
        """Bytes of the copies that are held."""
        return sum(len(saved.state) for saved in self._saved)

    def prepare(self, width: int) -> None:
        """A pass of so many tokens comes, which may be taken back or fail."""
        self.hold(Role.PASS)

    def decoded(self, tokens: Sequence[int]) -> None:
        """A pass has put these tokens into the memory."""
        self.tokens += tokens

    def hold(self, role: Role) -> None:
        """Keep a copy of the memory as it is, so that `rewind` finds back here. Where there is no memory for
        one the way back is longer."""
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
        """Go back to `length` tokens or fewer; those of them that have to be read again."""
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
        """A pass failed, or someone else has used the memory: back to a copy."""
        CopiedMemory.rewind(self, len(self.tokens))

    def _forget(self, length: int) -> None:
        """Copies behind so many tokens are not of this history any more."""
        while self._saved and self._saved[-1].length > length:
            self._saved.pop()

    def _drop(self, role: Role) -> None:
        """Make room for one more copy of this role."""
        held = [saved for saved in self._saved if saved.role == role]
        if role == Role.TURN:
            size = sum(len(saved.state) for saved in held)
            room = MOST_TURN_BYTES * len(held) // max(1, size)
            held = held[: max(0, len(held) + 1 - max(LEAST_TURNS, min(MOST_TURNS, room)))]
        for saved in held:
            self._saved.remove(saved)


class SnapshotMemory(CopiedMemory):
    """Takes up one of the states that llama.cpp kept of the last pass."""

    label = "snapshots"

    def __init__(self, native: NativeSequence, count: int) -> None:
        """count: states that are kept beside the last one."""
        super().__init__(native)
        self._count = count
        # Snapshots of the last pass, itself among them; 0 where none may be taken up.
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
            self._forget(length)
            del self.tokens[length:]
            return []
        return super().rewind(length)

    def recover(self) -> None:
        self._fresh = 0
        super().recover()


class WindowMemory(CopiedMemory):
    """Cuts rows, where the window in front of the cut is still there."""

    label = "sliding window"

    def __init__(self, native: NativeSequence, window: int, spare: int) -> None:
        """spare: rows that the windowed layers keep beyond the window."""
        super().__init__(native)
        self._window, self._spare = window, spare

    def prepare(self, width: int) -> None:
        if width > self._spare:
            super().prepare(width)

    def hold(self, role: Role) -> None:
        # A draft is shorter than what is spare.
        if role != Role.MARK:
            super().hold(role)

    def rewind(self, length: int) -> list[int]:
        first, _ = self._native.positions()
        seen = 0 <= first <= max(0, length - self._window + 1)
        if length == 0 or not seen or not self._native.cut(length):
            return super().rewind(length)
        if self._native.positions()[1] != length - 1:
            return super().rewind(length)
        self._forget(length)
        del self.tokens[length:]
        return []

    def recover(self) -> None:
        self.rewind(len(self.tokens))


class WholeWindowMemory(WindowMemory):
    """All rows of the windowed layers are kept, so that no copy is needed."""

    copies = False

    def __init__(self, native: NativeSequence, window: int, capacity: int) -> None:
        super().__init__(native, window, capacity)

    def hold(self, role: Role) -> None:
        pass


def memory_of(model: Model, pointer: object, settings: ContextSettings, length: int) -> CopiedMemory | None:
    """How the memory of a context of so many tokens goes back; None where rows can be cut."""
    native = NativeSequence(pointer)
    if model.recurrent:
        # llama.cpp takes any number, and has no snapshots all the same in many architectures.
        snapshots = int(llama_cpp.llama_n_rs_seq(pointer))
        return SnapshotMemory(native, snapshots) if snapshots else CopiedMemory(native)
    if not model.window:
        return None
    if settings.whole_window or settings.exact:
        return WholeWindowMemory(native, model.window, length)
    # llama.cpp keeps so many rows more, and rounds up.
    return WindowMemory(native, model.window, max(settings.chunk, MAX_ROWS))


def _bytes(state: State) -> ctypes._Pointer[ctypes.c_uint8]:
    return state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
