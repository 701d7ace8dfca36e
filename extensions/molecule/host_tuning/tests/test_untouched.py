# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""spark-2, of which nothing was asked, is as it was."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ssh://spark-2"]


def test_no_file_without_a_wish(host: Host) -> None:
    assert host.run("find /etc -name '*gb10-fleet*'").stdout == ""


def test_nothing_changed_without_a_wish(host: Host) -> None:
    assert host.sysctl("vm.swappiness") == 60
    assert host.file("/sys/block/nvme0n1/queue/read_ahead_kb").content_string.strip() == "128"
    assert "/swap.img" in host.file("/proc/swaps").content_string
    assert host.run("systemctl is-enabled swap.target").stdout.strip() != "masked"
    assert host.run("systemctl get-default").stdout.strip() == "graphical.target"
