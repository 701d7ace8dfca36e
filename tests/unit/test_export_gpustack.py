# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What GPUStack is given of a plan: valid by its own classes, the plan's words but for address and port, no secret."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._operations.export.gpustack import carried
from ansible_collections.gb10.fleet.plugins.module_utils._operations.export.service import Carried
from ansible_collections.gb10.fleet.plugins.module_utils._operations.export.text import as_text
from planned import ranks_of
from test_export import PAIR, ROOT, act, plan, shipped

SCHEMA = json.loads((ROOT / "tests" / "data" / "gpustack.json").read_text("utf-8"))
OPEN = {"open": True}


def check(planned: Mapping[str, Any], name: str, made: Carried) -> dict[str, Any]:
    """Valid, whole, safe: of each service that is carried over."""
    (document,) = made.documents
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert [one for one in yaml.safe_load_all(as_text(made)) if one] == [document]
    (rank,) = ranks_of(dict(planned), name)
    container, words = rank["container"], shlex.split(document["run_command"])
    differ = {(word, there) for word, there in zip(container["arguments"], words, strict=True) if word != there}
    assert {there for _, there in differ} == {"{{worker_ip}}", "{{port}}"}
    for option, given in (("--host", "{{worker_ip}}"), ("--port", "{{port}}")):
        assert words[words.index(option) + 1] == given
    assert container["env"].items() <= document["env"].items()
    assert {one for one in document["env"] if one not in container["env"]} == {
        one for one in document["env"] if one.startswith("GPUSTACK_")
    }
    assert document["worker_selector"] == {"worker-name": planned["services"][name]["hosts"][0]}
    assert (document["replicas"], made.secrets) == (1, ())
    served: dict[str, Any] = document
    return served


def test_every_service_of_our_inventories_is_refused_with_a_reason_and_each_open_one_carried_over() -> None:
    for _inventory, planned in shipped():
        for name in planned["services"]:
            errors = carried(planned, name).findings
            assert "export-key" in {one.rule for one in errors}
            assert all(one.found and one.expected and one.remedy for one in errors)


@pytest.mark.parametrize("recipe", sorted(path.stem for path in SHIPPED_RECIPES.glob("*.yml")))
def test_every_recipe_is_carried_over_or_refused(tmp_path: Path, recipe: str) -> None:
    """Of those that go on one host by themselves."""
    try:
        planned = plan(tmp_path, {"recipe": recipe, "trust": ["code"], **OPEN})
    except AssertionError:
        pytest.skip("it needs more than one host, or more than this service says")
    made = carried(planned, "chat")
    if [one.rule for one in made.findings if one.severity == "error"]:
        assert made.documents == ()
    else:
        check(planned, "chat", made)


def test_a_service_on_one_host(tmp_path: Path) -> None:
    planned = plan(tmp_path, {"flags": {"chat-template": "{{ x }} $(HOME) 'y'"}, **OPEN})
    made = carried(planned, "chat")
    document = check(planned, "chat", made)
    assert (document["name"], document["backend"]) == ("Qwen/Qwen3-1.7B", "Custom")
    assert document["local_path"].startswith("/hf/hub/models--Qwen--Qwen3-1.7B/")
    assert re.fullmatch(r"vllm/vllm-openai:\S+@sha256:[0-9a-f]{64}", document["image_name"])
    (rank,) = ranks_of(planned, "chat")
    env = document["env"]
    assert env["GPUSTACK_MODEL_VRAM_CLAIM"] == str(rank["supervisor"]["memory_bytes"])
    assert env["GPUSTACK_MODEL_RUNTIME_SHM_SIZE_GIB"] == "16"
    assert env["GPUSTACK_MODEL_HEALTH_CHECK_PATH"] == "/health"
    asks = {word.rpartition("HEALTH_CHECK_")[2]: env[word] for word in env if "INFERENCE_HEALTH" in word}
    assert asks == {"ENABLED": "true", "INTERVAL": "30", "TIMEOUT": "30", "FAILURE_THRESHOLD": "10"}
    assert made.findings == []


def test_embeddings_are_called_so(tmp_path: Path) -> None:
    planned = plan(tmp_path, {"recipe": "bge-base-en-v1.5", **OPEN})
    assert check(planned, "chat", carried(planned, "chat"))["categories"] == ["embedding"]


@pytest.mark.parametrize(
    ("settings", "rule", "word"),
    [
        ({"open": False}, "key", "API key"),
        ({"hosts": ["a", "b"]}, "group", "ranks on a, b"),
        ({"recipe": "qwen3-8b-nvfp4-sglang"}, "entrypoint", "python3"),
        ({"recipe": "llama"}, "entrypoint", "llama-server"),
        ({"tls": {"certificate": "tls.crt", "key": "tls.key"}}, "certificate", "a certificate for"),
        ({"listen": "127.0.0.1"}, "listen", "127.0.0.1"),
        ({"flags": {"chat-template": "{{port}}"}}, "placeholder", "{{port}}"),
    ],
)
def test_what_cannot_be_carried_over_has_no_deployment(
    tmp_path: Path, settings: dict[str, Any], rule: str, word: str
) -> None:
    for kind in ("crt", "key"):
        (tmp_path / f"tls.{kind}").write_text("")
    made = carried(plan(tmp_path, {**OPEN, **settings}), "chat")
    assert made.documents == ()
    found = {one.rule: one for one in made.findings}
    assert word in found[f"export-{rule}"].found
    assert all(one.severity == "error" and one.remedy for one in made.findings)


def test_two_services_of_one_model_are_refused(tmp_path: Path) -> None:
    other = {"recipe": "qwen3-1.7b", "hosts": ["b"], "port": 8000, **OPEN}
    planned = plan(tmp_path, OPEN, PAIR, second=other)
    assert [one.rule for one in carried(planned, "chat").findings] == ["export-name"]


def test_a_model_that_has_no_way_through_its_server_is_refused(tmp_path: Path) -> None:
    planned = plan(tmp_path, OPEN)
    [rank] = planned["hosts"]["a"]["services"]
    rank["supervisor"]["probes"]["proof"]["path"] = "/classify"
    rank["container"]["mounts"].append({"source": "/etc/x", "target": "/y", "read_only": True})
    assert [one.rule for one in carried(planned, "chat").findings] == ["export-mounts", "export-kind"]


def test_an_image_without_a_digest_is_named(tmp_path: Path) -> None:
    planned = plan(tmp_path, {"image": {"digest": None}, **OPEN})
    made = carried(planned, "chat")
    check(planned, "chat", made)
    assert [(one.severity, one.rule) for one in made.findings] == [("warning", "export-image-moves")]


def test_the_action_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"plan": plan(tmp_path, OPEN), "services": ["chat"], "folder": str(tmp_path / "out")}
    made = act(monkeypatch, target="gpustack", **options)
    (file,) = made["files"]
    assert yaml.safe_load(Path(file).read_text())["backend"] == "Custom"
    assert act(monkeypatch, target="gpustack", **options)["changed"] is False


def test_the_recorded_schema_refuses_what_its_reader_refuses() -> None:
    """`load_deployments` takes no field that it does not know."""
    validator = jsonschema.Draft202012Validator(SCHEMA)
    whole = {"name": "x", "source": "local_path", "local_path": "/x"}
    assert validator.is_valid(whole)
    for wrong in ({"gpus": 1}, {"source": "disk"}, {"replicas": "1"}, {"env": {"A": 1}}, {"cluster_id": 1}):
        assert not validator.is_valid(whole | wrong)
