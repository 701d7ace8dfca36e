# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything is on every host, nothing was started, and titan has sent the image once."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ssh://titan", "ssh://spark-2", "ssh://spark-3"]

IMAGE = "gb10-lab/vllm-stand-in:0.32.0"
MODEL = "/var/lib/gb10-fleet/hf/hub/models--gb10-lab--tiny"
# What the layers come to on the wire. A link has carried a little more: headers, and what prepared and converged.
SIZE = 95_000_000


def carried(host: Host, interface: str, direction: str) -> int:
    return int(host.file(f"/sys/class/net/{interface}/statistics/{direction}_bytes").content_string)


def test_a_container_of_the_image_runs(host: Host) -> None:
    assert "0.32.0" in host.check_output(f"docker run --rm --network none --entrypoint vllm {IMAGE} --version")


def test_the_model_is_complete_under_its_own_name(host: Host) -> None:
    assert host.file(f"{MODEL}/main/config.json").exists
    assert host.run(f"find {MODEL} -name '*.incomplete' -o -name '.*.partial'").stdout == ""


def test_nothing_was_started(host: Host) -> None:
    assert host.run("ls /etc/systemd/system/gb10-service-*").stdout == ""
    assert host.check_output("docker ps --quiet") == ""


def test_titan_has_sent_it_once_and_the_cable_carried_it_on(host: Host) -> None:
    match host.backend.hostname:
        case "titan":
            assert SIZE < carried(host, "enP7s7", "tx") < 1.3 * SIZE
        case "spark-3":
            assert SIZE < carried(host, "enp1s0f1np1", "rx") < 1.3 * SIZE


def test_titan_was_asked_on_its_own_port(host: Host) -> None:
    if host.backend.hostname == "titan":
        asked = host.check_output("journalctl --boot --unit ssh --grep 'Connection from 10.77.0.12 ' --output cat")
        assert {line.partition(" on ")[2].split(" rdomain")[0] for line in asked.splitlines()} == {
            "10.77.0.11 port 2222"
        }
