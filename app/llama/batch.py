"""llama.cpp's batch: the tokens of one pass, their positions and their sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import llama_cpp


@dataclass(frozen=True, slots=True)
class Tree:
    """The shape of a tree of tokens below a root.

    parents: for each node the index of its parent, always smaller than its own, or -1 for the root.
    """

    parents: tuple[int, ...]

    def branches(self) -> list[tuple[int, ...]]:
        """For each node the leaves at or below it, numbered from 0 in the order of the nodes."""
        count = len(self.parents)
        inner = set(self.parents)
        below: list[tuple[int, ...]] = [()] * count
        for number, leaf in enumerate(node for node in range(count) if node not in inner):
            node = leaf
            while node >= 0:
                below[node] = (*below[node], number)
                node = self.parents[node]
        return below

    def depths(self) -> list[int]:
        """For each node its distance from the root: 1 for the root's children."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return depths


class Batch:
    """Buffers for the tokens of one pass. The owner frees `native`, once."""

    def __init__(self, slots: int, sequences: int) -> None:
        self.native = llama_cpp.llama_batch_init(slots, 0, sequences)
        # Each access to a field of a ctypes structure makes a new object, so keep these pointers.
        self._tokens, self._positions = self.native.token, self.native.pos
        self._outputs = self.native.logits
        for index in range(slots):
            self.native.n_seq_id[index] = 1
            self.native.seq_id[index][0] = 0

    def fill(self, tokens: Sequence[int], position: int, rows: int) -> None:
        """Tokens of sequence 0, starting at a position; logits are wanted for the last `rows`."""
        # For the few tokens of a usual pass a plain loop is faster than numpy.
        silent = len(tokens) - rows
        for index, token in enumerate(tokens):
            self._tokens[index] = token
            self._positions[index] = position + index
            self._outputs[index] = index >= silent
        self.native.n_tokens = len(tokens)

    def fill_tree(self, tokens: Sequence[int], tree: Tree, position: int) -> int:
        """A root and the nodes of its tree, each in the sequences of the branches through it, so that
        llama.cpp's own mask is the tree's. Returns the number of branches."""
        self.fill(tokens, position, len(tokens))
        branches, depths = tree.branches(), tree.depths()
        count = 1 + max(branch for below in branches for branch in below)
        for index, (below, depth) in enumerate(zip((range(count), *branches), (0, *depths), strict=True)):
            self._positions[index] = position + depth
            self.native.n_seq_id[index] = len(below)
            for place, branch in enumerate(below):
                self.native.seq_id[index][place] = branch
        return count

    def clear_tree(self, count: int) -> None:
        """Use sequence 0 alone again. count: tokens of the tree's pass, its root included."""
        for index in range(count):
            self.native.n_seq_id[index] = 1
            self.native.seq_id[index][0] = 0
