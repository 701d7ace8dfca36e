# SPDX-License-Identifier: GPL-3.0-or-later
"""What vLLM's command line makes of a configuration class: the static twin of its `get_kwargs`.

vLLM derives most options from dataclass fields (`vllm/engine/arg_utils.py`, `_compute_kwargs`): a field's type decides
whether the option is a switch, a number, one of some choices, or JSON. Here the same decisions are taken from the
annotations as written.
"""

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .source import UNKNOWN, Module, Symbol, dotted, enum_members, literal_values

BUILTIN = ("bool", "int", "float", "str", "dict")
_SEQUENCES = {"list": "list", "List": "list", "tuple": "tuple", "Tuple": "tuple", "set": "set", "Set": "set"}
_WRAPPERS = ("Optional", "Union", "Annotated", "SkipValidation")
_NOT_FIELDS = ("ClassVar", "InitVar")


@dataclass(frozen=True)
class Hint:
    """One alternative of a type: bool, int, float, str, dict, None, literal, list, tuple, set, config, other.

    values: of a literal. items: alternatives of a sequence's elements. count: of a fixed tuple, 0 for any number.
    """

    kind: str
    values: tuple[Any, ...] = ()
    items: "tuple[Hint, ...]" = ()
    count: int = 0
    symbol: Symbol | None = None


@dataclass(frozen=True)
class Field:
    """A dataclass field as written, in the module that wrote it."""

    name: str
    annotation: ast.expr
    default: ast.expr | None
    doc: str
    module: Module


def class_fields(symbol: Symbol) -> list[Field]:
    """The fields of a dataclass in `dataclasses.fields` order: those of its bases first."""
    if not isinstance(symbol.node, ast.ClassDef):
        return []
    found: dict[str, Field] = {}
    for base in symbol.node.bases:
        parent = symbol.module.resolve(dotted(base)) if dotted(base) else None
        if parent is not None:
            found |= {field.name: field for field in class_fields(parent)}
    body = symbol.node.body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if _outer_name(statement.annotation) in _NOT_FIELDS:
            continue
        name = statement.target.id
        found[name] = Field(name, statement.annotation, statement.value, _docstring(following), symbol.module)
    return list(found.values())


def _outer_name(annotation: ast.expr) -> str:
    node = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return dotted(node).split(".")[-1]


def _docstring(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str() as text)):
            return " ".join(text.split())
        case _:
            return ""


def hints(node: ast.AST, module: Module) -> tuple[Hint, ...]:  # noqa: PLR0911 - one branch a form of annotation
    """The alternatives of an annotation."""
    match node:
        case ast.Constant(value=None):
            return (Hint("None"),)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return (*hints(left, module), *hints(right, module))
        case ast.Subscript(value=base, slice=inner):
            return _subscript(dotted(base).split(".")[-1], inner, node, module)
        case ast.Name(id=name) if name in BUILTIN:
            return (Hint(name),)
        case ast.Name(id="Dict"):
            return (Hint("dict"),)
        case ast.Name() | ast.Attribute():
            return _named(node, module)
        case _:
            return (Hint("other"),)


def _subscript(base: str, inner: ast.expr, node: ast.Subscript, module: Module) -> tuple[Hint, ...]:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if base in ("Annotated", "SkipValidation"):
        return hints(parts[0], module)
    if base in _WRAPPERS:
        found = tuple(hint for part in parts for hint in hints(part, module))
        return (*found, Hint("None")) if base == "Optional" else found
    if base == "Literal":
        return (Hint("literal", tuple(literal_values(node, module))),)
    if base in ("dict", "Dict"):
        return (Hint("dict"),)
    if base in _SEQUENCES:
        variadic = any(isinstance(part, ast.Constant) and part.value is Ellipsis for part in parts)
        fixed = 0 if _SEQUENCES[base] != "tuple" or variadic else len(parts)
        return (Hint(_SEQUENCES[base], items=hints(parts[0], module), count=fixed),)
    return (Hint("other"),)


def _named(node: ast.expr, module: Module) -> tuple[Hint, ...]:
    symbol = module.resolve(dotted(node))
    if symbol is None or symbol.node is node:
        return (Hint("other"),)
    if not isinstance(symbol.node, ast.ClassDef):
        return hints(symbol.node, symbol.module)
    if is_config(symbol):
        return (Hint("config", symbol=symbol),)
    if any(_outer_name(base) == "dict" for base in symbol.node.bases):
        return (Hint("dict"),)
    return (Hint("other"),)


def is_config(symbol: Symbol) -> bool:
    """Whether a class is a dataclass, by its own decorator or by a base's."""
    if not isinstance(symbol.node, ast.ClassDef):
        return False
    for decorator in symbol.node.decorator_list:
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        if dotted(node).split(".")[-1] in ("config", "dataclass"):
            return True
    parents = (symbol.module.resolve(dotted(base)) for base in symbol.node.bases if dotted(base))
    return any(parent is not None and is_config(parent) for parent in parents)


def forbids_others(symbol: Symbol) -> bool:
    """Whether a configuration class refuses unknown keys: by its decorator, or by vLLM's default (0.16 on)."""
    if not isinstance(symbol.node, ast.ClassDef):
        return False
    decorators = [ast.unparse(decorator) for decorator in symbol.node.decorator_list]
    utils = symbol.module.source.module("vllm.config.utils")
    by_default = utils is not None and "forbid" in _texts(utils.tree)
    return any("forbid" in text or (by_default and text.startswith("config")) for text in decorators)


@dataclass(frozen=True)
class Dialect:
    """What `_compute_kwargs` of a release treats specially.

    sizes: fields that take 1k or 2M. automatic: those that take `auto` too. bare_text: `bool | str | None` is an
    option whose value may be left out.
    """

    sizes: frozenset[str]
    automatic: frozenset[str]
    bare_text: bool

    @classmethod
    def of(cls, arguments: Module) -> "Dialect":
        """Read off the function's own text: ``if name in (...): ... human_readable_int``."""
        function = arguments.bindings.get("_compute_kwargs") or arguments.bindings.get("get_kwargs")
        nodes = list(ast.walk(function)) if function else []
        assigned = {
            name: node.value for node in nodes if isinstance(node, ast.Assign) and (name := dotted(node.targets[0]))
        }
        names: dict[str, set[str]] = {"human_readable_int": set(), "human_readable_int_or_auto": set()}
        for node in nodes:
            match node:
                case ast.If(test=ast.Compare(left=ast.Name(id="name"), comparators=[compared])):
                    chosen = {dotted(inner) for inner in ast.walk(node.body[0])}
                    for parser in chosen & set(names):
                        names[parser] |= _texts(assigned.get(dotted(compared), compared))
                case _:
                    pass
        bare_text = any(isinstance(node, ast.Constant) and node.value == "?" for node in nodes)
        return cls(frozenset(names["human_readable_int"]), frozenset(names["human_readable_int_or_auto"]), bare_text)


def _texts(node: ast.AST) -> set[str]:
    return {inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant) and isinstance(inner.value, str)}


def option_kwargs(field: Field, dialect: Dialect) -> dict[str, Any]:
    """The `add_argument` keywords that vLLM derives from a field; types are named, not callables.

    type: int, float, str, size, size-auto, json, json-or-text, config. choices: enforced; metavar: only suggested.
    """
    alternatives = hints(field.annotation, field.module)
    kinds = {hint.kind for hint in alternatives}
    kwargs = {"default": static_default(field), "help": field.doc, **_typed(alternatives, kinds, field.name, dialect)}
    if "None" in kinds and "bool" not in kinds and "type" in kwargs:
        kwargs["optional"] = True
    return kwargs


def _typed(  # noqa: PLR0911 - the same order of questions as vLLM's
    alternatives: tuple[Hint, ...], kinds: set[str], name: str, dialect: Dialect
) -> dict[str, Any]:
    configs = [hint for hint in alternatives if hint.kind == "config"]
    if configs:
        return {"type": "config", "config": configs[0].symbol}
    if dialect.bare_text and kinds == {"bool", "str", "None"}:
        return {"type": "str", "nargs": "?"}
    if "bool" in kinds:
        return {"action": "switch"}
    literals = [value for hint in alternatives if hint.kind == "literal" for value in hint.values]
    if literals:
        return _choices(literals, "metavar" if "str" in kinds else "choices")
    for kind in ("tuple", "list", "set"):
        if kind in kinds:
            return _sequence(next(hint for hint in alternatives if hint.kind == kind))
    if "int" in kinds:
        return {"type": "size-auto" if name in dialect.automatic else "size" if name in dialect.sizes else "int"}
    if "float" in kinds:
        return {"type": "float"}
    if "dict" in kinds:
        return {"type": "json-or-text" if kinds & {"str", "other"} else "json"}
    return {"type": "str"}


def _choices(values: Iterable[object], keyword: str) -> dict[str, Any]:
    known = sorted(set(values), key=str)
    return {"type": type(known[0]).__name__, keyword: known}


def _sequence(hint: Hint) -> dict[str, Any]:
    kwargs: dict[str, Any] = {"type": "str", "nargs": hint.count or "+"}
    literals = [value for item in hint.items if item.kind == "literal" for value in item.values]
    if literals:
        kwargs |= _choices(literals, "choices")
    elif len(hint.items) == 1 and hint.items[0].kind in ("int", "float"):
        kwargs["type"] = hint.items[0].kind
    return kwargs


def static_default(field: Field) -> Any:
    """A field's default where the text says it, else `UNKNOWN`."""
    return UNKNOWN if field.default is None else constant(field.default, field.module)


def constant(node: ast.AST, module: Module) -> Any:
    """The value of an expression that holds nothing but literals, names of them, and field declarations."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.List(elts=items) | ast.Tuple(elts=items):
            values = [constant(item, module) for item in items]
            return UNKNOWN if any(value is UNKNOWN for value in values) else values
        case ast.Call(func=function) if dotted(function).split(".")[-1] in ("field", "Field"):
            return _declared_default(node, module)
        case ast.Name() | ast.Attribute():
            return _named_constant(node, module)
        case _:
            return UNKNOWN


def _declared_default(node: ast.Call, module: Module) -> Any:
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    if "default" in keywords:
        return constant(keywords["default"], module)
    match keywords.get("default_factory"):
        case ast.Name(id="list" | "tuple" | "set"):
            return []
        case ast.Name(id="dict"):
            return {}
        case ast.Lambda(body=body):
            return constant(body, module)
        case _:
            return constant(node.args[0], module) if node.args else UNKNOWN


def _named_constant(node: ast.expr, module: Module) -> Any:
    name = dotted(node)
    symbol = module.resolve(name)
    if symbol is not None and dotted(symbol.node) != name:
        return constant(symbol.node, symbol.module)
    owner, _, attribute = name.rpartition(".")
    parent = module.resolve(owner) if owner else None
    if parent is not None and isinstance(parent.node, ast.ClassDef):
        members = enum_members(parent)
        if attribute in members:
            return attribute if members[attribute] is None else members[attribute]
        for field in class_fields(parent):
            if field.name == attribute:
                return static_default(field)
    return UNKNOWN
