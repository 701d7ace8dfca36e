# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a new inventory, as a person would write them, and what the screen shows of it."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..._base.gb10 import text_of
from ..._base.report import table
from ..._base.sizes import size
from ..._engines.declaration import RecipeData
from ..._plan.recipe_lint import fit_row
from .decide import Host, Proposal, settings_of
from .find import Machine
from .reading import maker
from .running import model_of

Row = Mapping[str, Any]
IGNORE = ".gitignore"
# In the folder of a try whose service is kept: the next one begins anew there.
KEPT = "# Its service is kept in"
HOSTS, CONNECTION, FLEET = "hosts.yml", "group_vars/all/connection.yml", "group_vars/all/fleet.yml"
_HEAD = "---\n# gb10.fleet.init wrote this of what the machines showed. It is yours: init never writes over it.\n"


def _yaml(value: object, *, flow: bool | None = None) -> str:
    """As YAML; flow: all on one line, None for the innermost lists and maps alone."""
    import yaml  # noqa: PLC0415 - hosts, to which the readings' types go, have none

    text: str = yaml.safe_dump(value, default_flow_style=flow, sort_keys=False, width=1000)
    return text


def texts(
    hosts: Mapping[str, Host],
    proposal: Proposal,
    user: str,
    fits: Sequence[Row] = (),
    words: Mapping[str, Sequence[str]] = MappingProxyType({}),
    *,
    take_over: bool,
) -> dict[str, str]:
    """The files by name, below the inventory's folder. user: empty where ssh's own files name the account. fits, words:
    what fits on the first host, and what a plan makes of each service, of `trying`. A service that no shipped recipe
    serves has one of its own, whether it is taken over or is a comment."""
    account = {"ansible_user": user} if user else {}
    own = [service.recipe for service in proposal.services.values() if service.recipe]
    return {
        **{f"recipes/{data['name']}.yml": _HEAD + _yaml(_short(data), flow=False) for data in own},
        IGNORE: text_of("gitignore"),
        CONNECTION: _HEAD + _yaml({**account, "ansible_python_interpreter": "/usr/bin/python3"}),
        FLEET: _HEAD + "\n".join(_fleet(hosts, proposal, fits, words, take_over=take_over)) + "\n",
        HOSTS: _HEAD + "all:\n  hosts:\n" + "".join(map(_host, hosts, hosts.values())),
    }


def tried_texts(
    hosts: Mapping[str, Host], services: Mapping[str, Row], fabric: Row, user: str, inventory: str
) -> dict[str, str]:
    """The same for what `try` runs: its folder is its own. inventory: the name that its unit bears on its hosts."""
    head = "---\n# gb10.fleet.try wrote this, and writes it anew: gb10.fleet.init -e tried=FOLDER makes it yours.\n"
    found = texts(hosts, Proposal({}, {}), user, take_over=False)
    declared = {"fleet_name": inventory, **({"fleet_fabric": fabric} if fabric else {}), "fleet_services": services}
    return {**{name: text.replace(_HEAD, head) for name, text in found.items()}, FLEET: head + _yaml(declared)}


def kept_text(proposal: Proposal, services: Mapping[str, Row], inventory: str) -> str:
    """The file of the fleet with the service that was tried. inventory: the name that its unit bears on its hosts."""
    declared = {**({"fleet_fabric": proposal.fabric} if proposal.fabric else {}), "fleet_services": services}
    return _HEAD + "".join(f"# {note}\n" for note in proposal.notes) + _yaml({**declared, "fleet_name": inventory})


def _host(name: str, host: Host) -> str:
    way = {"ansible_host": host.address} if host.address else {"ansible_connection": "local"}
    way |= {"ansible_user": host.user} if host.user else {}
    settings = settings_of(host.reading)
    line = _yaml({name: {**way, **({"fleet_host": settings} if settings else {})}}, flow=True)
    release = "".join(letter for letter in host.reading["platform"]["ota"] or "unknown" if letter.isprintable())[:20]
    return f"    {line.strip()[1:-1]} # {maker(host.reading)}, {memory(host)}, DGX OS {release}\n"


def memory(host: Host) -> str:
    """As it is sold: the firmware keeps some of it."""
    return f"{next(gb for gb in (32, 64, 128, 256, 1 << 30) if host.reading['memory_kib'] < gb * 1_000_000)} GB"


def _short(recipe: RecipeData) -> dict[str, Any]:
    """Without what its reader fills in."""
    maps = {
        name: {key: value for key, value in recipe[name].items() if value is not None} for name in ("model", "image")
    }
    found: dict[str, Any] = {**recipe, **maps}
    found["memory"] = {key: value for key, value in recipe["memory"].items() if value}
    return {key: value for key, value in found.items() if value not in (None, {}, [])}


def _fleet(
    hosts: Mapping[str, Host],
    proposal: Proposal,
    fits: Sequence[Row],
    words: Mapping[str, Sequence[str]],
    *,
    take_over: bool,
) -> Iterator[str]:
    yield from (f"# {note}" for note in proposal.notes)
    if proposal.fabric:
        yield _yaml({"fleet_fabric": proposal.fabric}).rstrip()
    if proposal.services and take_over:
        yield "# What runs now goes on until site.yml, which starts these instead."
        yield from _services(proposal, words)
        return
    yield "fleet_services: {}"
    lines: list[str] = []
    if proposal.services:
        lines = ["What serves there now, to take over with site.yml: put these lines in the place of the one above:"]
        lines += [line for text in _services(proposal, words) for line in text.splitlines()]
    elif fits:
        first = next(iter(hosts))
        services = {"fleet_services": {"chat": {"recipe": fits[0]["recipe"], "hosts": [first], "port": 8000}}}
        lines = [f"These recipes fit on {first}, of what others have run:", *fits_table(fits).splitlines()]
        lines += ["For the first of them, put these lines in the place of the one above:"]
        lines += _yaml(services).splitlines()
    yield from (f"# {line}" for line in lines)


def _services(proposal: Proposal, words: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What serves there as declared, each with what to know of it above."""
    yield "fleet_services:"
    for name, one in proposal.services.items():
        yield from (f"  # {note}" for note in [*one.notes, *words.get(name, ())])
        yield "".join(f"  {line}\n" for line in _yaml({name: one.service}, flow=None).splitlines()).rstrip()


# The screen -------------------------------------------------------------------------------------------------------


def found_table(machines: Sequence[Machine]) -> str:
    """Numbered, for a person who chooses."""
    rows = [
        {"": str(number), "found": one.name, "by its name": one.product or "-", "seen by": ", ".join(one.sources)}
        for number, one in enumerate(machines, 1)
    ]
    return table(rows)


def fits_table(fits: Sequence[Row]) -> str:
    return table([fit_row(row["recipe"], row["status"], row) for row in fits])


def read_table(hosts: Mapping[str, Host]) -> str:
    rows = [
        {
            "host": name,
            "maker": maker(host.reading),
            "memory": memory(host),
            "system": f"DGX OS {host.reading['platform']['ota'] or '?'}",
            "disk free": size(host.reading["free_bytes"]),
            "serves": ", ".join(
                [model_of(server["words"]) or server["engine"] for server in host.reading["serving"]]
                + [one["model"] for one in host.reading["ours"] if one["model"]]
            )
            or "nothing",
        }
        for name, host in hosts.items()
    ]
    return table(rows)
