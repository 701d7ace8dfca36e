# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The plan for a person to read, and for a machine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding
from ansible_collections.gb10.fleet.plugins.module_utils._report import size, table

_BOUNDS = ("low", "expected", "high")
_MARKS = {"error": "ERROR", "warning": "warning", "hint": "hint"}


def as_json(plan: Mapping[str, Any]) -> str:
    """One document, keys sorted: the braces of the outermost map stand at the beginning of a line."""
    return json.dumps(plan, indent=2, sort_keys=True)


def concerning(plan: Mapping[str, Any], hosts: Sequence[str]) -> list[dict[str, Any]]:
    """The findings that concern a run on these hosts: of the fleet, of the hosts, of the services placed on them."""
    chosen = set(hosts)
    return [finding for finding in plan["findings"] if not finding["hosts"] or chosen & set(finding["hosts"])]


def sentence(finding: Mapping[str, Any]) -> str:
    """One finding of the plan as one line."""
    return Finding(**{field.name: finding[field.name] for field in fields(Finding)}).sentence()


def as_text(plan: Mapping[str, Any], hosts: Sequence[str]) -> str:
    """The decisions for these hosts and the services placed on them, then the findings."""
    chosen = [name for name, service in plan["services"].items() if set(service["hosts"]) & set(hosts)]
    parts = ["\n".join(_service(name, plan["services"][name], hosts)) for name in chosen]
    parts += ["\n".join(_host(name, plan["hosts"][name])) for name in hosts]
    parts.append("\n".join(_findings(concerning(plan, hosts))))
    return "\n" + "\n\n".join(part for part in parts if part) + "\n"


def _heading(text: str) -> str:
    return f"{text}\n{'=' * len(text)}"


def _service(name: str, service: Mapping[str, Any], hosts: Sequence[str]) -> Iterator[str]:
    kv = service["kv"]
    yield _heading(f"service {name}: {service['recipe']} on {', '.join(service['hosts'])}")
    yield f"endpoint     {service['endpoint']}  model {service['model']}"
    yield f"status       {service['status']}"
    if kv["tokens"]:
        about = "" if kv["exact"] else "about "
        yield f"KV pool      {about}{size(kv['bytes'])} a rank, {kv['tokens']:,} tokens, blocks of {kv['block_size']}"
        yield f"context      {kv['context']:,} tokens, {kv['max_concurrency']:.2f} requests of that length at once"
    for rank in service["ranks"]:
        if rank["host"] in hosts:
            yield ""
            yield f"on {rank['host']} ({rank['role']}):"
            yield "  " + shlex.join(rank["command"])
            if rank["serve"]:
                yield "and in it, once all ranks have joined:"
                yield "  " + shlex.join(rank["serve"])
    yield ""
    rows = [{key: str(row[key]) for key in ("key", "value", "origin", "reason")} for row in service["explain"]]
    yield table(rows)


def _host(name: str, host: Mapping[str, Any]) -> Iterator[str]:
    yield _heading(f"host {name}")
    if host["listens"]:
        yield table([{key: str(row[key]) for key in ("port", "address", "service", "who")} for row in host["listens"]])
        yield ""
    if host["fabric"]["interfaces"]:
        yield table([_interface(interface) for interface in host["fabric"]["interfaces"]])
        yield ""
    for service, lines in host["memory"].items():
        rows = [{"memory": what, **{bound: size(line[bound]) for bound in _BOUNDS}} for what, line in lines.items()]
        yield f"memory as {service} sees it:\n{table(rows)}"


def _interface(interface: Mapping[str, Any]) -> dict[str, str]:
    peers = [f"{peer['host']} {peer['interface']} {peer['address'] or ''}".strip() for peer in interface["peers"]]
    return {
        "interface": interface["name"],
        "RDMA device": interface["rdma_device"] or "-",
        "address": interface["address"] or "link-local",
        "MTU": str(interface["mtu"]),
        "peers": ", ".join(peers),
    }


def _findings(findings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if findings:
        yield _heading("findings")
    for finding in findings:
        silenced = f" (silenced: {finding['silenced']})" if finding.get("silenced") else ""
        yield f"{_MARKS[finding['severity']]}{silenced}: {finding['place']}: {finding['found']}"
        for label in ("expected", "reason", "remedy", "source"):
            if finding.get(label):
                yield f"    {label}: {finding[label]}"
