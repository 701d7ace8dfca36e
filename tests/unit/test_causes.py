# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why an engine ended, from what real engines, Docker, NCCL and Ray print (tests/data/failing_logs.yml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import causes

DATA = Path(__file__).parents[1] / "data"
CORPUS: list[dict[str, Any]] = yaml.safe_load((DATA / "failing_logs.yml").read_text("utf-8"))
# Of these the words that tell were never printed.
SILENT = "NONE"
LOST = "ELSEWHERE"


def kind(found: causes.Cause | None) -> str:
    if found is None:
        return SILENT
    return LOST if found.elsewhere else found.found.partition(" (")[0]


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case["log"])
def test_a_failing_log_is_named(case: dict[str, Any]) -> None:
    found = causes.cause(case["lines"])
    assert kind(found) == case["kind"]
    assert found is None or (case["words"] in found.sentence and found.remedy)


def test_the_share_of_named_causes_is_documented() -> None:
    engines = {case["of"] for case in CORPUS}
    assert engines == {"vllm", "sglang", "llama.cpp", "trtllm", "ray", "nccl", "docker"}
    kinds = {found for found, _remedy, _kind in causes._COMPILED}
    named = [case for case in CORPUS if case["kind"] in kinds]
    share = f"{len(named)} of {len(CORPUS)}"
    assert len(named) >= 0.95 * len(CORPUS)
    assert share in (DATA.parents[1] / "docs" / "explanation" / "cluster.md").read_text("utf-8")


SHOWN: list[dict[str, Any]] = yaml.safe_load((DATA / "shown_logs.yml").read_text("utf-8"))


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: case["log"])
def test_a_statement_of_no_kind_is_shown_without_one(case: dict[str, Any]) -> None:
    """Each was given a wrong kind, or was not found."""
    found = causes.cause(case["lines"])
    assert (found.found if found else "") == case["found"]


HEALTHY = [
    file
    for file in sorted((DATA / "vllm_logs").glob("*.log"))
    if not any(word in file.name for word in ("killed", "too-small", "in-use"))
]


@pytest.mark.parametrize("file", HEALTHY, ids=lambda file: file.name)
def test_a_service_that_serves_has_no_cause(file: Path) -> None:
    assert causes.cause(file.read_text("utf-8").splitlines()) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("0.32.0-cpu-engine-killed.log", SILENT),
        ("0.32.0-cpu-nnodes-worker-killed.log", LOST),
        ("0.32.0-cpu-port-in-use.log", "its port is taken"),
        ("0.32.0-cpu-kv-too-small.log", "more context is asked for than the model or the KV pool holds"),
    ],
)
def test_recorded_ends(name: str, expected: str) -> None:
    assert kind(causes.cause((DATA / "vllm_logs" / name).read_text("utf-8").splitlines())) == expected


def test_a_gap_in_a_kind_has_an_end() -> None:
    """Found: 40 lines of nothing but "model path" took 113 seconds, in which the other ranks hear no beat."""
    assert [kind.pattern for _found, _remedy, kind in causes._COMPILED if ".*" in kind.pattern] == []


def test_an_exception_of_no_kind_is_shown_as_it_is() -> None:
    lines = ["(EngineCore pid=7) ERROR 09-01 12:00:01 [core.py:11] xgrammar.GrammarFault: it is purple"]
    found = causes.cause([*lines, "RuntimeError: Engine core initialization failed. See root cause above."])
    assert found is not None
    assert found.found == "xgrammar.GrammarFault: it is purple"


def test_an_assertion_without_words_shows_its_line() -> None:
    lines = [
        "[2026-09-01 12:00:01 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/sgl-workspace/sglang/python/sglang/srt/models/x.py", line 9, in __init__',
        "    assert self.total_num_heads % tp_size == 0",
        "AssertionError",
    ]
    found = causes.cause(lines)
    assert found is not None
    assert "assert self.total_num_heads % tp_size == 0" in found.sentence


def test_what_a_client_asked_is_no_cause() -> None:
    """Words of a request that an engine logs."""
    lines = ["INFO 09-01 12:00:01 [logger.py:40] Received request: prompt: 'CUDA out of memory, ValueError: x'"]
    assert causes.cause(lines) is None


def test_a_warning_of_ray_is_no_cause() -> None:
    """Found in the lab: each healthy node without a way to the internet prints it, and ends were explained by it."""
    words = "network_util.cc:330: Failed to determine local IP via external connectivity to: 8.8.8.8:53"
    for level in "WID":
        assert causes.cause([f"[2026-11-28 02:53:05,642 {level} 1 1] {words}"]) is None
    assert causes.cause([f"[2026-11-28 02:53:05,642 E 1 1] {words}"]) is not None


def test_what_only_points_elsewhere_is_no_cause() -> None:
    """Found in the lab: a killed worker's engine, whose remedy was to compare the recipe with the image."""
    lines = ["ERROR 11-26 22:33:01 [core.py:1101] EngineCore failed to start.", "RuntimeError: Executor failed."]
    assert causes.cause(lines) is None


@pytest.mark.parametrize(
    "last",
    [
        "Killed",
        "Rank 0 scheduler died (exit code: -9)",
        "Exception: Server process exited with code -9. See logs.",
        "process exited with return code -9",
        "worker 3 was killed by signal 9",
        "/usr/bin/entrypoint.sh: line 8: 1 Killed python -m vllm.entrypoints",
        "RuntimeError: Engine core initialization failed. Failed core proc(s): {'EngineCore': -9}",
    ],
)
def test_a_process_that_was_killed_is_named_and_is_no_cause(last: str) -> None:
    """Who did it, the kernel or a person, is what its host shows: a cause would keep that from being looked for."""
    lines = ["INFO 11-20 10:45:57 gpu_executor.py:102] # GPU blocks: 12453, # CPU blocks: 2730", last]
    assert causes.cause(lines) is None
    assert causes.explained(lines).startswith(f"a process was killed ({last}): `journalctl -k -g oom-kill`")


def test_an_engine_that_crashed_is_named_by_its_signal() -> None:
    lines = [
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. Failed core proc(s): {'EngineCore': -11}"
    ]
    assert causes.cause(lines) is None
    assert causes.explained(lines).startswith("the engine crashed (RuntimeError: Engine core initialization failed.")


def test_the_words_of_a_worker_are_shown_if_they_are_all() -> None:
    """Found in public reports: the lines above were gone, and the end of the log hid these words."""
    worker = "RuntimeError: Worker failed with error 'index 1 is out of bounds for dimension 0 with size 1'"
    found = causes.cause([worker, "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."])
    assert found is not None and found.found == worker


def test_an_internal_check_of_an_engine_is_no_setting() -> None:
    """Found among the engines' own statements: their weakest words are in many a check that no owner can change."""
    for words in ("RuntimeError: Invalid block found in popleft()", "AssertionError: fp8 weight scale cannot be zero."):
        found = causes.cause([f"(EngineCore pid=33) ERROR 09-01 12:00:01 [core.py:1101] {words}"])
        assert found is not None and found.found == words


def test_without_a_cause_the_last_lines_are_shown() -> None:
    assert causes.explained(["INFO a", "", "INFO b", "INFO c", "INFO d"]) == (
        "the cause is unknown; its last output: INFO b | INFO c | INFO d"
    )
    assert causes.explained([]).endswith("its last output: nothing")


def test_an_error_of_docker_is_read_whole_without_its_hint() -> None:
    lines = [
        "docker: driver failed (iptables failed: iptables: No chain/target/match by that name.",
        " (exit status 1)).",
        "",
        "Run 'docker run --help' for more information",
    ]
    assert causes.explained(lines) == (
        "Docker's own rules are gone from the packet filter, as after `nft flush ruleset` or a restart of "
        "nftables.service (docker: driver failed (iptables failed: iptables: No chain/target/match by that name. "
        "(exit status 1)).): site.yml, or `sudo systemctl restart docker`, makes them again"
    )


def test_words_around_the_cause_are_shown_of_a_long_statement() -> None:
    words = causes.explained([f"ValueError: {'x ' * 900}no kernel image is available {'y ' * 900}"])
    assert "no kernel image is available" in words
    assert len(words) < 600
