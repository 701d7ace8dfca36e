# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GGUF files for tests: real headers, and tensors of zeros that take no room on the disk."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.gguf import TYPES

_NUMBERS = {type_.name: number for number, type_ in TYPES.items()}
_U32, _F32, _STRING, _ARRAY, _I32 = 4, 6, 8, 9, 5
_ALIGNMENT = 32


@dataclass(frozen=True)
class Shape:
    """A decoder as GGUF describes it. kind: of its matrices; vectors are F32. sliding: of gemma3, its window."""

    name: str
    architecture: str = "llama"
    kind: str = "Q4_0"
    layers: int = 4
    embedding: int = 256
    heads: int = 8
    kv_heads: int = 8
    head: int = 32
    feed_forward: int = 512
    vocabulary: int = 354
    experts: int = 0
    used: int = 0
    context: int = 8192
    sliding: int = 0
    tied: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def metadata(self) -> dict[str, Any]:
        a = self.architecture
        found: dict[str, Any] = {
            "general.architecture": a,
            "general.name": self.name,
            f"{a}.context_length": self.context,
            f"{a}.embedding_length": self.embedding,
            f"{a}.block_count": self.layers,
            f"{a}.feed_forward_length": self.feed_forward,
            f"{a}.attention.head_count": self.heads,
            f"{a}.attention.head_count_kv": self.kv_heads,
            f"{a}.attention.key_length": self.head,
            f"{a}.attention.value_length": self.head,
            f"{a}.attention.layer_norm_rms_epsilon": 1e-5,
            f"{a}.rope.dimension_count": self.head,
        }
        if self.experts:
            found |= {f"{a}.expert_count": self.experts, f"{a}.expert_used_count": self.used}
            found[f"{a}.expert_feed_forward_length"] = self.feed_forward
        if self.sliding:
            found[f"{a}.attention.sliding_window"] = self.sliding
        return found | vocabulary(self.vocabulary) | dict(self.more)

    @property
    def tensors(self) -> dict[str, tuple[str, list[int]]]:
        n, q, kv = self.embedding, self.heads * self.head, self.kv_heads * self.head
        found = {"token_embd.weight": (self.kind, [n, self.vocabulary]), "output_norm.weight": ("F32", [n])}
        if not self.tied:
            found["output.weight"] = (self.kind, [n, self.vocabulary])
        for layer in range(self.layers):
            found |= {f"blk.{layer}.{name}.weight": tensor for name, tensor in self._block(n, q, kv).items()}
        return found

    def _block(self, n: int, q: int, kv: int) -> dict[str, tuple[str, list[int]]]:
        block = {"attn_norm": ("F32", [n]), "ffn_norm": ("F32", [n]), "attn_q": (self.kind, [n, q])}
        block |= {"attn_k": (self.kind, [n, kv]), "attn_v": (self.kind, [n, kv]), "attn_output": (self.kind, [q, n])}
        if self.architecture in ("qwen3", "qwen3moe", "gemma3"):
            block |= {"attn_q_norm": ("F32", [self.head]), "attn_k_norm": ("F32", [self.head])}
        if self.architecture == "gemma3":
            block |= {"post_attention_norm": ("F32", [n]), "post_ffw_norm": ("F32", [n])}
        ff = self.feed_forward
        if not self.experts:
            return block | {
                "ffn_gate": (self.kind, [n, ff]),
                "ffn_up": (self.kind, [n, ff]),
                "ffn_down": (self.kind, [ff, n]),
            }
        many = self.experts
        return block | {
            "ffn_gate_inp": ("F32", [n, many]),
            "ffn_gate_exps": (self.kind, [n, ff, many]),
            "ffn_up_exps": (self.kind, [n, ff, many]),
            "ffn_down_exps": (self.kind, [ff, n, many]),
        }


@dataclass(frozen=True)
class Projector:
    """What makes tokens of pictures, as GGUF describes it. kind: `clip.projector_type`. type: of its matrices; the rest
    is F32. width, inner: of its transformer. picture, patch: edges in pixels. into: the model's embedding. deep: layers
    whose features are stacked (qwen3vl_merger). first: whether a row stands before those of all patches, and they are
    normed before the first layer (mlp). Names: tools/mtmd/clip-impl.h of llama.cpp 0.7.0.
    """

    name: str
    kind: str = "mlp"
    type: str = "F32"
    layers: int = 2
    width: int = 32
    heads: int = 2
    inner: int = 64
    picture: int = 28
    patch: int = 14
    into: int = 64
    merge: int = 2
    deep: int = 0
    first: bool = False

    @property
    def patches(self) -> int:
        return (self.picture // self.patch) ** 2

    @property
    def metadata(self) -> dict[str, Any]:
        vision: dict[str, Any] = {
            "projection_dim": self.into,
            "image_size": self.picture,
            "patch_size": self.patch,
            "embedding_length": self.width,
            "feed_forward_length": self.inner,
            "block_count": self.layers,
            "attention.head_count": self.heads,
            "attention.layer_norm_epsilon": 1e-5,
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
        }
        if self.kind == "qwen3vl_merger":
            vision["spatial_merge_size"] = self.merge
        return {
            "general.architecture": "clip",
            "clip.has_vision_encoder": True,
            "clip.projector_type": self.kind,
            "clip.use_gelu": True,
            **{f"clip.vision.{name}": value for name, value in vision.items()},
        }

    @property
    def tensors(self) -> dict[str, tuple[str, list[int]]]:
        width, inner = self.width, self.inner
        fused = self.kind == "qwen3vl_merger"
        matrices = (
            {"attn_qkv": (width, 3 * width)} if fused else dict.fromkeys(("attn_q", "attn_k", "attn_v"), (width, width))
        )
        matrices |= {"attn_out": (width, width), "ffn_up": (width, inner), "ffn_down": (inner, width)}
        blocks = [f"v.blk.{layer}" for layer in range(self.layers)]
        linear = {f"{block}.{name}": shape for block in blocks for name, shape in matrices.items()}
        norms = [(f"{block}.{name}", width) for block in blocks for name in ("ln1", "ln2")]
        alone: dict[str, list[int]] = {"v.position_embd.weight": [width, self.patches]}
        patches = ["v.patch_embd.weight"]
        match self.kind:
            case "mlp":
                linear |= {"mm.0": (width, self.into), "mm.2": (self.into, self.into)}
                if self.first:
                    alone |= {"v.class_embd": [width], "v.position_embd.weight": [width, self.patches + 1]}
                    norms.append(("v.pre_ln", width))
            case "gemma3":
                norms.append(("v.post_ln", width))
                alone |= {"v.patch_embd.bias": [width], "mm.soft_emb_norm.weight": [width]}
                alone["mm.input_projection.weight"] = [self.into, width]
            case "qwen3vl_merger":
                norms.append(("v.post_ln", width))
                alone["v.patch_embd.bias"] = [width]
                patches.append("v.patch_embd.weight.1")
                merged = self.merge**2 * width
                linear |= {"mm.0": (merged, merged), "mm.2": (merged, self.into // (1 + self.deep))}
                for layer in range(self.deep):
                    linear |= {f"v.deepstack.{layer}.fc1": (merged, merged)}
                    linear |= {f"v.deepstack.{layer}.fc2": (merged, self.into // (1 + self.deep))}
                    norms.append((f"v.deepstack.{layer}.norm", merged))
        found = {name: (self.type, [self.patch, self.patch, 3, width]) for name in patches}
        found |= {name: ("F32", shape) for name, shape in alone.items()}
        for name, (columns, rows) in linear.items():
            found |= {f"{name}.weight": (self.type, [columns, rows]), f"{name}.bias": ("F32", [rows])}
        found |= {f"{name}.{part}": ("F32", [size]) for name, size in norms for part in ("weight", "bias")}
        return found


def vocabulary(size: int) -> dict[str, Any]:
    """A tokenizer of bytes and, beyond them, of names that no text has."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581"]
    tokens += [chr(code) for code in range(33, 127)]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
    tokens += [f"<t{number}>" for number in range(size - len(tokens))]
    kinds += [1] * (size - len(kinds))
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens[:size],
        "tokenizer.ggml.token_type": kinds[:size],
        "tokenizer.ggml.scores": [0.0] * min(size, 259) + [-1.0] * max(0, size - 259),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.chat_template": "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}assistant:",
    }


def header(metadata: Mapping[str, Any], tensors: Mapping[str, tuple[str, Sequence[int]]]) -> tuple[bytes, int]:
    """A header with its padding, and how many bytes of tensors follow."""
    text = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        text += _string(key) + _value(value)
    offset = 0
    for name, (kind, dimensions) in tensors.items():
        number = _NUMBERS[kind]
        text += _string(name) + struct.pack("<I", len(dimensions)) + struct.pack(f"<{len(dimensions)}Q", *dimensions)
        text += struct.pack("<IQ", number, offset)
        offset += _padded(TYPES[number].size_of(dimensions))
    return text + bytes(_padded(len(text)) - len(text)), offset


def write(path: Path, shape: Shape | Projector) -> Path:
    """A whole file of a shape, sparse."""
    text, size = header(shape.metadata, shape.tensors)
    with path.open("wb") as stream:
        stream.write(text)
        stream.truncate(len(text) + size)
    return path


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", _U32, value)
        case float():
            return struct.pack("<If", _F32, value)
        case str():
            return struct.pack("<I", _STRING) + _string(value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_string, value))
    kind, form = (_F32, "f") if isinstance(value[0], float) else (_I32, "i")
    return struct.pack("<IIQ", _ARRAY, kind, len(value)) + struct.pack(f"<{len(value)}{form}", *value)
