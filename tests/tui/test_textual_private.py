"""What the app uses of Textual that is not public: else a new version breaks the chat without a word."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from textual.app import App
from textual.binding import BindingsMap
from textual.widgets import TextArea

import app.tui

PRIVATE = "app.tui.textual_private"
WHERE = "app/tui/textual_private.py"


@pytest.fixture
def private() -> ModuleType:
    """Imported here only, so that the first test can say what is missing."""
    return importlib.import_module(PRIVATE)


def changed(what: str) -> str:
    return f"Textual has changed {what}: adapt {WHERE}, then raise the bound in pyproject.toml."


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("textual._ansi_sequences", ["ANSI_SEQUENCES_KEYS"]),
        ("textual._xterm_parser", ["BRACKETED_PASTE_START", "BRACKETED_PASTE_END", "XTermParser"]),
        ("textual.drivers._writer_thread", ["WriterThread"]),
        ("textual.widgets._footer", ["FooterKey"]),
    ],
)
def test_the_modules_hold_what_is_taken_from_them(module: str, names: list[str]) -> None:
    held = vars(importlib.import_module(module))
    assert not [name for name in names if name not in held], changed(module)


def test_the_table_of_keys_has_the_shape_that_is_added_to(private: ModuleType) -> None:
    escape = private.key_sequences()["\x1b"]
    assert isinstance(escape, tuple) and escape[0].value == "escape", changed("ANSI_SEQUENCES_KEYS")


def test_the_parser_and_the_writer_are_used_as_ours_derive_from_them(private: ModuleType) -> None:
    parser, writer = private.XTermParser, private.WriterThread
    for cls, parameters in ((parser, ["self", "debug"]), (writer, ["self", "file"])):
        assert list(inspect.signature(cls.__init__).parameters) == parameters, changed(cls.__name__)
    assert list(inspect.signature(parser.feed).parameters) == ["self", "data"], changed("XTermParser.feed")
    assert list(inspect.signature(parser.tick).parameters) == ["self"], changed("XTermParser.tick")
    assert callable(writer.run), changed("WriterThread.run")


def test_the_drivers_make_the_parser_and_the_writer_by_their_names(private: ModuleType) -> None:
    names = ("win32", "windows_driver") if sys.platform == "win32" else ("linux_driver", "linux_driver")
    for name, cls in zip(names, ("XTermParser", "WriterThread"), strict=True):
        assert f"textual.drivers.{name}" in private.DRIVERS
        driver = importlib.import_module(f"textual.drivers.{name}")
        assert f" {cls}(" in inspect.getsource(driver), changed(f"the driver's use of {cls}")


def test_bindings_are_kept_where_they_are_replaced(private: ModuleType) -> None:
    node = App[None]()
    assert isinstance(node._bindings, BindingsMap), changed("DOMNode._bindings")
    key, bindings = next(iter(node._bindings.key_to_bindings.items()))
    assert isinstance(bindings, list), changed("BindingsMap.key_to_bindings")
    private.rename_binding(node, key, "another name")
    assert node._bindings.key_to_bindings[key][0].description == "another name", changed("Binding")


def test_the_editors_cursor_can_be_shown_at_once() -> None:
    found = getattr(TextArea, "_restart_blink", None)
    assert found is not None, changed("TextArea._restart_blink")
    assert list(inspect.signature(found).parameters) == ["self"], changed("TextArea._restart_blink")


def test_a_key_of_the_footer_says_what_it_takes_to_fit(private: ModuleType) -> None:
    wanted = {"action", "key_display", "description"}
    assert wanted <= set(inspect.signature(private.FooterKey).parameters), changed("FooterKey")


def test_nothing_else_of_the_app_reaches_into_textual() -> None:
    """Else: what breaks with a new version is scattered, and found by those who use it."""
    found = [use for module in modules() if module.__name__ != PRIVATE for use in private_uses(module)]
    assert not found, f"Move these to {WHERE}, or use a public way: {found}"


def modules() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(app.tui.__path__, "app.tui."):
        yield importlib.import_module(module.name)


def private_uses(module: ModuleType) -> Iterator[str]:
    """Imports from private modules, and private names of Textual in classes that derive from its own."""
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("textual", "rich")):
            if any(part.startswith("_") for part in (node.module or "").split(".")):
                yield f"{module.__name__}: {node.module}"
        elif isinstance(node, ast.ClassDef):
            cls = getattr(module, node.name, None)
            foreign = textuals_own(cls) if inspect.isclass(cls) else set()
            for part in ast.walk(node):
                if isinstance(part, ast.Attribute) and part.attr in foreign:
                    yield f"{module.__name__}: {node.name} uses {part.attr}"
                if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and part.name in foreign:
                    yield f"{module.__name__}: {node.name} overrides {part.name}"


def textuals_own(cls: type) -> set[str]:
    """Private names that the bases of this class define or set, if these are Textual's."""
    bases = [base for base in cls.__mro__ if base.__module__.startswith("textual.")]
    return {name for base in bases for name in names_of(base) if name[0] == "_" and not name.endswith("__")}


@cache
def names_of(base: type) -> set[str]:
    source = ast.parse(textwrap.dedent(inspect.getsource(base)))
    stored = (node for node in ast.walk(source) if isinstance(node, ast.Attribute))
    return {*vars(base), *(node.attr for node in stored if isinstance(node.ctx, ast.Store))}
