# SPDX-License-Identifier: GPL-3.0-or-later
"""What the KV pool needs to know of a model, as read from its config.json: plain shapes, no sizes yet."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pooled:
    """What an indexer keeps beside an attention layer, the same on every rank: of `tokens` tokens one key of `key`
    bytes, and a ring of `open` bytes a token for those that are still to be pooled. doubles: the ring has 1, 2, 4 ...
    times that many tokens; else any whole number of times."""

    tokens: int
    key: int
    open: int
    doubles: bool


@dataclass(frozen=True)
class Attention:
    """What one attention layer keeps of a token: kv_heads heads of a key and a value.

    window: tokens that a sliding layer looks back; None for full attention. latent: one compressed vector of key_width
    elements for all heads (MLA), the same on every rank. index_width: elements of the 16-bit key that an indexer keeps
    beside it for all heads, the same on every rank; 0 without one. compressed: of DeepSeek-V4's layers, how many tokens
    become one latent that is kept beside the window; 0 for the window alone, None for every other model. packed: bytes
    that it keeps of a token whatever the cache's dtype; 0 where widths and dtype decide. pooled: see Pooled.
    convolved: of a short convolution beside it, the tokens and the elements of each KV head; None without one.
    """

    kv_heads: int
    key_width: int
    value_width: int
    window: int | None = None
    latent: bool = False
    index_width: int = 0
    compressed: int | None = None
    packed: int = 0
    pooled: Pooled | None = None
    convolved: tuple[int, int] | None = None


@dataclass(frozen=True)
class Mamba2:
    """A Mamba2 layer's state. groups share the input projections; width: elements of state a head element."""

    heads: int
    head_width: int
    groups: int
    width: int
    kernel: int


@dataclass(frozen=True)
class DeltaNet:
    """A Gated DeltaNet layer's state."""

    key_heads: int
    key_width: int
    value_heads: int
    value_width: int
    kernel: int


Recurrent = Mamba2 | DeltaNet
Layer = Attention | Recurrent | None


@dataclass(frozen=True)
class Model:
    """A model's cache by layer, in order; None where a layer keeps nothing (MoE-only, KV-sharing).

    attention_heads: query heads, which tensor parallelism must divide. mtp: what the checkpoint's own prediction layer
    keeps; None without one. dtype: of the weights as run. state_dtype: the config's own for recurrent state.
    chunk: tokens of a Mamba2 kernel's chunk. block: tokens of the one block that the model's kernels take; None where
    any do. experts: a mixture of experts. longest: tokens of context that the config allows. kv_dtype: the checkpoint's
    own KV quantization as a --kv-cache-dtype; None without one. convolution: elements of a token that a convolution
    beside the layers keeps, and of how many tokens, whole on each rank; None without one. stacked: one of the layers
    with which the checkpoint drafts by DSpark; None where it doesn't. depths: prediction layers that draft a token
    each; then mtp is the first of them.
    """

    architecture: str
    layers: tuple[Layer, ...]
    attention_heads: int
    dtype: str
    longest: int
    mtp: Attention | None = None
    state_dtype: str | None = None
    chunk: int = 1
    block: int | None = None
    experts: bool = False
    kv_dtype: str | None = None
    convolution: tuple[int, int] | None = None
    stacked: Attention | None = None
    depths: tuple[Attention, ...] = ()

    @property
    def recurrent(self) -> Recurrent | None:
        """The recurrent layers' shape: one for all of them in every family known here."""
        return next((layer for layer in self.layers if isinstance(layer, Mamba2 | DeltaNet)), None)

    @property
    def attention(self) -> Attention:
        """The first attention layer's shape."""
        return next(layer for layer in self.layers if isinstance(layer, Attention))
