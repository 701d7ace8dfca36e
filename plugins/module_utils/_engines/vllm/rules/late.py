# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM itself refuses these, but late: after configuration, weights or profiling. The plan knows before.

X: read from the releases' sources. K: checks of the KV cache's start-up. L: from the recipes of other projects.
"""

from ...._base.place import argv
from ._base import Hit, Hits, rule
from .launch import Launch

_GIB = 2**30


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
