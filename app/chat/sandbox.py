"""jinja2's immutable sandbox with Hugging Face's helpers, and with bounds on time and memory.

jinja2's own sandbox keeps a template away from Python's internals, but lets it loop for years or build a
string that fills the memory. A running template can be stopped from outside only in a process of its own, so
each loop counts its turns, and whatever makes a string longer looks at its length first.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.filters import do_indent
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_STEPS = 200_000
"""Turns of loops and calls of macros that one rendering may take."""
MAX_CHARACTERS = 32_000_000
"""Length of a rendering, and of any text or list that a template builds on the way."""

# They pad to any length in one call, and no chat template needs them.
_PADDING_METHODS = frozenset({"center", "expandtabs", "format", "format_map", "ljust", "rjust", "zfill"})
_PADDING_FILTERS = ("batch", "center", "format", "pprint", "slice", "urlize", "wordwrap", "xmlattr")


class RefusalError(jinja2.TemplateError):
    """The template called `raise_exception`."""


class LimitError(jinja2.TemplateError):
    """The template ran too long or grew too large."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Compiles and runs chat templates. now: the time that they see."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, now: datetime) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _GenerationTag],
            cache_size=0,
        )
        self._steps = 0
        # Stands in for the operator `~`.
        self.join_texts = joined
        for name in _PADDING_FILTERS:
            del self.filters[name]
        self.filters.update(tojson=_tojson, indent=_indent, join=_join, replace=_replace)
        del self.globals["lipsum"]
        self.globals.update(raise_exception=_raise_exception, strftime_now=now.strftime)

    def compile_template(self, source: str) -> jinja2.Template:
        """`source` with its counters in place. Raises jinja2.TemplateSyntaxError."""
        return self.from_string(_Fuses().visit(self.parse(source)))

    def run(self, template: jinja2.Template, **variables: object) -> str:
        """Render; whatever the template raises comes out."""
        self._steps = 0
        return joined(template.generate(**variables))

    def count_step(self) -> None:
        """Called by every turn of a loop."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise LimitError(f"it was stopped after {MAX_STEPS:,} steps")

    def wrap_str_format(self, value: object) -> None:
        """jinja2's safe form of `str.format` pads without bound: there is none."""

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        if isinstance(obj, str) and attr in _PADDING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        _check_operands(operator, left, right)
        return super().call_binop(context, operator, left, right)

    # Positional-only, as a macro may have an argument of either name.
    def call(self, context: Context, function: object, /, *args: object, **kwargs: object) -> object:
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if isinstance(owner, str) and name == "replace" and len(args) >= 2:
            _check_replace(owner, str(args[0]), str(args[1]))
        if isinstance(owner, str) and name == "join" and len(args) == 1 and isinstance(args[0], Iterable):
            args = ([joined(args[0], owner)],)
        result: object = super().call(context, function, *args, **kwargs)
        if isinstance(result, str):
            _check_size(len(result))
        return result


class _GenerationTag(Extension):
    """Ignores `{% generation %}`, which marks the assistant's text for training."""

    tags = {"generation"}  # noqa: RUF012  (declared so by jinja2)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Fuses(NodeTransformer):
    """Adds a step counter to every loop and macro, and a length check to every `~`."""

    def _counted(self, node: nodes.For | nodes.Macro | nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(self._call("count_step", [], node.lineno), lineno=node.lineno))
        return node

    visit_For = visit_Macro = visit_CallBlock = _counted

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        return self._call("join_texts", [nodes.List(node.nodes, lineno=node.lineno)], node.lineno)

    def _call(self, name: str, arguments: list[nodes.Expr], lineno: int) -> nodes.Call:
        # A template can assign to a name, but not to an attribute of its environment.
        function = nodes.EnvironmentAttribute(name, lineno=lineno)
        return nodes.Call(function, arguments, [], None, None, lineno=lineno)


def joined(parts: Iterable[object], separator: str = "") -> str:
    """The parts as one text. Raises LimitError before it grows too large."""
    texts: list[str] = []
    size = 0
    for part in parts:
        texts.append(str(part))
        size += len(texts[-1]) + len(separator)
        _check_size(size)
    return separator.join(texts)


def _check_operands(operator: str, left: object, right: object) -> None:
    if operator == "%" and isinstance(left, str):
        raise LimitError("it formats text with %, which is not allowed")
    if operator == "**":
        raise LimitError("it raises numbers to a power, which is not allowed")
    if operator == "*":
        for one, other in ((left, right), (right, left)):
            if isinstance(one, (str, list, tuple)) and isinstance(other, int):
                _check_size(len(one) * other)
            elif isinstance(one, int) and one.bit_length() > 256:
                raise LimitError("it computes with numbers that are too large")
    if operator == "+" and isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
        _check_size(len(left) + len(right))


def _check_size(size: int) -> None:
    if size > MAX_CHARACTERS:
        raise LimitError(f"it builds more than {MAX_CHARACTERS:,} characters")


def _raise_exception(message: object) -> NoReturn:
    raise RefusalError(str(message))


def _tojson(value: object, ensure_ascii: bool = False, indent: int | None = None, **layout: Any) -> str:
    if indent is not None and indent > 100:
        raise LimitError("it indents JSON by more than 100 columns")
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **layout)


def _indent(value: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    columns = len(width) if isinstance(width, str) else width
    _check_size(str(value).count("\n") * columns + columns)
    return do_indent(str(value), width, first, blank)


def _join(value: Iterable[object], separator: object = "", attribute: str | None = None) -> str:
    if attribute is not None:
        raise LimitError("it joins by attribute, which is not supported")
    return joined(value, str(separator))


def _replace(value: object, old: object, new: object, count: int | None = None) -> str:
    text, before, after = str(value), str(old), str(new)
    _check_replace(text, before, after)
    return text.replace(before, after, -1 if count is None else count)


def _check_replace(text: str, old: str, new: str) -> None:
    _check_size(len(text) + text.count(old) * (len(new) - len(old)))
