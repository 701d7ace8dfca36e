# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images: what an upgrade costs on the wire, against ``docker save | ssh docker load``."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.gb10.fleet.plugins.module_utils._base.sizes import size

from .content import MB, archive, fat_layer, layer, noise
from .figures import Figure
from .fleet import SOURCE, Fleet

# Both stores: t2 is switched to containerd's.
HOSTS = ["t1", "t2"]


def figures(fleet: Fleet) -> Iterator[Figure]:
    _install_docker(fleet, [SOURCE, *HOSTS])
    base = layer({"base": noise("base", 40 * MB)})
    for version in "12":
        own = layer({"own": noise(f"own-{version}", 4 * MB)})
        _load(fleet, archive(f"thin:{version}", [base, own]), version)
        _load(fleet, archive(f"fat:{version}", [fat_layer(version)]), version)
    changed = len(own)
    fleet.give_access()
    yield from _upgrade(fleet, "thin:2", changed, "thin layer", "of the changed bytes", 1.05)
    yield from _check_mode(fleet, "thin:2", changed)
    yield from _unchanged(fleet, "thin:2")
    yield from _upgrade(fleet, "fat:2", len(fat_layer("2")), "fat layer, 9 % new", "of the layer", 0.15)


def _install_docker(fleet: Fleet, hosts: list[str]) -> None:
    for host in hosts:
        fleet.run(host, "apt-get -q update && apt-get -q -y install docker.io docker-cli")
    fleet.run("t2", """mkdir -p /etc/docker && echo '{"features": {"containerd-snapshotter": true}}' \
        > /etc/docker/daemon.json && systemctl restart docker""")  # fmt: skip


def _load(fleet: Fleet, tar: bytes, version: str) -> None:
    """Version 1 is everywhere, version 2 at the source."""
    for host in [SOURCE, *HOSTS] if version == "1" else [SOURCE]:
        fleet.run(host, "docker load --quiet", stdin=tar)


def _upgrade(fleet: Fleet, reference: str, size: int, name: str, unit: str, goal: float) -> Iterator[Figure]:
    peers = _by_save_and_load(fleet, reference, size)
    for host in HOSTS:
        fleet.run(host, f"docker image rm {reference}")
        before = fleet.wire("rx")[host]
        fleet.stage(fleet.plan("image", {"reference": reference}, [host]))
        share = (fleet.wire("rx")[host] - before) / size
        store = "containerd" if host == "t2" else "overlay2"
        yield Figure(f"{name}, {store}: bytes received", share, peers[host], unit, f"<= {goal}")


def _by_save_and_load(fleet: Fleet, reference: str, size: int) -> dict[str, float]:
    """The peers' way, over the same link."""
    shares = {}
    for host in HOSTS:
        before = fleet.wire("rx")[host]
        fleet.run(SOURCE, f"docker save {reference} | {fleet.ssh(host)} docker load --quiet")
        shares[host] = (fleet.wire("rx")[host] - before) / size
    return shares


def _check_mode(fleet: Fleet, reference: str, count: int) -> Iterator[Figure]:
    """What ``--check`` says before the upgrade, and that it moves nothing."""
    for host in HOSTS:
        fleet.run(host, f"docker image rm {reference}")
    before = fleet.wire("rx")
    _, output = fleet.stage(fleet.plan("image", {"reference": reference}, HOSTS), "--check", "--diff")
    after = fleet.wire("rx")
    count_found = output.count(f"to be fetched from {SOURCE}, at most {size(count)}")
    yield Figure("thin layer: hosts of which --check tells the bytes", count_found, None, "hosts", f"= {len(HOSTS)}")
    most = max(after[host] - before[host] for host in HOSTS) / 1000
    yield Figure("thin layer: received by a host in --check", most, None, "kB", "<= 20")


def _unchanged(fleet: Fleet, reference: str) -> Iterator[Figure]:
    fleet.stage(fleet.plan("image", {"reference": reference}, HOSTS))
    before = fleet.wire("rx")
    _, output = fleet.stage(fleet.plan("image", {"reference": reference}, HOSTS))
    after = fleet.wire("rx")
    most = max(after[host] - before[host] for host in HOSTS) / 1000
    yield Figure("unchanged image: received by a host", most, None, "kB", "<= 20")
    yield Figure("unchanged image: tasks that changed anything", output.count("changed:"), None, "tasks", "= 0")
