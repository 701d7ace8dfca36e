# SPDX-License-Identifier: GPL-3.0-or-later
"""What options and variables of vLLM keep in the host's memory beside weights, activations and KV pool.

CPU and GPU of a GB10 share one memory, so that a cache "in CPU memory" takes from the same bytes. Read in vLLM 0.33.0:
vllm/distributed/kv_transfer/kv_connector/factory.py (which connectors there are), vllm/v1/kv_offload/cpu/spec.py,
.../v1/simple_cpu_offload_connector.py, vllm/config/{cache,kv_transfer,multimodal}.py. LMCache: lmcache/v1/config.py.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._base.layers import Value
from ..._base.place import Place
from ..._base.sizes import MIB, gib
from ..._facts.models.config import ConfigJson
from ..kept import Keeps, uncounted
from ..kept import kept as of_options
from ..placed import Placed

Settings = Mapping[str, Any]

_SIMPLE_BYTES = 8 << 30  # DEFAULT_CPU_CAPACITY_BYTES
_LMCACHE_GIB = 5.0  # lmcache/v1/config.py, max_local_cpu_size
# Each of the two processes that keep processed images has one (vllm/config/multimodal.py). What 4 GiB of them come to
# is in the growth of the processes that was measured.
_IMAGE_CACHES, _IMAGE_CACHE_GIB = 2, 4.0
_COUNTED = "OffloadingConnector with cpu_bytes_to_use"
_SOURCE = "vllm/distributed/kv_transfer/kv_connector/factory.py of 0.33.0; docs/explanation/memory.md"


_ROUTES = "routes of experts, by the size of the pool"
# Of vllm/config/aux_output.py and vllm/envs.py. Other sizes in these are limits of one request, or of a disk.
_SIZES = {
    "aux-output-config.max_bytes": Keeps("routes of experts", 1),
    "aux-output-config.enable_return_routed_experts": Keeps(_ROUTES, unless="aux-output-config.max_bytes"),
    "enable-return-routed-experts": Keeps(_ROUTES, unless="aux-output-config.max_bytes"),
    "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE": Keeps("what attention computes in", 1),
    "VLLM_XGRAMMAR_CACHE_MB": Keeps("compiled grammars", MIB),
}


@dataclass(frozen=True)
class Ranks:
    """Of a service. count: how many, one a host. one_copy: whether all hold the same KV cache, as with latent
    attention."""

    count: int
    one_copy: bool


class _UncountedError(Exception):
    """Nobody can say from the options alone how much it keeps. args: why."""


def kept_by(placed: Placed) -> tuple[int, list[Finding]]:
    """Bytes that a rank of a placed service keeps in its host's memory, and what can't be counted."""
    flags = {name: option.value for name, option in placed.flags.items()}
    environment = {name: str(one.value) for name, one in placed.environments[placed.head.name].items()}
    one_copy = bool(ConfigJson(placed.config or {}).text.get("kv_lora_rank"))
    found, findings = kept(flags, environment, placed.place, Ranks(len(placed.hosts), one_copy))
    return found + pool_share(placed.flags), findings


def shared(decided: Mapping[str, Value]) -> int:
    """Bytes in /dev/shm of each container: the stores of the service's connectors, whole."""
    flags = {name: option.value for name, option in decided.items()}
    stores = [_extra(one) for _, one in _connectors(flags) if one.get("kv_connector") == "OffloadingConnector"]
    return sum(_bytes(store.get("cpu_bytes_to_use")) or 0 for store in stores)


def kept(flags: Settings, environment: Mapping[str, str], place: Place, ranks: Ranks) -> tuple[int, list[Finding]]:
    """The same of options and variables by their names. place: the service's."""
    outputs = flags.get("aux-output-config")
    of_map = outputs if isinstance(outputs, Mapping) else {}
    written = {name: _number(environment.get(name)) for name in _SIZES if name in environment}
    written |= {f"aux-output-config.{key}": value for key, value in of_map.items()}
    total, findings = of_options(_SIZES, {**flags, **written}, place, _SOURCE)
    total += _images(flags)
    for at, settings in _connectors(flags):
        where, name = place.below("flags", at), str(settings.get("kv_connector"))
        try:
            if name.startswith("Nixl") and settings.get("kv_buffer_device") == "cpu":
                raise _UncountedError("on the CPU its buffer is a second copy of the whole KV pool")
            total += _count(name)(_extra(settings), environment, ranks)
        except _UncountedError as why:
            findings.append(uncounted(where, name, str(why), _SOURCE, _COUNTED))
        except ValueError as cause:
            findings.append(worded.error("memory-connector", where, kind="memory", name=name, cause=str(cause)))
    return total, [*findings, *_encoder_caches(flags, place)]


def pool_share(decided: Mapping[str, Value]) -> int:
    """Bytes that vLLM takes out of the KV pool for its front end (vllm/config/multimodal.py, mm_ipc_gpu_memory_gb; true
    of 0.26 to 0.33), so that a pinned pool needs them on top."""
    return _gib(decided["mm-ipc-gpu-memory-gb"].value) if "mm-ipc-gpu-memory-gb" in decided else 0


def _connectors(flags: Settings) -> Iterator[tuple[str, Settings]]:
    """Every KV connector of a launch with its settings, those of a MultiConnector one by one."""
    written = flags.get("kv-transfer-config")
    settings: Settings = written if isinstance(written, Mapping) else {}
    if flags.get("kv-offloading-size") is not None:
        # vllm/config/vllm.py, _post_init_kv_transfer_config: the size replaces the connector and its bytes
        bytes_asked = {"cpu_bytes_to_use": _gib(flags["kv-offloading-size"])}
        extra = {**_extra(settings), **bytes_asked}
        yield "kv-offloading-size", {"kv_connector": "OffloadingConnector", "kv_connector_extra_config": extra}
    elif settings.get("kv_connector") == "MultiConnector":
        children = _extra(settings).get("connectors")
        for child in children if isinstance(children, list) else []:
            if isinstance(child, Mapping):
                yield "kv-transfer-config", child
    elif settings.get("kv_connector") is not None:
        yield "kv-transfer-config", settings


def _extra(settings: Settings) -> Settings:
    extra = settings.get("kv_connector_extra_config")
    return extra if isinstance(extra, Mapping) else {}


_Count = Callable[[Settings, Mapping[str, str], Ranks], int]


def _nothing(extra: Settings, environment: Mapping[str, str], ranks: Ranks) -> int:
    return 0


def _offloading(extra: Settings, environment: Mapping[str, str], ranks: Ranks) -> int:
    """The size is the service's. Each host has a file of that size in /dev/shm and fills its rank's part of it, or all
    of it where the ranks' caches are the same."""
    size = _bytes(extra.get("cpu_bytes_to_use"))
    if not size or size < 0:
        raise ValueError("cpu_bytes_to_use is missing or no number of bytes, without which vLLM does not start")
    return size if ranks.one_copy else -(-size // ranks.count)


def _simple(extra: Settings, environment: Mapping[str, str], ranks: Ranks) -> int:
    own = _bytes(extra.get("cpu_bytes_to_use_per_rank"))
    size = _bytes(extra.get("cpu_bytes_to_use", _SIMPLE_BYTES))
    return max(0, own if own is not None else -(-(size or 0) // ranks.count))


def _sparse(extra: Settings, environment: Mapping[str, str], ranks: Ranks) -> int:
    return _gib(extra.get("host_pool_gib"))


def _lmcache(extra: Settings, environment: Mapping[str, str], ranks: Ranks) -> int:
    """Its options, then its variables. A file has precedence over both, and only the container reads it."""
    if environment.get("LMCACHE_CONFIG_FILE"):
        raise _UncountedError("LMCACHE_CONFIG_FILE names a file that only the container reads")
    used = extra.get("lmcache.local_cpu", environment.get("LMCACHE_LOCAL_CPU", "true"))
    if str(used).lower() in ("false", "0", "no"):
        return 0
    asked = extra.get("lmcache.max_local_cpu_size", environment.get("LMCACHE_MAX_LOCAL_CPU_SIZE", _LMCACHE_GIB))
    return _gib(asked)


def _unknown(why: str, extra: Settings, environment: Mapping[str, str], ranks: Ranks) -> int:
    raise _UncountedError(why)


_ELSEWHERE = "its size stands in a file or program of its own, which the plan does not read"
_COUNTS: dict[str, _Count] = {
    "DecodeBenchConnector": _nothing,
    "ExampleConnector": _nothing,  # keeps what it writes on a disk
    "ExampleHiddenStatesConnector": _nothing,
    "HiSparseConnector": _sparse,
    "LMCacheConnector": _lmcache,
    "LMCacheConnectorV1": _lmcache,
    "LMCacheMPConnector": partial(_unknown, "LMCache's server keeps it, a program that is not of this service"),
    "MooncakeConnector": _nothing,  # sends between pools, and keeps nothing
    "MooncakeStoreConnector": partial(_unknown, _ELSEWHERE),
    "NixlConnector": _nothing,
    "NixlPullConnector": _nothing,
    "NixlPushConnector": _nothing,
    "OffloadingConnector": _offloading,
    "P2pNcclConnector": partial(_unknown, "it keeps what it received in a buffer of its own"),
    "SharedStorageConnector": _nothing,  # the earlier name of ExampleConnector
    "SimpleCPUOffloadConnector": _simple,
}


def _count(name: str) -> _Count:
    return _COUNTS.get(name, partial(_unknown, "a connector that the plan does not know"))


def _encoder_caches(flags: Settings, place: Place) -> Iterator[Finding]:
    settings = flags.get("ec-transfer-config")
    name = settings.get("ec_connector") if isinstance(settings, Mapping) else None
    if name is not None and name != "ECExampleConnector":  # which keeps what it writes on a disk
        at = place.below("flags", "ec-transfer-config")
        yield uncounted(at, str(name), "a cache of encoder outputs", _SOURCE, _COUNTED)


def _images(flags: Settings) -> int:
    """A cache of processed images that is larger than vLLM's default."""
    return _IMAGE_CACHES * max(0, _gib(flags.get("mm-processor-cache-gb")) - gib(_IMAGE_CACHE_GIB))


def _bytes(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _gib(value: object) -> int:
    number = _number(value)
    return 0 if number is None or number < 0 else gib(number)


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"\d{1,18}(\.\d{1,9})?", value.strip()):
        return float(value)
    return value if isinstance(value, int | float) else None
