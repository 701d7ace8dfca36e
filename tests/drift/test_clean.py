# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A converged fleet is clean: again and again (--runs), under load, after Docker's restart and after a reboot."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from lab.disk import OWNER_PASSWORD
from lab.fixtures import eventually

from .conftest import HOSTS, Site

# A processor each for the hash and for writing, which is all that the machine of a lab may have.
LOAD = "sha256sum /dev/zero & while :; do dd if=/dev/zero of=/var/tmp/load bs=1M count=64 conv=fsync; done"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "run" in metafunc.fixturenames:
        metafunc.parametrize("run", range(metafunc.config.getoption("--runs")))


def expect_clean(site: Site) -> str:
    """The report without its time."""
    check = site.check()
    assert (check.report["findings"], check.report["unknown"], check.code) == ([], [], 0), check.output[-3000:]
    return json.dumps({name: value for name, value in check.report.items() if name != "generated"})


@pytest.fixture(scope="module")
def first(site: Site) -> str:
    return expect_clean(site)


def test_clean_again(site: Site, first: str, run: int) -> None:
    assert expect_clean(site) == first


@pytest.fixture
def load(site: Site) -> Iterator[None]:
    for host in HOSTS:
        site.fleet.root(host, f"systemd-run -q --unit load sh -c '{LOAD}'")
    yield
    for host in HOSTS:
        site.fleet.root(host, "systemctl stop load; rm -f /var/tmp/load")


@pytest.mark.usefixtures("load")
def test_clean_under_load(site: Site) -> None:
    expect_clean(site)


def test_clean_after_a_restart_of_docker(site: Site) -> None:
    for host in HOSTS:
        site.fleet.root(host, "systemctl restart docker.service")
    site.serving()
    expect_clean(site)


def boot(site: Site, host: str) -> str:
    """The number of the host's boot once all its units have started; nothing until then.

    By SSH: what entered a host from outside is stopped by its shutdown, and then keeps it from ending.
    """
    command = "systemctl is-system-running --quiet && cat /proc/sys/kernel/random/boot_id"
    return site.fleet.ssh(host, command, check=False).strip()


def test_clean_after_a_reboot(site: Site) -> None:
    for host in HOSTS:
        before = boot(site, host)
        site.fleet.ssh(host, f"echo {OWNER_PASSWORD} | sudo --stdin systemctl reboot", check=False)
        eventually(lambda host=host, before=before: boot(site, host) not in {"", before}, f"{host} is up")  # type: ignore[misc]
    site.serving()
    expect_clean(site)
