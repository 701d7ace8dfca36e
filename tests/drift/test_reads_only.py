# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe writes nothing: it needs no file system that can be written, and asks no daemon to write for it."""

from __future__ import annotations

import pytest

from .conftest import HOSTS, SERVICES, Site

PYTHON = "/usr/local/bin/python3-read-only"
# Everything read-only for this one process, /proc/sys and /sys too; /tmp is where Ansible unpacks a module.
WRAPPER = """\
#!/bin/sh
exec unshare --mount sh -ec '
    cut -d" " -f2 /proc/mounts | while read -r place; do mount -o remount,bind,ro "$place"; done
    mount -t tmpfs tmpfs /tmp
    exec /usr/bin/python3 "$@"' sh "$@"
"""
# What a login by SSH and the journal leave, whoever logs in, and what a service that runs keeps writing.
LOGIN = ("/var/log", "/run/log", "/run/systemd", "/run/user", "/run/sudo", "/run/utmp", "/tmp", "/var/lib/systemd")
SERVING = ("/run/gb10-fleet", "/run/docker", "*-json.log")
LEFT_OUT = " -o ".join(f"-path '{place}'" for place in (*LOGIN, *SERVING))
STATE = (
    "find / /run /var/lib/docker /var/lib/containerd -xdev "
    rf"\( {LEFT_OUT} \) -prune "
    r"-o -printf '%p %y %m %U:%G %s %T@ %C@ %l\n' | sort -u"
)
CONTAINERS = "docker ps --all --no-trunc --format '{{.ID}} {{.Names}} {{.State}}'"
DAEMONS = f"docker images --no-trunc; {CONTAINERS}; systemctl list-unit-files; ip -o address; ip -o link"


@pytest.fixture
def read_only(site: Site) -> str:
    """How to have Ansible run its modules so."""
    for host in HOSTS:
        site.fleet.root(host, f"cat > {PYTHON} <<'END'\n{WRAPPER}END\nchmod 755 {PYTHON}")
    return f"ansible_python_interpreter={PYTHON}"


@pytest.mark.parametrize("path", ["/etc/new", "/run/new", "/var/lib/gb10-fleet/new", "/proc/sys/vm/swappiness"])
def test_the_file_systems_cannot_be_written(site: Site, read_only: str, path: str) -> None:
    assert "Read-only file system" in site.fleet.root("titan", f'{PYTHON} -c \'open("{path}", "w")\' 2>&1 || :')


def test_everything_is_read_from_file_systems_that_cannot_be_written(site: Site, read_only: str) -> None:
    check = site.check("-e", read_only, "-e", "drift_deep=true")
    assert (check.report["findings"], check.report["unknown"], check.code) == ([], [], 0), check.output[-3000:]


@pytest.mark.parametrize("host", SERVICES)
def test_nothing_is_another_after_a_check(site: Site, host: str) -> None:
    started = site.fleet.root(host, "date +%s").strip()
    before = site.fleet.root(host, f"{STATE}; {DAEMONS}")
    check = site.check("-e", "drift_deep=true")
    after = site.fleet.root(host, f"{STATE}; {DAEMONS}")
    assert check.code == 0
    assert {*before.splitlines()} ^ {*after.splitlines()} == set()
    assert site.fleet.root(host, f"docker events --since {started} --until $(date +%s)") == ""
