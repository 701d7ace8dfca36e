# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on memory, one pool for CPU and GPU, and on the weights and caches that are loaded into it."""

from ...._base.gb10 import fact
from ...._base.place import argv
from ._base import Hit, Hits, rule, show
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


@rule("K4")
def fewer_blocks_than_sequences(launch: Launch) -> Hits:
    """A Mamba model with more sequences than KV blocks."""
    blocks, sequences = launch.service.kv_blocks, launch.number("--max-num-seqs") or 1024
    if launch.model.hybrid and blocks is not None and sequences > blocks and not launch.switch("--enforce-eager"):
        yield Hit(argv("--max-num-seqs"), f"{sequences:.0f} for {blocks} blocks")


@rule("K5")
def batch_below_block(launch: Launch) -> Hits:
    """A hybrid model whose block is larger than a batch."""
    block, batch = launch.service.kv_block_size, launch.number("--max-num-batched-tokens") or 2048
    align = launch.text("--mamba-cache-mode") == "align" or launch.within("0.20.0..0.21.0")
    if launch.model.hybrid and launch.prefix_caching and align and block is not None and block > batch:
        yield Hit(argv("--max-num-batched-tokens"), f"{batch:.0f} for a block of {block}")


@rule("K7")
def swap_space(launch: Launch) -> Hits:
    """--swap-space beyond what the host has."""
    space = (launch.number("--swap-space") or 0) * _GIB * (launch.number("--tensor-parallel-size") or 1)
    if space > 0.7 * launch.host.memory_bytes:
        yield Hit(argv("--swap-space"), f"{space / _GIB:.0f} GiB")


_FAST: float = fact("limits", "utilization_fastsafetensors")
_EAGER: float = fact("limits", "eager_load_extra_gib") * _GIB
_COMPILERS: float = fact("limits", "compilers_gib") * _GIB


@rule("R090", fast=_FAST)
def fastsafetensors_peak(launch: Launch) -> Hits:
    """fastsafetensors with a utilization above what its peak leaves room for."""
    share = launch.utilization
    share = launch.default_utilization if share is None and not launch.has("--kv-cache-memory-bytes") else share
    if launch.gb10 and launch.text("--load-format") == "fastsafetensors" and share is not None and share > _FAST:
        yield Hit(argv("--gpu-memory-utilization"), f"{share:g}")


@rule("R093", eager=_EAGER / _GB)
def slow_load(launch: Launch) -> Hits:
    """The default loader for a large model, or the eager one without room for its peak."""
    strategy, weights = launch.text("--safetensors-load-strategy"), launch.model.weights_bytes or 0
    default = launch.text("--load-format") in (None, "auto", "safetensors")
    available = launch.host.mem_available_bytes
    is_tight = available is not None and weights > 0 and available - weights < _EAGER
    if strategy == "eager" and available is not None and is_tight:
        free = f"{(available - weights) / _GB:.0f} GB are left beside the weights"
        yield Hit(argv("--safetensors-load-strategy"), free, severity="warning", remedy="drop it, or free memory")
    elif strategy is None and default and weights > 40 * _GB and not is_tight:
        yield Hit(argv("--safetensors-load-strategy"), "not given")


@rule("R094", compilers=_COMPILERS / _GB)
def compilers_need_room(launch: Launch) -> Hits:
    """The first start of an NGC image with little memory left."""
    left = (1 - (launch.utilization or launch.default_utilization)) * launch.host.memory_bytes
    if launch.family == "ngc" and launch.host.compile_cache is False and left < _COMPILERS:
        yield Hit("host", f"{left / _GB:.0f} GB beside vLLM's share, no compiled kernels yet")


def _model_path(launch: Launch) -> str:
    """The model's path in the container; empty for a repository of the hub."""
    model = launch.command.model or ""
    return model if model.startswith("/") else ""


@rule("R127")
def no_model_mount(launch: Launch) -> Hits:
    """No mount where the model's files are."""
    home = launch.env.get("HF_HOME", "/root/.cache/huggingface")
    path = _model_path(launch) or home
    if (
        launch.serves
        and launch.command.model
        and launch.mounts is not None
        and not any(path.startswith(mount.target) for mount in launch.mounts)
    ):
        yield Hit("mounts", f"nothing at {path}")


@rule("R131")
def no_compile_cache(launch: Launch) -> Hits:
    """No mount for vLLM's compile cache."""
    cache = launch.env.get("VLLM_CACHE_ROOT", "/root/.cache/vllm")
    runs = launch.serves and not launch.switch("--enforce-eager")
    if runs and launch.mounts is not None and not any(cache.startswith(mount.target) for mount in launch.mounts):
        yield Hit("mounts", f"nothing at {cache}")


@rule("R157")
def config_in_one_word(launch: Launch) -> Hits:
    """A configuration file that vLLM doesn't read, since --config isn't a word of its own."""
    for word in launch.words.words:
        if word.startswith("--config="):
            yield Hit(argv("--config"), show(word), remedy=f"write --config {word.partition('=')[2]}")
