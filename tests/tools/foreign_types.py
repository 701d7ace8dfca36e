# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plugin of mypy: what takes anything (`object`, `Any`) takes no foreign text, nor what holds it.

To mypy `Foreign` and `Unread` are no `str`, so that it refuses them wherever text is wanted. A parameter of any type
would take them: that of `str`, `json.dumps`, an exception, `isinstance`, after which mypy knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.checker import TypeChecker
from mypy.nodes import CallExpr, Expression, OpExpr, RefExpr, Var
from mypy.plugin import CheckerPluginInterface, FunctionSigContext, MethodSigContext, Plugin
from mypy.types import (
    AnyType,
    CallableType,
    FunctionLike,
    Instance,
    Overloaded,
    ProperType,
    TupleType,
    Type,
    TypedDictType,
    UnionType,
    get_proper_type,
)

_ROOM = "ansible_collections.gb10.fleet.plugins.module_utils."
_KINDS = (f"{_ROOM}_base.received.Foreign", f"{_ROOM}_base.received.Unread")
# Types that name themselves, as JSON's do, end here.
_MOST_LEVELS = 4
# Each takes any value, and hands it on in a form, as words that were cleaned, or not at all.
_TAKERS = {
    f"{_ROOM}_base.received.checked",
    f"{_ROOM}_base.received.matching",
    f"{_ROOM}_base.schema.check",
    f"{_ROOM}_base.subject.DriftContext.differs",
    f"{_ROOM}_facts.models.checkpoint.require",
    f"{_ROOM}_operations.doctor.bundle.make_bundle",
    f"{_ROOM}_facts.models.gguf._per_layer",
    f"{_ROOM}_plan.trust._texts",
    f"{_ROOM}_subjects.container_engine.reading.needed_rules",
    "dataclasses.replace",
}
# So do its partial functions, which have one name to mypy.
_WORDED = f"{_ROOM}_base.worded."
# Of these the function that they call counts.
_CALLERS = {"builtins.map", "functools.partial"}
_NUMBERS = {"builtins.int", "builtins.float", "builtins.bool"}
# These make a text of what mypy knows no longer, as of a list of texts of which one is foreign.
_SHOWN = {"builtins.str", "builtins.repr", "builtins.ascii", "builtins.format", "builtins.str.format"}
# A file that names one of these has foreign text in its hands.
_READERS = {
    *(f"{_ROOM}_base.received.{name}" for name in ("Foreign", "Unread", "parsed", "text_of", "words_of")),
    f"{_ROOM}_base.reading.State",
    f"{_ROOM}_on_host.rank.client.fetch",
}
# After these mypy takes the value for another.
_ASKS = {"builtins.callable", "builtins.hasattr", "builtins.vars", "dataclasses.asdict", "dataclasses.astuple"}
_COMPARED = {"__contains__", "__eq__", "__ne__"}
_MESSAGE = "Foreign text is shown only by a function of _base.received"


def _holds_foreign(kind: Type, levels: int = _MOST_LEVELS) -> bool:
    found: ProperType = get_proper_type(kind)
    if isinstance(found, Instance) and found.type.fullname in _KINDS:
        return True
    return levels > 0 and any(_holds_foreign(part, levels - 1) for part in _parts(found))


def _parts(kind: ProperType) -> list[Type]:
    if isinstance(kind, UnionType | TupleType):
        return list(kind.items)
    if isinstance(kind, TypedDictType):
        return list(kind.items.values())
    if not isinstance(kind, Instance):
        return []
    fields = [name.node.type for name in kind.type.names.values() if isinstance(name.node, Var)]
    return [*kind.args, *(filter(None, fields) if "dataclass" in kind.type.metadata else ())]


def _takes_anything(kind: Type, levels: int = _MOST_LEVELS) -> bool:
    found: ProperType = get_proper_type(kind)
    if isinstance(found, AnyType) or (isinstance(found, Instance) and found.type.fullname == "builtins.object"):
        return True
    inner = found.items if isinstance(found, UnionType) else found.args if isinstance(found, Instance) else ()
    return levels > 0 and any(_takes_anything(part, levels - 1) for part in inner)


def _gives_numbers(called: CallableType) -> bool:
    """A function whose result is a number, or the answer to a question, hands no text on."""
    result = get_proper_type(called.type_guard or called.type_is or called.ret_type)
    return isinstance(result, Instance) and result.type.fullname in _NUMBERS


def _refuse(context: FunctionSigContext | MethodSigContext) -> FunctionLike:
    signature, call = context.default_signature, context.context
    if isinstance(call, CallExpr) and isinstance(call.callee, RefExpr) and call.callee.fullname.startswith(_WORDED):
        return signature
    if not _gives_numbers(signature):
        kinds = zip(signature.arg_types, context.args, strict=False)
        _judge(context, [word for kind, given in kinds if _takes_anything(kind) for word in given])
    return signature


def _refuse_shown(context: FunctionSigContext | MethodSigContext) -> FunctionLike:
    _judge(context, [word for given in context.args for word in given], shows=True)
    return context.default_signature


def _refuse_any(context: FunctionSigContext) -> FunctionLike:
    _judge(context, [word for given in context.args for word in given])
    return context.default_signature


def _refuse_by_call(context: FunctionSigContext) -> FunctionLike:
    """A function that is handed on with what it will be called with."""
    called, *words = [word for given in context.args for word in given]
    kind = get_proper_type(context.api.get_expression_type(called))
    ways = kind.items if isinstance(kind, Overloaded) else [kind]
    formals = [formal for way in ways if isinstance(way, CallableType) for formal in way.arg_types]
    if any(map(_takes_anything, formals)) and not (isinstance(called, RefExpr) and called.fullname in _TAKERS):
        _judge(context, words)
    return context.default_signature


def _refuse_to_ask(context: FunctionSigContext) -> FunctionLike:
    """Whether it is a number does no harm; after any other question mypy knows it no longer as foreign."""
    (value,), (kind,) = context.args
    if not _of_numbers(kind):
        _judge(context, [value])
    return context.default_signature


def _of_numbers(kind: Expression) -> bool:
    if isinstance(kind, OpExpr):
        return _of_numbers(kind.left) and _of_numbers(kind.right)
    return isinstance(kind, RefExpr) and kind.fullname in _NUMBERS


def _is_mixed(kind: Type) -> bool:
    """What mypy makes of a list of texts of which one is foreign."""
    found = get_proper_type(kind)
    return isinstance(found, Instance) and found.type.fullname == "builtins.object"


def _reads_foreign(api: CheckerPluginInterface) -> bool:
    assert isinstance(api, TypeChecker)
    named = (symbol.node.fullname for symbol in api.tree.names.values() if symbol.node is not None)
    return not _READERS.isdisjoint(named)


def _judge(context: FunctionSigContext | MethodSigContext, words: list[Expression], shows: bool = False) -> None:
    # by itself: beside `object` mypy knows no more of `found.get(name, "")` than that it is one
    kinds = [context.api.get_expression_type(word) for word in words]
    if any(map(_holds_foreign, kinds)) or (shows and _reads_foreign(context.api) and any(map(_is_mixed, kinds))):
        context.api.fail(_MESSAGE, context.context)


class _Foreign(Plugin):
    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        if fullname in _CALLERS:
            return _refuse_by_call
        if fullname == "builtins.isinstance":
            return _refuse_to_ask
        if fullname in _ASKS:
            return _refuse_any
        if fullname in _SHOWN:
            return _refuse_shown
        return None if fullname in _TAKERS else _refuse

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        # not what foreign text does with another value, what compares, and what mypy's own plugin looks at
        owner, _, name = fullname.rpartition(".")
        if fullname in _SHOWN:
            return _refuse_shown
        return (
            None
            if owner in _KINDS or owner.endswith("._TypedDict") or name in _COMPARED or fullname in _TAKERS
            else _refuse
        )


def plugin(version: str) -> type[Plugin]:
    return _Foreign
