# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""titan is tuned, now and over a boot."""

from __future__ import annotations

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]

SETTINGS = {"vm.swappiness": 1, "vm.dirty_bytes": 268435456, "vm.dirty_background_bytes": 134217728}
SYSCTL_FILE = "/etc/sysctl.d/99-zz-gb10-fleet.conf"


@pytest.mark.parametrize(("key", "value"), SETTINGS.items())
def test_a_setting_is_live_and_in_the_file(host: Host, key: str, value: int) -> None:
    assert host.sysctl(key) == value
    assert f"{key} = {value}\n" in host.file(SYSCTL_FILE).content_string


def test_nothing_is_read_after_our_settings(host: Host) -> None:
    assert host.run("ls /etc/sysctl.d/*.conf | sort | tail -n 1").stdout.strip() == SYSCTL_FILE


def test_swap_is_off_and_stays_off(host: Host) -> None:
    assert len(host.file("/proc/swaps").content_string.splitlines()) == 1
    assert host.run("systemctl is-enabled swap.target").stdout.strip() == "masked"


def test_read_ahead_is_live_and_udev_takes_the_rule(host: Host) -> None:
    assert host.file("/sys/block/nvme0n1/queue/read_ahead_kb").content_string.strip() == "8192"
    assert host.run("udevadm verify /etc/udev/rules.d/90-gb10-fleet-read-ahead.rules").rc == 0


def test_memory_may_be_locked(host: Host) -> None:
    assert host.run("systemctl show --property DefaultLimitMEMLOCK").stdout.strip() == "DefaultLimitMEMLOCK=infinity"
    assert "* - memlock unlimited" in host.file("/etc/security/limits.d/90-gb10-fleet.conf").content_string.splitlines()


def test_the_next_boot_has_no_desktop(host: Host) -> None:
    assert host.run("systemctl get-default").stdout.strip() == "multi-user.target"


def test_the_settings_outlive_a_boot(host: Host) -> None:
    """What systemd does at boot with the files, on values that went astray."""
    host.run("sysctl -q -w vm.swappiness=60")
    assert host.run("/usr/lib/systemd/systemd-sysctl").rc == 0
    assert host.sysctl("vm.swappiness") == 1
