# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an owner does with a service on two hosts: change it, stop it, start it, look at it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cluster.bare import HOSTS
from cluster.pair import NAME, SECRET, UNIT, Pair, order
from lab.fixtures import eventually, rank_rows

pytestmark = pytest.mark.story
OTHER_KEY = "canary-key-of-another-day-2e90"
RANK_FILE = f"/etc/gb10-fleet/services/{NAME}.json"


@pytest.fixture(scope="module")
def change(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Another flag and another key."""
    file = Path(tmp_path_factory.mktemp("keys")) / "key"
    file.write_text(OTHER_KEY)
    return {"flags": {"distributed-executor-backend": "ray", "max-num-batched-tokens": 1024}, "api_key_file": str(file)}


def test_a_change_waits_for_a_host_that_fails(pair: Pair, change: dict[str, object]) -> None:
    """The head can't be written. The worker says so, once, and the group goes on as it was.

    A secret that differs is made the same again meanwhile.
    """
    before = pair.epochs()
    pair.fleet.root("spark-3", f"echo other > {SECRET}")
    pair.fleet.root("spark-2", f"mount --bind {RANK_FILE} {RANK_FILE}")  # what is mounted over can't be replaced
    run = pair.playbook("cluster-tp2.yml", "-vvv", "--diff", **change)
    pair.fleet.root("spark-2", f"umount {RANK_FILE}")
    assert run.returncode != 0
    output = " ".join(run.stdout[run.stdout.index("PLAY RECAP") :].split())
    assert output.count("spark-3: tiny-pair is left as it is, since spark-2, its head, failed before") == 1
    assert len({*pair.secrets()}) == 1
    assert pair.epochs() == before
    assert all(pair.status(host)["state"] == "serving" for host in HOSTS)


def test_the_next_run_restarts_the_group_once_the_head_first_to_stop(pair: Pair, change: dict[str, object]) -> None:
    """Also the worker, on which the run before has written everything."""
    before = pair.epochs()
    run = pair.playbook("cluster-tp2.yml", "-vvv", "--diff", **change)
    assert run.returncode == 0, run.stdout[-3000:]
    assert order(
        run.stdout, "run | Stop the heads", "changed: [spark-2]", "run | Start the services", "changed: [spark-3]"
    )
    assert pair.epochs() == [epoch + 1 for epoch in before]
    assert all(pair.status(host)["state"] == "serving" for host in HOSTS)
    assert (pair.ask(OTHER_KEY)[0], pair.ask(pair.key)[0]) == (200, 401)


def test_stopped_it_stays_stopped_and_reports_it(pair: Pair) -> None:
    pair.fail_once()
    assert pair.playbook("gb10.fleet.stop", "-e", "service=tiny-pair").returncode == 0
    for host in HOSTS:
        assert pair.fleet.root(
            host, f"systemctl is-active {UNIT}; systemctl is-enabled {UNIT}", check=False
        ).split() == ["inactive", "disabled"]
        assert pair.fleet.root(host, "docker ps --all --quiet") == ""
    again = pair.playbook("gb10.fleet.stop", "-e", "service=tiny-pair")
    assert again.returncode == 0
    assert "changed: [" not in again.stdout
    status = pair.playbook("status.yml")
    assert status.returncode == 2
    output = status.stdout
    assert output.count("gb10.fleet.restart -e service=tiny-pair") == len(HOSTS)


def test_restart_brings_it_back_and_proves_it(pair: Pair) -> None:
    before = pair.epochs()
    run = pair.playbook("gb10.fleet.restart", "-e", "service=tiny-pair")
    assert run.returncode == 0, run.stdout[-3000:]
    assert pair.ask(OTHER_KEY)[0] == 200
    assert pair.epochs() != before
    assert all(pair.fleet.ok(host, f"systemctl is-enabled {UNIT}") for host in HOSTS)


def test_the_state_of_each_rank_is_a_row(pair: Pair, change: dict[str, object]) -> None:
    run = pair.playbook("status.yml", "-e", "service=tiny-pair", **change)
    assert run.returncode == 0, run.stdout[-3000:]
    assert rank_rows(run.stdout, "tiny-pair") == [
        ["tiny-pair", "0", "spark-2", "serving"],
        ["tiny-pair", "1", "spark-3", "serving"],
    ]
    assert "no problems" in run.stdout


def test_no_secret_is_seen(pair: Pair) -> None:
    """After runs with -vvv, a change of the key, and evidence of a failure."""
    assert pair.leaks([pair.key, OTHER_KEY]) == []


def test_a_host_that_is_off_is_named(pair: Pair) -> None:
    pair.fleet.lab("power", "off", "spark-3")
    try:
        run = pair.playbook("status.yml")
        assert "unreachable" in run.stdout
        assert ["tiny-pair", "1", "spark-3", "unreachable"] in rank_rows(run.stdout, "tiny-pair")
    finally:
        pair.fleet.lab("power", "on", "spark-3")
        eventually(lambda: pair.fleet.lab("ssh", "spark-3", "true", check=False).returncode == 0, "spark-3 lets us in")
        eventually(lambda: pair.ask(OTHER_KEY)[0] == 200, "the group answers again")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["cluster-tp2.yml", "--limit", "spark-2"], "-l spark-2,spark-3"),
        (["gb10.fleet.stop", "--limit", "spark-3", "-e", "service=tiny-pair"], "-l spark-2,spark-3"),
        (["gb10.fleet.restart"], "known are: tiny-pair"),
        (["status.yml", "-e", "service=tiny-piar"], 'write "tiny-pair"'),
    ],
)
def test_a_slip_is_refused_first(pair: Pair, arguments: list[str], sentence: str) -> None:
    refused(pair.playbook(*arguments), sentence)


def test_what_can_not_be_is_refused_first(pair: Pair) -> None:
    refused(pair.playbook("cluster-tp2.yml", hosts=["spark-2"]), "name two hosts in a service")
    wrong: dict[str, tuple[dict[str, object], str]] = {
        "three-hosts": ({"hosts": ["spark-2", "spark-3", "titan"]}, "no cable between spark-3 and titan"),
        "no-cable": ({"hosts": ["spark-2", "titan"]}, "no cable between spark-2 and titan"),
        "four-ranks": ({"flags": {"tensor-parallel-size": 4}}, "2 hosts for tensor-parallel-size 4"),
        "too-large": ({"workload": {"pool": "900GiB"}}, "too little"),
    }
    others = {name: changes for name, (changes, _sentence) in wrong.items()}
    refused(pair.playbook("cluster-tp2.yml", others=others), *(sentence for _changes, sentence in wrong.values()))


def refused(run: subprocess.CompletedProcess[str], *sentences: str) -> None:
    output = " ".join(run.stdout.split())
    assert run.returncode != 0
    assert [sentence for sentence in sentences if sentence not in output] == []
    assert "changed: [" not in run.stdout
