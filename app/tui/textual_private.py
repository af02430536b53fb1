"""Every use of what Textual does not publish, in one place; nothing else of the app reaches into it.

Each entry says what a public way would have to offer. tests/tui/test_textual_private.py fails with the
entry's name when a new Textual has lost or changed it, and pyproject.toml bounds the version for that reason.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.binding import BindingsMap, BindingType
from textual.dom import DOMNode
from textual.drivers._writer_thread import WriterThread
from textual.widgets import TextArea
from textual.widgets._footer import FooterKey

__all__ = [
    "BRACKETED_PASTE_END",
    "BRACKETED_PASTE_START",
    "FooterKey",
    "WriterThread",
    "XTermParser",
    "key_sequences",
    "rename_binding",
    "restart_blink",
    "set_bindings",
    "use_in_drivers",
]

# BRACKETED_PASTE_…, XTermParser: there is no public way to change how input is read.
# WriterThread: there is no public way to change how output is written.
# FooterKey: a Footer does not publish the widgets it consists of, nor what fits its width.

# The modules that make a parser or a writer. Each can be imported on its own system only.
DRIVERS = ("textual.drivers.linux_driver", "textual.drivers.windows_driver", "textual.drivers.win32")


def use_in_drivers(name: str, subclass: type[XTermParser] | type[WriterThread]) -> None:
    """Make every driver of this process use this class where it uses Textual's of that name.

    Missing: a public argument of the driver, or of the app, for its parser and its writer.
    """
    for driver in DRIVERS:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(driver)
            if hasattr(module, name):
                setattr(module, name, subclass)


def key_sequences() -> dict[str, tuple[Enum, ...] | str]:
    """The keys by the characters that terminals send for them; what is added is understood from then on.

    Missing: a public way to teach Textual a sequence.
    """
    return cast("dict[str, tuple[Enum, ...] | str]", ANSI_SEQUENCES_KEYS)


def set_bindings(node: DOMNode, bindings: Sequence[BindingType]) -> None:
    """Bind these keys on the node, in place of all that it has.

    Missing: a public way to replace bindings. `App.set_keymap` keeps the priority that each old key had.
    """
    node._bindings = BindingsMap(bindings)
    node.refresh_bindings()


def rename_binding(node: DOMNode, key: str, description: str) -> None:
    """Show a key of this node under another name in the footer.

    Missing: a public way to change one binding of one node.
    """
    known = node._bindings.key_to_bindings
    known[key] = [replace(binding, description=description) for binding in known[key]]


def restart_blink(area: TextArea) -> None:
    """Show the cursor, and have it blink from now.

    Missing: a public way to do so; Textual does it in a handler of keys that ours takes the place of.
    """
    area._restart_blink()
