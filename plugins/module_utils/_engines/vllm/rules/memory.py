# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on memory: one pool for CPU and GPU."""

from ...._base.gb10 import fact
from ...._base.place import argv, env
from ._base import Hit, Hits, rule, show
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


@rule("R086")
def no_utilization(launch: Launch) -> Hits:
    """No --gpu-memory-utilization on a host whose GPU shares its memory."""
    sized = launch.has("--gpu-memory-utilization") or launch.has("--kv-cache-memory-bytes")
    if launch.gb10 and launch.serves and not sized and not launch.has("--config"):
        yield Hit(_UTILIZATION, "not given")


@rule("R087", high=_HIGH, froze=_FROZE)
def high_utilization(launch: Launch) -> Hits:
    """A utilization above what we never exceed."""
    share = launch.utilization
    if launch.gb10 and share is not None and share > _HIGH:
        yield Hit(_UTILIZATION, f"{share:g}")


@rule("R088")
def below_weights(launch: Launch) -> Hits:
    """A budget below the weights and the runtime, that the KV cache is to be cut from."""
    weights, share = launch.model.weights_bytes and launch.model.least_bytes, launch.utilization
    if weights and share is not None and not launch.has("--kv-cache-memory-bytes"):
        budget = share * launch.host.memory_bytes
        needed = launch.service.non_kv_bytes or weights / max(launch.world_size, 1) + _RUNTIME_BYTES
        if budget < needed:
            expected = f"more than {needed / launch.host.memory_bytes:.2f}"
            yield Hit(_UTILIZATION, f"{share:g} = {budget / _GB:.1f} GB", expected=expected)


@rule("R089", together=_TOGETHER)
def shares_of_a_host(launch: Launch) -> Hits:
    """The services of one host want more than there is."""
    share = launch.utilization
    if share is not None and launch.host.utilizations:
        total = share + sum(launch.host.utilizations)
        if total > _TOGETHER:
            yield Hit(_UTILIZATION, f"{share:g}, {total:.2f} together")


@rule("R095", high=_HIGH)
def graphs_at_high_share(launch: Launch) -> Hits:
    """CUDA graphs with a utilization above what we never exceed."""
    share = launch.utilization
    if launch.gb10 and share is not None and share > _HIGH and not launch.switch("--enforce-eager"):
        yield Hit(_UTILIZATION, f"{share:g} without --enforce-eager")


@rule("R096")
def eager_saves_memory(launch: Launch) -> Hits:
    """A service that is to be small, with CUDA graphs."""
    if launch.service.profile == "minimal-memory" and not launch.switch("--enforce-eager"):
        yield Hit(argv("--enforce-eager"), "not given")


@rule("R097")
def eager_on_one_host(launch: Launch) -> Hits:
    """--enforce-eager on one host, without a need for little memory."""
    if (
        launch.switch("--enforce-eager")
        and not launch.spread
        and launch.service.profile not in (None, "minimal-memory")
    ):
        yield Hit(argv("--enforce-eager"), "given")


@rule("R098")
def not_enough_free(launch: Launch) -> Hits:
    """Less memory available than the share."""
    available = launch.host.mem_available_bytes
    share = launch.utilization or launch.default_utilization
    if available is not None and available < share * launch.host.memory_bytes:
        wanted = f"{share * launch.host.memory_bytes / _GIB:.1f} GiB"
        yield Hit("host", f"{available / _GIB:.1f} GiB available", expected=wanted)


@rule("R099")
def swap_in_group(launch: Launch) -> Hits:
    """Swap on a host of a service with several."""
    if launch.spread and launch.host.swap:
        yield Hit("host", "swap is on")


@rule("R100", sysctl=", ".join(f"{name}={value}" for name, value in _SYSCTL.items()))
def kernel_settings(launch: Launch) -> Hits:
    """A kernel setting that differs."""
    for name, wanted in _SYSCTL.items():
        found = launch.host.sysctl.get(name)
        if found is not None and str(found) != wanted:
            yield Hit(f"host {name}", str(found), expected=wanted)


@rule("R101", target=_TARGET)
def desktop(launch: Launch) -> Hits:
    """A desktop on the host."""
    if launch.host.default_target == "graphical.target":
        yield Hit("host", "graphical.target")


@rule("R102")
def container_limit(launch: Launch) -> Hits:
    """A memory limit of the container."""
    if launch.container and "memory" in launch.container:
        yield Hit("container --memory", launch.container["memory"][-1])


@rule("R103")
def one_request_does_not_fit(launch: Launch) -> Hits:
    """A KV pool smaller than one request of full length."""
    pool, length = launch.service.kv_pool_tokens, launch.number("--max-model-len")
    if pool is not None and length and pool < length:
        yield Hit(argv("--max-model-len"), f"{length:.0f} tokens, pool of {pool}")


@rule("R104")
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


@rule("R105")
def many_sequences(launch: Launch) -> Hits:
    """Many sequences in an interactive service."""
    if launch.service.profile == "interactive" and (launch.number("--max-num-seqs") or 0) > 8:
        yield Hit(argv("--max-num-seqs"), show(launch.text("--max-num-seqs")))


@rule("R106")
def large_batches(launch: Launch) -> Hits:
    """Large batches for a 235B model over two hosts."""
    tokens = launch.number("--max-num-batched-tokens") or 0
    if launch.world_size > 1 and launch.model.is_(r".*235B.*") and tokens > 4096:
        yield Hit(argv("--max-num-batched-tokens"), f"{tokens:.0f}")


@rule("R107")
def qwen_vl_share(launch: Launch) -> Hits:
    """Qwen3-VL-235B AWQ over two hosts with another share than the one that works."""
    share = launch.utilization
    if launch.model.is_(_QWEN_VL) and launch.world_size == 2 and share is not None and not 0.66 <= share <= 0.74:
        yield Hit(_UTILIZATION, f"{share:g}")


@rule("X17")
def offloaded_weights(launch: Launch) -> Hits:
    """Weights offloaded to the CPU's memory, which on GB10 is the GPU's."""
    if launch.gb10 and (launch.number("--cpu-offload-gb") or 0) > 0:
        yield Hit(argv("--cpu-offload-gb"), show(launch.text("--cpu-offload-gb")))


@rule("R108")
def qwen_vl_length(launch: Launch) -> Hits:
    """Qwen3-VL-235B AWQ on 0.11 with a long context given by hand."""
    if launch.model.is_(_QWEN_VL) and (launch.number("--max-model-len") or 0) > 4096:
        yield Hit(argv("--max-model-len"), show(launch.text("--max-model-len")))


@rule("R109")
def weights_do_not_fit(launch: Launch) -> Hits:
    """Weights larger than the hosts."""
    weights = launch.model.least_bytes if launch.model.weights_bytes else 0
    memory = launch.host.memory_bytes * max(launch.hosts or 1, launch.world_size)
    if weights > 0.9 * memory:
        yield Hit("model", f"{weights / _GB:.0f} GB of weights, {memory / _GB:.0f} GB of memory")


@rule("X19")
def connector_and_expandable_segments(launch: Launch) -> Hits:
    """A KV connector, and an allocator that moves its memory."""
    allocator = launch.env.get("PYTORCH_CUDA_ALLOC_CONF", "")
    connector = launch.command.json("--kv-transfer-config").get("kv_connector") or launch.text("--kv-offloading-size")
    if connector and "expandable_segments:True" in allocator and not launch.switch("--enable-cumem-allocator"):
        yield Hit(env("PYTORCH_CUDA_ALLOC_CONF"), allocator[:80])
