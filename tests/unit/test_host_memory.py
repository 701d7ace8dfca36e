# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every byte that options of vLLM keep in the host's memory is a line of the plan, or is named as uncounted."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._base.sizes import GIB
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import load
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.host_memory import Ranks, kept
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet

LIBRARY, _ = load_all([SHIPPED_RECIPES])
ONE = Ranks(1, one_copy=False)


def connector(name: str, role: str = "kv_both", **extra: Any) -> dict[str, Any]:
    return {"kv-transfer-config": {"kv_connector": name, "kv_role": role, "kv_connector_extra_config": extra}}


def several(*children: dict[str, Any]) -> dict[str, Any]:
    return connector("MultiConnector", connectors=[child["kv-transfer-config"] for child in children])


OFFLOADING = connector("OffloadingConnector", cpu_bytes_to_use=24 * GIB)
SIMPLE = connector("SimpleCPUOffloadConnector", cpu_bytes_to_use=6 * GIB)


@pytest.mark.parametrize(
    ("flags", "environment", "ranks", "expected"),
    [
        ({}, {}, ONE, 0),
        ({"kv-offloading-size": 24}, {}, ONE, 24 * GIB),
        ({"kv-offloading-size": 2.5}, {}, ONE, 5 * GIB // 2),
        # the size is the whole service's
        ({"kv-offloading-size": 24}, {}, Ranks(2, one_copy=False), 12 * GIB),
        ({"kv-offloading-size": 24}, {}, Ranks(2, one_copy=True), 24 * GIB),
        (OFFLOADING, {}, ONE, 24 * GIB),
        # the option replaces what the connector says
        ({**OFFLOADING, "kv-offloading-size": 8}, {}, ONE, 8 * GIB),
        (SIMPLE, {}, ONE, 6 * GIB),
        (SIMPLE, {}, Ranks(3, one_copy=False), 2 * GIB),
        (connector("SimpleCPUOffloadConnector"), {}, ONE, 8 * GIB),
        (connector("SimpleCPUOffloadConnector", cpu_bytes_to_use_per_rank=3 * GIB), {}, ONE, 3 * GIB),
        (connector("HiSparseConnector", host_pool_gib=12), {}, ONE, 12 * GIB),
        (several(OFFLOADING, SIMPLE, connector("NixlConnector")), {}, ONE, 30 * GIB),
        (connector("LMCacheConnectorV1"), {}, ONE, 5 * GIB),
        (connector("LMCacheConnectorV1"), {"LMCACHE_MAX_LOCAL_CPU_SIZE": "30"}, ONE, 30 * GIB),
        (connector("LMCacheConnectorV1"), {"LMCACHE_LOCAL_CPU": "False"}, ONE, 0),
        (connector("LMCacheConnectorV1", **{"lmcache.max_local_cpu_size": 7}), {}, ONE, 7 * GIB),
        (connector("NixlConnector"), {}, ONE, 0),
        (connector("ExampleConnector", shared_storage_path="/srv/x"), {}, ONE, 0),
        ({"mm-processor-cache-gb": 10}, {}, ONE, 12 * GIB),
        ({"mm-processor-cache-gb": 4}, {}, ONE, 0),
        ({}, {"VLLM_XGRAMMAR_CACHE_MB": "2048"}, ONE, 2 * GIB),
        ({}, {"VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE": "1073741824"}, ONE, GIB),
        ({"aux-output-config": {"enable_return_routed_experts": True, "max_bytes": GIB}}, {}, ONE, GIB),
        ({"kv-transfer-config": "not a map"}, {}, ONE, 0),
    ],
)
def test_what_a_rank_keeps(flags: dict[str, Any], environment: dict[str, str], ranks: Ranks, expected: int) -> None:
    assert kept(flags, environment, Place(service="x"), ranks) == (expected, [])


@pytest.mark.parametrize(
    ("flags", "environment", "rule"),
    [
        (connector("MooncakeStoreConnector"), {}, "memory-uncounted"),
        (connector("LMCacheMPConnector"), {}, "memory-uncounted"),
        (connector("LMCacheConnectorV1"), {"LMCACHE_CONFIG_FILE": "/x.yaml"}, "memory-uncounted"),
        (connector("FromNextYearConnector"), {}, "memory-uncounted"),
        (connector("Ours", cpu_bytes_to_use=1), {}, "memory-uncounted"),
        (
            {"kv-transfer-config": {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu"}},
            {},
            "memory-uncounted",
        ),
        (connector("OffloadingConnector", cpu_bytes_to_use=-1), {}, "memory-connector"),
        (connector("OffloadingConnector", cpu_bytes_to_use="24GiB"), {}, "memory-connector"),
        ({"ec-transfer-config": {"ec_connector": "ECMooncakeConnector"}}, {}, "memory-uncounted"),
        (connector("OffloadingConnector"), {}, "memory-connector"),
        ({"enable-return-routed-experts": True}, {}, "memory-uncounted"),
        (several(OFFLOADING, connector("FlexKVConnectorV1")), {}, "memory-uncounted"),
    ],
)
def test_what_nobody_can_count_is_a_finding(flags: dict[str, Any], environment: dict[str, str], rule: str) -> None:
    assert [finding.rule for finding in kept(flags, environment, Place(service="x"), ONE)[1]] == [rule]


_LIMIT, _DISK, _FABRIC = "a limit of one request or message", "on a disk", "of kernels that a GB10 has not"
# What of vLLM's options, of the keys of their maps and of its variables is a size of memory: counted where, or why not.
COUNTED = {
    "--cpu-offload-gb": "rule X17: the same bytes in the same memory",
    "--kv-cache-memory-bytes": "the memory plan",
    "--kv-offloading-size": "kept",
    "--mm-ipc-gpu-memory-gb": "pool_share",
    "--mm-processor-cache-gb": "kept",
    "--mm-shm-cache-max-object-size-mb": _LIMIT,
    "--aux-output-config.max_bytes": "kept",
    "--ec-transfer-config.ec_buffer_size": "memory-uncounted: a cache of encoder outputs",
    "VLLM_DEEPEP_BUFFER_SIZE_MB": _FABRIC,
    "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE": "kept",
    "VLLM_MAX_AUDIO_CLIP_FILESIZE_MB": _LIMIT,
    "VLLM_MAX_AUDIO_DECODE_BYTES": _LIMIT,
    "VLLM_MAX_EMBED_DECODE_BYTES": _LIMIT,
    "VLLM_MAX_MEDIA_DOWNLOAD_SIZE_MB": _LIMIT,
    "VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES": _LIMIT,
    "VLLM_MAX_MEDIA_REQUEST_DOWNLOAD_SIZE_MB": _LIMIT,
    "VLLM_MEDIA_CACHE_MAX_SIZE_MB": _DISK,
    "VLLM_MQ_MAX_CHUNK_BYTES_MB": _LIMIT,
    "VLLM_ROCM_QUICK_REDUCE_MAX_SIZE_BYTES_MB": _FABRIC,
    "VLLM_ROCM_QUICK_REDUCE_MIN_SIZE_BYTES_MB": _FABRIC,
    "VLLM_SPARSE_INDEXER_MAX_LOGITS_MB": "in the runtime, for models that no recipe has",
    "VLLM_XGRAMMAR_CACHE_MB": "kept",
}


def test_every_option_key_and_variable_in_bytes_is_counted() -> None:
    spoken = re.compile(
        r"(^|[-_])(bytes|gb|gib|mb|mib)([-_]|$)|(buffer|workspace|offloading)[-_]size|size[-_](mb|gb|bytes)",
        re.IGNORECASE,
    )
    newest = load().newest
    names = {option.name for option in newest.options.values()} | set(newest.variables)
    keys = {f"{option.name}.{key}" for option in newest.options.values() for key in option.keys}
    assert {name for name in names if spoken.search(name)} | {
        key for key in keys if spoken.search(key.partition(".")[2])
    } == COUNTED.keys()


def planned(**flags: Any) -> dict[str, Any]:
    service = {"recipe": "qwen3.6-27b-nvfp4", "hosts": ["titan"], "port": 8000, "flags": flags}
    service["image"] = {"reference": "vllm/vllm-openai:v0.28.0"}
    titan = {"address": "192.0.2.1", "port": 22, "variables": {"fleet_services": {"x": service}}}
    return plan_fleet({"hosts": {"titan": titan}, "folder": "."}, LIBRARY)


def test_a_store_of_a_connector_is_planned_as_the_option_is() -> None:
    by_option, by_connector = planned(**{"kv-offloading-size": 24}), planned(**OFFLOADING)
    lines = [plan["hosts"]["titan"]["memory"]["x"] for plan in (by_option, by_connector)]
    assert lines[0] == lines[1]
    assert lines[0]["offload"]["expected"] == 24 * GIB


def test_a_store_that_has_no_room_is_refused() -> None:
    rows = planned(**connector("OffloadingConnector", cpu_bytes_to_use=100 * GIB))["findings"]
    assert "memory-does-not-fit" in [row["rule"] for row in rows if row["severity"] == "error"]


def test_the_container_has_the_shared_memory_that_the_store_lies_in() -> None:
    sizes = [
        planned(**flags)["hosts"]["titan"]["services"][0]["container"]["shared_memory"]
        for flags in ({}, OFFLOADING, SIMPLE)
    ]
    assert sizes == ["16g", "40g", "16g"]


def test_a_part_of_the_pool_that_vllm_takes_for_images_is_pinned_on_top() -> None:
    plans = [planned(), planned(**{"mm-ipc-gpu-memory-gb": 2})]
    pinned = [
        row["value"]
        for plan in plans
        for row in plan["services"]["x"]["explain"]
        if row["name"] == "kv-cache-memory-bytes"
    ]
    assert [plan["services"]["x"]["kv"]["tokens"] for plan in plans] == [plans[0]["services"]["x"]["kv"]["tokens"]] * 2
    assert pinned[1] - pinned[0] == 2 * GIB
    assert plans[1]["hosts"]["titan"]["memory"]["x"]["offload"]["expected"] == 2 * GIB
