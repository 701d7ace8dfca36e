"""A fleet of three hosts, its plan, and what host_info reads when everything is as planned."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.files import salted
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import Reading
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.managed import managed_files, managed_json
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.questions import host_view, questions
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.access import ACCOUNT, ENTRIES, options
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.form import forms, taken
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.subject import containers
from ansible_collections.gb10.fleet.plugins.plugin_utils._compared import with_comparisons

ROOT = Path(__file__).resolve().parents[2]
LIBRARY, OF_RECIPES = load_all([ROOT / "inventories" / "lab" / "recipes", SHIPPED_RECIPES])
HOSTS = ("spark-2", "spark-3", "titan")
IMAGE = {"id": "sha256:" + "a" * 64, "identity": "sha256:" + "b" * 64, "layers": 2, "digests": []}
NOT_DEEP = {"days": 1, "today": 0, "seconds": 0, "seen": {}}
GIB = 1 << 30
# Of which no report of a fault is known.
DRIVER = "580.82.09"
# A key file's text, which is one of clients' keys as well.
KEY, SALT = "me: 0123456789abcdef", "5" * 64
OVER_MANAGEMENT = "10.0.0.12"


# What a machine shows before anybody configured it; see `_host.probe.machine`.
BROUGHT_ALONG: dict[str, Any] = {
    "platform": {"ota": "7.5.0", "release": "DGX Spark", "bios": "5.36_0ACUM027", "vendor": "NVIDIA", "product": "x"},
    "gpu": {"present": True, "module": True, "users": 0, "why": "", "persistence": True, "held_back": []},
    "health": {"boots": [{"days_ago": 9.5, "cut_off": False, "why": ""}], "lines": {}},
    "sensors": {"heat_c": {"zone 0": 52.0, "mlx5 1 1": 61.0}, "errors": {}},
    "drives": {"nvme0": {"warning": 0, "heat_c": 44, "spare": 100, "spare_least": 10, "used": 3, "errors": 0}},
    "watchdogs": [],
    "boot": {"kernels": ["6.17.0-1014-nvidia"], "entries": [], "default": "0", "driver": None},
    "apt": {"holders": [], "unproved": False},
    "installs": {},
    "sudo": {"password": False},
    "network": {
        "renderers": ["NetworkManager"],
        "wifi": {"wlP9s9": "mt7925e"},
        "default": ["enP7s7"],
        "desktop": False,
    },
    "cdi_drivers": {},
    "iommu": {"0000:01:00.0": "identity"},
    "fragments": {"free": 50 * GIB, "huge": 45 * GIB},
    "daemon": {"masked": False, "flags": ["hosts"], "where": {}, "file": "", "settings": {}, "names": []},
    "closed": False,
    "containers": [],
    "listening_udp": [],
    "reach": {},
}


CERTIFICATE = {"days_left": 300.0, "days_until": -9.0}


def planned(**variables: Any) -> dict[str, Any]:
    """The plan of a cable between spark-2 and spark-3, and of a service on titan."""
    tiny = {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000}
    fleet = {
        "fleet_services": {"tiny": tiny},
        "fleet_fabric": {"pool": "192.168.100.0/22", "cables": [["spark-2:1", "spark-3:1"]]},
        "fleet_host": {"memory_kib": 15728640},
    }
    hosts = {name: {"address": f"{name}.lan", "variables": fleet | variables} for name in HOSTS}
    plan = plan_fleet({"hosts": hosts, "folder": "/inventory"}, LIBRARY, OF_RECIPES)
    errors = [finding for finding in plan["findings"] if finding["severity"] == "error"]
    assert not errors, errors
    return plan


def readings(plan: dict[str, Any]) -> dict[str, Reading]:
    """All hosts as planned."""
    return {host: Reading(state_of(plan, host), {}) for host in plan["hosts"]}


def answer_of(plan: dict[str, Any], host: str) -> dict[str, Any]:
    """As the module sends it: secrets by their salted digests, certificates as text."""
    state = json.loads(json.dumps(state_of(plan, host)))
    del state["asked_between"]
    for one in managed_files(plan["hosts"][host]):
        if one.source:
            content = one.rendered(KEY).encode()
            del state["files"][one.path]["same"]
            state["files"][one.path] |= {"salted": salted(content, SALT), "size": len(content)}
    state["paths"] = {
        path: {"exists": True, "free_bytes": 800 * GIB, "filesystem": "ext4", "weights_bytes": None}
        for path in plan["hosts"][host]["needs"]["paths"]
    }
    return state | {"certificates": dict.fromkeys(state["certificates"])}


def taken_of(plan: dict[str, Any], host: str, answer: dict[str, Any]) -> Reading:
    """As the action takes what the module sends."""
    state, unknown = taken(answer, {}, forms(questions(host_view(plan, host), NOT_DEEP)))
    state, faults = with_comparisons(state, plan["hosts"][host], SALT, lambda _path: KEY)
    assert faults == []
    return Reading({**state, "asked_between": [999.5, 1001.5]}, unknown)  # type: ignore[typeddict-item]


def changed(plan: dict[str, Any], host: str, change: Any) -> dict[str, Reading]:
    """All hosts as planned, but for what ``change`` does to the state of one."""
    found = readings(plan)
    state = copy.deepcopy(dict(found[host].state or {}))
    change(state)
    return found | {host: Reading(state, {})}


def _gateway(part: dict[str, Any]) -> dict[str, Any] | None:
    up = {"up": True, "status": "UP", "running": 0, "waiting": 0}
    servers = {backend: dict.fromkeys(servers, up) for backend, servers in part.get("servers", {}).items()}
    return {"unread": [], "servers": servers, "why": "", "leftovers": [], "holds": {}} if part else None


def state_of(plan: dict[str, Any], host: str) -> dict[str, Any]:
    mine = plan["hosts"][host]
    ask = questions(host_view(plan, host), NOT_DEEP)
    tuning = mine["host_tuning"]
    return {
        **BROUGHT_ALONG,
        "architecture": "aarch64",
        "memory_bytes": {"total": 120 * GIB, "available": 60 * GIB, "swapped": 0, "unaccounted": 0},
        "paths": {},
        "listening": [
            _listener(22, "sshd"),
            *(_listener(row["port"], "docker-proxy") for row in mine["listens"] if row["port"] != "any"),
        ],
        "files": {one.path: _file(one) for one in managed_files(mine)},
        "owned": [],
        "json": {one.path: dict(one.settings) for one in managed_json(mine)},
        "netplan": [],
        "last_run": {},
        "lease": {},
        "our_units": [
            {"unit": one["unit"], "inventory": plan["inventory"], "ranks": one.get("ranks", 1), "unproved": False}
            for one in (*mine["services"], *([mine["gateway"]] if mine["gateway"] else []))
        ],
        "sysctl": {
            key: str(value) for part in ("host_tuning", "fabric") for key, value in mine[part].get("sysctl", {}).items()
        },
        "sysctl_later": [],
        "memlock_later": [],
        "kernel": {
            "release": "6.17.0-1014-nvidia",
            "cmdline": "root=/dev/nvme0n1p2 quiet",
            "swap": "off",
            "read_ahead": {"nvme0n1": tuning["read_ahead_kb"]},
            "memlock": "infinity",
            "reboot_required": False,
        },
        "driver": DRIVER,
        "firmware": {"nic_firmware": "28.45.4028"},
        "firewall": {"text": "", "planned": "", "live": "", "live_planned": "", "why": ""},
        "packages": {name: None if name == "earlyoom" else {"version": "1", "held": True} for name in ask["packages"]},
        "units": {name: _unit() for name in ask["units"]},
        "clock": 1000.0,
        "asked_between": [999.5, 1001.5],
        "disks": {path: {"free": 500 * GIB, "total": 900 * GIB} for path in ask["disks"]},
        "engine": {"installed": True, "running": True, "version": "28.5.1", "store": "overlay2"},
        "images": {
            reference: {**IMAGE, "recorded": {"identity": IMAGE["identity"], "digest": None}}
            for reference in ask["images"]
        },
        "running": {name: _container(planned) for name, planned in containers(mine).items()},
        "models": {
            "models": {
                model["repository"]: {
                    "revision": "c" * 40,
                    "seal": "d" * 64,
                    "changed": [],
                    "gone": [],
                    "broken": "",
                    "access": [],
                    "closed": [],
                }
                for model in mine["models"]
            },
            "others": [],
        },
        "fabric": _fabric(plan, host),
        "certificates": {
            one["tls"]["certificate"]["path"]: {**CERTIFICATE, "names": one["tls"]["names"]}
            for one in (*mine["services"], mine["gateway"])
            if one.get("tls")
        },
        "gateway": _gateway(mine["gateway"]),
        "deep": {"good": [], "bad": {}, "left": []},
        "peers": _peers(mine["peer_access"]),
        "peers_entries": [*ENTRIES] if mine["peer_access"]["readers"] else [],
        "peers_inventory": plan["inventory"] if mine["peer_access"]["readers"] else None,
    }


def key_of(name: str) -> str:
    """A public key, in SSH's alphabet."""
    return f"ssh-ed25519 {name.replace('-', '/')}"


def _peers(access: dict[str, Any]) -> dict[str, Any]:
    return {
        "authorized": {
            name: f"{options([*addresses, OVER_MANAGEMENT])} {key_of(name)} {ACCOUNT}@{name}"
            for name, addresses in access["readers"].items()
        },
        "known": {name: key_of(f"of-{name}") for name in access["reads"]},
        "public_key": "",
        "host_key": "",
        "addresses": [OVER_MANAGEMENT],
    }


def _listener(port: int, process: str) -> dict[str, Any]:
    return {"port": port, "local": False, "process": process, "container": ""}


def _file(one: Any) -> dict[str, Any]:
    if one.kind in ("link", "absent"):
        return {"kind": one.kind, "target": one.target}
    found = {"kind": one.kind, "mode": one.mode, "owner": "root", "group": "root"}
    if not one.mode:  # an image left its own
        found |= {"mode": "0750", "owner": "1000"}
    if one.source:
        return found | {"same": True}
    if one.shared:
        return found | {"salted": "d" * 64}
    return found | ({} if one.content is None else {"sha256": hashlib.sha256(one.content.encode()).hexdigest()})


def _unit() -> dict[str, Any]:
    state = {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled"}
    return state | {"restarts": 0, "stale": False, "drop_ins": [], "active_s": 4000}


def _container(planned: Any) -> dict[str, Any]:
    return {
        "id": "e" * 64,
        "image": IMAGE["id"],
        "reference": planned["image"],
        "argv": planned["arguments"],
        "entrypoint": ["vllm", "serve"],
        "image_entrypoint": ["vllm", "serve"],
        "env": planned["env"],
        "other_env": [],
        "mounts": sorted(
            [
                *([mount["source"], mount["target"], mount["read_only"]] for mount in planned["mounts"]),
                *([folder, target, False] for target, folder in planned["caches"].items()),
            ]
        ),
        **{kind: sorted(planned[kind]) for kind in ("devices", "capabilities", "security", "tmpfs")},
        "dropped": ["ALL"],
        "pids-limit": planned["pids_limit"],
        "memory-limit": planned["memory_limit"],
        "oom-score-adj": planned["oom_score_adj"],
        "read-only": planned["read_only"],
        "log": "none",
        "privileged": False,
        "network": planned["network"],
        "ipc": planned["ipc"],
        "published": [[one["address"], one["port"]] for one in planned["ports"]],
    }


def _fabric(plan: dict[str, Any], host: str) -> dict[str, Any]:
    interfaces = plan["hosts"][host]["fabric"]["interfaces"]
    return {
        "links": {one["name"]: _link(host, one) for one in interfaces},
        "asked": {
            one["name"]: {
                "answers": {peer["address"]: mac(peer["host"], peer["interface"]) for peer in one["peers"]},
                "pings": {peer["address"]: "" for peer in one["peers"]},
            }
            for one in interfaces
        },
        "rdma": {one["rdma_device"]: _rdma(one) for one in interfaces},
        "adapter": {
            "marker": False,
            "enabled": False,
            "state": None,
            "plugged_s": None,
            "measured": {},
            "unproven": [],
        },
    }


def _link(host: str, one: dict[str, Any]) -> dict[str, Any]:
    return {
        "mac": mac(host, one["name"]),
        "mtu": one["mtu"],
        "up": True,
        "carrier": True,
        "speed_mbps": 200000,
        "addresses": [one["address"]],
        "pcie_width": 4,
        "pcie_width_max": 4,
    }


def _rdma(one: dict[str, Any]) -> dict[str, Any]:
    gid = "::ffff:" + one["address"].partition("/")[0]
    row = {"index": 3, "gid": gid, "type": "RoCE v2"}
    return {"state": "ACTIVE", "link_layer": "Ethernet", "rate": "200 Gb/sec", "gids": [row], "bytes": {}}


def mac(host: str, interface: str) -> str:
    return hashlib.sha256(f"{host} {interface}".encode()).hexdigest()[:12]


UNIT = layout.unit("tiny")
CONTAINER = layout.container("tiny")
