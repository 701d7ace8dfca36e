# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan and a preflight write nothing on a host."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]


def test_nothing_of_ours_is_there(host: Host) -> None:
    for path in ("/etc/gb10-fleet", "/var/lib/gb10-fleet", "/usr/local/lib/gb10-fleet"):
        assert not host.file(path).exists
