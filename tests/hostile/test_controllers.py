# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers and one fleet: of one inventory, one after the other and at once; and of different inventories."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lab.fixtures import eventually

from .conftest import Owner

LEFT_OUT = shutil.ignore_patterns(".fleet")
GUEST = {"port": 8005, "tls": "none"}


@pytest.fixture(scope="module")
def colleague(owner: Owner, tmp_path_factory: pytest.TempPathFactory) -> Owner:
    """Has the owner's inventory as git brings it: without what `.fleet/.gitignore` and those below it leave out."""
    found = owner.beside(Path(tmp_path_factory.mktemp("colleague")))
    shutil.copytree(owner.inventory, found.inventory, ignore=LEFT_OUT)
    return found


@pytest.fixture(scope="module")
def stranger(owner: Owner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    """Has an inventory of his own of the same hosts, with a service of his own on one of them."""
    found = owner.beside(Path(tmp_path_factory.mktemp("stranger")))
    shutil.copytree(owner.inventory, found.inventory, ignore=LEFT_OUT)
    found.declared = {**found.declared, "fleet_name": "strangers", "fleet_fabric": {}}
    found.declare(tiny=None, pair=None, guest=found.declared["fleet_services"]["tiny"] | GUEST)
    yield found


def test_another_clone_makes_no_secrets_of_its_own(owner: Owner, colleague: Owner) -> None:
    assert f"copy {colleague.authority.parent} from there" in colleague.refused()
    assert owner.answers("tiny")
    shutil.copytree(owner.inventory / ".fleet", colleague.inventory / ".fleet")
    colleague.unchanged()


def test_both_at_once_end_as_one(owner: Owner, colleague: Owner) -> None:
    """With all to do on a host: image, model, service."""
    owner.fleet.root("titan", "systemctl stop gb10-service-tiny; docker system prune --all --force")
    owner.fleet.root("titan", "rm -rf /var/lib/gb10-fleet/hf/hub /var/lib/gb10-fleet/models /var/lib/gb10-fleet/images")
    with ThreadPoolExecutor(2) as both:
        runs = [both.submit(one.play, "site.yml", "-l", "titan") for one in (owner, colleague)]
    ended = [run.result() for run in runs]
    assert [run.returncode for run in ended] == [0, 0], "\n".join(run.stdout[-5000:] for run in ended)
    eventually(lambda: owner.answers("tiny"), "tiny answers")
    for one in (owner, colleague):
        one.unchanged("-l", "titan")


def test_another_inventory_leaves_alone_what_this_one_has(owner: Owner, stranger: Owner) -> None:
    """With a service of its own beside ours; and it is refused where our group decides the firewall and the cables."""
    assert "gb10-service-pair.service was written by the inventory inventory" in stranger.refused()
    assert owner.answers("pair")

    models = owner.fleet.root("titan", "find /var/lib/gb10-fleet/hf/hub | sort")
    stranger.converge("-l", "titan")
    owner.fleet.root("titan", "systemctl is-active gb10-service-guest")
    assert owner.answers("tiny")
    assert owner.fleet.root("titan", "find /var/lib/gb10-fleet/hf/hub | sort") == models
    owner.unchanged("-l", "titan")
    owner.fleet.root("titan", "systemctl is-active gb10-service-guest")

    stranger.declare(tiny=None, pair=None)
    stranger.converge("-l", "titan", "-e", "retire=guest")
    assert owner.fleet.root("titan", "ls /etc/systemd/system/gb10-service-*").split() == [
        "/etc/systemd/system/gb10-service-tiny.service"
    ]
    assert owner.answers("tiny")
