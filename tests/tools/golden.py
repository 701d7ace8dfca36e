# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Golden plans: what this tree decides for our inventories, for each shipped recipe, and for owners' wishes.

    golden.py --renew                  write tests/data/golden_plans.json anew, after a change of decisions on purpose
    golden.py --write FOLDER           write every plan, normalised, one JSON file an entry
    golden.py --against CHECKOUT       what this tree decides otherwise than another checkout, as a diff

A change that is not to change decisions leaves the digests as they are. Normalised: words of `docker run` instead of
the container's data, so that a plan of another shape that says the same stays the same; files of this collection by
their names; and of findings what is judged where, since their wording decides nothing. What the files that hosts run
say has digests of its own, in tests/data/on_host.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DIGESTS = ROOT / "tests" / "data" / "golden_plans.json"
ON_HOST = ROOT / "plugins" / "module_utils" / "_on_host"
OF_FILES = ROOT / "tests" / "data" / "on_host.json"
WISHES = ROOT / "tests" / "data" / "wishes.yml"
OF_WISHES = ROOT / "tests" / "data" / "wishes"  # recipes that wishes name
INVENTORIES = ("inventories/example", "inventories/lab", "tests/drift/inventory")
sys.path.insert(0, str(ROOT / "collections"))


def entries() -> Iterator[tuple[str, dict[str, Any], list[Path]]]:
    """(name, inventory, folders of recipes beside the shipped ones) of everything that is planned."""
    for name in INVENTORIES:
        folder = ROOT / name
        yield name, inventory_of(folder), [folder / "recipes"] if (folder / "recipes").is_dir() else []
    example = inventory_of(ROOT / "inventories" / "example")
    # what the fleet as a whole declares is the same on each host
    fourth = {"address": "192.168.1.34", "port": 22, "variables": example["hosts"]["spark-2"]["variables"]}
    example["hosts"].setdefault("spark-4", fourth)
    for path in sorted((ROOT / "recipes").glob("*.yml")):
        recipe = yaml.safe_load(path.read_text("utf-8"))
        for count in recipe.get("host_counts", [1]):
            hosts = ["titan"] if count == 1 else ["spark-2", "spark-3"]
            variables: dict[str, Any] = {}
            if count > 2:
                hosts = ["titan", "spark-2", "spark-3", "spark-4"][:count]
                ports = {f"{host}:1": number for number, host in enumerate(hosts, 1)}
                variables["fleet_fabric"] = {"switches": {"switch": {"ports": ports}}}
            service = {"recipe": path.stem, "hosts": hosts, "port": 8000, "trust": ["code"]}
            # an engine that asks for no key
            asks_nobody = {"open": True} if recipe.get("engine") == "trtllm" else {}
            variables["fleet_services"] = {"s": service | asks_nobody}
            yield f"recipes/{path.stem} on {count}", with_variables(example, variables), []
    for name, wish in yaml.safe_load(WISHES.read_text("utf-8")).items():
        yield f"wishes/{name}", with_variables(example, _variables(wish)), [OF_WISHES]


def inventory_of(folder: Path) -> dict[str, Any]:
    """An inventory of ours, whose variables of the fleet are plain data in group_vars/all and hosts.yml."""
    shared: dict[str, Any] = {}
    for path in sorted((folder / "group_vars" / "all").glob("*.yml")):
        shared |= yaml.safe_load(path.read_text("utf-8")) or {}
    hosts = {}
    for name, own in (yaml.safe_load((folder / "hosts.yml").read_text("utf-8"))["all"]["hosts"]).items():
        variables = shared | (own or {})
        hosts[name] = {
            "address": str(variables.get("ansible_host", name)),
            "port": int(variables.get("ansible_port", 22)),
            "variables": {key: value for key, value in variables.items() if key.startswith("fleet_")},
        }
    return {"hosts": hosts, "folder": "/inventory"}


def with_variables(inventory: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """The same hosts with other services, and whatever else an entry says."""
    hosts = {}
    for name, host in inventory["hosts"].items():
        kept = {key: value for key, value in host["variables"].items() if key != "fleet_services"}
        hosts[name] = {**host, "variables": kept | dict(variables)}
    return {**inventory, "hosts": hosts}


def _variables(wish: Mapping[str, Any]) -> dict[str, Any]:
    unsaid = {"hosts": ["titan"], "port": 8000, "trust": ["code"]}
    services = {name: unsaid | service for name, service in wish["services"].items()}
    return {"fleet_services": services} | ({"fleet_fabric": wish["fabric"]} if "fabric" in wish else {})


def plans() -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, normalised plan) of every entry."""
    from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES  # noqa: PLC0415
    from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all  # noqa: PLC0415
    from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet  # noqa: PLC0415

    libraries: dict[tuple[Path, ...], Any] = {}
    for name, inventory, folders in entries():
        all_folders = (*folders, SHIPPED_RECIPES)
        if all_folders not in libraries:
            libraries[all_folders] = load_all(all_folders)
        plan = plan_fleet(inventory, *libraries[all_folders])
        yield name, _by_name(json.loads(json.dumps(normalised(plan)).replace(str(ROOT), "ROOT")))


def _by_name(value: Any) -> Any:
    """Files of this collection by their names: neither where they lie in it nor what they say is a decision."""
    if isinstance(value, list):
        return [_by_name(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"mode", "source"} and (ROOT / value["source"]).is_file():
        return {"mode": value["mode"], "source": Path(value["source"]).name}
    return {key: _by_name(item) for key, item in value.items()}


def on_host() -> dict[str, str]:
    """Digests of the programs that hosts run. A changed byte of the supervisor starts every service anew."""
    return {
        str(path.relative_to(ON_HOST)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(ON_HOST.rglob("*.py"))
    }


def normalised(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan decides, whatever its shape."""
    hosts = {}
    for name, host in plan["hosts"].items():
        needs = {key: value for key, value in host["needs"].items() if key != "launches"}
        parts = {key: value for key, value in host.items() if key not in ("services", "needs", "clients")}
        clients = {"clients": host["clients"]} if host["clients"] else {}
        hosts[name] = parts | clients | {"needs": needs, "services": [_service(one) for one in host["services"]]}
    findings = [{key: row[key] for key in ("rule", "severity", "place", "hosts")} for row in plan["findings"]]
    of_fleet = {key: value for key, value in plan.items() if key != "clients" or value}
    # of each service `explain` has the flags too, with their reasons
    of_fleet["services"] = {
        name: {key: value for key, value in service.items() if key != "flags"}
        for name, service in plan["services"].items()
    }
    return {**of_fleet, "hosts": hosts, "findings": findings}


def _service(service: Mapping[str, Any]) -> dict[str, Any]:
    from ansible_collections.gb10.fleet.plugins.module_utils._plan.container import docker_run  # noqa: PLC0415

    facts = {key: value for key, value in service.items() if key not in ("container", "files", "flags", "definition")}
    files = {path: {**file, "content": _content(file["content"])} for path, file in service["files"].items()}
    return facts | {"run": docker_run(service["container"]), "files": files}


def _content(text: str | None) -> Any:
    """A file's content; a JSON file's without the digest of all decisions that are compared here one by one."""
    if text is None or not text.startswith("{"):
        return text
    data = json.loads(text)
    data.pop("definition", None)
    return data


def digest(plan: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, plan in plans():
        text = json.dumps(plan, indent=1, sort_keys=True)
        (folder / f"{name.replace('/', '-').replace(' ', '-')}.json").write_text(text + "\n", "utf-8")


def against(checkout: Path) -> int:
    """A diff of both trees' plans; each tree normalises its own."""
    with tempfile.TemporaryDirectory() as scratch:
        ours, theirs = Path(scratch) / "here", Path(scratch) / "there"
        write(ours)
        other = checkout.resolve() / "tests" / "tools" / "golden.py"
        subprocess.run([sys.executable, str(other), "--write", str(theirs)], check=True)
        return subprocess.run(["diff", "-r", "-U", "2", "there", "here"], cwd=scratch, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--renew", action="store_true")
    action.add_argument("--write", type=Path, metavar="FOLDER")
    action.add_argument("--against", type=Path, metavar="CHECKOUT")
    chosen = parser.parse_args()
    if chosen.against:
        return against(chosen.against)
    if chosen.write:
        write(chosen.write)
        return 0
    found = {name: digest(plan) for name, plan in plans()}
    OF_FILES.write_text(json.dumps(on_host(), indent=1, sort_keys=True) + "\n", "utf-8")
    DIGESTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
