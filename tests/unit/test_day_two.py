# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random sequences of what owners do on day two, against the plan and stand-in hosts.

Whatever is edited, forgotten, ordered or out of reach: nothing is removed unsaid, a second run changes nothing, and
what check mode names is what the run does. `GB10_SEQUENCES=500 pytest tests/unit/test_day_two.py` for a long run.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.hosts import whole_services
from ansible_collections.gb10.fleet.plugins.module_utils._plan.choice import declared_and_retired, split_by_limit
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import concerning
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.reading import inventory_of
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.removals import findings
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.undeclared import REMOVED, undeclared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SEQUENCES = int(os.environ.get("GB10_SEQUENCES", "40"))
LIBRARY = load_all([SHIPPED_RECIPES])
HOSTS = ("titan", "spark-2", "spark-3")
NAMES = ("chat", "embed", "pair")
SMALL, LARGE = "bge-base-en-v1.5", "qwen3-vl-235b-a22b-instruct-awq"
FABRIC = {"cables": [["spark-2:1", "spark-3:1"]]}

Change = tuple[str, str, str]  # host, path, "write" or "remove"


@dataclass
class Fleet:
    """Hosts that keep what the service role writes: the files of each service, its key and its secret, by path."""

    files: dict[str, dict[str, str]] = field(default_factory=lambda: {host: {} for host in HOSTS})

    def units(self, host: str) -> list[dict[str, Any]]:
        folder = PurePosixPath(layout.UNITS)
        return [
            {"unit": PurePosixPath(path).name, "inventory": inventory_of(content), "ranks": 1}
            for path, content in self.files[host].items()
            if PurePosixPath(path).parent == folder
        ]


@dataclass
class Site:
    """One inventory: what is declared in it, and what a run of site.yml from it does."""

    name: str
    services: dict[str, dict[str, Any]] = field(default_factory=dict)

    def plan(self) -> dict[str, Any]:
        shared = {"fleet_services": self.services, "fleet_fabric": FABRIC, "fleet_name": self.name}
        hosts = {host: {"address": f"10.0.0.{i}", "port": 22, "variables": shared} for i, host in enumerate(HOSTS, 1)}
        return plan_fleet({"hosts": hosts, "folder": f"/{self.name}"}, *LIBRARY)

    def run(self, fleet: Fleet, run: Mapping[str, Any], *, check: bool = False) -> tuple[set[Change] | None, set[str]]:
        """What changed (None: the run was refused), and the services that it named as removed, as HOST: SERVICE."""
        plan, limit = self.plan(), run["limit"]
        alive = [host for host in limit if host not in run["dead"]]
        placed = {name: service["hosts"] for name, service in plan["services"].items()}
        removal = {"inventory": plan["inventory"], "placed": placed, "hosts": limit, "retire": run["retire"]}
        removal["alive"] = alive
        problems = [row for row in concerning(plan, limit) if row["severity"] == "error"]
        problems += [*declared_and_retired(plan, run["retire"]), *split_by_limit(plan, [*placed], limit)]
        found = {host: undeclared(fleet.units(host), host, removal) for host in alive}
        named_by = {host: [*findings(found[host], removal)] for host in alive}
        problems += [one for host in alive for one in named_by[host] if one.severity == "error"]
        if problems:
            return None, set()
        named = {f"{host}: {one.place}" for host in alive for one in named_by[host] if one.rule == "service-removed"}
        changes: set[Change] = set()
        for host in alive:
            found_whole = whole_services(plan["hosts"][host], alive)
            whole = found_whole["slice"]
            assert len(whole["services"]) + len(found_whole["left_out"]) == len(plan["hosts"][host]["services"])
            wanted = {path: text for one in whole["services"] for path, text in written(one).items()}
            gone = {path for one in found[host] if one.fate in REMOVED for path in one.files}
            changes |= {(host, path, "write") for path, text in wanted.items() if fleet.files[host].get(path) != text}
            changes |= {(host, path, "remove") for path in gone if path in fleet.files[host]}
            if not check:
                fleet.files[host] = {p: t for p, t in (fleet.files[host] | wanted).items() if p not in gone}
        return changes, named


def written(service: Mapping[str, Any]) -> dict[str, str]:
    files = {path: file["content"] for path, file in service["files"].items() if file["content"] is not None}
    keys = {service[kind]["path"]: f"a {kind}" for kind in ("key", "secret") if service[kind]}
    return files | keys


def owned(path: str) -> str:
    """The service that a unit, its settings or its secrets belong to."""
    name = PurePosixPath(path).name
    return next(
        (
            service
            for service in NAMES
            if name in (layout.unit(service), f"{service}.json", f"{service}.yaml", f"{service}.group")
        ),
        "",
    )


PLACES = (["titan"], ["spark-2"], ["spark-3"], ["spark-2", "spark-3"], ["spark-3", "spark-2"])
EVERYWHERE = [*HOSTS]


def step(draw: Random) -> dict[str, Any]:
    """One run and the edits before it. Mostly over all hosts, all of which answer: a refused run tests little."""
    edits = []
    for _ in range(draw.choice([0, 1, 2, 3])):
        what = draw.choice(["add", "add", "add", "remove", "rename", "move", "flag", "key"])
        to = {"rename": draw.choice(NAMES), "flag": draw.choice([2, 4, 8]), "key": draw.choice([True, False])}.get(
            what, draw.choice(PLACES)
        )
        edits.append((what, draw.choice(NAMES), to))
    return {
        "site": draw.choice([0, 0, 0, 0, 1]),
        "edits": edits,
        "limit": draw.choice([EVERYWHERE] * 5 + [["titan"], ["spark-2", "spark-3"], ["titan", "spark-2"]]),
        "dead": draw.choice([[]] * 6 + [[host] for host in HOSTS]),
        # what is ordered and is not there any more; now and then something else, or nothing
        "retire": draw.choice(["gone", "gone", "gone", "none", "any"]),
    }


def edit(site: Site, what: str, name: str, to: Any, key: Path) -> None:
    services = site.services
    if what != "add" and name not in services:  # something that is declared
        name = next(iter(services), name)
    if what == "add" or (what == "move" and name in services):
        recipe = SMALL if len(to) == 1 else LARGE
        services[name] = {"recipe": recipe, "hosts": to, "port": 8000 + 10 * NAMES.index(name)}
    elif what == "remove":
        services.pop(name, None)
    elif what == "rename" and name in services and to not in services:
        services[to] = services.pop(name) | {"port": 8000 + 10 * NAMES.index(to)}
    elif what == "flag" and name in services:
        services[name]["flags"] = {"max-num-batched-tokens": 512 * to}
    elif what == "key" and name in services:
        services[name] |= {"api_key_file": str(key)} if to else {"api_key_file": None}


@settings(max_examples=SEQUENCES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32 - 1))
def test_nothing_is_removed_unsaid(tmp_path_factory: Any, seed: int) -> None:
    """seed: of one sequence; hypothesis' own lists repeat themselves too often to get anywhere."""
    draw = Random(seed)
    key = tmp_path_factory.getbasetemp() / "key"
    key.write_text("k" * 32)
    key.chmod(0o600)
    fleet, sites = Fleet(), [Site("mine"), Site("theirs")]
    for service, hosts in (("chat", ["titan"]), ("pair", ["spark-2", "spark-3"])):
        edit(sites[0], "add", service, hosts, key)
    sites[0].run(fleet, {"limit": EVERYWHERE, "dead": [], "retire": []})
    for run in [step(draw) for _ in range(draw.randint(3, 7))]:
        site = sites[run["site"]]
        for what, service, to in run["edits"]:
            edit(site, what, service, to, key)
        ordered = {"gone": sorted({*NAMES} - {*site.services}), "none": [], "any": [draw.choice(NAMES)]}
        run["retire"] = ordered[run["retire"]]
        before = copy.deepcopy(fleet.files)
        foreseen, named = site.run(fleet, run, check=True)
        assert fleet.files == before  # check mode changes nothing
        done, named_again = site.run(fleet, run)
        assert (done, named_again) == (foreseen, named)  # plan = check = what happened
        if done is None:
            assert fleet.files == before  # refused before the first change on any host
            continue
        happened = {
            (host, path, "write" if path in fleet.files[host] else "remove")
            for host in HOSTS
            for path in {*before[host], *fleet.files[host]}
            if before[host].get(path) != fleet.files[host].get(path)
        }
        assert happened == done
        declared = {(host, service) for service, one in site.services.items() for host in one["hosts"]}
        for host, path, what in happened:
            marks = {
                inventory_of(text)
                for p, text in before[host].items()
                if p == f"{layout.UNITS}/{layout.unit(owned(path))}"
            }
            assert marks <= {site.name}  # nobody touches what another inventory wrote
            assert host in run["limit"] and host not in run["dead"]
            if what == "remove" and path.startswith(layout.UNITS):
                assert f"{host}: {owned(path)}" in named  # removed, and said so
                assert owned(path) in run["retire"] or owned(path) in site.services
                assert (host, owned(path)) not in declared
        again, _named = site.run(fleet, run)
        assert again == set()  # a second run changes nothing
