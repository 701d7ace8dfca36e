# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything is on every host, nothing was started, and titan has sent the image once."""

from __future__ import annotations

import os
from pathlib import Path

from lab.fixtures import Fleet
from testinfra.host import Host

testinfra_hosts = ["ssh://titan", "ssh://spark-2", "ssh://spark-3"]

LAB = Path(os.environ["GB10_LAB_DIR"])
IMAGE = "gb10-lab/vllm-stand-in:0.32.0"
MODEL = "/var/lib/gb10-fleet/hf/hub/models--gb10-lab--tiny"
# What the layers come to on the wire. A link has carried a little more: headers, and what prepared and converged.
SIZE = 76_000_000


def sent_by_titan() -> dict[str, int]:
    """Bytes by the address that they went to, as prepare.yml has them counted."""
    rules = Fleet(LAB).root("titan", "iptables --list OUTPUT --verbose --exact --numeric")
    return {words[-1]: int(words[1]) for line in rules.splitlines() if (words := line.split())[-1:] and "10.77" in line}


def carried_by_the_cable(host: Host) -> int:
    return int(host.file("/sys/class/net/enp1s0f1np1/statistics/rx_bytes").content_string)


def test_a_container_of_the_image_runs(host: Host) -> None:
    assert "0.32.0" in host.check_output(f"docker run --rm --network none --entrypoint vllm {IMAGE} --version")


def test_the_model_is_complete_under_its_own_name(host: Host) -> None:
    assert host.file(f"{MODEL}/main/config.json").exists
    assert host.run(f"find {MODEL} -name '*.incomplete' -o -name '.*.partial'").stdout == ""


def test_nothing_was_started(host: Host) -> None:
    assert host.run("ls /etc/systemd/system/gb10-service-*").stdout == ""
    assert host.check_output("docker ps --quiet") == ""


def test_titan_has_sent_it_once_and_the_cable_carried_it_on(host: Host) -> None:
    """What spark-2 has not passed on in five seconds, spark-3 asks titan for now and then, to see who is faster."""
    if host.backend.hostname == "spark-3":
        sent, carried = sent_by_titan(), carried_by_the_cable(host)
        assert sent["10.77.0.12"] > SIZE
        assert carried + sent["10.77.0.13"] > SIZE
        assert sum(sent.values()) < 1.3 * SIZE
        assert carried < 1.3 * SIZE


def test_titan_was_asked_on_its_own_port(host: Host) -> None:
    if host.backend.hostname == "titan":
        asked = host.check_output("journalctl --boot --unit ssh --grep 'Connection from 10.77.0.12 ' --output cat")
        assert {line.partition(" on ")[2].split(" rdomain")[0] for line in asked.splitlines()} == {
            "10.77.0.11 port 2222"
        }
