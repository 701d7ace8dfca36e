# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on memory: one pool for CPU and GPU."""

from ...._base.gb10 import fact
from ...._base.place import argv
from ._base import Hit, Hits, rule
from .launch import Launch

_GB = 10**9
_GIB = 2**30
_UTILIZATION = argv("--gpu-memory-utilization")
_RUNTIME_BYTES = 5 * _GB
_TOGETHER: float = fact("limits", "utilization_together")
_SYSCTL: dict[str, str] = fact("host_tuning", "sysctl")


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


@rule("R098")
def not_enough_free(launch: Launch) -> Hits:
    """Less memory available than the share."""
    available = launch.host.mem_available_bytes
    share = launch.utilization or launch.default_utilization
    if available is not None and available < share * launch.host.memory_bytes:
        wanted = f"{share * launch.host.memory_bytes / _GIB:.1f} GiB"
        yield Hit("host", f"{available / _GIB:.1f} GiB available", expected=wanted)


@rule("R100", sysctl=", ".join(f"{name}={value}" for name, value in _SYSCTL.items()))
def kernel_settings(launch: Launch) -> Hits:
    """A kernel setting that differs."""
    for name, wanted in _SYSCTL.items():
        found = launch.host.sysctl.get(name)
        if found is not None and str(found) != wanted:
            yield Hit(f"host {name}", str(found), expected=wanted)


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


@rule("R109")
def weights_do_not_fit(launch: Launch) -> Hits:
    """Weights larger than the hosts."""
    weights = launch.model.least_bytes if launch.model.weights_bytes else 0
    memory = launch.host.memory_bytes * max(launch.hosts or 1, launch.world_size)
    if weights > 0.9 * memory:
        yield Hit("model", f"{weights / _GB:.0f} GB of weights, {memory / _GB:.0f} GB of memory")
