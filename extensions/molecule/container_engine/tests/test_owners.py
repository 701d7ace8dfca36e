# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the owner of spark-2 had set up is still there."""

from __future__ import annotations

import json

from testinfra.host import Host

testinfra_hosts = ["ssh://spark-2"]


def test_the_owners_keys_stay(host: Host) -> None:
    daemon = json.loads(host.file("/etc/docker/daemon.json").content_string)
    assert daemon["debug"] is True
    assert daemon["features"] == {"buildkit": True, "cdi": True}
    assert daemon["default-address-pools"] == [{"base": "10.200.0.0/16", "size": 24}]


def test_the_owners_login_stays(host: Host) -> None:
    auths = json.loads(host.file("/root/.docker/config.json").content_string)["auths"]
    assert auths["ghcr.io"] == {"auth": "b3duZXI6dG9rZW4="}
