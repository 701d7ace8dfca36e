# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`replicas: 2` from bare hosts: two endpoints that answer to one key, each a service of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.fixtures import need_lab

from .owner import ROOT, Owner, owner_at

HOSTS = {"titan": "10.77.0.11", "beast": "10.77.0.12"}
WORKLOAD = {"max_model_len": 2048, "max_num_seqs": 2, "pool": "least"}


@pytest.fixture(scope="module")
def owner() -> Iterator[Owner]:
    need_lab()
    place = Path(tempfile.mkdtemp(prefix="gb10-replicas-"))
    with owner_at(place, hosts=tuple(HOSTS)) as one:
        shutil.copytree(ROOT / "inventories" / "lab" / "recipes", one.folder / "recipes")
        yield one


def test_each_replica_answers_to_the_one_key(owner: Owner) -> None:
    declared = {"recipe": "lab-tiny", "hosts": [*HOSTS], "replicas": 2, "port": 8000, "served_name": "tiny"}
    owner.declare(tiny=declared | {"workload": WORKLOAD})
    site = owner.play("site.yml")
    assert site.returncode == 0, site.stdout[-6000:]
    (made,) = (owner.folder / ".fleet" / "keys").glob("*.key")
    for address in HOSTS.values():
        assert owner.answers(8000, "tiny", address=address, key=made.read_text().strip())
        assert not owner.answers(8000, "tiny", address=address)
    owner.fleet.root("beast", "systemctl stop gb10-service-tiny-2")
    assert owner.answers(8000, "tiny", key=made.read_text().strip()), "the other one goes on"
    again = owner.play("site.yml")
    assert again.returncode == 0, again.stdout[-6000:]
    assert owner.answers(8000, "tiny", address=HOSTS["beast"], key=made.read_text().strip()), "it is back"
