# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""llama.cpp as an engine: from the declaration to the words of each rank, and its memory against the real program's."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.managed import keyed
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp import boot_log, catalogue, projector
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.boot_log import parse_boot_log
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.buffers import Settings, buffers
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.engine import LlamaCpp
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.launch import words_of
from ansible_collections.gb10.fleet.plugins.module_utils._engines.options import judge
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.gguf import facts_of, projector_of, read_header
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import head as rank_head
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import service
from ansible_collections.gb10.fleet.plugins.module_utils._plan.container import docker_run
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from lab.vllm.gguf_files import Projector, Shape, header, write
from llama_shapes import EYES, PROGRAM, ROWS, EyeRow, Row, options, printed, printed_of
from planned import found, ranks_of, values

MIB = 1 << 20
ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

import llama_catalogue  # noqa: E402

RECIPE: dict[str, Any] = {
    "name": "tiny",
    "summary": "A tiny model",
    "engine": "llama.cpp",
    "host_counts": [1, 2, 3],
    "model": {"repository": "org/tiny-gguf", "revision": "a" * 40, "file": "Q4_0/tiny.gguf", "config": "tiny"},
    "image": {"reference": "llama:1", "digest": f"sha256:{'0' * 64}", "family": "custom", "release": "0.7.0"},
    "status": {"state": "reported", "by": "us", "hardware": "none"},
    "sources": ["us"],
}
SEAL = "5" * 64
SWITCH = {"switches": {"s": {"ports": {"a:1": 1, "b:1": 2, "c:1": 3}}}}
FOLDER = f"/hf/hub/models--org--tiny-gguf--Q4_0--tiny.gguf/snapshots/{'a' * 40}"


KNOWN: dict[str, dict[str, Any]] = {}


def facts(shape: Shape) -> dict[str, Any]:
    """Read once a shape: a vocabulary of 262,144 names takes a second."""
    if shape.name not in KNOWN:
        text, _ = header(shape.metadata, shape.tensors)
        KNOWN[shape.name] = facts_of([read_header(io.BytesIO(text).read)])
    return KNOWN[shape.name]


def eye(shape: Projector) -> dict[str, Any]:
    text, _ = header(shape.metadata, shape.tensors)
    return projector_of(read_header(io.BytesIO(text).read))


def plan(tmp_path: Path, settings: dict[str, Any], others: Any = MappingProxyType({}), **recipe: Any) -> dict[str, Any]:
    (tmp_path / "configs").mkdir(exist_ok=True)
    (tmp_path / "configs" / "tiny.json").write_text(json.dumps(facts(Shape("tiny"))))
    (tmp_path / "tiny.yml").write_text(yaml.safe_dump(RECIPE | recipe))
    library, of_recipes = load_all([tmp_path])
    whole = {"recipe": "tiny", "hosts": ["a"], "port": 8000} | settings
    variables = {"fleet_services": {"tiny": whole, **others}, "fleet_fabric": SWITCH}
    hosts = {name: {"address": f"{name}.lan", "port": 22, "variables": variables} for name in "abc"}
    return plan_fleet({"hosts": hosts, "folder": str(tmp_path)}, library, of_recipes)


def test_alone_it_is_planned_to_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-0123456789abcdef")
    planned = plan(tmp_path, {"api_key_file": "key", "workload": {"max_model_len": "2k", "max_num_seqs": 3}})
    assert found(planned) == []
    (rank,) = ranks_of(planned, "tiny")
    assert rank["container"]["entrypoint"] == "llama-server"
    words = rank["container"]["arguments"]
    given = values(words)
    assert given["--model"] == f"{FOLDER}/Q4_0/tiny.gguf"
    assert (given["--ctx-size"], given["--parallel"], given["--alias"]) == ("6000", "3", "org/tiny-gguf")
    assert (given["--host"], given["--port"], given["--api-key-file"]) == ("0.0.0.0", "8000", "/run/secrets/llama.key")
    assert (given["--flash-attn"], given["--fit"]) == ("on", "off")
    assert given["--log-verbosity"] == "4", "below it shows no buffer, and verify compares nothing"
    assert {"--metrics", "--offline", "--no-ui"} <= {*words}
    assert not {"--rpc", "--tensor-split"} & {*words}
    assert "sk-0123" not in json.dumps(planned)
    read = service.from_plan(rank["supervisor"])
    assert (read.probes.others, read.ports, read.endpoint and read.endpoint.key_form) == (None, [8000], "%t\n")


@pytest.mark.parametrize(("kind", "option"), [("embed", "--embedding"), ("rerank", "--rerank")])
def test_what_it_is_asked_sets_its_option(tmp_path: Path, kind: str, option: str) -> None:
    planned = plan(tmp_path, {}, kind=kind)
    assert found(planned) == []
    (rank,) = ranks_of(planned, "tiny")
    assert option in rank["container"]["arguments"]


def stopped_by(rank: dict[str, Any]) -> list[str]:
    run = docker_run(rank["container"])
    return [value for word, value in pairwise(run) if word == "--stop-signal"]


def test_over_hosts_the_head_calls_the_others_at_their_fabric_addresses(tmp_path: Path) -> None:
    planned = plan(tmp_path, {"hosts": ["b", "a", "c"]})
    assert found(planned) == []
    head, *workers = ranks_of(planned, "tiny")
    addresses = [rank["supervisor"]["address"] for rank in workers]
    given = values(head["container"]["arguments"])
    assert given["--rpc"] == ",".join(f"{address}:22000" for address in addresses)
    assert given["--tensor-split"] == "1,1,1"
    for rank in workers:
        address = rank["supervisor"]["address"]
        assert address.startswith("192.168.")
        assert rank["container"]["entrypoint"] == "rpc-server"
        assert rank["container"]["arguments"] == ["--host", address, "--port", "22000", "--cache"]
        assert rank["container"]["env"]["LLAMA_CACHE"] in rank["container"]["caches"]
        assert rank["supervisor"]["ports"] == [22000]
        assert rank["container"]["mounts"] == [], "neither a secret nor a model"
        assert stopped_by(rank) == ["SIGKILL"], "it handles none, and a first process is spared the others"
    assert stopped_by(head) == []
    read = service.from_plan(head["supervisor"])
    assert read.probes.others is not None
    assert read.probes.insist_s is not None and read.probes.insist_s < read.limits.stop_s
    assert (read.probes.others.port, read.ports) == (22000, [8000])


def test_the_rpc_port_is_the_groups_alone(tmp_path: Path) -> None:
    planned = plan(tmp_path, {"hosts": ["b", "a"]})
    for host in "ab":
        firewall = planned["hosts"][host]["firewall"]
        assert firewall["state"] == "closed"
        assert 22000 not in [entry["port"] for entry in firewall["open"]]
    (row,) = [row for row in planned["hosts"]["a"]["listens"] if row["port"] == 22000]
    assert (row["address"].startswith("192.168."), row["who"]) == (True, "the head on b")
    assert 22000 not in [row["port"] for row in planned["hosts"]["b"]["listens"]]


def test_the_head_alone_is_given_its_files_and_no_other_of_the_repository(tmp_path: Path) -> None:
    planned = plan(
        tmp_path, {"hosts": ["b", "a"], "model": {"mmproj": "mmproj.gguf", "weights_bytes": 7, "seal": SEAL}}
    )
    assert (found(planned), found(planned, "warning")) == ([], [])
    file, projector = (f"org/tiny-gguf/{name}" for name in ("Q4_0/tiny.gguf", "mmproj.gguf"))
    head, worker = (planned["hosts"][host] for host in "ba")
    assert [(one["repository"], one["revision"], one["bytes"], one["lock"]) for one in head["models"]] == [
        (file, "a" * 40, 7, {"revision": "a" * 40, "seal": SEAL}),
        (projector, "a" * 40, None, None),
    ]
    of_file, of_projector = (layout.model_folder(name, "a" * 40) for name in (file, projector))
    assert head["services"][0]["models"] == [of_file, of_projector]
    assert head["needs"]["reach"]["huggingface.co"] == sorted([file, projector])
    assert [write["unless"] for write in head["needs"]["disk"]] == [of_file]
    words = values(head["services"][0]["container"]["arguments"])
    assert words["--mmproj"] == of_projector.replace(layout.MODELS, layout.IN_MODELS) + "/mmproj.gguf"
    assert (worker["models"], worker["services"][0]["models"], worker["needs"]["disk"]) == ([], [], [])
    assert "huggingface.co" not in worker["needs"]["reach"]


def test_of_a_folder_the_head_alone_is_asked(tmp_path: Path) -> None:
    planned = plan(tmp_path, {"hosts": ["b", "a"], "model": {"source": {"path": "/srv/tiny"}}})
    places = {host: [file["path"] for file in planned["hosts"][host]["needs"]["files"]] for host in "ab"}
    assert places == {"a": [], "b": ["/srv/tiny"]}


@pytest.mark.parametrize(
    ("other", "rules"),
    [
        ({"hosts": ["a"], "port": 22000}, ["input-port-twice"]),
        ({"hosts": ["c", "a"], "port": 8000}, ["input-port-twice"]),
        ({"hosts": ["a", "b"], "port": 8000}, []),
        ({"hosts": ["c", "a"], "port": 8001}, []),
        ({"hosts": ["c"], "port": 22000}, []),
        ({"hosts": ["b"], "port": 8000}, ["input-port-twice"]),
    ],
)
def test_the_port_of_a_worker_is_that_of_one_service(tmp_path: Path, other: dict[str, Any], rules: list[str]) -> None:
    planned = plan(tmp_path, {"hosts": ["b", "a"]}, others={"other": {"recipe": "tiny", **other}})
    assert found(planned) == rules


@pytest.mark.parametrize(
    ("settings", "recipe", "rules"),
    [
        ({"flags": {"host": "0.0.0.0"}}, {}, ["recipe-planned-flag"]),
        ({"flags": {"tools": "all"}}, {}, ["recipe-planned-flag"]),
        ({"env": {"LLAMA_ARG_TOOLS": "all"}}, {}, ["recipe-planned-env"]),
        ({"env": {"LLAMA_ARG_ENDPOINT_METRICS": "0"}}, {}, ["recipe-planned-env"]),
        # an option by its variable goes around what is asked of options
        ({"env": {"LLAMA_ARG_N_PARALLEL": "64"}}, {}, ["recipe-planned-env"]),
        ({"env": {"LLAMA_ARG_STATIC_PATH": "run"}}, {}, ["recipe-planned-env"]),
        ({"env": {"LLAMA_ARG_API_KEY_FILE": "/x"}}, {}, ["recipe-planned-env", "recipe-secret"]),
        ({"env": {"LLAMA_API_KEY": "x"}}, {}, ["recipe-secret"]),
        ({"flags": {"ctx-sise": 4096}}, {}, ["llama-option-unknown"]),
        ({"flags": {"draft-max": 4}}, {}, ["llama-option-gone"]),
        ({"flags": {"cache-type-k": "fp8"}}, {}, ["llama-option-value"]),
        ({"flags": {"gpu-layers": 3}}, {}, ["llama-option-twice"]),
        ({"flags": {"ctx-size": 4096}, "workload": {"max_model_len": 4096}}, {}, ["llama-slot-short"]),
        ({"flags": {"split-mode": "row"}, "hosts": ["a", "b"]}, {}, ["llama-split-mode"]),
        ({"flags": {"split-mode": "tensor"}, "hosts": ["a", "b"]}, {}, ["llama-split-mode"]),
        ({"model": {"file": "m-00002-of-00002.gguf"}}, {}, ["schema-pattern"]),
        ({"model": {"file": "../m.gguf"}}, {}, ["schema-pattern"]),
        ({"model": {"file": "m.safetensors"}}, {}, ["schema-pattern"]),
        ({}, {"model": {"repository": "org/tiny", "revision": "a" * 40}}, ["llama-model-file"]),
        ({}, {"kind": "transcribe"}, ["llama-kind"]),
    ],
)
def test_what_it_would_refuse_is_refused_before(
    tmp_path: Path, settings: dict[str, Any], recipe: dict[str, Any], rules: list[str]
) -> None:
    assert found(plan(tmp_path, settings, **recipe)) == rules


@pytest.mark.parametrize(
    ("model", "hosts", "seen"), [("GLM-5.2", "ab", True), ("GLM-5.2", "a", False), ("x", "ab", False)]
)
def test_a_model_that_ends_over_hosts_is_named(tmp_path: Path, model: str, hosts: str, seen: bool) -> None:
    recipe = {"model": {**RECIPE["model"], "repository": f"unsloth/{model}-GGUF"}}
    assert ("llama-rpc-model" in found(plan(tmp_path, {"hosts": [*hosts]}, **recipe), "warning")) == seen


@pytest.mark.parametrize("layers", [1, 9])
def test_a_file_of_facts_whose_lists_differ_in_length_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: int
) -> None:
    """One with too few ended the plan with IndexError."""
    whole = facts(Shape("tiny"))
    monkeypatch.setitem(KNOWN, "tiny", {"gguf": {**whole["gguf"], "kv_heads": [1] * layers}})
    [finding] = [one for one in plan(tmp_path, {})["findings"] if one["severity"] == "error"]
    assert (finding["place"], finding["found"]) == ("recipes/configs/tiny.json: gguf.kv_heads", f"{layers} layers")


def test_what_nobody_knows_is_not_judged(tmp_path: Path) -> None:
    image = {**RECIPE["image"], "release": "0.9.0"}
    unread = {key: value for key, value in RECIPE["model"].items() if key != "config"}
    planned = plan(tmp_path, {"flags": {"no-such": 1}}, image=image, model=unread)
    assert {"llama-not-judged", "memory-not-judged"} <= {*found(planned, "hint")}
    assert "llama-option-unknown" not in found(planned)
    silenced = plan(tmp_path, {"silence": {"llama-not-judged": "our own build"}}, image=image)
    assert "llama-not-judged" not in found(silenced, "hint")


def test_the_memory_of_each_rank_is_planned_by_the_file(tmp_path: Path) -> None:
    planned = plan(tmp_path, {"hosts": ["b", "a"], "workload": {"max_model_len": 4096}})
    kv = planned["services"]["tiny"]["kv"]
    assert (kv["tokens"], kv["context"], kv["exact"], kv["max_concurrency"]) == (16384, 4096, True, 4.0)
    known = facts(Shape("tiny"))["gguf"]
    weights = [planned["hosts"][host]["memory"]["tiny"]["weights"]["expected"] for host in "ba"]
    assert sum(weights) == known["total"]
    assert planned["hosts"]["a"]["memory"]["tiny"]["offload"]["expected"] == 2048 * MIB


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.shape.name)
def test_the_plan_s_memory_is_what_the_program_printed(row: Row) -> None:
    """To the digits that are printed."""
    (found,) = buffers(facts(row.shape)["gguf"], row.settings, [1.0], gpu=False)
    model, cache, compute = row.printed
    assert found.model / MIB == pytest.approx(model, abs=0.02)
    assert found.cache / MIB == pytest.approx(cache, abs=0.01)
    assert found.compute / MIB == pytest.approx(compute, abs=0.0101)


@pytest.mark.parametrize("row", EYES, ids=lambda row: row.shape.name)
def test_a_projector_s_memory_is_what_the_program_printed(row: EyeRow) -> None:
    known = eye(row.shape)["projector"]
    model, compute = row.printed
    assert known["total"] / MIB == pytest.approx(model, abs=0.01)
    assert projector.bytes_of(known, row.patches) / MIB == pytest.approx(compute, abs=0.01)
    assert projector.largest(known, None) >= row.patches


BIG = Shape("big", kind="Q8_0", layers=8, embedding=512, heads=8, kv_heads=4, head=64, feed_forward=1024)
SMALL = Shape("drafter", kind="Q8_0", layers=2, embedding=256, heads=4, kv_heads=2, head=64, feed_forward=512)


@pytest.mark.parametrize(
    ("flags", "printed_mib"),
    [
        # llama-server 0.7.0 (build 11669), 24 November 2026, of each: model, cache, compute, output
        ({}, [(19.53, 64.0, 13.02, 0.01), (1.38, 8.0, 6.52, 0.01)]),
        ({"kv-unified": True, "ubatch-size": 256, "parallel": 2}, [(19.53, 64.0, 9.51, 0.0), (1.38, 8.0, 6.26, 0.0)]),
        (
            {
                **dict.fromkeys(("cache-type-k", "cache-type-v"), "q8_0"),
                **{"parallel": 2, "spec-draft-type-k": "q4_0", "spec-draft-n-ubatch": 128},
            },
            [(19.53, 34.0, 15.05, 0.0), (1.38, 5.12, 2.15, 0.0)],
        ),
    ],
)
def test_a_draft_model_is_staged_asked_and_counted(
    tmp_path: Path, flags: dict[str, Any], printed_mib: list[tuple[float, ...]]
) -> None:
    (tmp_path / "configs").mkdir()
    for shape in (BIG, SMALL):
        (tmp_path / "configs" / f"{shape.name}.json").write_text(json.dumps(facts(shape)))
    draft = {"repository": "org/small-gguf", "revision": "b" * 40, "file": "Q8_0/small.gguf", "config": "drafter"}
    model = RECIPE["model"] | {"config": "big", "draft": draft}
    planned = plan(tmp_path, {"flags": {"ctx-size": 8192, "parallel": 4} | flags}, model=model)
    assert found(planned) == []
    assert "memory-not-judged" not in found(planned, "hint")
    given = values(ranks_of(planned, "tiny")[0]["container"]["arguments"])
    folder = f"/hf/hub/models--org--small-gguf--Q8_0--small.gguf/snapshots/{'b' * 40}"
    assert (given["--spec-draft-model"], given["--spec-type"]) == (f"{folder}/Q8_0/small.gguf", "draft-simple")
    names = [one["repository"] for one in planned["hosts"]["a"]["models"]]
    assert names == ["org/tiny-gguf/Q4_0/tiny.gguf", "org/small-gguf/Q8_0/small.gguf"]
    cache = sum(one[1] for one in printed_mib)
    assert planned["services"]["tiny"]["kv"]["bytes"] / MIB == pytest.approx(cache, abs=0.01)
    settings = Settings(8192, int(given["--parallel"]), bool(flags.get("kv-unified")), flags.get("ubatch-size", 512))
    types = {"key_type": flags.get("cache-type-k", "f16"), "value_type": flags.get("cache-type-v", "f16")}
    own = {"key_type": flags.get("spec-draft-type-k", "f16"), "batch": flags.get("spec-draft-n-ubatch", settings.batch)}
    both = [(BIG, replace(settings, **types)), (SMALL, replace(settings, **own))]
    sizes = [buffers(facts(shape)["gguf"], one, [1.0], gpu=False)[0] for shape, one in both]
    total = sum(one.model + one.cache + one.compute for one in sizes) / MIB
    assert total == pytest.approx(sum(map(sum, printed_mib)), rel=0.01)


def test_a_draft_model_over_hosts_is_split_as_the_model_is(tmp_path: Path) -> None:
    """As the real program did over an RPC server."""
    draft = {"repository": "org/tiny-gguf", "revision": "a" * 40, "file": "Q4_0/tiny.gguf", "config": "tiny"}
    alone = plan(tmp_path, {"hosts": ["a", "b"]})
    both = plan(tmp_path, {"hosts": ["a", "b"]}, model=RECIPE["model"] | {"draft": draft})
    assert both["services"]["tiny"]["kv"]["bytes"] == 2 * alone["services"]["tiny"]["kv"]["bytes"]
    assert [len(both["hosts"][host]["models"]) for host in "ab"] == [1, 0]


@pytest.mark.parametrize(
    ("draft", "flags", "rules"),
    [
        ({"repository": "org/small"}, {}, ["llama-model-file"]),
        ({"repository": "org/small", "file": "x.gguf"}, {"spec-draft-model": "/x"}, ["recipe-planned-flag"]),
        ({"repository": "org/small", "file": "x.gguf"}, {}, []),
    ],
)
def test_a_draft_model_is_a_file(
    tmp_path: Path, draft: dict[str, Any], flags: dict[str, Any], rules: list[str]
) -> None:
    planned = plan(tmp_path, {"flags": flags}, model=RECIPE["model"] | {"draft": draft})
    assert found(planned) == rules
    assert ("memory-not-judged" in found(planned, "hint")) == (not rules)


def test_a_projector_is_planned_on_the_head(tmp_path: Path) -> None:
    """For the largest picture that it takes, of which an option may make less."""
    seen = eye(Projector("small", kind="qwen3vl_merger", width=512, heads=8, inner=2048, patch=16, into=256))
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "sees.json").write_text(json.dumps(facts(Shape("tiny")) | seen))
    model = RECIPE["model"] | {"config": "sees", "mmproj": "mmproj.gguf"}
    blind, sighted, less = (
        plan(tmp_path, {"hosts": ["a", "b"], "flags": flags}, model=one)
        for one, flags in ((RECIPE["model"], {}), (model, {}), (model, {"image-max-tokens": 64}))
    )
    assert "memory-not-judged" not in found(sighted, "hint")

    def taken(planned: dict[str, Any], host: str) -> int:
        of = planned["hosts"][host]["memory"]["tiny"]
        return int(of["weights"]["expected"] + of["runtime"]["expected"])

    known = seen["projector"]
    for planned, tokens in ((sighted, 4096), (less, 64)):
        more = known["total"] + projector.bytes_of(known, 4 * tokens)
        assert taken(planned, "a") - taken(blind, "a") == pytest.approx(more, abs=1 << 10)
        assert taken(planned, "b") == taken(blind, "b")


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        ({}, "nothing is known of mmproj.gguf"),
        (eye(Projector("other", kind="pixtral")), "a projector of the kind pixtral"),
    ],
)
def test_of_a_projector_that_nobody_knows_is_a_finding(tmp_path: Path, beside: dict[str, Any], words: str) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "sees.json").write_text(json.dumps(facts(Shape("tiny")) | beside))
    planned = plan(tmp_path, {}, model=RECIPE["model"] | {"config": "sees", "mmproj": "mmproj.gguf"})
    (finding,) = [one for one in planned["findings"] if one["rule"] == "memory-not-judged"]
    assert finding["found"].startswith(words)


def test_the_buffers_of_both_models_are_read() -> None:
    own, drafts = (f"CPU_Mapped model buffer size = {mib} MiB\n" for mib in ("20.00", "1.50"))
    log = f"{own}common_speculative_init_result: loading draft model 'x'\n{drafts}"
    assert parse_boot_log(log).weights_gib == round(21.5 / 1024, 4)
    eye_too = "load_hparams: model size: 10.25 MiB\nreserve_compute_meta: CPU compute buffer size = 7.00 MiB\n"
    assert parse_boot_log(log + eye_too).weights_gib == round(31.75 / 1024, 4)
    assert boot_log.of_projector(log + eye_too) == {"model": 10.25, "compute": 7.0}
    assert boot_log.buffers(log + eye_too) == boot_log.buffers(log)


@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="no llama-server here")
@pytest.mark.parametrize("row", ROWS[:3], ids=lambda row: row.shape.name)
def test_the_real_program_still_prints_it(tmp_path: Path, row: Row) -> None:
    program = shutil.which(PROGRAM)
    assert program
    shown = printed(program, write(tmp_path / "model.gguf", row.shape), options(row.settings))
    assert shown == pytest.approx(row.printed, abs=0.01)


@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="no llama-server here")
@pytest.mark.parametrize("row", EYES[:3], ids=lambda row: row.shape.name)
def test_the_real_program_still_prints_it_of_a_projector(tmp_path: Path, row: EyeRow) -> None:
    program = shutil.which(PROGRAM)
    assert program
    assert printed_of(program, row.shape, tmp_path) == pytest.approx(row.printed, abs=0.01)


@pytest.mark.parametrize("split", [[1.0, 1.0], [1.0, 3.0], [2.0, 1.0, 1.0]])
def test_ranks_share_all_layers_and_the_cache(split: list[float]) -> None:
    known, settings = facts(Shape("deep", layers=30))["gguf"], Settings(8192, 4)
    (alone,) = buffers(known, settings, [1.0])
    ranks = buffers(known, settings, split)
    assert sum(rank.model for rank in ranks) == alone.model
    assert sum(rank.cache for rank in ranks) == alone.cache


# The options -------------------------------------------------------------------------------------------------------


def test_help_is_read() -> None:
    text = """----- common params -----

-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
                                        (env: LLAMA_ARG_FLASH_ATTN)
--ui,  --webui, --no-ui, --no-webui     whether to enable the Web UI (default: enabled)
-ctk,  --cache-type-k TYPE              KV cache data type for K
                                        allowed values: f32, f16
                                        (default: f16)
-sm,   --split-mode {none,layer,row,tensor}
                                        how to split the model across multiple GPUs, one of:
                                        - none: use one GPU only
--no-host                               bypass host buffer
--draft, --draft-max N                  the argument has been removed. use --spec-draft-n-max
                                        (env: LLAMA_ARG_DRAFT_MAX)
"""
    found = {option.names[0]: option for option in llama_catalogue.read_help(text)}
    assert found["flash-attn"].choices == ("on", "off", "auto")
    assert (found["ui"].names, found["ui"].negative) == (("ui", "webui"), ("no-ui", "no-webui"))
    assert (found["cache-type-k"].value, found["cache-type-k"].choices) == ("TYPE", ("f32", "f16"))
    assert found["split-mode"].choices == ("none", "layer", "row", "tensor")
    assert (found["no-host"].value, found["no-host"].negative) == ("", ())
    assert found["draft"].gone == "use --spec-draft-n-max"
    assert llama_catalogue.read_version("version: 0.7.0 (build 11669, commit Debian)") == ("0.7.0", 11669)
    with pytest.raises(ValueError, match="no line"):
        llama_catalogue.read_version("llama")


def test_the_catalogue_is_as_its_tool_writes_it() -> None:
    assert llama_catalogue.as_json(catalogue.load()) == catalogue.DATA.read_text("utf-8")
    assert len({*catalogue.newest().options.values()}) > 200


def test_values_become_words() -> None:
    written = {"fit": False, "ui": False, "metrics": True, "cpu-range": None, "tags": ["a", "b"], "temp": 0.5}
    assert [*words_of(written)] == ["--fit", "off", "--metrics", "--tags", "a,b", "--temp", "0.5", "--no-ui"]


@pytest.mark.parametrize(
    ("flags", "rules"),
    [
        ({"metrics": "yes"}, ["llama-option-value"]),
        ({"ctx-size": True}, ["llama-option-value"]),
        ({"no-ui": True}, ["llama-option-value"]),
        ({"metrics": False}, ["llama-option-value"]),
        ({"ui": False, "fit": True, "cache-ram": 0, "spec-type": None}, []),
    ],
)
def test_a_value_that_an_option_does_not_take(flags: dict[str, Any], rules: list[str]) -> None:
    found = judge(LlamaCpp.judged_by, "0.7.0", flags, Place(service="x"))
    assert [finding.rule for finding in found] == rules


# What it says, and its key -----------------------------------------------------------------------------------------

LOG = """0.00.000 I cmn  common_param: common_params_print_info: build 11669 (Debian) with GNU 16.2.0 for Linux x86_64
0.00.182 I load_tensors:   CPU_Mapped model buffer size =   512.00 MiB
0.00.182 I load_tensors: RPC0[127.0.0.1:50052] model buffer size =  1024.00 MiB
0.00.185 I llama_kv_cache: RPC0[127.0.0.1:50052] KV buffer size =     1.00 MiB
0.00.185 I llama_kv_cache: size =    1.00 MiB (  2048 cells,   4 layers,  4/4 seqs), K (f16):    0.50 MiB
"""


def test_a_start_is_read() -> None:
    boot = parse_boot_log(LOG)
    assert (boot.weights_gib, boot.kv_cache_tokens, boot.release) == (0.5, 8192, "0.7.0")
    assert parse_boot_log("").as_dict() == parse_boot_log("nothing").as_dict()


@pytest.mark.parametrize("key", ["sk-0123456789abcdef", 'with "quotes" and \\'])
def test_the_key_is_a_line_of_its_own(tmp_path: Path, key: str) -> None:
    file = tmp_path / "key"
    file.write_text(keyed("%t\n")(key + "\n"))
    assert file.read_text() == f"{key}\n"
    assert service.read_key(str(file), "%t\n") == key


@pytest.mark.parametrize("text", ["", "\n", "# sk-0123456789abcdef\n", "one\ntwo\n"])
def test_what_the_program_would_read_as_another_key_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"no line|no key") as refused:
        service.read_key(str(file), "%t\n")
    assert "sk-" not in str(refused.value)


def test_a_head_waits_until_the_others_listen() -> None:
    async def listens() -> tuple[bool, bool]:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        before = await rank_head._connects("127.0.0.1", port)
        server.close()
        await server.wait_closed()
        return before, await rank_head._connects("127.0.0.1", port)

    assert asyncio.run(listens()) == (True, False)
