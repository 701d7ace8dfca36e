# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service that names a model alone: what is read of it, kept, derived from it, and planned."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.derive import as_file, derive
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.kept_models import (
    FOLDER,
    file_of,
    keep,
    read_folder,
    read_hub,
    read_kept,
)
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, load_all, parse
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.checkpoint import (
    checkpoint_of,
    require,
    require_of,
)
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.config import ConfigJson
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.models import unread_models
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_text
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.hub_api import HubApi
from hub_server import Hub, serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHIPPED, _FINDINGS = load_all([SHIPPED_RECIPES])
CONFIGS = {path.stem: json.loads(path.read_text()) for path in (SHIPPED_RECIPES / "configs").glob("*.json")}
MODEL = "someone/Model-A"


def checkpoint(config: Mapping[str, Any], repository: str = MODEL, **known: Any) -> dict[str, Any]:
    written = {
        "repository": repository,
        "revision": COMMIT,
        "config": config,
        "source": "a test",
        "chat_template": True,
    }
    return require({**written, "weights_bytes": 20 << 30, **known}, Place())


def planned(services: Mapping[str, Any], known: Mapping[str, Any] | None = None, hosts: int = 1) -> dict[str, Any]:
    library = Library(SHIPPED.recipes, SHIPPED.folders, known or {})
    names = [f"host-{number}" for number in range(1, hosts + 1)]
    ports = {f"{name}:1": number for number, name in enumerate(names, 10)}
    variables: dict[str, Any] = {"fleet_services": services, "fleet_host": {}}
    if hosts > 1:
        variables["fleet_fabric"] = {"switches": {"switch": {"ports": ports}}}
    addressed = {name: {"address": f"192.0.2.{at}", "variables": variables} for at, name in enumerate(names, 1)}
    return plan_fleet({"hosts": addressed, "folder": "."}, library)


def errors(plan: Mapping[str, Any]) -> list[str]:
    return [f"{row['rule']} {row['place']}: {row['found']}" for row in plan["findings"] if row["severity"] == "error"]


def one(model: Any = MODEL, hosts: int = 1, **more: Any) -> dict[str, Any]:
    return {"chat": {"model": model, "hosts": [f"host-{at}" for at in range(1, hosts + 1)], "port": 8000, **more}}


QWEN, GPT, NANO = CONFIGS["qwen3.6-35b-a3b"], CONFIGS["gpt-oss-20b"], CONFIGS["nemotron-3-nano-30b-a3b"]
SMALL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
}

JUDGE, WHISPER = "Qwen3ForSequenceClassification", "WhisperForConditionalGeneration"

# what is written otherwise than in SMALL; known of it beside; the kind, and flags that follow (None: left out)
DERIVED: list[tuple[str, dict[str, Any], dict[str, Any], str, dict[str, Any]]] = [
    (
        "Qwen/Qwen3-8B",
        {},
        {},
        "chat",
        {"max-model-len": 40960, "tool-call-parser": "hermes", "reasoning-parser": "qwen3", "runner": None},
    ),
    ("Qwen/Qwen3-4B-Instruct-2507", {}, {}, "chat", {"reasoning-parser": None, "tool-call-parser": "hermes"}),
    ("someone/no-name", {}, {}, "chat", {"tool-call-parser": "hermes", "trust-remote-code": None}),
    ("someone/long", {"max_position_embeddings": 262144}, {}, "chat", {"max-model-len": 65536}),
    (
        "Qwen/Qwen3-Embedding-8B",
        {},
        {"task": "feature-extraction"},
        "embed",
        {"runner": "pooling", "tool-call-parser": None},
    ),
    ("someone/embedder", {}, {"library": "sentence-transformers"}, "embed", {"runner": "pooling"}),
    (
        "Qwen/Qwen3-Reranker-8B",
        {},
        {"task": "text-ranking"},
        "rerank",
        {
            "hf-overrides": {
                "architectures": ["Qwen3ForSequenceClassification"],
                "classifier_from_token": ["no", "yes"],
                "is_original_qwen3_reranker": True,
            }
        },
    ),
    ("someone/judge", {"architectures": [JUDGE], "num_labels": 1}, {}, "score", {"runner": "pooling"}),
    ("someone/sorts", {"architectures": [JUDGE]}, {}, "classify", {"runner": "pooling"}),
    (
        "openai/whisper-large-v3",
        {"architectures": ["WhisperForConditionalGeneration"]},
        {},
        "transcribe",
        {"runner": None},
    ),
    (
        "someone/fp8-cache",
        {
            "quantization_config": {
                "quant_method": "modelopt",
                "quant_algo": "NVFP4",
                "kv_cache_scheme": {"num_bits": 8},
            }
        },
        {},
        "chat",
        {"kv-cache-dtype": "fp8"},
    ),
    (
        "someone/by-modelopt",
        {},
        {"quantization": {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}},
        "chat",
        {"kv-cache-dtype": "fp8"},
    ),
    (
        "Qwen/Qwen3.6-99B",
        {},
        {"draft_layers": True},
        "chat",
        {"speculative-config": {"method": "mtp", "num_speculative_tokens": 3}},
    ),
    ("Qwen/Qwen3.6-99B", {}, {"draft_layers": False}, "chat", {"speculative-config": None}),
]


@pytest.mark.parametrize(("repository", "changed", "known", "kind", "flags"), DERIVED)
def test_what_is_derived(
    repository: str, changed: dict[str, Any], known: dict[str, Any], kind: str, flags: dict[str, Any]
) -> None:
    recipe, findings = derive(checkpoint({**SMALL, **changed}, repository, **known))
    assert recipe is not None, [finding.sentence() for finding in findings]
    assert recipe["kind"] == kind
    assert {name: recipe["flags"].get(name) for name in flags} == flags
    assert recipe["reasons"].keys() == recipe["flags"].keys()
    assert recipe["image"]["digest"], "what nobody chose is pinned"
    assert recipe["model"]["revision"] == COMMIT


def test_quantization_is_the_checkpoints() -> None:
    for method, config in (("modelopt", "nvidia"), ("fp8", "fp8")):
        made = checkpoint({**SMALL, "quantization_config": {"quant_method": method, "from": config}})
        assert derive(made)[0]["model"]["quantization"] == method  # type: ignore[index]
    beside = checkpoint(SMALL, quantization={"quantization": {"quant_algo": "FP8"}})
    assert derive(beside)[0]["model"]["quantization"] == "modelopt"  # type: ignore[index]


ARCHITECTURES = [
    ("Step5ForCausalLM", {}, "vllm/vllm-openai:v0.33.0", "model-image"),
    ("NobodysForCausalLM", {}, None, "model-architecture"),
    (None, {}, None, "model-architecture"),
    ("NobodysForCausalLM", {"auto_map": {"AutoModel": "modeling.Nobody"}}, "vllm/vllm-openai:v0.28.0", None),
]


@pytest.mark.parametrize(("architecture", "more", "image", "rule"), ARCHITECTURES)
def test_the_image_has_the_architecture_or_a_finding_names_it(
    architecture: str | None, more: dict[str, Any], image: str | None, rule: str | None
) -> None:
    config = {**SMALL, "architectures": [architecture] if architecture else None, **more}
    recipe, findings = derive(checkpoint(config))
    assert (recipe["image"]["reference"] if recipe else None) == image
    assert [one.rule for one in findings] == ([rule] if rule else [])
    assert recipe is None or recipe["flags"].get("trust-remote-code") == (True if more else None)


def test_code_of_a_publisher_runs_only_on_the_owners_word() -> None:
    config = {**SMALL, "architectures": ["NobodysForCausalLM"], "auto_map": {"AutoModel": "modeling.Nobody"}}
    known = {MODEL: checkpoint(config)}
    assert derive(checkpoint({**SMALL, "auto_map": {"AutoConfig": "c.Own"}}))[0]["flags"]["trust-remote-code"]  # type: ignore[index]
    (problem,) = errors(planned(one(), known))
    assert "service-trust-code" in problem
    assert "which nobody has read for you" in problem
    assert errors(planned(one(trust=["code"]), known)) == []
    assert errors(planned(one({"repository": MODEL, "revision": COMMIT}), known)) == []


def test_a_base_model_has_no_template_and_a_finding_names_it() -> None:
    findings = planned(one(), {MODEL: checkpoint(SMALL, chat_template=False)})["findings"]
    assert [row["severity"] for row in findings if row["rule"] == "model-template"] == ["warning"]


def test_a_recipe_that_is_there_is_found() -> None:
    for repository, name in (
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", "nemotron-3-super-120b-a12b-nvfp4"),
        ("Qwen/Qwen3-Coder-Next-FP8", "qwen3-coder-next-fp8"),
    ):
        plan = planned(one(repository, trust=["code"]))
        assert plan["services"]["chat"]["recipe"] == name
        assert unread_models(one(repository), SHIPPED) == {}


def test_a_models_name_in_place_of_a_recipes_is_put_right() -> None:
    (problem,) = [row for row in planned(one({}, recipe="Qwen/Qwen3-8B"))["findings"] if row["severity"] == "error"]
    assert problem["remedy"] == "write model: Qwen/Qwen3-8B instead of recipe"


def test_one_line_is_a_whole_plan() -> None:
    plan = planned(one(), {MODEL: checkpoint(SMALL, weights_bytes=16 << 30)})
    assert errors(plan) == []
    service = plan["services"]["chat"]
    assert (service["recipe"], service["status"]) == ("model-a", "derived")
    assert service["kv"]["bytes_per_request"] == 40960 * 36 * 8 * 128 * 2 * 2
    assert "recipe     model-a, derived by gb10.fleet" in as_text(plan, ["host-1"])
    (staged,) = plan["hosts"]["host-1"]["models"]
    assert (staged["repository"], staged["revision"], staged["bytes"]) == (MODEL, COMMIT, 16 << 30)
    assert [row["rule"] for row in plan["findings"] if row["severity"] == "warning"] == []


def test_what_nothing_is_known_of_is_asked_for_once() -> None:
    plan = planned(one())
    assert "model-unread fleet_services.chat.model" in errors(plan)[0]
    assert unread_models(one(), SHIPPED) == {MODEL: None}
    assert unread_models(one({"repository": MODEL, "revision": COMMIT}), SHIPPED) == {MODEL: COMMIT}
    known = Library(SHIPPED.recipes, SHIPPED.folders, {MODEL: checkpoint(SMALL)})
    for services in (one(), one(recipe="bge-base-en-v1.5"), None, [], {"a": 1}, one(7), one({"repository": []})):
        assert unread_models(services, known) == {}


def test_an_overridden_models_config_is_the_one_that_was_read() -> None:
    services = one(recipe="qwen3-32b-nvfp4")
    assert planned(services)["services"]["chat"]["kv"]["bytes_per_request"] is None
    plan = planned(services, {MODEL: checkpoint({**SMALL, "max_position_embeddings": 65536})})
    assert plan["services"]["chat"]["kv"]["bytes_per_request"]
    other = one({"repository": MODEL, "revision": "f" * 40}, recipe="qwen3-32b-nvfp4")
    assert planned(other, {MODEL: checkpoint(SMALL)})["services"]["chat"]["kv"]["bytes_per_request"] is None


def test_the_file_that_an_owner_gets_is_the_recipe() -> None:
    for known in (
        checkpoint(SMALL, task="text-generation"),
        checkpoint(QWEN, draft_layers=True),
        checkpoint(GPT, revision=None, weights_bytes=None),
        checkpoint(NANO, "someone/1.0: x".replace(": x", "-yes")),
    ):
        recipe, _ = derive(known)
        assert recipe is not None
        text = as_file(recipe, known, "model-a")
        read, problems = parse(yaml.safe_load(text), Place())
        assert not [one for one in problems if one.severity == "error"]
        for key in ("name", "kind", "image", "flags", "status", "sources"):
            assert read[key] == recipe[key]
        assert read["model"] == {**recipe["model"], "config": "model-a"}
        for flag in recipe["flags"]:
            line = next(one for one in text.splitlines() if one.startswith(f"  {flag}: "))
            assert recipe["reasons"][flag] in line


# --- reading and keeping ---------------------------------------------------------------------------------------------

FILES = {
    "config.json": json.dumps(SMALL).encode(),
    "chat_template.jinja": b"{{ messages }}",
    "model-00001-of-00002.safetensors": b"x" * 100,
    "model-00002-of-00002.safetensors": b"x" * 50,
    "consolidated.safetensors": b"x" * 150,
    "original/model.safetensors": b"x" * 150,
    "model.safetensors.index.json": json.dumps(
        {
            "weight_map": {
                "mtp.w": "model-00001-of-00002.safetensors",
                "model.layers.0.x": "model-00002-of-00002.safetensors",
            }
        }
    ).encode(),
}


def test_the_hub_is_asked_without_the_system_s_own_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Mac ends a process that has forked and then asks its system for them."""

    def of_the_system() -> dict[str, str]:
        raise AssertionError("asked")

    monkeypatch.setattr("urllib.request.getproxies", of_the_system)
    with serving(Hub(MODEL, COMMIT, FILES)) as hub:
        assert HubApi(hub.url).model(MODEL, None)


def test_the_hub_is_read_once(tmp_path: Path) -> None:
    with serving(Hub(MODEL, COMMIT, FILES, token="hf_secret")) as hub:
        found = read_hub(HubApi(hub.url, "hf_secret"), MODEL)
        with pytest.raises(FleetError, match="it asks for a token") as refused:
            read_hub(HubApi(hub.url), MODEL)
        assert "HF_TOKEN" in refused.value.findings[0].remedy
        with pytest.raises(FleetError, match="no such model"):
            read_hub(HubApi(hub.url, "hf_secret"), MODEL, "f" * 40)
    assert (found["revision"], found["weights_bytes"], found["draft_layers"]) == (COMMIT, 150, True)
    assert found["config"] == SMALL
    assert found["chat_template"]
    keep(tmp_path, found)
    assert "hf_secret" not in file_of(tmp_path, MODEL).read_text()
    assert read_kept(tmp_path) == {MODEL: found}
    with pytest.raises(FleetError, match="is kept beside the inventory"):
        read_hub(HubApi("http://127.0.0.1:1"), MODEL)


def test_a_folder_is_as_good_as_the_hub(tmp_path: Path) -> None:
    for name, content in FILES.items():
        if "/" not in name:
            (tmp_path / name).write_bytes(content)
    found = read_folder(tmp_path, MODEL, "the folder x")
    assert (found["revision"], found["weights_bytes"], found["chat_template"]) == (None, 150, True)
    with pytest.raises(FleetError, match="no weights"):
        read_folder(tmp_path.parent, MODEL, "the folder y")
    with pytest.raises(FleetError, match="No such file"):
        read_folder(tmp_path / "none", MODEL, "the folder z")


UNUSABLE = [
    (b"{", "config.json"),
    (b"[1]", "no JSON object"),
    (b"{}", "at least 1"),
    (b'{"a": NaN}', "NaN"),
    (b'{"num_hidden_layers": 1' + b"0" * 30 + b"}", "no model has"),
    (b'{"a": ' + b"[" * 60 + b"]" * 60 + b"}", "deep"),
    (b"\xff\xfe", "config.json"),
]


@pytest.mark.parametrize(("content", "words"), UNUSABLE)
def test_a_config_that_can_not_be_one_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(FleetError, match=words):
        checkpoint_of(MODEL, COMMIT, {}, {"config.json": content}, "a test")


ANSWERS = [
    {"sha": "../../etc", "siblings": []},
    {"siblings": []},
    {"sha": COMMIT, "siblings": {}},
    {"sha": COMMIT, "siblings": [{"rfilename": "a", "size": -1}]},
    {"sha": COMMIT, "siblings": [{"rfilename": "a", "size": "1"}]},
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_another_answer_of_the_hub_is_refused(answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HubApi, "model", lambda *_: answer)
    with pytest.raises(FleetError, match="the hub's answer"):
        read_hub(HubApi("http://127.0.0.1:1"), MODEL)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"\0\1", b'{"repository": "../../x"}', json.dumps({"repository": MODEL, "config": {}}).encode()],
)
def test_a_damaged_file_is_set_aside(content: bytes, tmp_path: Path) -> None:
    file = file_of(tmp_path, MODEL)
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    notes: list[str] = []
    assert read_kept(tmp_path) == {}
    assert file.exists(), "whoever may change nothing changes nothing"
    assert read_kept(tmp_path, notes.append) == {}
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == [file.name + ".damaged"]
    assert len(notes) == 1


def test_a_file_speaks_of_the_model_that_it_is_named_for(tmp_path: Path) -> None:
    keep(tmp_path, checkpoint(SMALL))
    file_of(tmp_path, MODEL).rename(file_of(tmp_path, "other/model"))
    assert read_kept(tmp_path) == {}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"repository": "attacker/backdoored"}, "attacker/backdoored, commit None, in a host's answer"),
        ({"repository": "nvidia/X", "revision": "a" * 40}, "nvidia/X, commit"),
        ({"revision": "a" * 40}, "commit " + "a" * 40),
    ],
)
def test_a_hosts_answer_about_another_model_is_refused(changed: dict[str, Any], words: str) -> None:
    """Its recipe would be written, and plans of that model would be made from it (security 12)."""
    answer = {"repository": "Qwen/Qwen3-8B", "config": {"a": 1}, "source": "titan"}
    assert require_of(answer, "Qwen/Qwen3-8B", None)["repository"] == "Qwen/Qwen3-8B"
    assert require_of(answer | {"revision": "b" * 40}, "Qwen/Qwen3-8B", "b" * 40)["revision"] == "b" * 40
    with pytest.raises(FleetError, match=re.escape(words)):
        require_of(answer | changed, "Qwen/Qwen3-8B", None)


@pytest.mark.parametrize("names", [[{}], [[]], [None], {}, 3, [3], "", []])
def test_architectures_that_are_no_names_are_none(names: Any) -> None:
    assert ConfigJson({"architectures": names}).architecture is None
