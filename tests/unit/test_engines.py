# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seam: another engine goes through the whole plan, and nothing outside of vLLM's own packages names vLLM."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.tables import TOGETHER
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import service
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.client import Reply
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.endpoint import judged
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.judge import parse_metrics
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import compare
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.promised import (
    Verdict,
    computed_by_others,
    promised,
    verdict,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.service import answered
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.tables import (
    end_table,
    status_of,
    status_text,
)
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_text
from drift_fleet import changed, readings
from planned import ranks_of
from stand_in_engine import PROBES, Echo

ROOT = Path(__file__).resolve().parents[2]
BOTH = {**ENGINES, "echo": Echo()}
RECIPE: dict[str, Any] = {
    "name": "parrot",
    "summary": "A parrot",
    "engine": "echo",
    "host_counts": [1, 2, 3],
    "model": {"repository": "org/parrot", "revision": "a" * 40, "weights_bytes": 1000},
    "image": {"reference": "echo:1", "digest": f"sha256:{'0' * 64}", "family": "plain", "release": "1.0.0"},
    "flags": {"voice": "{model_path}/voice.bin"},
    "status": {"state": "reported", "by": "us", "hardware": "none"},
    "sources": ["us"],
}
SERVING = {
    "state": "serving",
    "since": "2026-11-22T09:00:00+00:00",
    "updated_at": "2026-11-22T09:00:10+00:00",
    "error": "",
    "age_s": 1.0,
    "ranks_seen": [{"rank": 1, "state": "serving"}],
}
SWITCH = {"switches": {"s": {"ports": {"a:1": 1, "b:1": 2, "c:1": 3}}}}


def plan(tmp_path: Path, settings: dict[str, Any], **recipe: Any) -> dict[str, Any]:
    (tmp_path / "parrot.yml").write_text(yaml.safe_dump(RECIPE | recipe))
    library, of_recipes = load_all([tmp_path], BOTH)
    whole = {"recipe": "parrot", "hosts": ["a"], "port": 8000} | settings
    variables = {"fleet_services": {"parrot": whole}, "fleet_fabric": SWITCH}
    hosts = {name: {"address": f"{name}.lan", "port": 22, "variables": variables} for name in "abc"}
    return plan_fleet({"hosts": hosts, "folder": str(tmp_path)}, library, of_recipes, engines=BOTH)


def errors(found: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in found["findings"] if finding["severity"] == "error"]


def test_another_engine_is_planned_by_its_own_words_alone(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-0123456789abcdef")
    found = plan(tmp_path, {"api_key_file": "key", "workload": {"max_model_len": 4096}, "served_name": "polly"})
    assert errors(found) == []
    (rank,) = ranks_of(found, "parrot")
    words = rank["container"]["arguments"]
    assert words[:4] == ["echo-server", "ctx=4096", "listen=0.0.0.0:8000", words[3]]
    assert f"voice=/hf/hub/models--org--parrot/snapshots/{'a' * 40}/voice.bin" in words
    shared = {"HF_HOME": "/hf", "HF_MODULES_CACHE": "/tmp/hf_modules"}
    assert rank["container"]["env"] == {"ECHO_OFFLINE": "1"} | shared
    assert rank["key"] == {
        "source": str(tmp_path / "key"),
        "path": "/etc/gb10-fleet/secrets/parrot.key",
        "form": "%s\n",
        "made": False,
    }
    assert rank["engine"] == found["services"]["parrot"]["engine"] == "echo"
    assert found["services"]["parrot"]["served_name"] == "polly"
    assert (found["hosts"]["a"]["needs"]["launches"], found["hosts"]["a"]["unread_images"]) == ([], [])
    assert "vllm" not in json.dumps([found["services"], rank]).lower()


def test_its_groups_meet_by_their_addresses(tmp_path: Path) -> None:
    head, worker = ranks_of(plan(tmp_path, {"hosts": ["b", "a"]}), "parrot")
    assert worker["container"]["arguments"][-1].startswith("head=192.168.")
    assert head["container"]["env"]["ECHO_NODE"] == head["supervisor"]["address"]
    assert worker["supervisor"]["peers"] == [head["supervisor"]["address"]]
    assert errors(plan(tmp_path, {"hosts": ["a", "b", "c"]})) == ["echo-hosts"]


@pytest.mark.parametrize(
    ("service", "recipe", "rules"),
    [
        ({"flags": {"listen": "x"}}, {}, ["recipe-planned-flag"]),
        ({"flags": {"ctx": "many"}}, {}, ["schema-type"]),
        ({"flags": {"port": 1}}, {}, []),
        ({"env": {"ECHO_NODE": "x"}}, {}, ["recipe-planned-env"]),
        ({"env": {"VLLM_HOST_IP": "x"}}, {}, []),
        ({"env": {"ECHO_KEY": "x"}}, {}, ["recipe-secret"]),
        ({"image": {"family": "upstream"}}, {}, ["schema-choice"]),
        ({}, {"engine": "ecko"}, []),
    ],
)
def test_what_may_be_written_is_its_own(
    tmp_path: Path, service: dict[str, Any], recipe: dict[str, Any], rules: list[str]
) -> None:
    found = plan(tmp_path, service, **recipe)
    assert [rule for rule in errors(found) if rule != "recipe-engine"] == rules


def test_its_supervisor_gets_its_probes(tmp_path: Path) -> None:
    """What the supervisor does with them: test_rank, which goes by the same."""
    head, worker = ranks_of(plan(tmp_path, {"hosts": ["b", "a"]}), "parrot")
    read = [service.from_plan(rank["supervisor"]) for rank in (head, worker)]
    joined = replace(PROBES.joined, command=["/usr/bin/docker", "exec", "gb10-service-parrot", "echo-peers"])
    assert [one.probes for one in read] == [replace(PROBES, joined=joined)] * 2
    assert read[0].endpoint is not None
    assert read[0].endpoint.key_form == "%s\n"


def test_its_start_is_verified_by_its_own_reading(tmp_path: Path) -> None:
    (rank,) = ranks_of(plan(tmp_path, {}), "parrot")
    proof, engine = rank["proof"], BOTH[rank["engine"]]
    assert (proof["health"], proof["boot_lines"]) == ("/ready", r"room for \d+ marks")
    boot = engine.boot("echo: room for 990 marks").as_dict()
    assert promised(engine, "parrot", proof["expected"], boot) == []  # nothing is promised
    expected = {"release": "1.0.0", "kv_tokens": 1000, "kv_tokens_low": 1000, "kv_tokens_high": 1000}
    (finding,) = promised(engine, "parrot", expected, boot)
    assert finding.found == "Echo's KV pool holds 990 tokens"
    assert [one.rule for one in promised(engine, "parrot", expected, {"release": "2.0.0"})] == ["verify-release"]
    assert computed_by_others(engine, "parrot", 2, "echo:a+b") is None
    assert computed_by_others(engine, "parrot", 1, "echo:a+b") is not None
    assert computed_by_others(engine, "parrot", 1, "vllm-0.32.0-tp2-57c051c7") is None


def test_a_service_of_it_goes_its_whole_way_without_a_word_of_vllm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the plan over the supervisor's file and unit to verify, status and drift: on paper, of two ranks."""
    monkeypatch.setitem(ENGINES, "echo", BOTH["echo"])
    there = {"image": {**RECIPE["image"], "digest": None}, "model": {**RECIPE["model"], "revision": "c" * 40}}
    found = plan(tmp_path, {"hosts": ["b", "a"], "workload": {"max_model_len": 4096}}, **there)
    assert errors(found) == []
    head, worker = ranks_of(found, "parrot")
    texts = [json.dumps(found["hosts"]), json.dumps(found["services"]), as_text(found, [*"abc"])]

    # as the hosts get it
    supervised = [service.from_plan(rank["supervisor"]) for rank in (head, worker)]
    assert supervised[0].probes.metrics is not None
    unit = head["files"][f"/etc/systemd/system/{head['unit']}"]["content"]
    assert (head["unit"], "gb10_rank.supervise" in unit) == ("gb10-service-parrot.service", True)
    assert [one.rank for one in supervised] == [0, 1]
    assert supervised[0].serve is None
    assert judged(PROBES.proof.answer, Reply(200, '{"echo": ["gb10"]}')).ok
    counted = parse_metrics(
        "echo_work 7\necho_words 3\necho_marks 1\necho_busy 2\necho_queue 1\necho_kv 0.5", supervised[0].probes.metrics
    )
    assert (counted.tokens, counted.running, counted.waiting, counted.kv_use) == (7, 2, 1, 0.5)

    # verify
    proof, engine = head["proof"], BOTH[head["engine"]]
    assert (proof["health"], proof["request"]["path"]) == ("/ready", "/echo")
    assert proof["request"]["body"] == {"text": "chat by parrot"}
    reply = answered(proof["request"]["answers"], Reply(200, '{"echo": ["hello"], "system_fingerprint": "echo:a+b"}'))
    reading = {"unit": {"active": "active", "restarts": 0}, "supervisor": SERVING, "reply": reply, "log_tail": []}
    assert verdict(head["unit"], reading, 0) == Verdict("ready", "hello")
    boot = engine.boot("echo: room for 990 marks")
    assert computed_by_others(engine, "parrot", head["ranks"], reply["fingerprint"]) is None
    assert promised(engine, "parrot", proof["expected"], boot.as_dict()) == []
    shown = {"state": "serving", "answer": reply["answer"], "comparison": "", "problems": []}
    texts.append(end_table(found, ["parrot"], ["a", "b"], {("b", "parrot"): shown}, {}, {}))
    assert 'parrot on b says: "hello"' in texts[-1]

    # status
    seen = {
        ("b", "parrot"): {
            **{name: head[name] for name in ("rank", "ranks", "memory_floor_bytes")},
            "unproved": False,
            "pull": None,
            **{"service": "parrot", "definition": head["definition"], "wanted": head["definition"]},
            **{"unit": {"active": "active"}, "supervisor": SERVING, "memory": {"total": 1 << 37, "available": 1 << 36}},
        }
    }
    texts.append(status_text(status_of(found, ["parrot"], seen, {})))
    assert "no problems" in texts[-1]

    # drift
    assert compare(found, readings(found), "2026-11-22").differences == ()
    louder = changed(found, "b", lambda state: state["running"]["gb10-service-parrot"]["argv"].append("volume=11"))
    (difference,) = compare(found, louder, "2026-11-22").differences
    texts.append(difference.sentence())
    assert "volume=11" in texts[-1]

    assert [text for text in texts if "vllm" in text.lower()] == []


# Nothing else names vLLM ------------------------------------------------------------------------------------------

# Product code of which no engine is a subject, and what molecule's scenarios share.
LOOKED_AT = (
    *("plugins/module_utils", "plugins/modules", "plugins/action", "plugins/filter", "plugins/callback"),
    *("plugins/plugin_utils", "plugins/doc_fragments", "roles", "playbooks", "extensions/molecule/shared"),
)
# vLLM's own, by nature.
OWN = (
    "plugins/module_utils/_engines/vllm/",
    *(f"plugins/{kind}/vllm_lint.py" for kind in ("modules", "action")),
    "plugins/action/vllm_catalogue_info.py",
    "plugins/modules/vllm_catalogue_info.py",
    *(f"plugins/{kind}/kv_pool.py" for kind in ("modules", "filter")),
    "plugins/filter/vllm_flags.py",
)
# What names it all the same: file or folder, and why.
UTIL = "plugins/module_utils"
EXCEPTIONS = {
    f"{UTIL}/api.py": "the public face, of vLLM's parts too",
    f"{UTIL}/_on_host/api_key.py": "vLLM's own, mounted into its containers",
    f"{UTIL}/_engines/observed.py": "catalogues of images, which vLLM's are read for",
    f"{UTIL}/_engines/registry.py": "lists the engines; vllm is the default",
    f"{UTIL}/_base/findings.py": "an example in a docstring",
    f"{UTIL}/_engines/environment.py": "the source of a variable",
    f"{UTIL}/_operations/init": "what runs on a host that has none of our services",
    f"{UTIL}/_subjects/firewall/plan.py": "why ranks listen everywhere",
    f"{UTIL}/_subjects/gateway/haproxy.py": "the source of a list of routes",
    f"{UTIL}/_stores/images": "examples of image references",
    f"{UTIL}/_base/layout.py": "what units of earlier releases are called",
    f"{UTIL}/_engines/memory": "its formula of memory, from its source and its boot logs",
    f"{UTIL}/_facts/models": "the models that vLLM knows, and its readings of config.json",
    f"{UTIL}/_on_host/rank/admission.py": "the release whose own draining was seen",
    f"{UTIL}/_engines/normal_form.py": "whose parser takes several spellings",
    f"{UTIL}/_engines/recipes/foreign.py": "recipes of others, which vLLM serves",
    f"{UTIL}/_engines/recipes/to_sparkrun.py": "recipes for others, which vLLM serves",
    f"{UTIL}/_engines/recipes/formats.py": "recipes of others, which vLLM serves",
    f"{UTIL}/_subjects/system/subject.py": "images that are known to fail, data/vllm_images.yml",
    f"{UTIL}/_base/staging.py": "an example of a line",
    f"{UTIL}/_plan/trust.py": "modules of vLLM, which are no code of others",
    f"{UTIL}/_host/netplan/judge.py": "the project that wrote a host's netplan file",
    f"{UTIL}/_stores/weights/cache.py": "who reads the cache",
    "plugins/action/plan.py": "loads the filters, one of which is vLLM's flags",
    "plugins/modules/container_images.py": "examples",
    "plugins/modules/image_prune.py": "an example",
    "plugins/modules/json_settings.py": "an example",
    "plugins/modules/model_snapshots.py": "who reads the store",
    "plugins/filter/recipe_import.py": "recipes of others, which vLLM serves",
    "roles/model_store": "who reads the store",
    "roles/verify": "reads images of an unknown build by vllm_catalogue_info",
    "plugins/module_utils/_subjects/health/reading.py": "words of programs that watch or start engines",
    "extensions/molecule/shared": "the folder of the lab's images",
}


def naming() -> list[str]:
    """Files that say vllm, but for its own."""
    files = (path for folder in LOOKED_AT for path in (ROOT / folder).rglob("*"))
    texts = (path for path in files if path.is_file() and path.suffix in (".py", ".yml", ".md", ".j2", ".sh"))
    names = (str(path.relative_to(ROOT)) for path in texts if "vllm" in path.read_text("utf-8").lower())
    return [name for name in names if not name.startswith(OWN)]


def is_of(name: str, exception: str) -> bool:
    return f"{name}/".startswith(f"{exception}/")


def test_nothing_outside_of_vllms_own_packages_names_it() -> None:
    assert [name for name in naming() if not any(is_of(name, one) for one in EXCEPTIONS)] == []


@pytest.mark.parametrize("exception", EXCEPTIONS)
def test_each_exception_is_needed(exception: str) -> None:
    assert any(is_of(name, exception) for name in naming())


@pytest.mark.parametrize("path", sorted((ROOT / "data" / "engines").glob("*.yml")), ids=lambda path: path.stem)
def test_a_name_has_one_remedy(path: Path) -> None:
    table = yaml.safe_load(path.read_text("utf-8"))
    for field in TOGETHER:
        names = [name for names in table.get(field, {}).values() for name in names]
        assert len(names) == len({*names}), field
