"""A part of the screen that is not painted when something changes in another part."""

from __future__ import annotations

from textual.containers import Vertical


class Box(Vertical):
    """Holds panes that cover it wholly.

    For each change Textual asks every widget for all its lines whose container overlaps what changed: a
    pane with a box of its own is left out when another one changes, and the box, being blank, costs little.
    """

    BLANK = True
