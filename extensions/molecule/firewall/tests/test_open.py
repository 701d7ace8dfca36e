# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""titan, which has no rank of a group, is left alone."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]


def test_there_is_nothing_of_ours(host: Host) -> None:
    assert host.run("find /etc/gb10-fleet /etc/systemd/system -name '*firewall*'").stdout == ""
    assert host.run("nft list tables").rc != 0
