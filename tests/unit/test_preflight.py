"""What a host can't carry is refused before the first change."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._host.preflight import preflight

GIB = 1 << 30
NEEDS: dict[str, Any] = {
    "paths": ["/srv/tiny", "/store/snap", "/store"],
    "files": [{"path": "/srv/tiny", "place": "recipes/tiny.yml: model.source.path", "unless": "/store/snap"}],
    "disk": [{"path": "/store", "bytes": 10 * GIB, "what": "weights", "unless": "/store/snap"}],
    "ports": [{"port": 8003, "container": "gb10-vllm-nano", "place": "fleet_services.nano.port"}],
    "memory_bytes": 120 * GIB,
    "groups": [],
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
}
OURS = {"name": "gb10-vllm-nano", "id": "a" * 64, "ports": [8003]}


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
        (FINE | {"memory_bytes": {"total": 64 * GIB, "available": 60 * GIB}}, ["preflight-memory"]),
    ],
)
def test_what_is_in_the_way_is_named(state: dict[str, Any], expected: list[str]) -> None:
    assert rules(state) == expected


def test_a_model_that_was_taken_over_needs_neither_its_source_nor_disk() -> None:
    state = with_path("/store/snap", exists=True)
    state["paths"] |= {"/srv/tiny": {"exists": False, "free_bytes": 0}, "/store": {"exists": True, "free_bytes": 0}}
    assert rules(state) == []


def test_writes_to_one_file_system_count_together() -> None:
    needs = NEEDS | {"disk": [*NEEDS["disk"], {"path": "/srv/tiny", "bytes": 9 * GIB, "what": "image"}]}
    assert [finding.rule for finding in preflight(needs, FINE)] == ["preflight-disk"]


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
        (None, False, ["preflight-rank-missing"]),
    ],
)
def test_the_hosts_of_a_service_have_to_be_alike(other: Any, pinned: bool, expected: list[str]) -> None:
    states = {"spark-2": FINE | ALIKE} | ({"spark-3": FINE | other} if other else {})
    needs = NEEDS | {"groups": [PAIR | {"pinned": pinned}]}
    assert [finding.rule for finding in preflight(needs, states["spark-2"], states)] == expected
    assert preflight(needs, states["spark-2"]) == []
