# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""titan is the gateway, too: what is open then, and where its clients' keys are seen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import ADDRESSES, HEADS, HOSTS, VERBOSE, Owner
from .search import HELD, places, secrets_of
from .test_canaries import PLAYBOOKS
from .test_scan import SCAN, SSH, listed, scan

GATEWAY = "titan"
URL = f"https://{GATEWAY}"
KEYS = "secrets/clients.yml"


@pytest.fixture(scope="module")
def plan(owner: Owner) -> Iterator[dict[str, Any]]:
    """Of the fleet with a gateway, whose clients' keys are encrypted; without it again afterwards."""
    owner.secrets["client"] = "sk-canary-0123456789abcdef0123456789abcdef"
    owner.encrypt(owner.inventory / KEYS, f"anna: {owner.secrets['client']}\n")
    declared = {"hosts": [GATEWAY], "addresses": [ADDRESSES[GATEWAY]], "keys_file": KEYS}
    owner.declare({"fleet_gateway": declared})
    owner.converge(*VERBOSE)
    yield owner.plan()
    owner.declare()
    owner.converge("-e", "retire=gateway")


def test_each_service_answers_through_it_and_not_to_others(owner: Owner, plan: dict[str, Any]) -> None:
    for service in HEADS:
        assert owner.answered(service, URL, owner.secrets["client"])
        assert not owner.answered(service, URL, owner.secrets[service])  # which is the gateway's own
        assert not owner.answers(service)


@pytest.mark.parametrize("host", HOSTS)
def test_from_the_lan(owner: Owner, plan: dict[str, Any], host: str) -> None:
    done = owner.fleet.lab("net", "--", sys.executable, "-c", SCAN, ADDRESSES[host])
    found = {int(port) for port in done.stdout.split()}
    assert found == listed(owner, plan, host)
    assert ({80, 443} <= found) is (host == GATEWAY)


def test_from_the_gateway_to_another_host(owner: Owner, plan: dict[str, Any]) -> None:
    """The endpoint, and the port where its supervisor tells whether it serves: what the plan opens for gateways."""
    opened = plan["hosts"]["spark-2"]["firewall"]["open"]
    for_it = {one["port"] for one in opened if one["protocol"] == "tcp" and ADDRESSES[GATEWAY] in one["from"]}
    assert scan(owner, GATEWAY, ADDRESSES["spark-2"]) == {SSH, *for_it}
    assert 8000 in for_it and len(for_it) == 2


def test_no_secret_is_seen_outside_of_its_files(owner: Owner, plan: dict[str, Any]) -> None:
    """Of its clients' keys it has digests alone; of services it has the keys, by which it asks them."""
    for playbook in PLAYBOOKS:
        owner.play(playbook, *VERBOSE)
    part = plan["hosts"][GATEWAY]["gateway"]
    held = [one["path"] for one in (*part["backend_keys"], part["tls"]["key"])]
    assert len(held) == 1 + len(HEADS)
    modes = owner.fleet.root(GATEWAY, f"stat -c %a:%U {' '.join(held)} {part['clients']['path']}").split()
    assert set(modes) == {"600:root"}
    assert owner.fleet.root(GATEWAY, "stat -c %a:%U /etc/gb10-fleet/gateway").strip() == "700:root"
    assert owner.secrets["client"] in secrets_of(owner)
    assert places(owner, secrets_of(owner), [*HELD, *held]) == []
