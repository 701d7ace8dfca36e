# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Qwen3 model of 0.3 million random weights in the hub's file format: real to vLLM, senseless to a reader.

Each byte is a token, so prompts can be counted by hand; greedy answers consist of printable ASCII. KV cache: 2 (keys,
values) x 2 layers x 2 heads x 32 x 2 bytes (bfloat16) = 512 bytes a token, hence 65,536 tokens in 32 MiB.
"""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HIDDEN = 128
LAYERS = 2
HEADS = 4
KV_HEADS = 2  # tensor parallel over two hosts gives each one
HEAD_SIZE = 32  # the least that vLLM's attention on CPU has a kernel for
INTERMEDIATE = 256
CONTEXT = 32768
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 256 + len(SPECIAL)
_END_OF_TEXT, _, _END_OF_TURN = range(256, VOCABULARY)
_PRINTABLE = range(0x20, 0x7F)
_SEED = 10

_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


# What it is made by.
SOURCES = (__file__,)


def write(folder: Path) -> None:
    """Make the folder: config.json, generation_config.json, tokenizer files, model.safetensors (0.7 MB)."""
    folder.mkdir()
    documents = {
        "config.json": config(),
        "generation_config.json": {
            "bos_token_id": _END_OF_TEXT,
            "eos_token_id": [_END_OF_TURN, _END_OF_TEXT],
            "pad_token_id": _END_OF_TEXT,
        },
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": CONTEXT,
            "clean_up_tokenization_spaces": False,
            "chat_template": _CHAT_TEMPLATE,
        },
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=2) + "\n")
    (folder / "model.safetensors").write_bytes(safetensors(dict(weights())))


def config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_SIZE,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "rope_scaling": None,
        "use_sliding_window": False,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "bos_token_id": _END_OF_TEXT,
        "eos_token_id": _END_OF_TURN,
    }


def tokenizer() -> dict[str, Any]:
    """Byte-level BPE without a single merge, in the format of the `tokenizers` library."""
    special = [
        {
            "id": 256 + index,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, content in enumerate(SPECIAL)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {character: byte for byte, character in enumerate(_byte_characters())},
            "merges": [],
        },
    }


def _byte_characters() -> list[str]:
    """GPT-2's printable stand-in for each byte: itself where it is printable, else the next from U+0100."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(others)) for byte in range(256)]


Tensor = tuple[tuple[int, ...], bytes]


def weights() -> Iterator[tuple[str, Tensor]]:
    """Name, shape and bfloat16 data of each tensor; the same on every run."""
    source = random.Random(_SEED)

    def noise(*shape: int) -> Tensor:
        return shape, _bfloat16(source.gauss(0, 0.05) for _ in range(math.prod(shape)))

    def ones(size: int) -> Tensor:
        return (size,), _bfloat16(1.0 for _ in range(size))

    yield "model.embed_tokens.weight", _only_printable(noise(VOCABULARY, HIDDEN))
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        yield f"{prefix}.input_layernorm.weight", ones(HIDDEN)
        yield f"{prefix}.self_attn.q_proj.weight", noise(HEADS * HEAD_SIZE, HIDDEN)
        yield f"{prefix}.self_attn.k_proj.weight", noise(KV_HEADS * HEAD_SIZE, HIDDEN)
        yield f"{prefix}.self_attn.v_proj.weight", noise(KV_HEADS * HEAD_SIZE, HIDDEN)
        yield f"{prefix}.self_attn.o_proj.weight", noise(HIDDEN, HEADS * HEAD_SIZE)
        yield f"{prefix}.self_attn.q_norm.weight", ones(HEAD_SIZE)
        yield f"{prefix}.self_attn.k_norm.weight", ones(HEAD_SIZE)
        yield f"{prefix}.post_attention_layernorm.weight", ones(HIDDEN)
        yield f"{prefix}.mlp.gate_proj.weight", noise(INTERMEDIATE, HIDDEN)
        yield f"{prefix}.mlp.up_proj.weight", noise(INTERMEDIATE, HIDDEN)
        yield f"{prefix}.mlp.down_proj.weight", noise(HIDDEN, INTERMEDIATE)
    yield "model.norm.weight", ones(HIDDEN)


def _bfloat16(values: Iterator[float]) -> bytes:
    """The upper half of each float32."""
    return b"".join(struct.pack("<f", value)[2:] for value in values)


def _only_printable(embedding: Tensor) -> Tensor:
    """Tokens with a zero embedding (which is the output matrix too) have no chance in a greedy answer."""
    shape, data = embedding
    row = 2 * HIDDEN
    rows = (data[start : start + row] for start in range(0, len(data), row))
    speaks = {*_PRINTABLE, _END_OF_TURN}
    return shape, b"".join(content if token in speaks else bytes(row) for token, content in enumerate(rows))


def safetensors(tensors: dict[str, Tensor]) -> bytes:
    """The file format: length of the header, header, data; offsets count from the end of the header."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values())
