# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel comes to four hosts that serve nothing; one fails its proof, and a run is cut off.

Real: apt, dpkg, restarts. Imitated: the kernel (`host/`, a package of ours with a text for an image), its driver (the
lab's).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.imitations import DRIVER

from .debs import META, image, publish_kernel
from .owner import HOSTS, KERNEL, NEXT, Owner, owner_of


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    declared = {"fleet_services": {}, "fleet_fabric": None}
    with owner_of(Path(tmp_path_factory.mktemp("update")), declared) as made:
        yield made


def test_a_kernel_that_fails_on_one_host_stops_there(owner: Owner) -> None:
    fleet = owner.fleet
    was, boots = owner.kernels(), owner.boots()
    version = publish_kernel(owner.repository, NEXT)
    new = f"{NEXT} {version}"

    # spark-2, spark-3, spark-4, titan: the second one fails
    fleet.root("spark-3", f"echo {shlex.quote(NEXT)} > /etc/lab-breaks")
    done = owner.update()
    assert done.returncode != 0
    assert "spark-3 did not prove itself, what can be put back was; the hosts after it were not touched" in done.stdout
    assert f"driver: none runs; expected {DRIVER}" in done.stdout
    assert owner.kernels() == {**was, "spark-2": new}
    after = owner.boots()
    assert {host for host in HOSTS if after[host] != boots[host]} == {"spark-2", "spark-3"}
    assert [owner.stage(host) for host in HOSTS] == ["", "", "", ""]
    # what came along with another package still counts as such
    assert fleet.root("spark-3", f"apt-mark showauto {META} {image(KERNEL)}").split() == [image(KERNEL)]
    assert not fleet.ok("spark-3", f"dpkg-query --status {image(NEXT)}")

    # mended; a run that is cut off is taken up where it was
    fleet.root("spark-3", "rm /etc/lab-breaks")
    owner.cut_off("spark-3")
    assert owner.kernels()["spark-4"] == was["spark-4"]
    resumed = owner.update()
    assert resumed.returncode == 0
    assert "spark-2: nothing to do" in resumed.stdout
    assert "an update was cut off" in resumed.stdout
    assert owner.kernels() == dict.fromkeys(HOSTS, new)
    assert owner.boots()["spark-2"] == after["spark-2"]

    again = owner.update()
    assert again.returncode == 0 and "nothing is updated" in again.stdout
    assert again.stdout.partition("PLAY RECAP")[2].count("changed=0") == len(HOSTS)
