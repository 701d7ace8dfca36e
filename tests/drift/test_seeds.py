# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every seeded drift is found, alone and with all others; what site.yml owns its check mode announces, and one run of
it repairs, also where nothing else of the host differs; then drift is clean."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.managed import managed_files

from .conftest import HOSTS, RETIRE, Check, Site
from .seeds import SEEDS, Seed

ANSWER = re.compile(r"(?P<state>ok|changed|skipping|included|fatal): \[?(?P<host>[\w-]+)")


def finding(check: Check, seed: Seed) -> dict[str, Any]:
    named = [
        one
        for one in check.report["findings"]
        if (one["host"], one["resource"], one["rule"]) == (seed.host, seed.resource, seed.rule)
    ]
    assert named, f"{seed.name} was not found: {check.report['findings']} {check.report['unknown']}"
    [one, *_] = named
    assert seed.want in one["want"] and seed.have in one["have"]
    return one


Change = tuple[str, str, str]


def announced(site: Site) -> list[Change]:
    """What `site.yml --check --diff` would change."""
    return changes_of(site.play("site.yml", "--check", "--diff", *RETIRE).stdout)


def changes_of(text: str) -> list[Change]:
    """(task, host, what it shows) of everything that a run changed."""
    changes = []
    for block in text.split("\nTASK [")[1:]:
        head, _, lines = block.partition("\n")
        shown: list[str] = []
        for line in lines.splitlines():
            shown.append(line)
            if answer := ANSWER.match(line):
                if answer["state"] == "changed":
                    changes.append((head.partition("]")[0], answer["host"], "\n".join(shown)))
                shown = []
    return changes


def expect_announced(site: Site, seeds: Iterable[Seed]) -> list[Change]:
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
    return changes


def tasks_of(changes: Iterable[Change]) -> set[tuple[str, str]]:
    return {(task.rpartition(" : ")[2], host) for task, host, _ in changes}


def expect_clean(site: Site) -> None:
    site.serving()
    clean = site.check()
    assert (clean.code, clean.report["findings"], clean.report["unknown"]) == (0, [], [])


def strangers(check: Check, seeds: Iterable[Seed]) -> list[str]:
    """Findings that belong to none of the seeds, of which each is alone on its host. A cable has another end."""
    expected = {seed.host: (seed.rule, *seed.also) for seed in seeds}
    return [
        one["id"]
        for one in check.report["findings"]
        if not one["rule"].startswith(("fabric-", *expected.get(one["host"], ())))
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


def expect_found(check: Check, seeds: Sequence[Seed]) -> None:
    found = [finding(check, seed) for seed in seeds]
    for seed, one in zip(seeds, found, strict=True):
        assert one["remedy"]
        assert (one["repairs"] == "site.yml") == (seed.owned and not seed.ordered)
    assert check.code == (0 if {one["severity"] for one in found} == {"hint"} else 2)
    assert strangers(check, seeds) == []


@pytest.mark.parametrize("seed", [seed for seed in SEEDS if not seed.owned], ids=lambda seed: seed.name)
def test_a_drift_alone(site: Site, seed: Seed) -> None:
    site.fleet.root(seed.host, seed.make)
    # what was read today is not read again
    site.forget()
    try:
        check = site.check(*(["-e", "drift_deep=true"] if seed.deep else []))
    finally:
        site.fleet.root(seed.host, seed.undo, check=False)
        site.serving()
    expect_found(check, [seed])


# site.yml leaves out a host on which nothing differs: each of these is all that does on its host.
_REPAIRED = {host: [one for one in SEEDS if one.host == host and one.owned] for host in HOSTS}
ROUNDS = [[seed for seed in seeds if seed] for seeds in zip_longest(*_REPAIRED.values())]


@pytest.mark.parametrize("seeds", ROUNDS, ids=lambda seeds: "+".join(seed.name for seed in seeds))
def test_one_on_each_host_and_its_repair(site: Site, seeds: Sequence[Seed]) -> None:
    for seed in seeds:
        site.fleet.root(seed.host, seed.make)
    try:
        check = site.check()
        expect_found(check, seeds)
        foreseen = expect_announced(site, seeds)
        named, done = tasks_of(foreseen), tasks_of(changes_of(site.converge()))
        assert done <= named
        assert named - done <= {(task, seed.host) for seed in seeds for task in seed.perhaps}
        assert {host for _, host in named} == {seed.host for seed in seeds}
        expect_clean(site)
    except AssertionError:
        for seed in seeds:
            site.fleet.root(seed.host, seed.undo, check=False)
        site.converge()
        raise


def test_all_at_once_and_their_repair(site: Site) -> None:
    together = [seed for seed in SEEDS if not seed.alone]
    for seed in together:
        site.fleet.root(seed.host, seed.make)
    check = site.check()
    assert check.code == 2
    for seed in together:
        finding(check, seed)
    for seed in together:
        if not seed.owned:
            site.fleet.root(seed.host, seed.undo)
    owned = [seed for seed in together if seed.owned]
    foreseen = expect_announced(site, owned)
    # Nothing happens unsaid; of so many repairs one may mend what another was named for, as netplan does for the rails.
    assert tasks_of(changes_of(site.converge())) <= tasks_of(foreseen)
    expect_clean(site)
    assert announced(site) == []
