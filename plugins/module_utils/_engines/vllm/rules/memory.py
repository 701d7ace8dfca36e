# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on memory: one pool for CPU and GPU."""

from ...._base.gb10 import fact
from ...._base.place import argv, env
from ._base import Hit, Hits, host_rule, memory_rule, rule, show
from .launch import Launch

_GB = 10**9
_GIB = 2**30
_UTILIZATION = argv("--gpu-memory-utilization")
_RUNTIME_BYTES = 5 * _GB
_QWEN_VL = r".*/Qwen3-VL-235B-.*AWQ"
_HIGH: float = fact("limits", "utilization")
_FROZE: float = fact("limits", "utilization_froze")
_TOGETHER: float = fact("limits", "utilization_together")
_SYSCTL: dict[str, str] = fact("host_tuning", "sysctl")
_TARGET: str = fact("host_tuning", "default_target")


@memory_rule(
    "R086",
    "error",
    lasts="machine",
    expected="--gpu-memory-utilization, sized for the service",
    remedy="write it; the plan computes it",
    reason="the default takes 0.9 of the one memory (0.92 from 0.20.0 on), and leaves the host to swap or freeze",
    source="32 GB Nemotron guide, root cause 2; vllm/config/cache.py",
)
def no_utilization(launch: Launch) -> Hits:
    """No --gpu-memory-utilization on a host whose GPU shares its memory."""
    sized = launch.has("--gpu-memory-utilization") or launch.has("--kv-cache-memory-bytes")
    if launch.gb10 and launch.serves and not sized and not launch.has("--config"):
        yield Hit(_UTILIZATION, "not given")


@memory_rule(
    "R087",
    "warning",
    lasts="machine",
    expected=f"{_HIGH:.2f} or less",
    remedy="lower it",
    reason="page cache, driver and kernel need the rest: "
    f"above {_FROZE:.2f} hosts ran out of memory with free RAM showing; Gemma-4-12B ran at 0.92, Nano at 0.90",
    source="Spark guide, sections 2 and 7.2.3; 32 GB Nemotron guide",
)
def high_utilization(launch: Launch) -> Hits:
    """A utilization above what we never exceed."""
    share = launch.utilization
    if launch.gb10 and share is not None and share > _HIGH:
        yield Hit(_UTILIZATION, f"{share:g}")


@memory_rule(
    "R088",
    "error",
    lasts="vllm",
    needs=("model.weights_bytes",),
    expected="more than the weights and 5 GB",
    remedy="raise it, or take a smaller checkpoint",
    reason="what is left after weights and runtime is the KV cache: No available memory for the cache blocks",
    source="32 GB Nemotron guide, memory floor; vLLM's start check",
)
def below_weights(launch: Launch) -> Hits:
    """A budget below the weights and the runtime, that the KV cache is to be cut from."""
    weights, share = launch.model.weights_bytes and launch.model.least_bytes, launch.utilization
    if weights and share is not None and not launch.has("--kv-cache-memory-bytes"):
        budget = share * launch.host.memory_bytes
        needed = launch.service.non_kv_bytes or weights / max(launch.world_size, 1) + _RUNTIME_BYTES
        if budget < needed:
            expected = f"more than {needed / launch.host.memory_bytes:.2f}"
            yield Hit(_UTILIZATION, f"{share:g} = {budget / _GB:.1f} GB", expected=expected)


@memory_rule(
    "R089",
    "error",
    lasts="machine",
    needs=("host.utilizations",),
    expected=f"at most {_TOGETHER:.2f} for all services of a host together",
    remedy="lower the utilization of one",
    reason="each takes its share of the whole memory; 0.70 and 0.50 together went well only with older accounting",
    source="cluster owner's notes, Qwen3.5-35B-A3B-FP8",
)
def shares_of_a_host(launch: Launch) -> Hits:
    """The services of one host want more than there is."""
    share = launch.utilization
    if share is not None and launch.host.utilizations:
        total = share + sum(launch.host.utilizations)
        if total > _TOGETHER:
            yield Hit(_UTILIZATION, f"{share:g}, {total:.2f} together")


@memory_rule(
    "R095",
    "warning",
    lasts="machine",
    expected=f"--enforce-eager, or {_HIGH:.2f} or less",
    remedy="lower the utilization",
    reason="compilation and graph capture let memory climb to 117 GB on a shared memory",
    source="32 GB Nemotron guide, known limitations",
)
def graphs_at_high_share(launch: Launch) -> Hits:
    """CUDA graphs with a utilization above what we never exceed."""
    share = launch.utilization
    if launch.gb10 and share is not None and share > _HIGH and not launch.switch("--enforce-eager"):
        yield Hit(_UTILIZATION, f"{share:g} without --enforce-eager")


@memory_rule(
    "R096",
    "hint",
    lasts="measured",
    needs=("service.profile",),
    expected="--enforce-eager",
    remedy="write it",
    reason="it saved 13 GB and cost 3 % speed",
    source="32 GB Nemotron guide, key findings",
)
def eager_saves_memory(launch: Launch) -> Hits:
    """A service that is to be small, with CUDA graphs."""
    if launch.service.profile == "minimal-memory" and not launch.switch("--enforce-eager"):
        yield Hit(argv("--enforce-eager"), "not given")


@rule(
    "R097",
    "hint",
    lasts="measured",
    needs=("service.profile",),
    expected="CUDA graphs",
    remedy="drop --enforce-eager",
    reason="graphs work on one host, also on Mamba and MoE, and start-up is shorter with them",
    source="migration note, section 5",
)
def eager_on_one_host(launch: Launch) -> Hits:
    """--enforce-eager on one host, without a need for little memory."""
    if (
        launch.switch("--enforce-eager")
        and not launch.spread
        and launch.service.profile not in (None, "minimal-memory")
    ):
        yield Hit(argv("--enforce-eager"), "given")


@host_rule(
    "R098",
    "warning",
    lasts="vllm",
    needs=("host.mem_available_bytes",),
    expected="as much memory available as the share wants",
    remedy="drop the page cache before the start: sync; echo 3 > /proc/sys/vm/drop_caches",
    reason="vLLM's start check (X8): free memory below its share; before 0.11.1 the page cache was used memory on GB10",
    source="Spark guide, section 5; vllm/utils/mem_utils.py of 0.11.1",
)
def not_enough_free(launch: Launch) -> Hits:
    """Less memory available than the share."""
    available = launch.host.mem_available_bytes
    share = launch.utilization or launch.default_utilization
    if available is not None and available < share * launch.host.memory_bytes:
        wanted = f"{share * launch.host.memory_bytes / _GIB:.1f} GiB"
        yield Hit("host", f"{available / _GIB:.1f} GiB available", expected=wanted)


@host_rule(
    "R099",
    "warning",
    lasts="machine",
    needs=("group.hosts", "host.swap"),
    expected="swap off",
    remedy="swapoff -a on every host of the service",
    reason="swapping stalls a rank, and with it the whole group",
    source="cluster owner's notes, before launch",
)
def swap_in_group(launch: Launch) -> Hits:
    """Swap on a host of a service with several."""
    if launch.spread and launch.host.swap:
        yield Hit("host", "swap is on")


@host_rule(
    "R100",
    "hint",
    lasts="machine",
    needs=("host.sysctl",),
    expected=", ".join(f"{name}={value}" for name, value in _SYSCTL.items()),
    remedy="let the role host_tuning set it",
    reason="a shared memory doesn't bear large dirty caches and early swapping",
    source="32 GB Nemotron guide, tips",
)
def kernel_settings(launch: Launch) -> Hits:
    """A kernel setting that differs."""
    for name, wanted in _SYSCTL.items():
        found = launch.host.sysctl.get(name)
        if found is not None and str(found) != wanted:
            yield Hit(f"host {name}", str(found), expected=wanted)


@host_rule(
    "R101",
    "hint",
    lasts="machine",
    needs=("host.default_target",),
    expected=_TARGET,
    remedy=f"systemctl set-default {_TARGET}",
    reason="a desktop takes 2 to 3 GB of the one memory",
    source="32 GB Nemotron guide, tips",
)
def desktop(launch: Launch) -> Hits:
    """A desktop on the host."""
    if launch.host.default_target == "graphical.target":
        yield Hit("host", "graphical.target")


@memory_rule(
    "R102",
    "warning",
    lasts="machine",
    needs=("container.memory",),
    expected="--gpu-memory-utilization instead of a container limit",
    remedy="drop --memory",
    reason="GPU allocations come from the same memory, so that the limit kills the load",
    source="Spark guide, section 7.3.1",
)
def container_limit(launch: Launch) -> Hits:
    """A memory limit of the container."""
    if launch.container and "memory" in launch.container:
        yield Hit("container --memory", launch.container["memory"][-1])


@memory_rule(
    "R103",
    "error",
    lasts="vllm",
    needs=("service.kv_pool_tokens",),
    expected="a pool that holds one request of full length",
    remedy="lower --max-model-len, or raise the share",
    reason="vLLM doesn't start: the KV cache is smaller than one request of --max-model-len",
    source="Spark guide, section 7.1.1; vllm/v1/core/kv_cache_utils.py",
)
def one_request_does_not_fit(launch: Launch) -> Hits:
    """A KV pool smaller than one request of full length."""
    pool, length = launch.service.kv_pool_tokens, launch.number("--max-model-len")
    if pool is not None and length and pool < length:
        yield Hit(argv("--max-model-len"), f"{length:.0f} tokens, pool of {pool}")


@memory_rule(
    "R104",
    "warning",
    lasts="vllm",
    needs=("service.kv_pool_tokens",),
    expected="a pool of --max-num-seqs times --max-model-len tokens",
    remedy="lower either, or raise the share",
    reason="requests of full length would wait for each other",
    source="Spark guide, section 8",
)
def pool_and_concurrency(launch: Launch) -> Hits:
    """A KV pool smaller than all sequences at full length, or ten times larger."""
    pool, length = launch.service.kv_pool_tokens, launch.number("--max-model-len")
    wanted = (launch.number("--max-num-seqs") or 0) * (length or 0)
    if not pool or not wanted or pool < (length or 0) or launch.service.pool_declared:
        return
    found = f"{pool} tokens for {wanted:.0f}"
    place = argv("--kv-cache-memory-bytes") if launch.has("--kv-cache-memory-bytes") else _UTILIZATION
    if pool < wanted:
        yield Hit(place, found)
    elif pool > 10 * wanted:
        yield Hit(place, found, severity="hint", expected="less", remedy="lower it: one user needs little")


@rule(
    "R105",
    "hint",
    lasts="measured",
    needs=("service.profile",),
    expected="1 to 4 sequences for interactive use",
    remedy="lower --max-num-seqs",
    reason="decoding is bound by memory bandwidth",
    source="Spark guide, section 8",
)
def many_sequences(launch: Launch) -> Hits:
    """Many sequences in an interactive service."""
    if launch.service.profile == "interactive" and (launch.number("--max-num-seqs") or 0) > 8:
        yield Hit(argv("--max-num-seqs"), show(launch.text("--max-num-seqs")))


@memory_rule(
    "R106",
    "warning",
    lasts="measured",
    expected="--max-num-batched-tokens 4096",
    remedy="lower it",
    reason="16384 and 32768 ran the driver out of memory under load",
    source="cluster owner's notes, scheduler tuning",
)
def large_batches(launch: Launch) -> Hits:
    """Large batches for a 235B model over two hosts."""
    tokens = launch.number("--max-num-batched-tokens") or 0
    if launch.world_size > 1 and launch.model.is_(r".*235B.*") and tokens > 4096:
        yield Hit(argv("--max-num-batched-tokens"), f"{tokens:.0f}")


@memory_rule(
    "R107",
    {"0.11.0..0.12.0": "error", "0.13.0..": "warning"},
    lasts="measured",
    expected="0.70",
    remedy="write --gpu-memory-utilization 0.70",
    reason="0.65 left 8 GB for the cache and crashed, 0.75 crashed during graph capture",
    source="cluster owner's notes, Key",
)
def qwen_vl_share(launch: Launch) -> Hits:
    """Qwen3-VL-235B AWQ over two hosts with another share than the one that works."""
    share = launch.utilization
    if launch.model.is_(_QWEN_VL) and launch.world_size == 2 and share is not None and not 0.66 <= share <= 0.74:
        yield Hit(_UTILIZATION, f"{share:g}")


@memory_rule(
    "X17",
    "warning",
    lasts="machine",
    expected="no --cpu-offload-gb",
    remedy="drop it, and take a smaller quantization or a second host for weights that don't fit",
    reason="CPU and GPU share one memory: offloaded weights take the same bytes of it, and each step copies them",
    source="data/gb10.yml, hardware; vllm/config/offload.py",
)
def offloaded_weights(launch: Launch) -> Hits:
    """Weights offloaded to the CPU's memory, which on GB10 is the GPU's."""
    if launch.gb10 and (launch.number("--cpu-offload-gb") or 0) > 0:
        yield Hit(argv("--cpu-offload-gb"), show(launch.text("--cpu-offload-gb")))


@memory_rule(
    "R108",
    {"0.11.0..0.11.0": "warning"},
    expected="no --max-model-len, or 4096",
    remedy="drop it: vLLM fits the length to the memory",
    reason="16K given by hand ran the driver out of memory; without it 256K were configured",
    source="cluster owner's notes, Key facts and Auto-config",
)
def qwen_vl_length(launch: Launch) -> Hits:
    """Qwen3-VL-235B AWQ on 0.11 with a long context given by hand."""
    if launch.model.is_(_QWEN_VL) and (launch.number("--max-model-len") or 0) > 4096:
        yield Hit(argv("--max-model-len"), show(launch.text("--max-model-len")))


@memory_rule(
    "R109",
    "error",
    lasts="machine",
    needs=("model.weights_bytes",),
    expected="weights of at most 0.9 of all hosts' memory",
    remedy="take a quantized checkpoint, or more hosts",
    reason="BF16 and FP8 weights of a 235B model don't fit two hosts",
    source="cluster owner's notes, Key facts",
)
def weights_do_not_fit(launch: Launch) -> Hits:
    """Weights larger than the hosts."""
    weights = launch.model.least_bytes if launch.model.weights_bytes else 0
    memory = launch.host.memory_bytes * max(launch.hosts or 1, launch.world_size)
    if weights > 0.9 * memory:
        yield Hit("model", f"{weights / _GB:.0f} GB of weights, {memory / _GB:.0f} GB of memory")


@memory_rule(
    "X19",
    {"0.22.0..": "error"},
    lasts="vllm",
    expected="no expandable_segments:True beside a KV connector",
    remedy="take it out of PYTORCH_CUDA_ALLOC_CONF, or write enable-cumem-allocator: true",
    reason="vLLM refuses to start: the allocator may move memory that a connector has registered",
    source="vllm/config/vllm.py of 0.22.0 to 0.33.0",
)
def connector_and_expandable_segments(launch: Launch) -> Hits:
    """A KV connector, and an allocator that moves its memory."""
    allocator = launch.env.get("PYTORCH_CUDA_ALLOC_CONF", "")
    connector = launch.command.json("--kv-transfer-config").get("kv_connector") or launch.text("--kv-offloading-size")
    if connector and "expandable_segments:True" in allocator and not launch.switch("--enable-cumem-allocator"):
        yield Hit(env("PYTORCH_CUDA_ALLOC_CONF"), allocator[:80])
