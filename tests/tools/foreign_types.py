# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plugin of mypy: foreign text in an f-string, `format`, `%`, `str` or `repr` is an error, as it is for a parameter.

To mypy `Foreign` is no `str`, so that it refuses it wherever text is wanted. These few take any object.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import Instance, ProperType, TupleType, Type, TypedDictType, UnionType, get_proper_type

_KINDS = ("._base.received.Foreign", "._base.received.Unread")
_METHODS = {"builtins.str.format"}
_FUNCTIONS = {"builtins.str", "builtins.repr", "builtins.ascii", "builtins.format", "builtins.print"}


def holds_foreign(kind: Type) -> bool:
    found: ProperType = get_proper_type(kind)
    if isinstance(found, UnionType):
        return any(map(holds_foreign, found.items))
    if isinstance(found, TupleType):
        return any(map(holds_foreign, found.items))
    if isinstance(found, TypedDictType):
        return any(map(holds_foreign, found.items.values()))
    if isinstance(found, Instance):
        return found.type.fullname.endswith(_KINDS) or any(map(holds_foreign, found.args))
    return False


def _check(context: MethodContext | FunctionContext) -> Type:
    # by itself: beside `object` mypy knows no more of `found.get(name, "")` than that it is one
    given = (context.api.get_expression_type(word) for words in context.args for word in words)
    if any(map(holds_foreign, given)):
        context.api.fail("Foreign text is shown only by a function of _base.received", context.context)
    return context.default_return_type


class _Foreign(Plugin):
    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return _check if fullname in _METHODS or fullname.startswith("logging.Logger.") else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return _check if fullname in _FUNCTIONS else None


def plugin(version: str) -> type[Plugin]:
    return _Foreign
