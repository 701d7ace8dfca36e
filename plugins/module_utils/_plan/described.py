# SPDX-License-Identifier: GPL-3.0-or-later
"""Each key that an owner may write, with its words from ``data/keys.yml``."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from .._base.findings import did_you_mean
from .._base.forms import forms
from .._base.gb10 import data_file
from .._base.schema import Spec, expectation
from .._engines.recipes.shelf import SOURCES
from .._engines.recipes.spec import recipe_spec
from .._engines.registry import DEFAULT, ENGINES
from .._facts.builds.build import BUILD
from .._subjects.fabric.spec import FABRIC
from .._subjects.firewall.plan import FLEET
from .._subjects.registry import FLEET_SUBJECTS
from .._subjects.tls.declared import TLS
from .declared import ESCROW, HOST, NAME
from .declared_services import SERVICE, SERVICES
from .drift import DRIFT

ANY = "NAME"  # stands for a name that the owner chooses


@dataclass(frozen=True)
class Key:
    """path: from the variable on. what, acts, restarts: as in ``data/keys.yml``; empty if it lacks them."""

    path: str
    spec: Spec
    what: str
    acts: str
    restarts: str

    def text(self) -> str:
        default = str(self.spec.get("default", "none, and required" if self.spec.get("required") else "none"))
        rows = {"value": expectation(self.spec), "default": default, "acts on": self.acts, "restarts": self.restarts}
        return "\n".join([f"{self.path}: {self.what}", *(f"  {name + ':':10}{value}" for name, value in rows.items())])


def inventory_spec() -> Spec:
    fleet = {subject.name: subject.spec for subject in FLEET_SUBJECTS if subject.spec is not None}
    own: dict[str, Spec] = {"host": HOST, "fabric": FABRIC, "firewall": FLEET, "drift": DRIFT, "tls": TLS}
    return forms(
        "inventory",
        services={**SERVICES, "values": SERVICE},
        inventory_name=NAME,
        recipe_sources=SOURCES,
        escrow=ESCROW,
        **own,
        **fleet,
    )["inventory"]


def any_recipe() -> Spec:
    """A recipe for any engine."""
    options = recipe_spec(ENGINES[DEFAULT].spec)["options"]
    families = [family for engine in ENGINES.values() for family in engine.spec.families]
    family: Spec = {**options["image"]["options"]["family"], "choices": families}
    image: Spec = {**options["image"], "options": options["image"]["options"] | {"family": family}}
    engine: Spec = {"type": "str", "default": DEFAULT, "choices": [*ENGINES]}
    return {"type": "map", "options": options | {"image": image, "engine": engine}}


def described() -> dict[str, Key]:
    """Each key of the inventory, of a recipe and of a build."""
    roots = inventory_spec()["options"] | {"recipe": any_recipe(), "build": BUILD}
    words: Mapping[str, Any] = data_file("keys")
    none = Key("", {}, "", "", "")
    return {key.path: key for name, spec in roots.items() for key in _below(name, spec, words, none)}


def _below(path: str, spec: Spec, words: Mapping[str, Any], above: Key) -> Iterator[Key]:
    pattern = next((each for each in words if "*" in each and fnmatchcase(path, each)), path)
    row = words.get(path, words.get(pattern, ""))
    own = row if isinstance(row, Mapping) else {"what": row}
    key = Key(path, spec, own.get("what", ""), own.get("acts", above.acts), own.get("restarts", above.restarts))
    yield key
    inner = [(f".{name}", each) for name, each in spec.get("options", {}).items()]
    inner += [(f".{ANY}", spec["values"])] if "values" in spec else []
    inner += [("", each) for each in (*spec.get("any_of", ()), *([spec["elements"]] if "elements" in spec else ()))]
    for name, each in inner:
        below = _below(path + name, each, words, key)
        if not name or name == f".{ANY}":
            next(below)  # has no words of its own
        yield from below


def explained(wanted: str) -> tuple[str, str]:
    """The words for a key, or the refusal of an unknown key. wanted: a path, or its last parts."""
    keys = described()
    if not wanted:
        return "\n".join(f"{path}: {key.what}" for path, key in keys.items() if "." not in path), ""
    end = "." + wanted.strip().replace("[]", "")
    near = [key for path, key in keys.items() if f".{path}".endswith(end)]
    exact = [key for path, key in keys.items() if re.fullmatch(re.escape(path).replace(ANY, "[^.]+"), end[1:])]
    found = exact[:1] or near
    if not found:
        remedy = did_you_mean(wanted, keys)
        return "", f"key: found {wanted!r}; expected a key of the inventory, a recipe or a build; {remedy}"
    return "\n\n".join(key.text() for key in found), ""
