# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real vLLM over Ray, from bare hosts by the playbooks alone, each run with -vvv --diff; no secret shows anywhere.

The same playbooks with a stand-in are the scenario `cluster`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.fixtures import rank_rows
from lab.vllm import images

from .bare import HOSTS, two_hosts
from .pair import CONTAINER, NAME, UNIT, Pair, changed, declared, order

pytestmark = pytest.mark.whole
VERBOSE = ("-vvv", "--diff")
OTHER_KEY = "canary-key-of-another-day-2e90"
FLAGS = {"distributed-executor-backend": "ray"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two bare hosts and their cable."""
    with two_hosts(images.VLLM_CPU, Path(tmp_path_factory.mktemp("pair"))) as (fleet, _):
        # without its image, the recipe's own is meant
        yield Pair(fleet, {key: value for key, value in declared().items() if key != "image"} | {"flags": FLAGS})


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What is declared from the second rollout on: without them `status` says that the ranks go by something else."""
    key = Path(tmp_path_factory.mktemp("key")) / "key"
    key.write_text(OTHER_KEY)
    return {"flags": FLAGS | {"max-num-batched-tokens": 1024}, "api_key_file": str(key)}


def converges(pair: Pair, *arguments: str, **changes: object) -> str:
    """What the run says; the time that it took is printed (pytest -s)."""
    began = time.monotonic()
    run = pair.playbook(*arguments, *VERBOSE, **changes)
    print(f"\n{' '.join(arguments)}: {time.monotonic() - began:.0f} s, changed {changed(run)}")
    assert run.returncode == 0, run.stdout[-3000:]
    return run.stdout


def test_from_bare_hosts_to_a_completion_of_both_ranks(pair: Pair) -> None:
    converges(pair, "cluster-tp2.yml")
    status, reply = pair.ask(pair.key)
    assert (status, pair.ask("wrong")[0]) == (200, 401)
    assert "-tp2-" in reply["system_fingerprint"]
    assert "2 of 2 ranks have joined" in pair.journal("spark-2")
    assert "RAY_AUTH_MODE=token" in pair.fleet.root("spark-3", f"docker inspect {CONTAINER}")


def test_a_second_run_changes_nothing(pair: Pair) -> None:
    before = pair.epochs()
    run = pair.playbook("cluster-tp2.yml", *VERBOSE)
    assert {host: changed(run)[host] for host in HOSTS} == dict.fromkeys(HOSTS, 0)
    assert pair.epochs() == before


def test_another_flag_and_key_restart_the_group_once_the_head_first_to_stop(
    pair: Pair, changes: dict[str, object]
) -> None:
    before = pair.epochs()
    outputs = converges(pair, "cluster-tp2.yml", **changes)
    assert order(
        outputs, "run | Stop the heads", "changed: [spark-2]", "run | Start the services", "changed: [spark-3]"
    )
    assert pair.epochs() == [epoch + 1 for epoch in before]
    assert pair.status("spark-2")["starts_left"] == 2
    assert (pair.ask(OTHER_KEY)[0], pair.ask(pair.key)[0]) == (200, 401)


def test_each_rank_is_a_row_of_its_state(pair: Pair, changes: dict[str, object]) -> None:
    assert rank_rows(converges(pair, "status.yml", **changes), NAME) == [
        [NAME, "0", "spark-2", "serving"],
        [NAME, "1", "spark-3", "serving"],
    ]


def test_stopped_after_a_failure_and_started_again(pair: Pair, changes: dict[str, object]) -> None:
    pair.fail_once()
    converges(pair, "gb10.fleet.stop", "--extra-vars", f"service={NAME}", **changes)
    for host in HOSTS:
        assert (
            pair.fleet.root(host, f"docker ps --all --quiet; systemctl is-enabled {UNIT}", check=False) == "disabled\n"
        )
    converges(pair, "gb10.fleet.restart", "--extra-vars", f"service={NAME}", **changes)
    assert pair.ask(OTHER_KEY)[0] == 200


def test_no_secret_is_seen(pair: Pair, tmp_path: Path) -> None:
    """After first runs and second ones, a change of the key, evidence of a failure; and in what tells of them."""
    limit = ("--limit", ",".join(HOSTS))
    pair.playbook("plan.yml", *limit, *VERBOSE)
    pair.playbook("plan.yml", *limit, *VERBOSE, "--extra-vars", "fleet_plan_format=json")
    # a limited check leaves no report
    pair.playbook("drift.yml", *VERBOSE, "--extra-vars", f"drift_folder={tmp_path}")
    assert [*tmp_path.rglob("*.json")]
    pair.run("ansible", ",".join(HOSTS), "--module-name", "ansible.builtin.setup", *VERBOSE)
    assert "ansible_local" in pair.outputs[-1]
    assert pair.leaks([pair.key, OTHER_KEY], tmp_path) == []
