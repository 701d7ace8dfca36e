# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group of two serves, and serves again without a person after each failure (perf-reliability 7.2)."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator

import pytest

from .bare import HOSTS
from .canary import leaks
from .group import CONTAINER, KEY, PORT, ROUTES, SECRET, UNIT, Group

# A minute: long after both sides have noticed.
CABLE_OUT_S = 60


@pytest.fixture(scope="module")
def serving(group: Group) -> Iterator[Group]:
    group.place()
    group.until_serving()
    yield group


def test_it_serves_what_both_ranks_computed(serving: Group) -> None:
    status = serving.status(serving.head)
    assert serving.chat() == "This"
    assert status["ranks_seen"][0]["state"] == "serving"
    assert status["ready_s"] > 0
    assert len(status["warm_up_s"]) == 1
    assert serving.chat(key="wrong") == ""


def test_no_route_answers_without_the_key(serving: Group) -> None:
    assert serving.open_routes() == []
    assert serving.open_routes(key=KEY) == [*ROUTES]


@pytest.fixture
def anew(serving: Group) -> Group:
    """The group with its whole restart budget."""
    serving.restart()
    return serving


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.whole), 1])
def test_a_killed_container(anew: Group, rank: int) -> None:
    def kill_the_container() -> None:
        anew.fleet.root(HOSTS[rank], f"docker kill {CONTAINER}")

    status = anew.recovers(kill_the_container)
    assert f"rank {rank}" in status["last_end"] and "137: killed" in status["last_end"]
    assert status["starts_left"] == 1


@pytest.mark.whole
def test_an_engine_that_dies_takes_the_server_with_it_and_status_0(anew: Group) -> None:
    def kill_the_engine() -> None:
        anew.fleet.root(anew.head, "pkill -KILL -x VLLM::EngineCor")

    assert "status 0: as vLLM does" in anew.recovers(kill_the_engine)["last_end"]


def test_an_engine_that_hangs_while_health_answers_200(anew: Group) -> None:
    def stop_the_engine() -> None:
        anew.fleet.root(anew.head, "pkill -STOP -x VLLM::EngineCor")
        assert anew.fleet.ok(anew.head, f"curl -sf http://127.0.0.1:{PORT}/health")

    status = anew.recovers(stop_the_engine)
    assert "dead, whatever /health says" in status["last_end"]
    assert " T VLLM::EngineCor" in anew.evidence(anew.head, "processes.txt")


@pytest.mark.whole
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_supervisor(anew: Group, rank: int) -> None:
    def kill_the_supervisor() -> None:
        anew.fleet.root(HOSTS[rank], f"systemctl kill --signal KILL --kill-whom main {UNIT}")

    anew.recovers(kill_the_supervisor)


@pytest.mark.whole
@pytest.mark.parametrize("rank", [0, 1])
def test_docker_restarts(anew: Group, rank: int) -> None:
    def restart_docker() -> None:
        anew.fleet.root(HOSTS[rank], "systemctl restart docker")

    anew.recovers(restart_docker)


@pytest.mark.whole
@pytest.mark.parametrize("rank", [0, 1])
def test_a_host_loses_its_power(anew: Group, rank: int) -> None:
    """A worker's is a failure as any other; with the head the count of epochs begins anew."""
    before = anew.status(anew.head)["epoch"] if rank else 0
    anew.fleet.lab("power", "cycle", HOSTS[rank])
    took = anew.until(lambda: anew.is_serving(before) and anew.answers(), "it serves after the boot")
    print(f"\nrank {rank}, power off and on: answers {took} s after it")


@pytest.mark.whole
def test_a_cable_is_pulled(anew: Group) -> None:
    def pull_the_cable() -> None:
        out = time.monotonic()
        anew.fleet.lab("cable", "pull", "spark-2:1")
        anew.until(lambda: anew.status(anew.head)["state"] == "waiting", "the head waits for its rank")
        anew.until(lambda: anew.status(anew.worker)["state"] == "waiting", "the worker waits for its head")
        time.sleep(max(0.0, out + CABLE_OUT_S - time.monotonic()))
        anew.fleet.lab("cable", "plug", "spark-2:1")

    anew.recovers(pull_the_cable)


def test_a_stale_rank_is_removed_before_a_start(serving: Group) -> None:
    """Without the supervisor, this worker keeps the next head waiting for ever."""
    serving.stop()
    worker = serving.service(1)["run"]
    serving.fleet.root(serving.worker, shlex.join([worker[0], worker[1], "--detach", *worker[2:]]))
    serving.start()
    serving.until_serving()
    assert serving.answers()


@pytest.mark.whole
def test_an_owners_restart_of_a_worker_is_not_counted(anew: Group) -> None:
    def restart_the_worker() -> None:
        anew.fleet.root(anew.worker, f"systemctl restart {UNIT}")

    status = anew.recovers(restart_the_worker)
    assert "its owner stops it" in status["last_end"]
    assert status["starts_left"] == 2


def test_a_prompt_is_read_to_its_end_however_long_one_step_may_take(serving: Group) -> None:
    """It counts no token for more than twice as long as a step may take. A machine under load may miss a look at the
    metrics, which is no verdict on the prefill. The real vLLM, and hangs: test_long_prompts.py."""
    probes = serving.service(0)["probes"] | {"patience_s": 10}
    serving.place(environment={"VLLM_STAND_IN_PREFILL_SECONDS": "15"}, probes=probes, limits={"canary_s": 2})
    before = serving.until_serving()["epoch"]
    logged = len(serving.journal(serving.head).splitlines())
    assert serving.chat(prompt="x" * 1800) == "This"
    assert serving.status(serving.head)["epoch"] == before
    strikes = [line for line in serving.journal(serving.head).splitlines()[logged:] if "strike" in line]
    assert [line for line in strikes if "it gives no metrics" not in line] == []


def test_a_crash_loop_ends_with_its_budget(serving: Group) -> None:
    serving.place(environment={"VLLM_STAND_IN_LOAD_SECONDS": "never"})
    serving.until(lambda: serving.status(serving.head)["state"] == "stopped", "the budget is used up")
    status = serving.status(serving.head)
    assert "3 starts within 30 minutes did not last" in status["error"]
    assert f"systemctl start {UNIT}" in status["error"]
    assert serving.unit(serving.head) == "failed"
    assert serving.unit(serving.worker) == "active"
    assert serving.fleet.ssh(serving.head, "echo alive") == "alive\n"
    assert "ValueError" in serving.evidence(serving.head, "container.log")
    for host in HOSTS:
        assert not serving.fleet.root(host, "docker ps --quiet")
    serving.place()
    serving.until_serving()


@pytest.mark.whole
def test_ranks_with_other_definitions_do_not_start(serving: Group) -> None:
    serving.stop()
    serving.define(serving.service(1, definition="another"))
    serving.start()
    serving.until(lambda: "another definition" in serving.status(serving.head)["error"], "the head says so")
    serving.until(lambda: "another definition" in serving.status(serving.worker)["error"], "the worker says so")
    assert serving.status(serving.head)["state"] == "waiting"
    serving.place()
    serving.until_serving()


@pytest.mark.whole
def test_a_rank_without_the_secret_stays_out(serving: Group) -> None:
    serving.stop()
    serving.write(serving.worker, "/etc/gb10-fleet/secrets/pair", f"another-{SECRET}", mode="600")
    serving.start()
    serving.until(
        lambda: "this host has another secret of the group than the head" in serving.journal(serving.worker),
        "the rank says so",
    )
    assert serving.status(serving.head)["state"] == "waiting"
    serving.write(serving.worker, "/etc/gb10-fleet/secrets/pair", SECRET, mode="600")
    serving.restart()


def test_no_secret_is_found_on_the_hosts(serving: Group) -> None:
    """Also in the evidence of all that has failed before."""
    assert [leak for host in HOSTS for leak in leaks(serving.fleet, host, CONTAINER, [KEY, SECRET])] == []
