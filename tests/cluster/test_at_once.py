# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks while something else happens to the group: another playbook, a rank that dies."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lab.fixtures import eventually
from lab.vllm import images

from .bare import HOSTS, two_hosts
from .pair import NAME, UNIT, Pair, changed, declared

pytestmark = pytest.mark.whole
BOTH = ("--limit", ",".join(HOSTS))
RESTART = ("gb10.fleet.restart", *BOTH, "--extra-vars", f"service={NAME}")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two hosts that the playbook for groups has brought."""
    with two_hosts(images.STAND_IN, Path(tmp_path_factory.mktemp("pair"))) as (fleet, _):
        made = Pair(fleet, declared())
        assert made.playbook("cluster-tp2.yml").returncode == 0, made.outputs[-1][-3000:]
        yield made


def at_once(pair: Pair, *runs: tuple[str, ...]) -> list[subprocess.CompletedProcess[str]]:
    with ThreadPoolExecutor(len(runs)) as pool:
        return list(pool.map(lambda words: pair.playbook(*words), runs))


def serves(pair: Pair) -> bool:
    return pair.ask(pair.key)[0] == 200


def unchanged(pair: Pair) -> None:
    run = pair.playbook("site.yml", *BOTH)
    assert run.returncode == 0, run.stdout[-3000:]
    assert changed(run) == dict.fromkeys(HOSTS, 0)


def test_site_while_the_group_recovers(pair: Pair) -> None:
    epoch = pair.epochs()[0]
    pair.fail_once()
    began = time.monotonic()
    run = pair.playbook("site.yml", *BOTH)
    print(f"\nsite.yml while it recovers: exit {run.returncode} after {time.monotonic() - began:.0f} s")
    assert run.returncode == 0, run.stdout[-3000:]
    assert changed(run) == dict.fromkeys(HOSTS, 0)
    assert serves(pair)
    assert pair.epochs() == [epoch + 1] * 2


def test_two_restarts_at_once(pair: Pair) -> None:
    began = time.monotonic()
    runs = at_once(pair, RESTART, RESTART)
    print(f"\ntwo restarts at once: exits {[run.returncode for run in runs]}, {time.monotonic() - began:.0f} s")
    refused = [run.stdout[-9000:] + run.stderr[-3000:] for run in runs if run.returncode]
    print(*refused)
    # of two runs with several hosts, which could wait for each other, one may be refused at once
    assert len(refused) < 2
    assert all("[host-busy]" in words and "nothing was changed" in words for words in refused)
    eventually(lambda: serves(pair), "it serves after both")
    for host in HOSTS:
        assert pair.fleet.ok(host, f"systemctl is-active {UNIT}")
    unchanged(pair)


def test_a_restart_while_site_has_work(pair: Pair) -> None:
    """Another flag is new to both ranks, and the restart's owner reads the inventory as it was."""
    flags = {**pair.declared["flags"], "max-num-batched-tokens": 1024}
    with ThreadPoolExecutor(2) as pool:
        site = pool.submit(pair.playbook, "site.yml", *BOTH, flags=flags)
        restart = pool.submit(pair.playbook, *RESTART)
        codes = [site.result().returncode, restart.result().returncode]
    print(f"\nsite.yml with work and a restart at once: exits {codes}")
    eventually(lambda: serves(pair), "it serves after both")
    run = pair.playbook("site.yml", *BOTH)
    assert run.returncode == 0, run.stdout[-3000:]
    unchanged(pair)
