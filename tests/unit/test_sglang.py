# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SGLang as an engine: from the declaration to the words of each rank, its memory, and the stand-in that takes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.managed import keyed
from ansible_collections.gb10.fleet.plugins.module_utils._engines import options, paged
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.sglang import catalogue
from ansible_collections.gb10.fleet.plugins.module_utils._engines.sglang.catalogue import SPEC
from ansible_collections.gb10.fleet.plugins.module_utils._engines.sglang.engine import METRICS, Sglang
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import redaction, service
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from planned import found, ranks_of, values

GIB = 1 << 30
KEY = "sk-0123456789abcdef"
RECIPE: dict[str, Any] = {
    "name": "m",
    "summary": "A model",
    "engine": "sglang",
    "host_counts": [1, 2],
    "model": {"repository": "org/m", "revision": "a" * 40, "config": "qwen3-32b", "weights_bytes": 20 * GIB},
    "image": {
        "reference": "lmsysorg/sglang:v0.5.23-cu130",
        "digest": f"sha256:{'0' * 64}",
        "family": "upstream",
        "release": "0.5.23",
    },
    "status": {"state": "reported", "by": "us", "hardware": "none"},
    "sources": ["us"],
}
SWITCH = {"switches": {"s": {"ports": {"a:1": 1, "b:1": 2, "c:1": 3}}}}
FOLDER = f"/hf/hub/models--org--m/snapshots/{'a' * 40}"
# Of one token over all layers of qwen3-32b: keys and values of 8 heads of 128 numbers of two bytes in 64 layers.
CELL = 2 * 8 * 128 * 2 * 64


def plan(tmp_path: Path, settings: dict[str, Any], others: Any = MappingProxyType({}), **recipe: Any) -> dict[str, Any]:
    (tmp_path / "m.yml").write_text(yaml.safe_dump(RECIPE | recipe))
    library, of_recipes = load_all([SHIPPED_RECIPES, tmp_path])
    whole = {"recipe": "m", "hosts": ["a"], "port": 8000} | settings
    variables = {"fleet_services": {"m": whole, **others}, "fleet_fabric": SWITCH}
    hosts = {name: {"address": f"{name}.lan", "port": 22, "variables": variables} for name in "abc"}
    return plan_fleet({"hosts": hosts, "folder": str(tmp_path)}, library, of_recipes)


def test_the_plan_names_what_answers_without_the_key(tmp_path: Path) -> None:
    """SGLang passes whatever begins with /health or /metrics; behind a gateway nobody reaches it (security 14)."""

    def named(settings: dict[str, Any]) -> list[str]:
        rows = plan(tmp_path, WORKLOAD | settings)["findings"]
        return [row["found"] for row in rows if row["rule"] == "service-open-paths"]

    (found_,) = named({})
    assert found_.startswith("SGLang answers without the key: /health*")
    assert named({"listen": "127.0.0.1"}) == named({"open": True}) == []
    page = (SHIPPED_RECIPES.parent / "SECURITY.md").read_text()
    for engine in ENGINES.values():
        assert not engine.spec.open_paths or f"| {engine.spec.title} |" in page


WORKLOAD = {"workload": {"max_model_len": 32768, "max_num_seqs": 4}}


def test_alone_it_is_planned_to_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key").chmod(0o600)
    planned = plan(tmp_path, {"api_key_file": "key", **WORKLOAD})
    assert (found(planned), found(planned, "warning"), found(planned, "hint")) == (
        [],
        [],
        ["memory-not-measured", "service-open-paths"],
    )
    (rank,) = ranks_of(planned, "m")
    assert rank["container"]["entrypoint"] == "python3"
    module, *words = rank["container"]["arguments"][1:]
    assert module == "sglang.launch_server"
    given = values(words)
    assert (given["--model-path"], given["--served-model-name"]) == (FOLDER, "org/m")
    assert (given["--context-length"], given["--max-running-requests"]) == ("32768", "4")
    assert (given["--host"], given["--port"], given["--config"]) == ("0.0.0.0", "8000", "/run/secrets/sglang.yaml")
    assert "--enable-metrics" in words
    assert not {"--tp-size", "--nnodes", "--dist-init-addr"} & {*words}
    assert KEY not in json.dumps(planned)
    read = service.from_plan(rank["supervisor"])
    assert (read.ports, read.endpoint and read.endpoint.key_form) == ([8000], "api-key: %s\n")
    assert rank["container"]["env"]["HF_HUB_OFFLINE"] == "1"


DRAFTS = {"speculative-algorithm": "EAGLE3", "speculative-draft-model-path": "org/eagle"}


def test_a_model_that_drafts_is_staged_and_counted(tmp_path: Path) -> None:
    """A start is offline: what was named and not staged ended it."""
    draft = {"repository": "org/eagle", "revision": "d" * 40, "config": "qwen3-0.6b", "weights_bytes": GIB}
    planned = plan(tmp_path, WORKLOAD, model=RECIPE["model"] | {"draft": draft}, flags=DRAFTS)
    assert found(planned) == []
    assert {one["repository"] for one in planned["hosts"]["a"]["models"]} == {"org/m", "org/eagle"}
    (rank,) = ranks_of(planned, "m")
    given = values(rank["container"]["arguments"])
    assert given["--speculative-draft-model-path"] == f"/hf/hub/models--org--eagle/snapshots/{'d' * 40}"
    alone, drafted = (one["hosts"]["a"]["memory"]["m"] for one in (plan(tmp_path, WORKLOAD), planned))
    assert drafted["weights"]["high"] - alone["weights"]["high"] == GIB
    # qwen3-0.6b keeps keys and values of its own: 8 heads of 128 numbers in 28 layers
    kept = [one["services"]["m"]["kv"] for one in (plan(tmp_path, WORKLOAD), planned)]
    assert kept[1]["tokens"] == kept[0]["tokens"] and kept[1]["bytes"] > kept[0]["bytes"]
    unknown = plan(tmp_path, WORKLOAD | {"flags": DRAFTS})
    assert "memory-drafter-unknown" in found(unknown, "warning")
    by_folder = {**DRAFTS, "speculative-draft-model-path": "/models/eagle"}
    assert "memory-drafter-unknown" not in found(plan(tmp_path, WORKLOAD | {"flags": by_folder}), "warning")


def test_over_hosts_all_ranks_meet_at_the_head_and_it_alone_is_an_endpoint(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    planned = plan(tmp_path, {"hosts": ["b", "a"], "api_key_file": "key", **WORKLOAD})
    assert found(planned) == []
    head, worker = ranks_of(planned, "m")
    address = head["supervisor"]["address"]
    assert address.startswith("192.168.")
    for number, rank in enumerate((head, worker)):
        given = values(rank["container"]["arguments"])
        assert (given["--nnodes"], given["--node-rank"], given["--tp-size"]) == ("2", str(number), "2")
        assert given["--dist-init-addr"] == f"{address}:22000"
        assert rank["container"]["env"]["SGLANG_HOST_IP"] == rank["supervisor"]["address"]
        assert rank["container"]["env"]["NCCL_SOCKET_IFNAME"]
    given = values(worker["container"]["arguments"])
    assert (given["--host"], "--config" in given) == ("127.0.0.1", False), "it answers /health to its own host alone"
    assert [mount["target"] for mount in worker["container"]["mounts"]] == ["/hf"], "no secret"
    assert (head["supervisor"]["ports"], 22000 in [row["port"] for row in planned["hosts"]["b"]["listens"]]) == (
        [8000, 22000],
        True,
    )


@pytest.mark.parametrize(
    ("settings", "recipe", "rules"),
    [
        ({"flags": {"host": "0.0.0.0"}}, {}, ["recipe-planned-flag"]),
        ({"flags": {"admin-api-key": "x"}}, {}, ["recipe-planned-flag"]),
        ({"flags": {"grpc-port": 9000}}, {}, ["recipe-planned-flag"]),
        ({"env": {"SGLANG_HOST_IP": "10.0.0.1"}}, {}, ["recipe-planned-env"]),
        ({"flags": {"context-lenght": 4096}}, {}, ["sglang-option-unknown"]),
        ({"flags": {"kv-cache-dtype": "int8"}}, {}, ["sglang-option-value"]),
        ({"flags": {"disable-radix-cache": "yes"}}, {}, ["sglang-option-value"]),
        ({"flags": {"tp-size": 1, "tensor-parallel-size": 1}}, {}, ["sglang-option-twice"]),
        ({"flags": {"tp-size": 2}}, {}, ["sglang-ranks"]),
        ({"flags": {"pp-size": 3}, "hosts": ["a", "b"]}, {}, ["sglang-ranks"]),
        ({"flags": {"pp-size": 2}, "hosts": ["a", "b"]}, {}, []),
        ({}, {"kind": "rerank"}, ["sglang-kind"]),
        ({"tracing": {"endpoint": "http://10.0.0.9:4318"}}, {}, ["service-tracing-engine"]),
    ],
)
def test_what_it_would_refuse_is_refused_before(
    tmp_path: Path, settings: dict[str, Any], recipe: dict[str, Any], rules: list[str]
) -> None:
    assert found(plan(tmp_path, settings, **recipe)) == rules


@pytest.mark.parametrize(
    ("settings", "changes", "rule"),
    [
        ({"hosts": ["a", "b"]}, {"model": {"repository": "org/m-AWQ"}}, "sglang-awq-group"),
        (
            {},
            {"image": {"reference": "lmsysorg/sglang:spark"}, "model": {"config": "qwen3-vl-8b"}},
            "sglang-spark-image",
        ),
        ({"flags": {"kv-cache-dtype": "nvfp4"}}, {}, "sglang-fp4-cache"),
        ({"hosts": ["a", "b"], "flags": {"fp4-gemm-backend": "cutlass"}}, {}, "sglang-fp4-cutlass"),
        ({"hosts": ["a", "b"]}, {"image": {"release": "0.5.12"}}, "sglang-graphs-group"),
    ],
)
def test_what_others_saw_is_shown_until_it_is_silenced(
    tmp_path: Path, settings: dict[str, Any], changes: dict[str, Any], rule: str
) -> None:
    recipe = {part: RECIPE[part] | changed for part, changed in changes.items()}
    assert rule in found(plan(tmp_path, settings, **recipe), "warning")
    assert rule not in found(plan(tmp_path, {**settings, "silence": {rule: "seen otherwise"}}, **recipe), "warning")
    assert not {rule} & {*found(plan(tmp_path, {}), "warning")}


def test_graphs_over_hosts_are_well_without_them_or_in_a_later_release(tmp_path: Path) -> None:
    for release, flags in (("0.5.12", {"disable-cuda-graph": True}), ("0.5.20", {})):
        recipe = {"image": RECIPE["image"] | {"release": release}}
        shown = found(plan(tmp_path, {"hosts": ["a", "b"], "flags": flags}, **recipe), "warning")
        assert "sglang-graphs-group" not in shown


@pytest.mark.parametrize(("release", "rules"), [("0.5.9", ["sglang-tls"]), ("0.5.23", [])])
def test_a_release_without_tls_is_named(tmp_path: Path, release: str, rules: list[str]) -> None:
    image = {**RECIPE["image"], "release": release}
    planned = plan(tmp_path, {"tls": "local"}, image=image)
    assert found(planned) == rules
    for rank in ranks_of(planned, "m") if not rules else ():
        given = values(rank["container"]["arguments"])
        assert (given["--ssl-certfile"], given["--ssl-keyfile"]) == ("/run/secrets/tls.crt", "/run/secrets/tls.key")


def test_what_nobody_knows_is_not_judged(tmp_path: Path) -> None:
    image = {**RECIPE["image"], "release": "0.9.0"}
    planned = plan(
        tmp_path, {"flags": {"no-such": 1}}, image=image, model={**RECIPE["model"], "config": "gpt-oss-120b"}
    )
    assert {"sglang-not-judged", "memory-not-judged"} <= {*found(planned, "hint")}
    assert found(planned) == []
    silenced = plan(tmp_path, {"silence": {"sglang-not-judged": "our own build"}}, image=image)
    assert "sglang-not-judged" not in found(silenced, "hint")


# Memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "cell"),
    [
        (WORKLOAD, CELL),
        ({**WORKLOAD, "hosts": ["b", "a"]}, CELL // 2),
        ({**WORKLOAD, "hosts": ["b", "a"], "flags": {"pp-size": 2}}, CELL // 2),
        ({**WORKLOAD, "flags": {"kv-cache-dtype": "fp8_e4m3"}}, CELL // 2),
    ],
)
def test_the_pool_is_promised_in_tokens_and_finds_room(tmp_path: Path, settings: dict[str, Any], cell: int) -> None:
    planned = plan(tmp_path, settings)
    kv, given = planned["services"]["m"]["kv"], values(ranks_of(planned, "m")[0]["container"]["arguments"])
    assert (kv["tokens"], kv["max_concurrency"], kv["exact"]) == (4 * 32768, 4.0, True)
    assert kv["bytes"] == (4 * 32768 + 64) * cell, "one page more is allocated"
    assert given["--max-total-tokens"] == str(4 * 32768)
    # at the least that is free before it starts, as SGLang calculates
    host = planned["hosts"][planned["services"]["m"]["hosts"][0]]["memory"]["m"]
    total = 127601452 << 10
    free = total - host["reserve"]["high"] - host["processes"]["high"]
    left = free - host["weights"]["high"] - (1 - float(given["--mem-fraction-static"])) * free
    assert left >= kv["bytes"]


def test_without_a_known_cache_it_gets_what_is_free_within_limits(tmp_path: Path) -> None:
    planned = plan(tmp_path, WORKLOAD, model={**RECIPE["model"], "config": "gpt-oss-120b"})
    given = values(ranks_of(planned, "m")[0]["container"]["arguments"])
    assert "--max-total-tokens" not in given
    assert 0.5 < float(given["--mem-fraction-static"]) < 0.9
    assert planned["services"]["m"]["kv"]["tokens"] is None


@pytest.mark.parametrize("written", [{"mem-fraction-static": 0.5}, {"max-total-tokens": 4096}])
def test_what_an_owner_writes_stays(tmp_path: Path, written: dict[str, Any]) -> None:
    planned = plan(tmp_path, {**WORKLOAD, "flags": written})
    given = values(ranks_of(planned, "m")[0]["container"]["arguments"])
    assert given.items() >= {f"--{name}": str(value) for name, value in written.items()}.items()


@pytest.mark.parametrize(("pool", "tokens"), [("least", 131072), (8192, 8192), ("8GiB", None), ("rest", None)])
def test_a_declared_pool_is_the_pool(tmp_path: Path, pool: Any, tokens: int | None) -> None:
    planned = plan(tmp_path, {"workload": {"max_model_len": 32768, "max_num_seqs": 4, "pool": pool}})
    kv = planned["services"]["m"]["kv"]
    assert found(planned) == []
    assert kv["tokens"] == (tokens or (8 * GIB // CELL // 64 - 1) * 64 if pool == "8GiB" else tokens or kv["tokens"])
    assert kv["tokens"] > 131072 if pool == "rest" else True


def test_hosts_that_it_would_refuse_together_are_named(tmp_path: Path) -> None:
    other = {"other": {"recipe": "m", "hosts": ["b"], "port": 8100, **WORKLOAD}}
    there = {"hosts": ["a", "b"], **WORKLOAD}
    assert found(plan(tmp_path, there, others=other)) == ["sglang-memory-unbalanced"]
    allowed = {"env": {"SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": "false"}}
    assert found(plan(tmp_path, there | allowed, others=other)) == []


# What it says, and its key ----------------------------------------------------------------------------------------

LOG = """[2026-11-24 10:00:00] server_args=ServerArgs(model_path='/hf/x', api_key='sk-0123456789abcdef', tp_size=1)
[2026-11-24 10:00:09] Load weight end. elapsed=8.10 s, type=Qwen3, avail mem=98.11 GB, mem usage=18.72 GB.
[2026-11-24 10:00:10] max_total_num_tokens=131072, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=4, context_len=32768, available_gpu_mem=60.11 GB
"""


def test_a_start_is_read() -> None:
    boot = Sglang().boot(LOG)
    assert (boot.weights_gib, boot.kv_cache_tokens, boot.max_model_len) == (18.72, 131072, 32768)
    assert boot.max_concurrency == 4.0
    assert Sglang().boot("").as_dict() == Sglang().boot("nothing").as_dict()


@pytest.mark.parametrize("key", [KEY, 'with "quotes" and \\'])
def test_the_key_is_in_a_file_and_hidden_where_sglang_prints_it(tmp_path: Path, key: str) -> None:
    file = tmp_path / "key"
    file.write_text(keyed(SPEC.key.form)(key + "\n"))
    assert yaml.safe_load(file.read_text()) == {"api-key": key}
    assert service.read_key(str(file), SPEC.key.form) == key
    printed = f"server_args=ServerArgs(api_key={key!r})"
    assert redaction.redacted(printed, redaction.spellings(key)) == printed.replace(repr(key)[1:-1], "***")


# The options ------------------------------------------------------------------------------------------------------


def test_the_catalogue_is_as_its_tool_writes_it() -> None:
    assert options.as_json(catalogue.load()) == catalogue.DATA.read_text("utf-8")
    assert {"0.5.3.post3", "0.5.9", catalogue.NEWEST} <= {*catalogue.load()}
    assert all(len({*release.options.values()}) > 250 for release in catalogue.load().values())


@pytest.mark.parametrize("release", sorted(catalogue.load()))
def test_each_release_has_the_options_that_a_plan_writes(release: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    planned = plan(tmp_path, {"hosts": ["a", "b"], "api_key_file": "key", **WORKLOAD})
    known = catalogue.load()[release].options
    for rank in ranks_of(planned, "m"):
        assert [word for word in rank["container"]["arguments"] if word[:2] == "--" and word[2:] not in known] == []


def test_words_are_read_as_argparse_takes_them() -> None:
    known = catalogue.load()[catalogue.NEWEST]
    words = "--tp 2 --model=org/x --cuda-graph-bs-decode 1 2 4 --trust-remote-code --unheard of --temp -1.5"
    assert options.read_words(words.split(), known) == {
        "tp-size": 2,
        "model-path": "org/x",
        "cuda-graph-bs-decode": [1, 2, 4],
        "trust-remote-code": True,
        "unheard": "of",
        "temp": -1.5,
    }


def test_values_become_words() -> None:
    written = {"a": True, "b": False, "c": None, "d": [1, 2], "e": {"x": 1}, "f": 0.5}
    assert [*options.words_of(written)] == ["--a", "--d", "1", "2", "--e", '{"x":1}', "--f", "0.5"]


@pytest.mark.parametrize(
    ("reference", "family", "release"),
    [
        ("lmsysorg/sglang:v0.5.9-cu130", "upstream", "0.5.9"),
        ("lmsysorg/sglang:v0.5.12.post1", "upstream", "0.5.12.post1"),
        ("docker.io/lmsysorg/sglang:spark", "upstream", "0.5.3.post3"),
        ("lmsysorg/sglang:latest-cu130", "upstream", None),
        ("nvcr.io/nvidia/sglang:26.02-py3", "ngc", None),
    ],
)
def test_images_are_known_by_their_names(reference: str, family: str, release: str | None) -> None:
    assert Sglang().image_facts(reference) == {"reference": reference, "family": family, "release": release}


@pytest.mark.parametrize(("needed", "free", "part"), [(1, 0, 0.99), (-1, 0, 0.0), (1, 3, 0.3334), (3, 3, 0.99)])
def test_a_part_is_of_what_is_free_beside_the_processes(needed: int, free: int, part: float) -> None:
    share: Any = type("Share", (), {"free": free + 5, "processes": type("Processes", (), {"high": 5})})
    assert paged.free_part(needed, share) == part


def series() -> Iterator[str]:
    yield from METRICS.tokens
    yield from SPEC.series.values()


def test_nothing_is_asked_for_that_is_no_series_of_its_own() -> None:
    assert {name.partition(":")[0] for name in series()} == {"sglang"}
