# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image is there on every host, runs, and is whole: it can be saved and passed on."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://titan", "ssh://spark-2", "ssh://spark-3"]


def versions(host: Host) -> list[str]:
    return ["1"] if host.backend.hostname == "spark-2" else ["1", "2"]


def test_a_container_starts_from_it(host: Host) -> None:
    for version in versions(host):
        output = host.check_output(f"docker run --rm --network none demo:{version}")
        assert output == f"version {version}"


def test_it_can_be_saved_as_a_whole(host: Host) -> None:
    """Where layers were left out of a load that are here in another form, a save would be a few kilobytes."""
    for version in versions(host):
        assert int(host.check_output(f"docker save demo:{version} | wc --bytes")) > 13_000_000


def test_what_it_was_is_on_record(host: Host) -> None:
    record = json.loads(host.file("/var/lib/gb10-fleet/images/demo%3A1.json").content_string)
    layers = json.loads(host.check_output("docker image inspect --format '{{json .RootFS.Layers}}' demo:1"))
    assert record["reference"] == "demo:1"
    assert record["images"][0]["diff_ids"] == layers


def test_nothing_is_left_of_the_transfer(host: Host) -> None:
    assert not host.file("/var/lib/gb10-fleet/incoming").exists


@pytest.mark.parametrize("command", ["id", "cat /etc/shadow", "/usr/local/lib/gb10-fleet/peer-serve /etc/shadow"])
def test_the_account_for_others_does_nothing_else(host: Host, command: str) -> None:
    """Whatever a peer asks for, it gets the server, which reads requests and finds none."""
    if host.backend.hostname == "titan":
        return
    ssh = "ssh -F none -o BatchMode=yes -o HostKeyAlias=titan -o UserKnownHostsFile=/etc/gb10-fleet/peer/known_hosts"
    login = host.run(f"{ssh} -i /etc/gb10-fleet/peer/id_ed25519 gb10-peer@10.77.0.11 {command} < /dev/null")
    assert (login.rc, login.stdout) == (0, "")
