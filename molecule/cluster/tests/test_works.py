# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an owner does with a service on two hosts: change it, stop it, start it, look at it."""

from __future__ import annotations

import pytest
from conftest import DECLARED, HOSTS, UNIT, Pair

SECRET = "/etc/gb10-fleet/secrets/tiny-pair.group"


def test_a_change_restarts_the_group_once_the_head_first_to_stop(pair: Pair) -> None:
    """Another flag and another key; the old key is refused then, and the change of the key is not shown."""
    before = pair.epochs()
    other_key = "../../molecule/model_store/token.txt"
    run = pair.playbook("cluster-tp2.yml", "--diff", flags={"max-num-batched-tokens": 1024}, api_key_file=other_key)
    assert run.returncode == 0, run.stdout[-3000:]
    assert pair.epochs() == [epoch + 1 for epoch in before]
    assert all(pair.status(host)["state"] == "serving" for host in HOSTS)
    heads, ranks = "Run | stop the heads", "Run | start the services"
    assert run.stdout.index("changed: [spark-2]", run.stdout.index(heads)) < run.stdout.index(ranks)
    assert pair.ask(pair.key)[0] == 401
    assert (DECLARED.parents[2] / "model_store" / "token.txt").read_text().strip() not in run.stdout


def test_a_secret_that_differs_is_made_the_same_again(pair: Pair) -> None:
    pair.fleet.root("spark-3", f"echo other > {SECRET}")
    run = pair.playbook("cluster-tp2.yml")
    assert run.returncode == 0, run.stdout[-3000:]
    assert len({pair.fleet.root(host, f"cat {SECRET}") for host in HOSTS}) == 1
    assert pair.ask(pair.key)[0] == 200


def test_stopped_it_stays_stopped_and_says_so(pair: Pair) -> None:
    assert pair.playbook("stop.yml", "-e", "service=tiny-pair").returncode == 0
    for host in HOSTS:
        assert pair.fleet.root(
            host, f"systemctl is-active {UNIT}; systemctl is-enabled {UNIT}", check=False
        ).split() == [
            "inactive",
            "disabled",
        ]
        assert pair.fleet.root(host, "docker ps --all --quiet") == ""
    again = pair.playbook("stop.yml", "-e", "service=tiny-pair")
    assert again.returncode == 0
    assert "changed: [" not in again.stdout
    said = pair.playbook("status.yml").stdout
    assert said.count("restart.yml -e service=tiny-pair") == len(HOSTS)


def test_restart_brings_it_back_and_proves_it(pair: Pair) -> None:
    before = pair.epochs()
    run = pair.playbook("restart.yml", "-e", "service=tiny-pair")
    assert run.returncode == 0, run.stdout[-3000:]
    assert pair.ask(pair.key)[0] == 200
    assert pair.epochs() != before
    assert all(pair.fleet.ok(host, f"systemctl is-enabled {UNIT}") for host in HOSTS)


def test_the_state_of_each_rank_is_a_row(pair: Pair) -> None:
    run = pair.playbook("status.yml", "-e", "service=tiny-pair")
    assert run.returncode == 0, run.stdout[-3000:]
    rows = [line.split() for line in run.stdout.splitlines() if line.startswith("tiny-pair ")]
    assert [row[:4] for row in rows] == [
        ["tiny-pair", "0", "spark-2", "serving"],
        ["tiny-pair", "1", "spark-3", "serving"],
    ]
    assert "no problems" in run.stdout


def test_a_host_that_is_off_is_named(pair: Pair) -> None:
    pair.fleet.lab("power", "off", "spark-3")
    try:
        run = pair.playbook("status.yml")
        assert "unreachable" in run.stdout
        assert [line.split()[2:4] for line in run.stdout.splitlines() if line.startswith("tiny-pair  1")] == [
            ["spark-3", "unreachable"]
        ]
    finally:
        pair.fleet.lab("power", "on", "spark-3")


@pytest.mark.parametrize(
    ("arguments", "changes", "sentence"),
    [
        (["cluster-tp2.yml", "--limit", "spark-2"], {}, "-l spark-2,spark-3"),
        (["stop.yml", "--limit", "spark-3", "-e", "service=tiny-pair"], {}, "-l spark-2,spark-3"),
        (["restart.yml"], {}, "known are: tiny-pair"),
        (["status.yml", "-e", "service=tiny-piar"], {}, 'write "tiny-pair"'),
        (["cluster-tp2.yml"], {"hosts": ["spark-2"]}, "name two hosts in a service"),
        (["cluster-tp2.yml"], {"hosts": ["spark-2", "spark-3", "titan"]}, "1 or 2, as the recipe says"),
        (["cluster-tp2.yml"], {"hosts": ["spark-2", "titan"]}, "no cable between spark-2 and titan"),
        (["cluster-tp2.yml"], {"flags": {"tensor-parallel-size": 4}}, "2 hosts for tensor-parallel-size 4"),
        (["cluster-tp2.yml"], {"workload": {"max_model_len": 32768, "max_num_seqs": 8000}}, "too little"),
    ],
)
def test_what_can_not_be_is_refused_first(
    pair: Pair, arguments: list[str], changes: dict[str, object], sentence: str
) -> None:
    run = pair.playbook(*arguments, **changes)
    assert run.returncode != 0
    assert sentence in " ".join(run.stdout.split())
    assert "changed: [" not in run.stdout
