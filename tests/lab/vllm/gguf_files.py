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

from ansible_collections.gb10.fleet.plugins.module_utils._models.gguf import TYPES

_NUMBERS = {type_.name: number for number, type_ in TYPES.items()}
_U32, _F32, _STRING, _ARRAY, _I32 = 4, 6, 8, 9, 5
_ALIGNMENT = 32


# What `header` takes: metadata, and of each tensor its kind and dimensions.
File = tuple[Mapping[str, Any], Mapping[str, tuple[str, Sequence[int]]]]


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


def write(path: Path, shape: Shape) -> Path:
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
