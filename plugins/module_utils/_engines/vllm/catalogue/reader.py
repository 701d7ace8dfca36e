# SPDX-License-Identifier: GPL-3.0-or-later
"""A small interpreter for the functions that build vLLM's command line.

Those functions are straight-line Python with a few loops and conditions. They are walked as an interpreter would, over
literals and over what `get_kwargs` makes of configuration classes; a condition that can't be known takes both
branches, so that an option that some platform has is in the list.
"""

import ast
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .registries import reasoning_parsers
from .source import UNKNOWN, Module, Symbol, dotted, literal_values
from .types import BUILTIN, Dialect, class_fields, constant, hints, option_kwargs

ACTIONS = {"BooleanOptionalAction": "switch", "store_true": "flag", "store_false": "flag"}
_PARSERS = {
    "loads": "json",
    "union_dict_and_str": "json-or-text",
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size-auto",
}
# What a GB10 is to vLLM.
_PLATFORM = {"current_platform.device_type": "cuda"}


@dataclass(frozen=True)
class GivenType:
    """A callable given as ``type=``. folded: case and underscores of the value don't matter."""

    kind: str
    optional: bool = False
    folded: bool = False


@dataclass(frozen=True)
class Method:
    """A function with the class that it was found in and the class that it is called on."""

    node: ast.FunctionDef
    module: Module
    owner: Symbol | None = None
    called_on: Symbol | None = None


class _Return(Exception):  # noqa: N818 - not an error: how `return` leaves a walked function
    def __init__(self, value: Any) -> None:
        self.value = value


class Reader:
    """Walks functions and notes each `add_argument` as (names, keywords)."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.registered: list[tuple[list[str], dict[str, Any]]] = []

    def call(self, method: Method, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Run a function of the package; its value, or UNKNOWN."""
        parameters = [parameter.arg for parameter in method.node.args.args]
        if any(dotted(decorator) == "classmethod" for decorator in method.node.decorator_list):
            arguments = [method.called_on, *arguments]
        local = dict.fromkeys(parameters, UNKNOWN)
        defaults = method.node.args.defaults
        for name, default in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True):
            local[name] = constant(default, method.module)
        local |= dict(zip(parameters, arguments, strict=False)) | keywords
        frame = _Frame(self, method, local)
        try:
            frame.run(method.node.body)
        except _Return as returned:
            return returned.value
        return UNKNOWN

    def kwargs_of(self, symbol: Symbol) -> dict[str, dict[str, Any]]:
        return {field.name: option_kwargs(field, self._dialect) for field in class_fields(symbol)}


class _Frame:
    """One call: its function and its local names."""

    def __init__(self, reader: Reader, method: Method, local: dict[str, Any]) -> None:
        self._reader, self._method, self._local = reader, method, local
        self._module = method.module

    def run(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:  # noqa: PLR0912 - one branch a kind of statement
        match statement:
            case ast.Assign(targets=targets, value=value):
                result = self.value(value)
                for target in targets:
                    self._assign(target, result)
            case ast.AugAssign(target=target, op=ast.Add(), value=value):
                self._assign(target, _added(self.value(target), self.value(value)))
            case ast.Delete(targets=targets):
                for target in targets:
                    self._delete(target)
            case ast.Expr(value=value):
                self.value(value)
            case ast.For(target=target, iter=iterable, body=body):
                self._loop(target, self.value(iterable), body)
            case ast.If(test=test, body=body, orelse=other):
                known = self.value(test)
                if known is UNKNOWN or known:
                    self.run(body)
                if known is UNKNOWN or not known:
                    self.run(other)
            case ast.With(body=body) | ast.Try(body=body):
                self.run(body)
            case ast.Return(value=value):
                raise _Return(UNKNOWN if value is None else self.value(value))
            case _:
                pass

    def _loop(self, target: ast.expr, items: object, body: list[ast.stmt]) -> None:
        for item in items if isinstance(items, list) else ():
            self._assign(target, item)
            self.run(body)

    def _assign(self, target: ast.expr, value: object) -> None:
        match target:
            case ast.Name(id=name):
                self._local[name] = value
            case ast.Tuple(elts=targets) if isinstance(value, list) and len(value) == len(targets):
                for inner, item in zip(targets, value, strict=True):
                    self._assign(inner, item)
            case ast.Subscript(value=container, slice=key):
                held, index = self.value(container), self.value(key)
                if isinstance(held, dict) and isinstance(index, str):
                    held[index] = value
            case _:
                pass

    def _delete(self, target: ast.expr) -> None:
        if isinstance(target, ast.Subscript):
            held = self.value(target.value)
            if isinstance(held, dict):
                held.pop(self.value(target.slice), None)

    def value(self, node: ast.expr) -> Any:  # noqa: PLR0911, PLR0912 - one branch a kind of expression
        """An expression's value: plain data, a `GivenType`, a `Symbol`, or UNKNOWN."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return self._items(items)
            case ast.Dict(keys=keys, values=values):
                return self._dict(keys, values)
            case ast.Name() | ast.Attribute():
                return self._named(node)
            case ast.Subscript(value=container, slice=key):
                held, index = self.value(container), self.value(key)
                return held.get(index, UNKNOWN) if isinstance(held, dict) and isinstance(index, str) else UNKNOWN
            case ast.Call():
                return self._called(node)
            case ast.JoinedStr(values=parts):
                texts = [self.value(part.value if isinstance(part, ast.FormattedValue) else part) for part in parts]
                return "".join(texts) if all(isinstance(text, str) for text in texts) else UNKNOWN
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _added(self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                known = self.value(operand)
                return UNKNOWN if known is UNKNOWN else not known
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as operator], comparators=[right]):
                return self._contains(left, right, isinstance(operator, ast.NotIn))
            case ast.IfExp(body=body, orelse=other):
                chosen = self.value(body)
                return self.value(other) if chosen is UNKNOWN else chosen
            case ast.Lambda():
                return GivenType(
                    "str", folded=any(isinstance(n, ast.Attribute) and n.attr == "lower" for n in ast.walk(node))
                )
            case ast.ListComp(elt=element, generators=[generator]):
                return self._comprehension(element, generator)
            case _:
                return UNKNOWN

    def _items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                unpacked = self.value(node.value)
                values += unpacked if isinstance(unpacked, list) else []
            else:
                values.append(self.value(node))
        return values

    def _dict(self, keys: Sequence[ast.expr | None], values: Sequence[ast.expr]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, node in zip(keys, values, strict=True):
            value = self.value(node)
            if key is None:
                result |= value if isinstance(value, dict) else {}
            else:
                result[self.value(key)] = value
        return result

    def _contains(self, left: ast.expr, right: ast.expr, negated: bool) -> Any:
        item, held = self.value(left), self.value(right)
        if item is UNKNOWN or not isinstance(held, dict | list | str):
            return UNKNOWN
        return (item in held) != negated

    def _comprehension(self, element: ast.expr, generator: ast.comprehension) -> Any:
        items = self.value(generator.iter)
        if not isinstance(items, list):
            return UNKNOWN
        values = []
        for item in items:
            self._assign(generator.target, item)
            values.append(self.value(element))
        return values

    def _named(self, node: ast.expr) -> Any:  # noqa: PLR0911 - one branch a kind of name
        name = dotted(node)
        if name in self._local:
            return self._local[name]
        last = name.split(".")[-1]
        if name in BUILTIN:
            return GivenType(name)
        if last in ACTIONS:
            return ACTIONS[last]
        if name in _PLATFORM:
            return _PLATFORM[name]
        if last in _PARSERS:
            return GivenType(_PARSERS[last])
        if last == "reasoning_parsers":
            return reasoning_parsers(self._module.source)
        symbol = self._module.resolve(name) if name else None
        if symbol is None:
            return UNKNOWN
        if isinstance(symbol.node, ast.ClassDef | ast.FunctionDef):
            return symbol
        return constant(symbol.node, symbol.module)

    def _called(self, node: ast.Call) -> Any:  # noqa: PLR0911 - one branch a known function
        name = dotted(node.func).split(".")[-1] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        if name == "add_argument":
            self._register(node)
            return UNKNOWN
        match name:
            case "get_kwargs":
                symbol = self.value(node.args[0])
                return self._reader.kwargs_of(symbol) if isinstance(symbol, Symbol) else UNKNOWN
            case "get_args":
                return literal_values(node.args[0], self._module) or UNKNOWN
            case "optional_type" | "parse_type":
                inner = self.value(node.args[0])
                kind = inner.kind if isinstance(inner, GivenType) else "str"
                return GivenType(kind, optional=name == "optional_type")
            case "list" | "tuple" | "sorted" | "set" if node.args:
                return self.value(node.args[0])
            case "permutations":
                items = self.value(node.args[0])
                return [list(p) for p in itertools.permutations(items, 2)] if isinstance(items, list) else UNKNOWN
        method = self._method_of(node.func)
        if method is not None:
            keywords = {word.arg: self.value(word.value) for word in node.keywords if word.arg}
            return self._reader.call(method, self._items(node.args), keywords)
        if isinstance(node.func, ast.Attribute):
            return _plain_method(self.value(node.func.value), name, self._items(node.args))
        return UNKNOWN

    def _method_of(self, function: ast.expr) -> Method | None:
        """The package's own function behind a call, where it is one."""
        match function:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=attr):
                owner = self._method.owner
                return _find_method(owner, attr, self._method.called_on, above=True) if owner else None
            case ast.Attribute(value=value, attr=attr):
                symbol = self.value(value)
                return _find_method(symbol, attr, symbol) if isinstance(symbol, Symbol) else None
            case ast.Name():
                symbol = self.value(function)
                if isinstance(symbol, Symbol) and isinstance(symbol.node, ast.FunctionDef):
                    return Method(symbol.node, symbol.module)
        return None

    def _register(self, node: ast.Call) -> None:
        names = [name for name in self._items(node.args) if isinstance(name, str) and name.startswith("-")]
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, dict):
                kwargs |= value
        if names:
            kwargs.setdefault("_type", self._declared_type(node))
            self._reader.registered.append((names, kwargs))

    def _declared_type(self, node: ast.Call) -> str:
        """What a function of the package that is given as ``type=`` says it returns."""
        for keyword in node.keywords:
            symbol = self.value(keyword.value) if keyword.arg == "type" else None
            if isinstance(symbol, Symbol) and isinstance(symbol.node, ast.FunctionDef) and symbol.node.returns:
                kinds = {hint.kind for hint in hints(symbol.node.returns, symbol.module)}
                return "int" if "int" in kinds else "float" if "float" in kinds else "str"
        return "str"


def _find_method(symbol: Symbol, name: str, called_on: Symbol | None, above: bool = False) -> Method | None:
    """A method by the class or its bases; above: the bases only."""
    if not isinstance(symbol.node, ast.ClassDef):
        return None
    if not above:
        for statement in symbol.node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return Method(statement, symbol.module, symbol, called_on)
    for base in symbol.node.bases:
        parent = symbol.module.resolve(dotted(base)) if dotted(base) else None
        found = _find_method(parent, name, called_on) if parent else None
        if found is not None:
            return found
    return None


def _added(left: object, right: object) -> Any:
    if isinstance(left, list) and isinstance(right, list):
        return left + right
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    return left if isinstance(left, list) else UNKNOWN


def _plain_method(held: object, name: str, arguments: list[object]) -> Any:
    """The methods of lists, dicts and texts that vLLM uses on option keywords."""
    match held, name:
        case dict(), "items":
            return [[key, value] for key, value in held.items()]
        case dict(), "keys":
            return list(held)
        case dict(), "pop":
            return held.pop(*arguments) if len(arguments) > 1 else held.pop(arguments[0], UNKNOWN)
        case list(), "remove":
            if arguments[0] in held:
                held.remove(arguments[0])
        case list(), "append":
            held.append(arguments[0])
        case str(), "replace" | "removeprefix" | "join" if all(argument is not UNKNOWN for argument in arguments):
            return getattr(held, name)(*arguments)
        case _:
            pass
    return UNKNOWN
