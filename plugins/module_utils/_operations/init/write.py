# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a new inventory, as a person would write them, and what the screen shows of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base.report import table
from ..._base.sizes import size
from .decide import Host, Proposal, settings_of
from .find import Machine
from .reading import maker

Row = Mapping[str, Any]
HOSTS, CONNECTION, FLEET = "hosts.yml", "group_vars/all/connection.yml", "group_vars/all/fleet.yml"
_HEAD = "---\n# gb10.fleet.init wrote this of what the machines showed. It is yours: init never writes over it.\n"


def _yaml(value: object, *, flow: bool | None = None) -> str:
    """As YAML; flow: all on one line, None for the innermost lists and maps alone."""
    import yaml  # noqa: PLC0415 - hosts, to which the readings' types go, have none

    text: str = yaml.safe_dump(value, default_flow_style=flow, sort_keys=False, width=1000)
    return text


def texts(
    hosts: Mapping[str, Host], proposal: Proposal, user: str, fits: Sequence[Row] = (), *, take_over: bool
) -> dict[str, str]:
    """The files by name, below the inventory's folder. user: empty where ssh's own files name the account. fits: what
    fits on the first host, of `fitting`."""
    account = {"ansible_user": user} if user else {}
    return {
        CONNECTION: _HEAD + _yaml({**account, "ansible_python_interpreter": "/usr/bin/python3"}),
        FLEET: _HEAD + "\n".join(_fleet(hosts, proposal, fits, take_over=take_over)) + "\n",
        HOSTS: _HEAD + "all:\n  hosts:\n" + "".join(map(_host, hosts, hosts.values())),
    }


def _host(name: str, host: Host) -> str:
    way = {"ansible_host": host.address} if host.address else {"ansible_connection": "local"}
    settings = settings_of(host.reading)
    line = _yaml({name: {**way, **({"fleet_host": settings} if settings else {})}}, flow=True)
    release = "".join(one for one in host.reading["platform"]["ota"] or "unknown" if one.isprintable())[:20]
    return f"    {line.strip()[1:-1]} # {maker(host.reading)}, {memory(host)}, DGX OS {release}\n"


def memory(host: Host) -> str:
    """As it is sold: the firmware keeps some of it."""
    return f"{next(gb for gb in (32, 64, 128, 256, 1 << 30) if host.reading['memory_kib'] < gb * 1_000_000)} GB"


def _fleet(hosts: Mapping[str, Host], proposal: Proposal, fits: Sequence[Row], *, take_over: bool) -> Iterator[str]:
    yield from (f"# {note}" for note in proposal.notes)
    if proposal.fabric:
        yield _yaml({"fleet_fabric": proposal.fabric}).rstrip()
    services = {"fleet_services": proposal.services}
    if proposal.services and take_over:
        yield "# What runs now goes on until site.yml, which starts these instead."
        yield _yaml(services).rstrip()
        return
    yield "fleet_services: {}"
    lines: list[str] = []
    if proposal.services:
        lines = ["What serves there now, to take over with site.yml: put these lines in the place of the one above:"]
    elif fits:
        first = next(iter(hosts))
        services = {"fleet_services": {"chat": {"recipe": fits[0]["recipe"], "hosts": [first], "port": 8000}}}
        lines = [f"These recipes fit on {first}, of what others have run:", *fits_table(fits).splitlines()]
        lines.append("For the first of them, put these lines in the place of the one above:")
    yield from (f"# {line}" for line in [*lines, *(_yaml(services).splitlines() if lines else [])])


# The screen -------------------------------------------------------------------------------------------------------


def found_table(machines: Sequence[Machine]) -> str:
    """Numbered, for a person who chooses."""
    rows = [
        {"": str(number), "found": one.name, "by its name": one.product or "-", "seen by": ", ".join(one.sources)}
        for number, one in enumerate(machines, 1)
    ]
    return table(rows)


def fits_table(fits: Sequence[Row]) -> str:
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
