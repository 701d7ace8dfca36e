"""The docker command line and the unit that owns it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.service import Budget, Limits
from ansible_collections.gb10.fleet.plugins.module_utils._plan.container import Container, Mount, docker_run
from ansible_collections.gb10.fleet.plugins.module_utils._plan.ranks import rank_unit


def words(*, image: str = "img", arguments: tuple[str, ...] = (), **parts: Any) -> list[str]:
    return docker_run(Container("gb10-service-nano", image, arguments, **parts).as_data())


def test_a_solo_container_has_its_own_network_and_one_open_port() -> None:
    run = words(arguments=("m",), ports=[{"address": "10.0.0.1", "port": 8003}])
    assert "host" not in run
    assert run[run.index("--publish") + 1] == "10.0.0.1:8003:8003"
    assert run[-2:] == ["img", "m"]


@pytest.mark.parametrize("network", ["host", "bridge"])
def test_no_container_is_privileged(network: str) -> None:
    run = words(network=network)
    assert "--privileged" not in run and "--cap-add" not in run
    expected = {"security-opt": "no-new-privileges", "cap-drop": "ALL", "ipc": "private", "pids-limit": "16384"}
    assert {name: run[run.index(f"--{name}") + 1] for name in expected} == expected


def test_docker_keeps_no_log_of_a_container() -> None:
    """Of vLLM releases up to 0.31, the first line that they print has the API key in it."""
    run = words()
    assert run[run.index("--log-driver") + 1] == "none"


def test_what_a_container_is_given_otherwise_is_in_its_words() -> None:
    run = words(
        capabilities=("SYS_PTRACE",), ipc="host", pids_limit=512, memory_limit=1 << 30, read_only=True, tmpfs=("/tmp",)
    )
    text = " ".join(run)
    assert "--cap-drop ALL --cap-add SYS_PTRACE" in text
    assert (
        "--ipc host --pids-limit 512 --memory 1073741824 --oom-score-adj 900 --read-only --tmpfs /tmp:exec,mode=1777"
        in text
    )
    assert "--shm-size" not in run  # the host's


def test_mounts_are_read_only_unless_asked() -> None:
    run = words(mounts=[Mount("/a", "/b"), Mount("/c", "/d", read_only=False)])
    assert "type=bind,source=/a,target=/b,readonly" in run
    assert "type=bind,source=/c,target=/d" in run


def test_what_an_image_has_compiled_is_not_hidden() -> None:
    """Docker fills an empty volume from the image, and a bind mount never."""
    run = words(caches={"/root/.triton": "/var/cache/a"}, read_only=True)
    device = "volume-opt=type=none,volume-opt=o=bind,volume-opt=device=/var/cache/a"
    assert f"type=volume,volume-driver=local,{device},target=/root/.triton" in run


def test_the_environment_comes_in_a_stable_order() -> None:
    assert words(env={"B": "2", "A": "1"}) == words(env={"A": "1", "B": "2"})


def test_the_unit_leaves_the_budget_to_the_supervisor() -> None:
    """systemd starts a supervisor that dies, and not one that says with status 3 that the budget is used up."""
    unit = rank_unit("nano", "Nano", limits=Limits(3600, 300, 60, 60, 3, Budget(3, 600)), inventory="mine")
    assert "ExecStart=/usr/bin/python3 -P -m gb10_rank.supervise /etc/gb10-fleet/services/nano.json\n" in unit
    assert {"Restart=always", "RestartPreventExitStatus=3", "StartLimitIntervalSec=0"} <= {*unit.splitlines()}
    assert "TimeoutStopSec=480" in unit
    # Docker's client would hand SIGTERM on to the container, whose answers are to end first
    assert "KillMode=mixed\n" in unit


def test_the_data_of_a_container_is_json() -> None:
    parts: dict[str, Any] = {"mounts": (Mount("/a", "/b"),), "devices": ("/dev/x",), "capabilities": ("IPC_LOCK",)}
    data = Container("c", "img", ("m",), **parts).as_data()
    assert json.loads(json.dumps(data)) == data
