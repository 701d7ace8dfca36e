# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM itself refuses these, but late: after configuration, weights or profiling. The plan knows before.

X: read from the releases' sources. K: checks of the KV cache's start-up. L: from the recipes of other projects.
"""

from ...._base.place import argv
from ._base import Hit, Hits, rule, show
from .launch import Launch

_GIB = 2**30
_STOCK = ("upstream", "ngc")
_FOUR_BITS = r".*(?:awq|gptq|int4|w4a16|4-?bit).*"


@rule("X4")
def nodes_without_ray(launch: Launch) -> Hits:
    """vLLM's own multi-node start with something missing."""
    if (launch.number("--nnodes") or 1) < 2:
        return
    rank = launch.number("--node-rank") or 0
    if launch.executor == "ray":
        yield Hit(argv("--nnodes"), "with ray", expected="no ray", remedy="drop one of them")
    if not launch.has("--master-addr"):
        yield Hit(argv("--master-addr"), "not given", expected="the head's address", remedy="write it on every host")
    if rank > 0 and not launch.has("--headless"):
        yield Hit(argv("--headless"), f"not given on rank {rank:.0f}", expected="--headless", remedy="write it")


@rule("X9")
def b12x_not_installed(launch: Launch) -> Hits:
    """A b12x backend in a stock image."""
    for option in ("--moe-backend", "--linear-backend", "--attention-backend"):
        if (launch.text(option) or "").lower() == "b12x" and launch.family in _STOCK:
            yield Hit(argv(option), "b12x")


@rule("X10")
def backend_without_scheme(launch: Launch) -> Hits:
    """A MoE backend that can't run a W4A16 checkpoint."""
    weights_only = launch.model.is_(r"nvidia/Qwen3\.6-35B-A3B-NVFP4")
    # read in 0.32.0 and 0.33.0: it quantizes activations in the kernel (experts/flashinfer_b12x_moe.py)
    more = ["flashinfer_b12x"] if launch.since("0.32.0") else []
    if weights_only and launch.moe_backend not in (None, "auto", "marlin", "humming", "b12x", *more):
        yield Hit(argv("--moe-backend"), show(launch.moe_backend))


@rule("X11")
def half_a_pair(launch: Launch) -> Hits:
    """An option without the one that it needs."""
    pairs = {"--enable-log-outputs": "--enable-log-requests", "--enable-auto-tool-choice": "--tool-call-parser"}
    for option, needed in pairs.items():
        if launch.switch(option) and not (launch.switch(needed) or launch.text(needed)):
            yield Hit(argv(option), f"without {needed}", expected=needed, remedy=f"add {needed}")


@rule("X15")
def align_needs_chunks(launch: Launch) -> Hits:
    """A hybrid model with prefix caching and without chunked prefill."""
    align = launch.text("--mamba-cache-mode") == "align" or launch.within("0.20.0..0.21.0, 0.28.0..")
    if launch.model.hybrid and launch.prefix_caching and align and launch.switch("--enable-chunked-prefill") is False:
        yield Hit(argv("--enable-chunked-prefill"), "off")


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


@rule("X21")
def mla_four_bits(launch: Launch) -> Hits:
    """Latent attention with 4-bit weights on 0.26 and 0.27."""
    model = launch.model
    packed = model.quant_method in ("awq", "awq_marlin", "gptq", "gptq_marlin", "auto-round")
    if model.mla and (packed or (model.quant_method == "compressed-tensors" and model.is_(_FOUR_BITS))):
        yield Hit("image", f"a release before 0.28.0, and {model.quant_method} in 4 bits")


@rule("K7")
def swap_space(launch: Launch) -> Hits:
    """--swap-space beyond what the host has."""
    space = (launch.number("--swap-space") or 0) * _GIB * (launch.number("--tensor-parallel-size") or 1)
    if space > 0.7 * launch.host.memory_bytes:
        yield Hit(argv("--swap-space"), f"{space / _GIB:.0f} GiB")


@rule("L9")
def share_in_gigabytes(launch: Launch) -> Hits:
    """A utilization that is no fraction."""
    share = launch.utilization
    if share is not None and not 0 < share <= 1:
        yield Hit(argv("--gpu-memory-utilization"), f"{share:g}")


@rule("L16")
def hybrid_in_group(launch: Launch) -> Hits:
    """A hybrid model over several hosts."""
    if launch.spread and launch.model.hybrid:
        yield Hit("model", launch.model.repository or "hybrid")
