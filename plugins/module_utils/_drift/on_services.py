# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Services: their units, the containers that really run, the ports that are open; and what nobody declared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils import _layout
from ansible_collections.gb10.fleet.plugins.module_utils._drift.difference import (
    SITE,
    Difference,
    Unknown,
    View,
    unified,
)
from ansible_collections.gb10.fleet.plugins.module_utils._drift.questions import (
    DOCKER_UNIT,
    FIREWALL_UNIT,
    RECOVER_UNIT,
    containers,
    units,
)
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Severity
from ansible_collections.gb10.fleet.plugins.module_utils._firewall.host import FILE
from ansible_collections.gb10.fleet.plugins.module_utils._firewall.ruleset import TABLE
from ansible_collections.gb10.fleet.plugins.module_utils._gb10 import fact

Told = Iterator[Difference | Unknown]
SSH_PORT = 22
# What listens on every Ubuntu: SSH on another port, and the resolver for LLMNR (port 5355).
_SYSTEM = {"sshd", "systemd-resolve"}


def _differs(
    view: View, resource: str, rule: str, want: str, have: str, severity: Severity = "error", **more: str
) -> Difference:
    return Difference(view.host, resource, rule, want, have, severity, **{"remedy": view.converge(SITE), **more})


def of_engine(view: View) -> Iterator[Difference]:
    """Docker itself."""
    engine = view.state["engine"]
    if engine is not None and not engine["running"]:
        have = "it does not answer" if engine["installed"] else "not installed"
        yield _differs(view, "Docker", "docker-down", "runs", have, repairs=SITE)


def of_units(view: View) -> Told:
    """Each unit that is to run: enabled, active, read anew since its file changed."""
    found = view.state["units"]
    owners = {service["unit"]: service["name"] for service in view.slice["services"]}
    for name in units(view.slice) if found is not None else ():
        yield from _unit(view, name, found[name], owners.get(name, ""))


def _unit(view: View, name: str, have: Mapping[str, Any], service: str) -> Told:
    more: dict[str, Any] = {"remedy": view.converge(SITE), "repairs": SITE, "service": service}
    if have["load"] != "loaded":
        # a file that is missing is said with the files
        if name == DOCKER_UNIT or have["load"] != "not-found":
            yield _differs(view, f"unit {name}", "unit-load", "loaded", have["load"], **more)
        return
    if have["enabled"] != "enabled":
        yield _differs(view, f"unit {name}", "unit-enabled", "enabled", have["enabled"] or "not enabled", **more)
    if have["stale"]:
        remedy = f"systemctl daemon-reload; systemctl restart {name}"
        yield _differs(
            view, f"unit {name}", "unit-stale", "what its file says", "systemd has not read its file since it changed",
            "warning", remedy=remedy, service=service,
        )  # fmt: skip
    if name in (RECOVER_UNIT, FIREWALL_UNIT):
        return
    if have["active"] == "activating" and have["sub"] != "auto-restart" and not have["restarts"]:
        yield Unknown(view.host, f"unit {name}", "it is starting")
    elif have["active"] != "active":
        yield _differs(view, f"unit {name}", "unit-active", "active", f"{have['active']} ({have['sub']})", **more)
    elif have["restarts"]:
        yield _differs(
            view, f"unit {name}", "unit-restarts", "no restart since it was started", f"{have['restarts']}", "warning",
            remedy=f"journalctl -u {name} says why; systemctl reset-failed {name} counts anew", service=service,
        )  # fmt: skip


def of_containers(view: View) -> Told:
    """The container that really runs against the planned one."""
    running, found = view.state["running"], view.state["units"]
    if running is None:
        return
    for name, planned in sorted(containers(view.plan, view.host).items()):
        service = name.removeprefix(_layout.container(""))
        unit = (found or {}).get(_layout.unit(service))
        have = running.get(name)
        if have is not None:
            for rule, want, there in _aspects(planned, have, view.state["images"]):
                yield _differs(
                    view, f"container {name}", f"container-{rule}", want, there,
                    remedy=f"systemctl restart {_layout.unit(service)} starts it as its unit says", service=service,
                )  # fmt: skip
        elif unit and unit["active"] == "active":
            yield Unknown(view.host, f"container {name}", "its unit is active, but Docker does not list it yet")


def _aspects(
    want: Mapping[str, Any], have: Mapping[str, Any], images: Mapping[str, Any] | None
) -> Iterator[tuple[str, str, str]]:
    """(rule, want, have) of everything in which a running container is not the planned one."""
    image = (images or {}).get(want["image"])
    if image is not None and image["id"] != have["image"]:
        yield "image", f"{want['image']} ({_short(image['id'])})", f"{have['reference']} ({_short(have['image'])})"
    entrypoint = [want["entrypoint"]] if want["entrypoint"] is not None else have["image_entrypoint"]
    arguments = [*want["arguments"]]
    if arguments != have["argv"] or entrypoint != have["entrypoint"]:
        yield "argv", *_apart([*entrypoint, *arguments], [*have["entrypoint"], *have["argv"]])
    for name, value in sorted(want["env"].items()):
        if value != have["env"].get(name):
            yield f"env {name}", f"{name}={value}", f"{name}={have['env'].get(name, ' (not set)')}"
    unexpected = [name for name in have["other_env"] if name not in _ADDED_AT_LAUNCH]
    if unexpected:
        yield "env", "no other variables than planned", ", ".join(unexpected)
    for rule, planned in _planned(want).items():
        there = have[rule]
        if planned != there:
            yield rule, _listed(planned), _listed(there)


# The supervisor of a group looks these up at each launch.
_ADDED_AT_LAUNCH = {"NCCL_IB_GID_INDEX"}


def _planned(want: Mapping[str, Any]) -> dict[str, Any]:
    """The rest of a container in the form in which Docker keeps it."""
    return {
        "mounts": sorted([mount["source"], mount["target"], mount["read_only"]] for mount in want["mounts"]),
        "devices": sorted(want["devices"]),
        "capabilities": sorted(want["capabilities"]),
        "privileged": False,
        "security": sorted(want["security"]),
        "network": want["network"],
        "ipc": want["ipc"],
        "published": sorted([one["address"], one["port"]] for one in want["ports"]),
    }


def _apart(want: list[str], have: list[str]) -> tuple[str, str]:
    """Two command lines from the first word in which they differ."""
    start = next(
        (i for i, pair in enumerate(zip(want, have, strict=False)) if pair[0] != pair[1]), min(len(want), len(have))
    )
    return tuple(" ".join(["...", *words[start : start + 6]]) for words in (want, have))  # type: ignore[return-value]


def _listed(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list | bool) else str(value)


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def of_undeclared(view: View) -> Iterator[Difference]:
    """Units of ours that are no longer declared, and containers that nobody declared."""
    declared = {service["unit"] for service in view.slice["services"]}
    for unit in view.state["our_units"] or ():
        if unit not in declared:
            yield _differs(view, f"unit {unit}", "unit-undeclared", "no such unit", "its file is there", repairs=SITE)
    expected = {*containers(view.plan, view.host), *view.settings["expect"]["containers"]}
    for name, have in sorted((view.state["running"] or {}).items()):
        if name not in expected:
            yield _differs(
                view, f"container {name}", "container-undeclared", "nobody declared it",
                f"runs {have['reference']}" + (", privileged" if have["privileged"] else ""), "warning",
                remedy=f"docker stop {name}, or declare it: fleet_drift.expect.containers",
                reason="it takes memory that the plan gave to a service",
            )  # fmt: skip


def of_ports(view: View) -> Told:
    """The declared ports listen, and no other does but to the host itself."""
    listening = view.state["listening"]
    if listening is None:
        return
    declared = {row["port"] for row in view.slice["listens"] if row["port"] != "any"}
    running = view.state["running"] or {}
    ours = {running[name]["id"] for name in containers(view.plan, view.host) if name in running}
    open_ports = {row["port"] for row in listening}
    for service, port in sorted(_endpoints(view).items()):
        if port not in open_ports:
            yield from _closed(view, port, service)
    expected = {SSH_PORT, *declared, *view.settings["expect"]["listeners"]}
    for row in listening:
        # a rank's own ports lie on the fabric and are the group's business
        if row["local"] or row["port"] in expected or row["container"] in ours or row["process"] in _SYSTEM:
            continue
        yield _differs(
            view, f"port {row['port']}", "port-undeclared", "nobody declared it",
            f"{row['process'] or 'a process'} listens to everybody", "warning",
            remedy=f"ss -ltnp sport = :{row['port']} says who; stop it, or declare it: fleet_drift.expect.listeners",
        )  # fmt: skip


def _endpoints(view: View) -> dict[str, int]:
    """The ports of the services whose head stands here."""
    mine = {one["name"]: one["proof"]["url"] for one in view.slice["services"] if one["proof"]}
    return {service: int(url.rpartition(":")[2]) for service, url in mine.items()}


def _closed(view: View, port: int, service: str) -> Told:
    """A port that nobody listens on; while a model loads it is too early to say."""
    unit = (view.state["units"] or {}).get(_layout.unit(service))
    if unit is None or unit["active"] != "active":
        return  # said with the units
    limit = fact("limits", "startup_limit_s")
    if unit["active_s"] is not None and unit["active_s"] < limit:
        yield Unknown(view.host, f"port {port}", f"{service} has been starting for {unit['active_s']} s")
    else:
        yield _differs(
            view, f"port {port}", "port-closed", f"{service} listens", "nobody does",
            remedy=f"journalctl -u {_layout.unit(service)} -n 200", service=service,
        )  # fmt: skip


def of_firewall(view: View) -> Told:
    """Our table of rules: its file, and what the kernel holds, each against the planned rules; they are two things."""
    found = view.state["firewall"]
    if found is None:
        return
    if found["text"] != found["planned"]:
        yield _rules(view, f"file {FILE}", "firewall-file", found["planned"], found["text"], "no such file")
    if found["why"]:
        yield Unknown(view.host, f"nftables table {TABLE}", found["why"])
    elif found["live"] != found["live_planned"]:
        resource = f"nftables table {TABLE}"
        yield _rules(view, resource, "firewall-live", found["live_planned"], found["live"], "not in the kernel")


def _rules(view: View, resource: str, rule: str, want: str, have: str, nothing: str) -> Difference:
    wanted, there = "the planned rules" if want else nothing, "other rules" if have else nothing
    diff = unified(want, have) if want and have else ""
    return _differs(view, resource, rule, wanted, there, repairs=SITE, diff=diff)
