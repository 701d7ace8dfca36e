# SPDX-License-Identifier: GPL-3.0-or-later
"""Over hosts: a host's slice of the plan, and what several hosts have registered."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..._base.slice import Slice


def host_slice(fleet: Mapping[str, Any], host: str) -> Slice:
    """``hosts.<host>`` of the plan, its services narrowed to those that the run is about.

    fleet: what `gb10.fleet.plan` returned.
    """
    whole: Slice = fleet["plan"]["hosts"][host]
    return {**whole, "services": [service for service in whole["services"] if service["name"] in fleet["services"]]}


def whole_services(host_slice: Slice, alive: Iterable[str]) -> dict[str, Any]:
    """slice: with those services alone whose hosts are all there, since ranks start, serve and end together.
    left_out: a sentence for each of the others, which are left as they are."""
    there = {*alive}
    missing = {
        service["name"]: [host for host in service["hosts"] if host not in there] for service in host_slice["services"]
    }
    return {
        "slice": {
            **host_slice,
            "services": [service for service in host_slice["services"] if not missing[service["name"]]],
        },
        "left_out": [
            f"{name}: {', '.join(hosts)} can't be reached or was refused, so that it is left as it is; bring "
            f"{hosts[0]} back and run this again, or take it out of the service's hosts"
            for name, hosts in missing.items()
            if hosts
        ],
    }


def by_host(variables: Mapping[str, Any], hosts: Iterable[str], name: str, key: str = "") -> dict[str, Any]:
    """``{host: value}`` of a registered result, or of one of its keys; without the hosts that have none.

    variables: `hostvars`.
    """
    found = {host: variables[host].get(name) for host in hosts}
    if key:
        found = {host: value.get(key) for host, value in found.items() if isinstance(value, Mapping)}
    return {host: value for host, value in found.items() if value is not None}


def fabric_addresses(readings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Every address that hosts have on their interfaces, without its prefix length.

    readings: by host what `gb10.fleet.fabric_info` has read.
    """
    links = [link for reading in readings.values() for link in reading["links"].values()]
    return [address.partition("/")[0] for link in links for address in link["addresses"]]


def cable_ends(
    results: Mapping[str, Mapping[str, Any]], host: str, interfaces: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """What the check of one host's cables goes by, however many hosts there are.

    That is its own reading, and the MAC addresses of those that answered it or are declared to be at the other end.

    results: by host what `gb10.fleet.fabric_info` has returned. interfaces: the host's, of its fabric slice.
    """
    read = {name: result["reading"] for name, result in results.items() if "reading" in result}
    if host not in read:
        return {}
    answered = {mac for asked in read[host]["asked"].values() for mac in asked["answers"].values()}
    declared = {peer["host"] for interface in interfaces for peer in interface["peers"]}
    ends: dict[str, Any] = {}
    for name, reading in read.items():
        links = {link: {"mac": found["mac"]} for link, found in reading["links"].items()}
        if name in declared or any(link["mac"] in answered for link in links.values()):
            ends[name] = {"reading": {"links": links}}
    return {**ends, host: {"reading": read[host]}}
