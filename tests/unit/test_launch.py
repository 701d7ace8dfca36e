"""The docker command line and the unit that owns it."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._plan.launch import (
    Container,
    Mount,
    docker_run,
    exec_words,
    service_unit,
)
from hypothesis import given
from hypothesis import strategies as st


def unquote(line: str) -> list[str]:
    """systemd's own reading of a command line (systemd.service(5)), enough of it to check what we write."""
    words = []
    for quoted, plain in re.findall(r'"((?:\\.|[^"\\])*)"|(\S+)', line.replace(" \\\n", " ")):
        text = plain or re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), quoted)
        words.append(text.replace("%%", "%").replace("$$", "$"))
    return words


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"], include_characters=' "\\\n\t%$')))
)
def test_systemd_reads_back_what_was_meant(argv: list[str]) -> None:
    assert unquote(exec_words(argv)) == argv


def test_a_json_flag_survives() -> None:
    value = json.dumps({"method": "mtp", "num_speculative_tokens": 2})
    assert unquote(exec_words(["--speculative-config", value]))[1] == value


def test_a_solo_container_has_its_own_network_and_one_open_port() -> None:
    run = docker_run(Container("gb10-vllm-nano", "img", ["m"], published=[("10.0.0.1", 8003)]))
    assert "host" not in run
    assert run[run.index("--publish") + 1] == "10.0.0.1:8003:8003"
    assert run[-2:] == ["img", "m"]


@pytest.mark.parametrize("host_network", [True, False])
def test_no_container_is_privileged(host_network: bool) -> None:
    run = docker_run(Container("c", "img", [], host_network=host_network))
    assert "--privileged" not in run
    assert run[run.index("--security-opt") + 1] == "no-new-privileges"


def test_mounts_are_read_only_unless_said() -> None:
    run = docker_run(Container("c", "img", [], mounts=[Mount("/a", "/b"), Mount("/c", "/d", read_only=False)]))
    assert "type=bind,source=/a,target=/b,readonly" in run
    assert "type=bind,source=/c,target=/d" in run


def test_the_environment_comes_in_a_stable_order() -> None:
    one = docker_run(Container("c", "img", [], environment={"B": "2", "A": "1"}))
    other = docker_run(Container("c", "img", [], environment={"A": "1", "B": "2"}))
    assert one == other


def test_the_unit_restarts_a_service_whose_engine_died_with_status_0_and_ends_a_crash_loop() -> None:
    unit = service_unit("nano", ["/usr/bin/docker", "run", "img"], ["/bin/true"], "Nano")
    assert "Restart=always" in unit
    assert "StartLimitBurst=3" in unit
    assert "ExecStop=/usr/bin/docker stop --time 30 gb10-vllm-nano" in unit
