# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts and images have shown: it makes the plan exact and decides nothing."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.sizes import GIB
from ansible_collections.gb10.fleet.plugins.module_utils._engines.memory.boots import BootLog, boot_record
from ansible_collections.gb10.fleet.plugins.module_utils._engines.observed import (
    Observed,
    image_key,
    read_observed,
    require_observed,
)
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv import kv_for_service
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.boot_log import parse_boot_log
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.promised import promised
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_text
from planned import ranks_of

ROOT = Path(__file__).resolve().parents[2]
LIBRARY, _ = load_all([SHIPPED_RECIPES])
SERVICE: dict[str, Any] = {
    "recipe": "qwen3.6-35b-a3b-nvfp4",
    "hosts": ["titan"],
    "port": 8000,
    "trust": ["code"],
    "workload": {"max_model_len": 65536, "max_num_seqs": 4},
}
UTILIZATION = {"flags": {"gpu-memory-utilization": 0.6}}


VLLM = ENGINES["vllm"]


def planned(service: dict[str, Any], observed: Observed | None = None, library: Library = LIBRARY) -> dict[str, Any]:
    variables = {"fleet_services": {"qwen": SERVICE | service}}
    inventory = {"hosts": {"titan": {"address": "titan.lan", "port": None, "variables": variables}}, "folder": "/none"}
    return plan_fleet(inventory, library, observed=observed or Observed())


def booted(plan: dict[str, Any], available: int) -> tuple[BootLog, dict[str, Any]]:
    """A boot that left so many bytes to the pool: what its log says, and the record of it."""
    service = plan["services"]["qwen"]
    config, _ = LIBRARY.config("qwen3.6-35b-a3b", "")
    flags = service["flags"]
    pool = kv_for_service(config, flags, service["image"]["release"]).pool(available)
    log = BootLog(21.94, round(available / GIB, 2), 0.6, pool["tokens"], pool["max_model_len"], pool["max_concurrency"])
    record = boot_record(log, "qwen", "2026-11-21", service["boot"]["requested_bytes"])
    assert record is not None
    return log, record


@pytest.mark.parametrize(
    ("record", "unused"),
    [
        ({}, False),
        ({"flags": {"max-num-batched-tokens": 4096}}, False),  # of another launch: docs/explanation/memory.md says so
        ({"flags": {"enforce-eager": True}}, True),
        ({"flags": {}, "non_kv_gib": None}, False),
        ({"flags": {}, "hosts": 2}, False),  # not of this launch's ranks
    ],
)
def test_a_record_that_can_not_count_is_a_warning(record: dict[str, Any], unused: bool) -> None:
    recipe = LIBRARY.recipes[SERVICE["recipe"]]
    written = {**recipe.data["memory"]["calibrations"][0], **record}
    own = replace(recipe, data={**recipe.data, "memory": {"calibrations": [written]}})
    plan = planned({}, library=replace(LIBRARY, recipes={own.name: own}))
    found = [row for row in plan["findings"] if row["rule"] == "memory-calibration-unused"]
    assert len(found) == unused
    for row in found:
        assert row["place"] == "recipe qwen3.6-35b-a3b-nvfp4.memory.calibrations[0].flags"
        assert 'write "max-num-batched-tokens: N"' in row["remedy"]
        assert "fleet_services.qwen has 8192" in row["remedy"]


def commands(plan: dict[str, Any]) -> list[Any]:
    return [(rank["files"], rank["container"]) for rank in ranks_of(plan, "qwen")]


def test_after_its_boot_the_plan_has_exactly_what_the_log_had() -> None:
    before = planned(UTILIZATION)
    service = before["services"]["qwen"]
    assert not service["kv"]["exact"]
    log, record = booted(before, service["kv"]["bytes"] - 123_456_789)
    expected = before["hosts"]["titan"]["services"][0]["proof"]["expected"]
    assert expected["kv_tokens_low"] < log.kv_cache_tokens < expected["kv_tokens_high"]
    assert promised(VLLM, "qwen", expected, asdict(log)) == []

    after = planned(UTILIZATION, Observed({"titan": {service["boot"]["key"]: record}}))
    assert after["services"]["qwen"]["kv"]["exact"]
    assert after["services"]["qwen"]["kv"]["tokens"] == log.kv_cache_tokens
    lines = after["hosts"]["titan"]["memory"]["qwen"]
    assert {lines[line]["source"] for line in ("weights", "runtime", "graphs")} == {
        "calibrated by the boot of 2026-11-21"
    }
    assert all(lines[line]["low"] == lines[line]["high"] for line in ("weights", "runtime", "graphs", "kv_pool"))
    assert commands(after) == commands(before)
    assert "calibrated by the boot of 2026-11-21" in as_text(after, ["titan"])

    other = replace(log, kv_cache_tokens=(log.kv_cache_tokens or 0) * 3 // 4)
    (finding,) = promised(
        ENGINES["vllm"], "qwen", after["hosts"]["titan"]["services"][0]["proof"]["expected"], asdict(other)
    )
    assert finding.rule == "verify-kv-pool"


def test_another_utilization_is_exact_too_and_other_flags_are_not() -> None:
    before = planned(UTILIZATION)
    key = before["services"]["qwen"]["boot"]["key"]
    _log, record = booted(before, before["services"]["qwen"]["kv"]["bytes"])
    observed = Observed({"titan": {key: record}})
    assert planned({"flags": {"gpu-memory-utilization": 0.5}}, observed)["services"]["qwen"]["kv"]["exact"]
    changed = planned({"flags": {"gpu-memory-utilization": 0.6, "max-num-batched-tokens": 4096}}, observed)
    assert not changed["services"]["qwen"]["kv"]["exact"]


def test_a_pinned_pool_stays_as_decided_whatever_a_boot_shows() -> None:
    before = planned({})
    key = before["services"]["qwen"]["boot"]["key"]
    log = BootLog(weights_gib=30.0, graphs_gib=2.0)
    record = boot_record(log, "qwen", "2026-11-21", before["services"]["qwen"]["boot"]["requested_bytes"])
    assert record is not None
    after = planned({}, Observed({"titan": {key: record}}))
    assert commands(after) == commands(before)
    assert after["hosts"]["titan"]["memory"]["qwen"]["weights"]["expected"] == 30 * GIB


NIGHTLY = {"image": {"reference": "vllm/vllm-openai:nightly", "release": None}}


def test_an_image_of_unknown_build_is_read_once_and_then_checked_against() -> None:
    before = planned(NIGHTLY)
    (unread,) = before["hosts"]["titan"]["unread_images"]
    assert unread["image"] == "vllm/vllm-openai:nightly"
    assert "kv-release-assumed" in [finding["rule"] for finding in before["findings"]]
    names = json.loads((SHIPPED_RECIPES.parent / "data" / "vllm_catalogue.json").read_text("utf-8"))
    key = image_key({"reference": "vllm/vllm-openai:nightly", "digest": None})
    assert unread["catalogues"]["observed"] == f"catalogues/titan/{key}.json"
    # a catalogue of the release itself stands for what was read out of the image
    observed = Observed(catalogues={"titan": {key: {"version": "0.23.1rc1.dev5+gabc", "catalogue": names}}})
    after = planned(NIGHTLY | {"flags": {"no-such-option": 1}}, observed)
    assert after["services"]["qwen"]["kv"]["tokens"]
    found = {finding["rule"] for finding in after["findings"]}
    assert "catalogue-unknown-option" in found
    assert "kv-release-assumed" not in found
    assert commands(planned(NIGHTLY, observed)) == commands(before)


def test_what_verify_wrote_is_read_back(tmp_path: Path) -> None:
    plan = planned(UTILIZATION)
    _log, record = booted(plan, plan["services"]["qwen"]["kv"]["bytes"])
    place = tmp_path / ".fleet" / "observed" / plan["hosts"]["titan"]["services"][0]["proof"]["boots"]["observed"]
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(record), encoding="utf-8")
    found = read_observed(tmp_path)
    assert found.findings == ()
    assert planned(UTILIZATION, found)["services"]["qwen"]["kv"]["exact"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"service": 1}', "\x00", "[" * 100_000, '{"log": {}}', '{"service": NaN}']
)
def test_a_file_of_no_use_is_reported_and_left_out(tmp_path: Path, text: str) -> None:
    for place in ("boots/titan/x.json", "catalogues/titan/x.json", "speeds/titan/x.json"):
        path = tmp_path / ".fleet" / "observed" / place
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    found = read_observed(tmp_path)
    assert (found.boots, found.catalogues, found.speeds) == ({}, {}, {})
    assert [finding.rule for finding in found.findings] == ["observed-unusable"] * 3
    assert {finding.severity for finding in planned_findings(found)} == {"warning"}


def planned_findings(observed: Observed) -> tuple[Any, ...]:
    rows = [row for row in planned({}, observed)["findings"] if row["rule"] == "observed-unusable"]
    assert len(rows) == len(observed.findings)
    return observed.findings


NAMES = {
    "releases": ["0.20.0"],
    "options": [
        {
            "name": "--port",
            "in": "0.20.0..",
            "aliases": ["-p"],
            "negations": ["--no-port"],
            "type": "int",
            "nargs": "?",
            "choices": "suggested",
            "default": 8000,
            "optional": True,
            "folded": False,
            "repeatable": False,
            "strict": True,
            "deprecated": "use another",
        }
    ],
    "variables": [{"name": "VLLM_X", "in": "0.20.0..", "type": "int", "choices": ["1"], "default": 1, "folded": True}],
    "registries": {"--port": {"8000": "0.20.0.."}},
}
WORD = {"version": "0.20.0", "catalogue": NAMES}
TWO = {"a": "h1", "b": "h2"}
IMAGE_KEY = image_key({"reference": "vllm/vllm-openai:nightly", "digest": None})


def site(observed: Observed | None = None) -> dict[str, Any]:
    """Two services of one image that no release names, each on a host of its own."""
    services = {name: {**SERVICE, **NIGHTLY, "hosts": [host]} for name, host in TWO.items()}
    hosts = {
        host: {"address": f"{host}.lan", "port": None, "variables": {"fleet_services": services}}
        for host in TWO.values()
    }
    return plan_fleet({"hosts": hosts, "folder": "/none"}, LIBRARY, observed=observed or Observed())


def of_other_services(plan: dict[str, Any]) -> Any:
    """What a plan says of `b` and its host, and of nobody else."""
    found = [row for row in plan["findings"] if "fleet_services.b" in row["place"] or row["place"].startswith("h2")]
    return found, plan["services"]["b"], plan["hosts"]["h2"]


def keep(folder: Path, place: str, content: Any) -> Path:
    path = folder / ".fleet" / "observed" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_the_word_of_a_host_on_an_image_counts_for_that_host_alone(tmp_path: Path) -> None:
    keep(tmp_path, f"catalogues/h1/{IMAGE_KEY}.json", WORD)
    plan = site(read_observed(tmp_path))
    assert "catalogue-unknown-option" in {row["rule"] for row in plan["findings"] if ".a" in row["place"]}
    assert of_other_services(plan) == of_other_services(site())


def test_a_catalogue_that_is_none_is_a_warning_that_names_its_file(tmp_path: Path) -> None:
    path = keep(tmp_path, f"catalogues/h1/{IMAGE_KEY}.json", {"version": "0.20.0", "catalogue": {}})
    plan = site(read_observed(tmp_path))
    [finding] = [row for row in plan["findings"] if row["rule"] == "observed-unusable"]
    assert (finding["severity"], finding["place"]) == ("warning", str(path))
    assert not [row for row in plan["findings"] if row["severity"] == "error"]
    assert of_other_services(plan) == of_other_services(site())


def test_a_catalogue_of_an_earlier_release_counts_for_nobody(tmp_path: Path) -> None:
    path = keep(tmp_path, f"catalogues/{IMAGE_KEY}.json", WORD)
    found = read_observed(tmp_path)
    assert found.catalogues == {}
    assert [(one.rule, one.place) for one in found.findings] == [("observed-unusable", str(path))]


def leaves(value: Any, *above: Any) -> Iterator[tuple[Any, ...]]:
    yield above
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from leaves(item, *above, key)


def bent(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(document)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


VALUES: list[Any] = [
    None, True, 0, -1, 7.5, 10**400, 1e308, float("nan"), float("inf"), "", "x", "\ud800", "\x1b[2J", "a\nb",
    "0.20.0..", "..<0", "9" * 5000 + "..", [], ["x"], [None], {}, {"x": 1}, {"\ud800": "x"},
]  # fmt: skip
BOOTED = {
    "service": "a",
    "booted": "2026-11-21",
    "requested_bytes": 40 << 30,
    "memory_total_bytes": 120 << 30,
    "log": {
        **{"release": "0.20.0", "weights_gib": 21.9, "available_kv_gib": 12.5, "graphs_gib": 0.6},
        **{"kv_cache_tokens": 100000, "max_model_len": 65536, "max_concurrency": 1.5},
    },
}
STARTED = {
    **{"service": "a", "image": "i", "model": "m", "gb": 23.0, "loader": "lazy"},
    "starts": [
        {
            "began": f"2026-11-2{day}T15:40:00+00:00",
            "caches": "warm",
            "seconds": 80.0 + day,
            "phases": {"weights": 40.0},
        }
        for day in range(3)
    ],
}
KINDS: dict[str, dict[str, Any]] = {"boot": BOOTED, "catalogue": WORD, "start": STARTED}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:12])
def test_no_value_at_any_place_of_it_reaches_another_host(tmp_path: Path, kind: str, value: Any) -> None:
    """It is refused before it is written, or the plan is made, shown, and says the same of all others."""
    whole, key = site(), site()["services"]["a"]["boot"]["key"]
    for path in leaves(KINDS[kind]):
        document = bent(KINDS[kind], path, value)
        try:
            require_observed(kind, document)
        except ValueError as refused:
            assert str(refused)
            continue
        keep(tmp_path, f"{kind}s/h1/{({'catalogue': IMAGE_KEY}).get(kind, key)}.json", document)
        plan = site(read_observed(tmp_path))
        assert of_other_services(plan) == of_other_services(whole)
        text = as_text(plan, [*TWO.values()])
        text.encode()
        assert "\x1b" not in text


def test_nothing_observed_is_nothing(tmp_path: Path) -> None:
    assert read_observed(tmp_path) == Observed()


def test_the_log_of_a_real_vllm_gives_the_plan_its_tokens() -> None:
    """A start of vLLM 0.32 on a CPU, sized by utilization (tests/data/vllm_logs/README.md)."""
    library, _ = load_all([ROOT / "inventories" / "lab" / "recipes", SHIPPED_RECIPES])
    service = {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000, "workload": {"max_model_len": 2048}}
    variables = {
        "fleet_services": {"tiny": service | {"flags": {"gpu-memory-utilization": 0.06}}},
        "fleet_host": {"memory_kib": 24_683_479},
    }
    inventory = {"hosts": {"titan": {"address": "titan.lan", "port": None, "variables": variables}}, "folder": "/none"}
    before = plan_fleet(inventory, library)["services"]["tiny"]
    assert (before["kv"]["exact"], before["kv"]["tokens"] != 1_870_848) == (False, True)
    log = (ROOT / "tests" / "data" / "vllm_logs" / "0.32.0-cpu-stock-utilization.log").read_text("utf-8")
    boot = parse_boot_log(log)
    assert (boot.release, boot.available_kv_gib, boot.kv_cache_tokens) == ("0.32.0", 0.89, 1_870_848)
    record = boot_record(boot, "tiny", "2026-11-21", before["boot"]["requested_bytes"])
    assert record is not None
    after = plan_fleet(inventory, library, observed=Observed({"titan": {before["boot"]["key"]: record}}))
    assert after["services"]["tiny"]["kv"]["tokens"] == 1_870_848
    assert after["services"]["tiny"]["kv"]["max_concurrency"] == 913.5
    assert promised(VLLM, "tiny", after["hosts"]["titan"]["services"][0]["proof"]["expected"], asdict(boot)) == []


def test_kept_starts_narrow_the_forecast_and_decide_nothing() -> None:
    without = planned({})
    key = without["services"]["qwen"]["boot"]["key"]
    took = [
        {
            "began": f"2026-11-2{day}T15:40:00+00:00",
            "caches": "warm",
            "seconds": 80.0 + day,
            "phases": {"weights": 40.0},
        }
        for day in range(3)
    ]
    kept = {"service": "qwen", "image": "i", "model": "m", "gb": 23.0, "loader": "lazy", "starts": took}
    within = planned({}, Observed(starts={"titan": {key: kept}}))
    assert ranks_of(within, "qwen") == ranks_of(without, "qwen")
    (before,), (after,) = without["summary"], within["summary"]
    assert before["start_by"].endswith("published starts") and before["start_s"][0] < before["start_s"][1]
    assert (after["start_s"], after["start_by"]) == ([64, 107], "by its last 3 on titan")
    assert "64 to 107 s" in as_text(within, ["titan"]) and "64 to 107 s" not in as_text(without, ["titan"])
    of_disk = planned({}, Observed(starts={"titan": {"another": kept}}))["summary"][0]
    assert of_disk["start_by"].startswith("by how this host has read weights")
    assert of_disk["start_s"][1] - of_disk["start_s"][0] < before["start_s"][1] - before["start_s"][0]
