# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a new inventory, as a person would write them, and what the screen shows of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from ..._base.report import table
from ..._base.sizes import size
from .decide import Host, Proposal, settings_of
from .find import Machine
from .reading import maker

HOSTS, CONNECTION, FLEET = "hosts.yml", "group_vars/all/connection.yml", "group_vars/all/fleet.yml"
_HEAD = "---\n# gb10.fleet.init wrote this of what the machines showed. It is yours: init never writes over it.\n"
# Text that YAML reads as text without quotes, also in a list or map on one line.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*(:[0-9])?|\d+(\.\d+){3}(/\d+)?")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def flow(value: object) -> str:
    """A value as YAML on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow_key(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value.lower() not in _WORDS else json.dumps(value)
    return json.dumps(value)


def flow_key(key: str) -> str:
    return json.dumps(key) if ":" in key else flow(key)


def block(value: Mapping[str, object], indent: str) -> Iterator[str]:
    """A map as YAML, a line a key; what nests deeper than two levels is on one line."""
    for key, item in value.items():
        if isinstance(item, Mapping) and item and len(indent) < 4:
            yield f"{indent}{flow_key(key)}:"
            yield from block(item, indent + "  ")
        elif isinstance(item, list) and item and len(indent) < 4 and not all(isinstance(one, str) for one in item):
            yield f"{indent}{flow_key(key)}:"
            yield from (f"{indent}  - {flow(one)}" for one in item)
        else:
            yield f"{indent}{flow_key(key)}: {flow(item)}"


def texts(
    hosts: Mapping[str, Host],
    proposal: Proposal,
    user: str,
    fits: Sequence[Mapping[str, Any]] = (),
    *,
    take_over: bool,
) -> dict[str, str]:
    """The files by name, below the inventory's folder. user: empty where ssh's own files name the account. fits: what
    fits on the first host, of `fitting`."""
    account = (
        f"ansible_user: {flow(user)}\n"
        if user
        else "# The account is the one that ssh's own files name for these hosts.\n"
    )
    return {
        CONNECTION: f"{_HEAD}{account}ansible_python_interpreter: /usr/bin/python3\n",
        FLEET: "\n".join([_HEAD.rstrip("\n"), *_fleet(hosts, proposal, fits, take_over=take_over)]) + "\n",
        HOSTS: _HEAD + "all:\n  hosts:\n" + "".join(f"    {line}\n" for line in map(_host, hosts, hosts.values())),
    }


def _host(name: str, host: Host) -> str:
    way = {"ansible_host": host.address} if host.address else {"ansible_connection": "local"}
    settings = settings_of(host.reading)
    variables = {**way, **({"fleet_host": settings} if settings else {})}
    return f"{flow(name)}: {flow(variables)} # {about(host)}"


def about(host: Host) -> str:
    release = host.reading["platform"]["ota"] or "unknown"
    return f"{maker(host.reading)}, {memory(host)}, DGX OS {''.join(one for one in release if one.isprintable())[:20]}"


def memory(host: Host) -> str:
    """As it is sold: the firmware keeps some of it."""
    return f"{next(gb for gb in (32, 64, 128, 256, 1 << 30) if host.reading['memory_kib'] < gb * 1_000_000)} GB"


def _fleet(
    hosts: Mapping[str, Host], proposal: Proposal, fits: Sequence[Mapping[str, Any]], *, take_over: bool
) -> Iterator[str]:
    yield from (f"# {note}" for note in proposal.notes)
    if proposal.fabric:
        yield "fleet_fabric:"
        yield from block(proposal.fabric, "  ")
    services = [*block(proposal.services, "  ")]
    if proposal.services and take_over:
        yield "# What runs now goes on until site.yml, which starts these instead."
        yield from ("fleet_services:", *services)
        return
    yield "fleet_services: {}"
    if proposal.services:
        yield "# What serves there now, to take over with site.yml: put these lines in the place of the one above."
        yield from ("# fleet_services:", *(f"# {line}" for line in services))
    elif fits:
        first = next(iter(hosts))
        yield f"# A service is a recipe on hosts. These fit on {first}, of what others have run."
        yield from (f"# {line}" for line in fits_table(fits).splitlines())
        example = {"fleet_services": {"chat": {"recipe": fits[0]["recipe"], "hosts": [first], "port": 8000}}}
        yield "# For the first of them, put these lines in the place of the one above:"
        yield from (f"# {line}" for line in block(example, ""))


# The screen -------------------------------------------------------------------------------------------------------


def found_table(machines: Sequence[Machine]) -> str:
    """Numbered, for a person who chooses."""
    rows = [
        {"": str(number), "found": one.name, "by its name": one.product or "-", "seen by": ", ".join(one.sources)}
        for number, one in enumerate(machines, 1)
    ]
    return table(rows)


def fits_table(fits: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        {
            "recipe": row["recipe"],
            "at once": f"{row['requests']:.1f} x {row['context']:,}",
            "free": size(row["free_bytes"]),
            "download": size(row["download_bytes"]),
        }
        for row in fits
    ]
    return table(rows)


def read_table(hosts: Mapping[str, Host]) -> str:
    rows = [
        {
            "host": name,
            "maker": maker(host.reading),
            "memory": memory(host),
            "system": f"DGX OS {host.reading['platform']['ota'] or '?'}",
            "disk free": size(host.reading["free_bytes"]),
            "serves": ", ".join(one["model"] for one in host.reading["serving"]) or "nothing",
        }
        for name, host in hosts.items()
    ]
    return table(rows)
