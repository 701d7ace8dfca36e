# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of spark-2 hold by themselves, over a boot too, and nothing waits to take them back."""

from __future__ import annotations

import shlex

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark-2"]


def test_the_unit_loads_them_at_boot(host: Host) -> None:
    unit = host.service("gb10-firewall")
    assert unit.is_enabled
    assert unit.is_running
    assert host.check_output("systemd-analyze verify gb10-firewall.service 2>&1") == ""


def test_nothing_takes_them_back(host: Host) -> None:
    assert host.check_output("systemctl list-units --all --plain --no-legend 'gb10-firewall-rollback*'") == ""
    assert not host.file("/etc/gb10-fleet/firewall.staged").exists


def test_a_restart_of_nftables_keeps_them(host: Host) -> None:
    host.check_output("systemctl restart nftables")
    assert "counter drop" in host.check_output("nft --stateless list table inet gb10_fleet")


def test_a_stop_of_nftables_keeps_them(host: Host) -> None:
    host.check_output("systemctl stop nftables")
    assert "counter drop" in host.check_output("nft --stateless list table inet gb10_fleet")


@pytest.mark.parametrize(
    ("account", "address", "port", "answers"),
    [
        ("nobody", "127.0.0.77", 7000, False),  # where ranks of this host listen
        ("nobody", "127.0.0.1", 8001, False),
        ("nobody", "127.0.0.1", 7000, True),
        ("nobody", "127.0.0.77", 8000, True),  # an API
        ("root", "127.0.0.77", 7000, True),
        ("root", "127.0.0.1", 8001, True),
    ],
)
def test_accounts_do_not_reach_ranks(host: Host, account: str, address: str, port: int, answers: bool) -> None:
    listen = f"import socket; s = socket.create_server(('0.0.0.0', {port})); s.settimeout(10); s.accept()"
    connect = f"import socket; socket.create_connection(('{address}', {port}), 5)"
    ours, theirs = (f"python3 -c {shlex.quote(text)}" for text in (listen, connect))
    assert (host.run(f"timeout 15 {ours} & sleep 1; runuser -u {account} -- {theirs}").rc == 0) == answers
