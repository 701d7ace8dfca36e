"""What a host can't carry is refused before the first change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.filter import internal
from ansible_collections.gb10.fleet.plugins.filter.internal import preflight_sentences
from ansible_collections.gb10.fleet.plugins.module_utils._plan.preflight.needs import (
    lets_others_in,
    made_elsewhere,
    preflight,
)
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.reading import indexed_bytes
from ansible_collections.gb10.fleet.plugins.module_utils._subjects import state as host_state
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.state import filesystem

GIB = 1 << 30
NO_READERS: dict[str, Any] = {"inventory": "mine", "reads": {}, "readers": {}, "files": {}}
NEEDS: dict[str, Any] = {
    "paths": ["/srv/tiny", "/store/snap", "/store"],
    "files": [{"path": "/srv/tiny", "service": "nano", "option": "model.source.path", "unless": "/store/snap"}],
    "disk": [{"path": "/store", "bytes": 10 * GIB, "what": "weights", "unless": "/store/snap"}],
    "ports": [{"port": 8003, "container": "gb10-service-nano", "service": "nano", "option": "port"}],
    "secrets": [{"source": "/mine/.fleet/keys/nano.key", "path": "/etc/nano.key", "service": "nano", "option": ""}],
    "memory_bytes": 120 * GIB,
    "groups": [],
    "launches": [],
}
FINE: dict[str, Any] = {
    "paths": {
        "/srv/tiny": {"exists": True, "free_bytes": 20 * GIB},
        "/store/snap": {"exists": False, "free_bytes": 20 * GIB},
        "/store": {"exists": False, "free_bytes": 20 * GIB},
    },
    "listening": [],
    "containers": [],
    "memory_bytes": {"total": 121 * GIB, "available": 100 * GIB},
    "driver": "580.95.05",
}
PROXY = {"port": 8003, "process": "docker-proxy", "container": ""}
OTHER = {"name": "open-webui", "id": "b" * 64, "ports": [8003]}
OURS = {"name": "gb10-service-nano", "id": "a" * 64, "ports": [8003]}


def rules(state: dict[str, Any]) -> list[str]:
    return [finding.rule for finding in preflight(NEEDS, state)]


def with_path(path: str, **reading: Any) -> dict[str, Any]:
    return FINE | {"paths": FINE["paths"] | {path: FINE["paths"][path] | reading}}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (FINE, []),
        (with_path("/srv/tiny", exists=False), ["preflight-file"]),
        (with_path("/store", free_bytes=10 * GIB), ["preflight-disk"]),
        (FINE | {"listening": [{"port": 8003, "process": "nginx", "container": ""}]}, ["preflight-port"]),
        (FINE | {"listening": [{"port": 8003, "process": "docker-proxy", "container": ""}], "containers": [OURS]}, []),
        (FINE | {"listening": [{"port": 8003, "process": "python3", "container": "a" * 64}], "containers": [OURS]}, []),
        # the service itself, as an earlier release has named its container
        (FINE | {"listening": [PROXY], "containers": [OURS | {"name": "gb10-vllm-nano"}]}, []),
        (FINE | {"listening": [PROXY], "containers": [OURS | {"name": "gb10-vllm-other"}]}, ["preflight-port"]),
        (FINE | {"listening": [PROXY], "containers": [OTHER]}, ["preflight-port"]),
        (FINE | {"listening": [PROXY], "containers": []}, ["preflight-port"]),
        # Docker gave no answer: whose container it is can't be known
        (FINE | {"listening": [PROXY], "containers": None}, []),
        (FINE | {"listening": [{"port": 8003, "process": "vllm", "container": "a" * 64}], "containers": None}, []),
        (
            FINE | {"listening": [{"port": 8003, "process": "nginx", "container": ""}], "containers": None},
            ["preflight-port"],
        ),
        (FINE | {"memory_bytes": {"total": 64 * GIB, "available": 60 * GIB}}, ["preflight-memory"]),
    ],
)
def test_what_is_in_the_way_is_named(state: dict[str, Any], expected: list[str]) -> None:
    assert rules(state) == expected


@pytest.mark.parametrize(
    ("kept", "is_there", "expected"),
    [
        ([], True, ["preflight-secret"]),
        (["/mine/.fleet/keys/other.key"], True, ["preflight-secret"]),
        (["/mine/.fleet/keys/nano.key"], True, []),
        ([], False, []),
        (None, True, []),
    ],
)
def test_a_secret_that_another_controller_made_is_not_made_again(
    kept: list[str] | None, is_there: bool, expected: list[str]
) -> None:
    there = FINE | {"paths": FINE["paths"] | {"/etc/nano.key": {"exists": is_there, "free_bytes": 0}}}
    found = [*made_elsewhere(NEEDS, there, kept)]
    assert [one.rule for one in found] == expected
    assert all("copy /mine/.fleet/keys from there" in one.remedy for one in found)
    # on no host of the run: they would get what is of another secret
    plan = {"needs": NEEDS, "peer_access": NO_READERS}
    ends = [preflight_sentences(plan, "titan", there, severity=of, kept=kept) for of in ("run", "error")]
    assert ends == [[one.sentence() for one in found], []]


@pytest.mark.parametrize(
    ("readers", "given", "expected"),
    [
        ({"beast": []}, "home", ["peer-access-foreign"]),
        ({"beast": []}, "mine", []),
        ({"beast": []}, "", []),
        ({"beast": []}, None, []),
        ({}, "home", []),
    ],
)
def test_a_host_lets_readers_of_one_inventory_in(
    readers: dict[str, Any], given: str | None, expected: list[str]
) -> None:
    plan = {"needs": NEEDS, "peer_access": NO_READERS | {"readers": readers}}
    state = FINE | {"peers_inventory": given}
    found = [*lets_others_in(plan["peer_access"], state)]
    assert [one.rule for one in found] == expected
    assert all("for beast" in one.remedy and "fleet_name: home" in one.remedy for one in found)
    ends = [preflight_sentences(plan, "titan", state, severity=of) for of in ("run", "error")]
    assert ends == [[one.sentence() for one in found], []]


def test_a_port_that_others_hold_refuses_a_run_and_neither_staging_nor_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Staging starts nothing, and a check shows the change while others serve; a run after it is refused."""
    monkeypatch.setattr(internal, "obstacles", lambda *_words: [])
    plan = {"needs": {**NEEDS, "files": [], "disk": []}, "peer_access": NO_READERS}
    listener = {"port": 8003, "address": "", "process": "vllm", "container": ""}
    state = FINE | {"listening": [listener], "containers": []}
    ways: list[dict[str, Any]] = [{}, {"others": {}}, {"others": {}, "checking": True}]
    refused = ["".join(preflight_sentences(plan, "titan", state, **way)) for way in ways]
    assert ["port 8003 is taken" in words for words in refused] == [False, True, False]


LAUNCH: dict[str, Any] = {
    "container": "gb10-service-nano",
    "service": "nano",
    "engine": "vllm",
    "request": {
        "command": ["docker", "run", "vllm/vllm-openai:v0.24.0", "org/model", "--gpu-memory-utilization", "0.9"],
        "model": {"repository": "org/model"},
        "host": {"memory_bytes": 121 * GIB},
    },
}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (FINE, ["R098"]),
        (FINE | {"containers": [OURS]}, []),
        (FINE | {"memory_bytes": {"total": 121 * GIB, "available": 115 * GIB}}, []),
        (FINE | {"containers": [OURS], "paths": {"/var/lib/gb10-fleet/hf": {"filesystem": "overlay"}}}, ["R134"]),
        (FINE | {"containers": [OURS], "paths": {"/var/lib/gb10-fleet/hf": {"filesystem": "ext4"}}}, []),
        (FINE | {"memory_bytes": None, "paths": None, "driver": None}, []),
    ],
)
def test_the_linters_rules_are_judged_with_what_only_the_host_knows(state: dict[str, Any], expected: list[str]) -> None:
    findings = preflight(NEEDS | {"files": [], "disk": [], "ports": [], "launches": [LAUNCH]}, state)
    assert [finding.rule for finding in findings] == expected
    assert {finding.severity for finding in findings} <= {"warning"}


@pytest.mark.parametrize(
    ("planned", "on_host", "remedy"),
    [
        (None, 20 * GIB, [f"write model.weights_bytes: {20 * GIB}, and the memory is planned with it"]),
        (20 * GIB, 20 * GIB + 1, []),
        (10 * GIB, 20 * GIB, [f"write model.weights_bytes: {20 * GIB}, and the memory is planned with it"]),
        (10 * GIB, None, []),
    ],
)
def test_the_size_that_a_checkpoint_states_is_reported(
    planned: int | None, on_host: int | None, remedy: list[str]
) -> None:
    file = NEEDS["files"][0] | {"weights_bytes": planned}
    findings = preflight(NEEDS | {"files": [file]}, with_path("/srv/tiny", weights_bytes=on_host))
    assert [finding.remedy for finding in findings] == remedy
    assert all(finding.place == "fleet_services.nano.model.weights_bytes" for finding in findings)


MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / /var/lib rw - overlay overlay rw
31 22 8:2 / /srv/my\\040models rw master:1 - xfs /dev/sdb rw
"""


@pytest.mark.parametrize(
    ("path", "kind"), [("/", "ext4"), ("/var/lib/x", "overlay"), ("/var/library", "ext4"), ("/srv/my models/a", "xfs")]
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    assert filesystem(MOUNTS, path) == kind


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"metadata": {"total_size": 123}}', 123),
        ('{"metadata": {"total_size": 1e3}}', 1000),
        ('{"metadata": {"total_size": -1}}', None),
        ('{"metadata": {"total_size": NaN}}', None),
        ('{"metadata": []}', None),
        ("[", None),
        (None, None),
    ],
)
def test_the_size_in_an_index(tmp_path: Path, text: str | None, found: int | None) -> None:
    index = tmp_path / "model.safetensors.index.json"
    if text is not None:
        index.write_text(text, encoding="utf-8")
    assert indexed_bytes(index) == found


@pytest.mark.parametrize(
    ("listener", "containers", "found", "remedy"),
    [
        (PROXY, [OTHER], "port 8003 is taken by the container open-webui", "docker stop open-webui"),
        (PROXY | {"container": "b" * 64}, [OTHER], "port 8003 is taken by the container open-webui", "docker stop"),
        (PROXY, [], "port 8003 is taken by a docker-proxy that outlived", "pkill -KILL -f 'docker-prox[y] .*-host-"),
        (PROXY | {"process": "nginx"}, [], "port 8003 is taken by nginx", "ss -ltnp sport = :8003"),
        (PROXY | {"process": ""}, [], "port 8003 is taken by another process", "ss -ltnp sport = :8003"),
    ],
)
def test_who_holds_a_port_is_named(listener: Any, containers: list[Any], found: str, remedy: str) -> None:
    (finding,) = preflight(NEEDS, FINE | {"listening": [listener], "containers": containers})
    assert finding.found.startswith(found)
    assert remedy in finding.remedy


def test_a_model_that_was_taken_over_needs_neither_its_source_nor_disk() -> None:
    state = with_path("/store/snap", exists=True)
    state["paths"] |= {"/srv/tiny": {"exists": False, "free_bytes": 0}, "/store": {"exists": True, "free_bytes": 0}}
    assert rules(state) == []


def test_writes_to_one_file_system_count_together() -> None:
    needs = NEEDS | {"disk": [*NEEDS["disk"], {"path": "/srv/tiny", "bytes": 9 * GIB, "what": "image"}]}
    assert [finding.rule for finding in preflight(needs, FINE)] == ["preflight-disk"]


@pytest.mark.parametrize(
    ("moments", "looks"),
    [
        ([([PROXY], [OURS])], 1),
        # the container of a service that restarts is not there yet, or was removed a moment ago
        ([([PROXY], []), ([PROXY], [OURS])], 2),
        ([([PROXY], []), ([PROXY], []), ([], [])], 3),
        # a proxy that outlived its container stays to be judged
        ([([PROXY], [])] * 9, 7),
        ([([PROXY], None)], 1),
        ([(None, [])], 1),
        ([([{"port": 8003, "process": "nginx", "container": ""}], [])], 1),
    ],
)
def test_docker_listens_for_a_container_that_comes_or_goes(
    moments: list[Any], looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    monkeypatch.setattr(host_state.time, "sleep", seen.append)
    parts = {"listening": lambda: moments[len(seen)][0], "containers": lambda: moments[len(seen)][1], "driver": str}
    state, unknown = host_state.settled(*host_state.read_parts(parts, 9), parts)
    assert (state["listening"], state["containers"], len(seen) + 1) == (*moments[looks - 1], looks)
    assert (state["driver"], unknown) == ("", {})


def test_what_could_not_be_read_is_not_judged() -> None:
    unread = dict.fromkeys(FINE)
    assert "preflight-memory" not in rules(unread)
    assert "preflight-port" not in rules(unread)


PAIR = {"service": "pair", "hosts": ["spark-2", "spark-3"], "image": "img:1", "pinned": False}
ALIKE: dict[str, Any] = {"architecture": "aarch64", "driver": "580.142", "images": {"img:1": "one"}}


@pytest.mark.parametrize(
    ("other", "pinned", "expected"),
    [
        (ALIKE, False, []),
        (ALIKE | {"images": {"img:1": None}}, False, []),
        (ALIKE | {"images": None, "driver": None}, False, []),
        (ALIKE | {"images": {"img:1": "two"}}, False, ["preflight-rank-differs"]),
        (ALIKE | {"images": {"img:1": "two"}}, True, []),
        (ALIKE | {"driver": "580.95"}, False, ["preflight-rank-differs"]),
        # it is left as it is, and the host goes on
        (None, False, []),
    ],
)
def test_the_hosts_of_a_service_have_to_be_alike(other: Any, pinned: bool, expected: list[str]) -> None:
    states = {"spark-2": FINE | ALIKE} | ({"spark-3": FINE | other} if other else {})
    needs = NEEDS | {"groups": [PAIR | {"pinned": pinned}]}
    assert [finding.rule for finding in preflight(needs, states["spark-2"], states)] == expected
    assert preflight(needs, states["spark-2"]) == []
