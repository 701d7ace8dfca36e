# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is declared has a spec, which people are judged by, and a type, which code is: both say the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.declared_host import HostData
from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import Spec
from ansible_collections.gb10.fleet.plugins.module_utils._engines import declaration
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.spec import recipe_spec
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._operations.tune.state import STATE, SearchState
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import HOST
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared_services import SERVICE
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.clients.declared import CLIENTS, Client
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.spec import FABRIC, FabricDeclared
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.declared import GATEWAY, GatewayDeclared
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring.declared import (
    MONITORING,
    MonitoringDeclared,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.phoenix.declared import PHOENIX, PhoenixDeclared
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.tls.declared import TLS, OwnTls

PLAIN: dict[str, set[Any]] = {
    "str": {str},
    "int": {int},
    "count": {int, str},
    "bytes": {int, str},
    "number": {float},
    "bool": {bool},
}


def members(hint: Any) -> set[Any]:
    """The types of a union, or the one that it is."""
    return set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}


def differences(spec: Spec, hint: Any, place: str, made: Collection[str]) -> Iterator[str]:
    """Where spec and type say something else. made: places of what code completes or decides anew."""
    hints = members(hint)
    is_null = bool(spec.get("nullable"))
    if Any in hints:
        return
    if is_null != (NoneType in hints):
        yield f"{place}: {'null' if is_null else 'no null'} by its spec"
    hints -= {NoneType}
    for one in spec.get("any_of", [spec]):
        kind = one.get("type")
        if kind in PLAIN:
            if not PLAIN[kind] <= hints:
                yield f"{place}: {kind} by its spec, {hint} by its type"
        elif kind == "list":
            (items,) = (get_args(each)[0] for each in hints if get_origin(each) is list)
            yield from differences(one.get("elements", {}), items, f"{place}[]", made)
        elif "options" in one and (typed := [each for each in hints if is_typeddict(each)]):
            yield from of_map(one, typed[0], place, made)
        elif not any(each is dict or get_origin(each) in (dict, Mapping) for each in hints):
            yield f"{place}: a map by its spec, {hint} by its type"


def of_map(spec: Spec, typed: Any, place: str, made: Collection[str]) -> Iterator[str]:
    hints, options = get_type_hints(typed, include_extras=True), spec["options"]
    for key in sorted({*hints, *options}):
        where = f"{place}.{key}"
        if where in made:
            continue
        if key not in options or key not in hints:
            yield f"{where}: missing in its {'spec' if key in hints else 'type'}"
            continue
        may_lack = key in typed.__optional_keys__ or get_origin(hints[key]) is NotRequired
        is_sure = bool(options[key].get("required")) or "default" in options[key]
        if is_sure == may_lack and typed is not HostData:  # which is empty where it can't be read
            yield f"{where}: {'always' if is_sure else 'not always'} there by its spec"
        hint = get_args(hints[key])[0] if get_origin(hints[key]) is NotRequired else hints[key]
        yield from differences(options[key], hint, where, made)


# What `decide` completes or decides anew: it is there whoever wrote what, or has another form than what was written.
MADE = {
    "gateway": {"name", "address", "tls", "addresses", "own_name", "members"},
    "client": {"port", "listen", "key", "secret_file", "account", "image.digest", "image.reference", "image.source"}
    | {"image", "secret_made"},
    "monitoring": {"retention_days", "first_token_s", "addresses"},
    "phoenix": {"port", "retention_days", "disk_gib"},
    "service": {"api_key_file", "tls", "tracing.headers_file", "key_made", "aliases", "model", "readiness"},
    "recipe": {"image.build"},
    "tls": set(),
    "fabric": set(),
    "host": set(),
    "search": set(),
}
PAIRS: list[tuple[str, Spec, Any]] = [
    ("gateway", GATEWAY, GatewayDeclared),
    ("client", CLIENTS["values"], Client),
    ("monitoring", MONITORING, MonitoringDeclared),
    ("phoenix", PHOENIX, PhoenixDeclared),
    ("service", SERVICE, declaration.ServiceData),
    ("tls", TLS["any_of"][1], OwnTls),
    ("fabric", FABRIC, FabricDeclared),
    ("host", HOST, HostData),
    ("search", STATE, SearchState),
    *(("recipe", recipe_spec(engine.spec), declaration.RecipeData) for engine in ENGINES.values()),
]


@pytest.mark.parametrize(("name", "spec", "typed"), PAIRS)
def test_spec_and_type_are_equal(name: str, spec: Spec, typed: Any) -> None:
    assert [*of_map(spec, typed, name, {f"{name}.{key}" for key in MADE[name]})] == []


def test_a_difference_is_seen() -> None:
    """Of each kind one: a key, whether it is there, null, and what it holds."""
    spec: Spec = {
        "type": "map",
        "options": {
            "recipe": {"type": "str", "default": "x"},
            "hosts": {"type": "list", "required": True, "elements": {"type": "int"}},
            "port": {"type": "str", "required": True},
            "drain_s": {"type": "int", "default": 3},
            "prot": {"type": "int"},
        },
    }
    others = declaration.ServiceData.__annotations__.keys() - {"recipe", "hosts", "port", "drain_s"}
    found = [*of_map(spec, declaration.ServiceData, "s", {f"s.{key}" for key in others})]
    assert [one.partition(":")[0] for one in found] == ["s.drain_s", "s.hosts[]", "s.port", "s.prot", "s.recipe"]
