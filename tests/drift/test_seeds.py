# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every seeded drift is found, alone and with all others; site.yml repairs what it owns; then drift is clean."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._drift.managed import managed_files

from .conftest import RETIRE, Check, Site
from .seeds import SEEDS, Seed

ANSWER = re.compile(r"(?P<state>ok|changed|skipping|included|fatal): \[?(?P<host>[\w-]+)")


def finding(check: Check, seed: Seed) -> dict[str, Any]:
    named = [
        one
        for one in check.report["findings"]
        if (one["host"], one["resource"], one["rule"]) == (seed.host, seed.resource, seed.rule)
    ]
    assert named, f"{seed.name} was not found: {check.report['findings']} {check.report['unknown']}"
    return named[0]


def announced(site: Site) -> list[tuple[str, str, str]]:
    """(task, host, what it shows) of everything that `site.yml --check --diff` would change."""
    done = site.play("site.yml", "--check", "--diff", *RETIRE)
    changes = []
    for block in done.stdout.split("\nTASK [")[1:]:
        head, _, lines = block.partition("\n")
        shown: list[str] = []
        for line in lines.splitlines():
            shown.append(line)
            if answer := ANSWER.match(line):
                if answer["state"] == "changed":
                    changes.append((head.partition("]")[0], answer["host"], "\n".join(shown)))
                shown = []
    return changes


def expect_announced(site: Site, seeds: Iterable[Seed]) -> None:
    changes = announced(site)
    missed = [
        seed.name
        for seed in seeds
        if not any(
            task.endswith(f" : {seed.task}") and host == seed.host and seed.shows in shown
            for task, host, shown in changes
        )
    ]
    assert missed == [], changes


def expect_repaired(site: Site) -> None:
    site.converge()
    site.serving()
    clean = site.check()
    assert (clean.code, clean.report["findings"], clean.report["unknown"]) == (0, [], [])
    assert announced(site) == []


def strangers(check: Check, seed: Seed) -> list[str]:
    """Errors and warnings that do not belong to the seed."""
    return [
        one["id"]
        for one in check.report["findings"]
        if one["rule"] != seed.rule and not one["rule"].startswith(("fabric-", *seed.also))
    ]


OURS = "find /etc/gb10-fleet /usr/local/lib/gb10-fleet /etc/systemd/system/gb10-* -type f ! -name '*.pyc'"
# The fabric's record of its last change, which only that change writes.
RECORDS = "/etc/gb10-fleet/netplan/"
# Compared on the host, which alone knows its SSH ports: `on_services.of_firewall`; the seed rules-file holds it.
ON_HOST = {"/etc/gb10-fleet/firewall.nft"}


@pytest.mark.parametrize("host", ["titan", "spark-2", "spark-3"])
def test_every_file_that_roles_write_is_compared(site: Site, host: str) -> None:
    plan = site.play("plan.yml", "-e", "fleet_plan_format=json").stdout
    document = json.loads(plan[plan.index("\n{\n") : plan.index("\n}\n") + 2])
    compared = {one.path for one in managed_files(document["hosts"][host])}
    written = {path for path in site.fleet.root(host, OURS).split() if not path.startswith(RECORDS)}
    assert written - compared - ON_HOST == set()


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)
def test_a_drift_alone(site: Site, seed: Seed) -> None:
    site.fleet.root(seed.host, seed.make)
    try:
        check = site.check(*(["-e", "drift_deep=true"] if seed.deep else []))
    finally:
        site.fleet.root(seed.host, seed.undo, check=False)
        site.serving()
    one = finding(check, seed)
    assert seed.want in one["want"] and seed.have in one["have"]
    assert one["remedy"]
    assert (one["repairs"] == "site.yml") == (seed.owned and not seed.ordered)
    assert check.code == (0 if one["severity"] == "hint" else 2)
    assert strangers(check, seed) == []


def test_all_at_once_and_their_repair(site: Site) -> None:
    together = [seed for seed in SEEDS if not seed.alone]
    for seed in together:
        site.fleet.root(seed.host, seed.make)
    check = site.check()
    assert check.code == 2
    for seed in together:
        one = finding(check, seed)
        assert seed.want in one["want"] and seed.have in one["have"]
    for seed in together:
        if not seed.owned:
            site.fleet.root(seed.host, seed.undo)
    expect_announced(site, [seed for seed in together if seed.owned])
    expect_repaired(site)


@pytest.mark.parametrize("seed", [seed for seed in SEEDS if seed.alone and seed.owned], ids=lambda seed: seed.name)
def test_the_repair_of_one_alone(site: Site, seed: Seed) -> None:
    site.fleet.root(seed.host, seed.make)
    try:
        expect_announced(site, [seed])
        expect_repaired(site)
    except AssertionError:
        site.fleet.root(seed.host, seed.undo, check=False)
        raise
