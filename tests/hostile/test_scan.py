# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All TCP ports of every kind of host, from each network that leads to it: what the plan lists answers, nothing else.

titan serves alone and gives images to the others, spark-2 is a group's head, spark-3 its other rank. A stray program
listens on each closed host, on all addresses of both families.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
from lab.fixtures import eventually

from .conftest import ADDRESSES, HOSTS, Owner

SSH, STRAY = 22, 45678
CLOSED = ("spark-2", "spark-3")
FABRIC, MANAGEMENT = "enp1s0f1np1", "enP7s7"
# `ip netns exec` would mount a /sys of its own, which a lab host may not.
LAN = "nsenter --net=/run/netns/lan"
# Some hundreds at a time: each answers, or its host refuses at once. Source: bound to, where one is given.
SCAN = textwrap.dedent("""\
    import select, socket, sys
    address, source = sys.argv[1], (sys.argv[2:] or [None])[0]
    family, _, _, _, end = socket.getaddrinfo(address, 1, type=socket.SOCK_STREAM)[0]
    found = []
    for first in range(1, 65536, 500):
        waits, asked = select.epoll(), {}
        for port in range(first, min(first + 500, 65536)):
            probe = socket.socket(family)
            probe.setblocking(False)
            if source:
                probe.bind((source, 0))
            probe.connect_ex((end[0], port, *end[2:]))
            waits.register(probe, select.EPOLLOUT | select.EPOLLONESHOT)
            asked[probe.fileno()] = port, probe
        while asked:
            events = waits.poll(20)
            assert events, f"silent: {sorted(port for port, _ in asked.values())}"
            for descriptor, _ in events:
                port, probe = asked.pop(descriptor)
                if probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    found.append(port)
                probe.close()
    print(*found)
    """)
LISTEN = textwrap.dedent("""\
    import socket, time
    kept = [socket.create_server(("::", 45678), family=socket.AF_INET6, dualstack_ipv6=True, backlog=100)]
    time.sleep(1e6)
    """)


@pytest.fixture(scope="module")
def plan(owner: Owner) -> Iterator[dict[str, Any]]:
    for host in CLOSED:
        owner.fleet.lab("exec", host, "--", "systemd-run", "--quiet", "--unit", "stray", "python3", "-c", LISTEN)
        listens = f"ss -Htln 'sport = :{STRAY}' | grep -q ."
        eventually(lambda host=host, listens=listens: owner.fleet.ok(host, listens), "it listens")  # type: ignore[misc]
    yield owner.plan()
    for host in CLOSED:
        owner.fleet.root(host, "systemctl stop stray", check=False)


def listed(owner: Owner, plan: dict[str, Any], host: str) -> set[int]:
    """What the plan opens for everybody: what a closed host lets in; on an open one all that ours listens on, and what
    the machine listened on before it was ours, but for what a gateway alone may reach."""
    mine = plan["hosts"][host]
    assert (mine["firewall"]["state"] == "closed") is (host in CLOSED)
    opened = [one for one in mine["firewall"]["open"] if one["protocol"] == "tcp"]
    for_all, for_some = ({one["port"] for one in opened if bool(one["from"]) is some} for some in (False, True))
    listens = {one["port"] for one in mine["listens"]} | owner.before[host]
    return {SSH} | (for_all if host in CLOSED else listens - for_some)


def scan(owner: Owner, host: str, *words: str, before: str = "") -> set[int]:
    """From a lab host; before: words that the program is started by, such as a namespace's."""
    done = owner.fleet.lab("exec", host, "--", *before.split(), "python3", "-c", SCAN, *words)
    return {int(port) for port in done.stdout.split()}


@pytest.mark.parametrize("host", HOSTS)
def test_from_the_lan(owner: Owner, plan: dict[str, Any], host: str) -> None:
    done = owner.fleet.lab("net", "--", sys.executable, "-c", SCAN, ADDRESSES[host])
    assert {int(port) for port in done.stdout.split()} == listed(owner, plan, host)


@pytest.mark.parametrize("host", HOSTS)
def test_from_the_lan_over_ipv6(owner: Owner, plan: dict[str, Any], host: str) -> None:
    """By the address that each interface has by itself. The APIs listen on IPv4 alone."""
    own = owner.fleet.root(host, f"ip -6 -json address show dev {MANAGEMENT} scope link")
    address = json.loads(own)[0]["addr_info"][0]["local"]
    found = scan(owner, "titan" if host != "titan" else "spark-3", f"{address}%{MANAGEMENT}")
    assert {SSH} <= found <= listed(owner, plan, host)


@pytest.mark.parametrize(("host", "other"), [("spark-2", "spark-3"), ("spark-3", "spark-2")])
def test_from_the_fabric_but_not_a_rank(owner: Owner, plan: dict[str, Any], host: str, other: str) -> None:
    """A stranger on the cable, by an address that no rank has; the rank at the other end reaches all."""
    ends = {one: address_of(plan, one) for one in (host, other)}
    stranger = ends[other].rpartition(".")[0] + ".99"
    owner.fleet.root(other, f"ip address add {stranger}/24 dev {FABRIC}")
    found = scan(owner, other, ends[host], stranger)
    owner.fleet.root(other, f"ip address del {stranger}/24 dev {FABRIC}")
    assert found == listed(owner, plan, host)
    assert STRAY in scan(owner, other, ends[host])


def address_of(plan: dict[str, Any], host: str) -> str:
    [address] = [
        one["address"].partition("/")[0] for one in plan["hosts"][host]["fabric"]["interfaces"] if one["name"] == FABRIC
    ]
    return str(address)


def test_from_a_lan_by_a_bridge_that_is_called_as_dockers(owner: Owner, plan: dict[str, Any]) -> None:
    """An owner's bridge `br-lan`, also after the rules were made anew beside it; IPv4 and IPv6."""
    host = "spark-2"
    bridge = "ip link add br-lan type bridge; ip address add 10.99.0.1/24 dev br-lan; ip link set br-lan up"
    cable = "ip netns add lan; ip link add lan0 type veth peer name lan1 netns lan; ip link set lan0 master br-lan up"
    far_end = f"{LAN} ip address add 10.99.0.2/24 dev lan1; {LAN} ip link set lan1 up; {LAN} ip link set lo up"
    owner.fleet.root(host, f"set -e; {bridge}; {cable}; {far_end}")
    owner.converge("--limit", ",".join(CLOSED))
    own = json.loads(owner.fleet.root(host, "ip -6 -json address show dev br-lan scope link"))[0]["addr_info"]
    found = [scan(owner, host, to, before=LAN) for to in ("10.99.0.1", f"{own[0]['local']}%lan1")]
    owner.fleet.root(host, "ip netns del lan; ip link del br-lan")
    assert found[0] == listed(owner, plan, host)
    assert {SSH} <= found[1] <= listed(owner, plan, host)


@pytest.mark.parametrize("host", CLOSED)
def test_from_a_container_of_this_host(owner: Owner, plan: dict[str, Any], host: str) -> None:
    """It reaches the APIs, and neither SSH nor the ranks."""
    image = plan["services"]["pair"]["image"]["reference"]
    run = ["docker", "run", "--rm", "--entrypoint", "python3", image, "-c", SCAN]
    gateway = owner.fleet.root(
        host, "docker network inspect bridge --format '{{(index .IPAM.Config 0).Gateway}}'"
    ).strip()
    for address in (gateway, ADDRESSES[host]):
        done = owner.fleet.lab("exec", host, "--", *run, address)
        assert {int(port) for port in done.stdout.split()} == listed(owner, plan, host) - {SSH}
