# SPDX-License-Identifier: GPL-3.0-or-later
"""The header of a GGUF file: what its model is, and how large each of its tensors.

A file comes from whoever made it, so that every count, length, type and place in it is checked before it is used;
nothing is read that no limit here bounds. Source: ggml's docs/gguf.md; gguf-py, GGML_QUANT_SIZES.
"""

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from ..._base.received import Unread, is_list, matching, one_line, words_of

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
# A vocabulary is the largest part: 262,144 tokens with their kinds and scores, and as many merges, are 12 MB.
MOST_BYTES = 256 << 20
_MOST_KEYS, _MOST_TENSORS = 4096, 1 << 17
_MOST_KEY, _MOST_NAME, _MOST_STRING, _MOST_ITEMS = 256, 128, 4 << 20, 1 << 22
_MOST_DIMENSIONS, _MOST_SIZE, _MOST_ALIGNMENT, _MOST_LAYERS = 4, 1 << 50, 1 << 16, 4096
# Longer arrays are a vocabulary's: of these only the count is kept.
_KEPT_ITEMS = 1024
_KEPT_STRING = 1024
_NAME = re.compile(r"[\x21-\x7e]+")


class GgufError(ValueError):
    """One sentence: what in a file is not as GGUF has it."""


@dataclass(frozen=True)
class TensorType:
    """elements: of one block, which takes so many bytes."""

    name: str
    elements: int
    bytes: int

    def size_of(self, dimensions: Sequence[int]) -> int:
        """Bytes of a tensor; its first dimension is whole blocks."""
        return math.prod(dimensions) // self.elements * self.bytes


TYPES = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    6: TensorType("Q5_0", 32, 22),
    7: TensorType("Q5_1", 32, 24),
    8: TensorType("Q8_0", 32, 34),
    9: TensorType("Q8_1", 32, 36),
    10: TensorType("Q2_K", 256, 84),
    11: TensorType("Q3_K", 256, 110),
    12: TensorType("Q4_K", 256, 144),
    13: TensorType("Q5_K", 256, 176),
    14: TensorType("Q6_K", 256, 210),
    15: TensorType("Q8_K", 256, 292),
    16: TensorType("IQ2_XXS", 256, 66),
    17: TensorType("IQ2_XS", 256, 74),
    18: TensorType("IQ3_XXS", 256, 98),
    19: TensorType("IQ1_S", 256, 50),
    20: TensorType("IQ4_NL", 32, 18),
    21: TensorType("IQ3_S", 256, 110),
    22: TensorType("IQ2_S", 256, 82),
    23: TensorType("IQ4_XS", 256, 136),
    24: TensorType("I8", 1, 1),
    25: TensorType("I16", 1, 2),
    26: TensorType("I32", 1, 4),
    27: TensorType("I64", 1, 8),
    28: TensorType("F64", 1, 8),
    29: TensorType("IQ1_M", 256, 56),
    30: TensorType("BF16", 1, 2),
    34: TensorType("TQ1_0", 256, 54),
    35: TensorType("TQ2_0", 256, 66),
    39: TensorType("MXFP4", 32, 17),
}
TYPE_BYTES = {kind.name: kind.bytes for kind in TYPES.values() if kind.elements == 1}
_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", _BOOL: "B", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True)
class Tensor:
    """offset: of its bytes in the file's part for tensors."""

    type: str
    dimensions: tuple[int, ...]
    offset: int
    size: int


@dataclass(frozen=True)
class Items:
    """An array too long to be kept: how many items it has."""

    count: int


@dataclass(frozen=True)
class Header:
    """metadata: numbers, texts, flags and short lists as they are, `Items` for a long list. data: where the tensors'
    part begins. size: what the whole file must have."""

    metadata: dict[str, Unread] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    data: int = 0

    @property
    def size(self) -> int:
        return self.data + max((tensor.offset + tensor.size for tensor in self.tensors.values()), default=0)


def read_header(read: Callable[[int], bytes]) -> Header:
    """The header at the beginning of a file. read: its next so many bytes, fewer at its end. Raises GgufError."""
    source = _Source(read)
    if source.take(4, "its magic") != MAGIC:
        raise GgufError("it does not begin with GGUF")
    version = source.number("I", "its version")
    if version not in _VERSIONS:
        raise GgufError(f"it is of version {version}; expected {' or '.join(map(str, _VERSIONS))}, little-endian")
    tensors = source.count(_MOST_TENSORS, "tensors")
    keys = source.count(_MOST_KEYS, "keys")
    metadata: dict[str, Unread] = {}
    for _ in range(keys):
        key = source.name(_MOST_KEY, "a key")
        if key in metadata:
            raise GgufError(f"it has the key {key} twice")
        metadata[key] = _value(source, key)
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not _is_whole(alignment) or not 0 < alignment <= _MOST_ALIGNMENT or alignment & (alignment - 1):
        raise GgufError(f"general.alignment is not a power of two of at most {_MOST_ALIGNMENT}")
    found = _tensors(source, tensors, alignment)
    return Header(metadata, found, -(-source.at // alignment) * alignment)


def _tensors(source: "_Source", count: int, alignment: int) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for _ in range(count):
        name = source.name(_MOST_NAME, "a tensor's name")
        if name in found:
            raise GgufError(f"it has the tensor {name} twice")
        found[name] = _tensor(source, name, alignment)
    end = 0
    for name, tensor in sorted(found.items(), key=lambda row: row[1].offset):
        if tensor.offset < end:
            raise GgufError(f"the tensor {name} overlaps the tensor before it")
        end = tensor.offset + tensor.size
    return found


def _tensor(source: "_Source", name: str, alignment: int) -> Tensor:
    many = source.number("I", f"the dimensions of {name}")
    if not 1 <= many <= _MOST_DIMENSIONS:
        raise GgufError(f"the tensor {name} has {many} dimensions; expected 1 to {_MOST_DIMENSIONS}")
    dimensions = tuple(source.number("Q", f"the dimensions of {name}") for _ in range(many))
    if not all(dimensions) or math.prod(dimensions) > _MOST_SIZE:
        raise GgufError(f"the tensor {name} has the dimensions {dimensions}, which none has")
    number = source.number("I", f"the type of {name}")
    if number not in TYPES:
        raise GgufError(f"the tensor {name} is of type {number}, which is not known")
    kind = TYPES[number]
    if dimensions[0] % kind.elements:
        raise GgufError(f"the tensor {name} has rows of {dimensions[0]}, which are no blocks of {kind.name}")
    offset = source.number("Q", f"the place of {name}")
    if offset % alignment or offset > _MOST_SIZE:
        raise GgufError(f"the tensor {name} is at {offset}, which is no place that is aligned to {alignment}")
    return Tensor(kind.name, dimensions, offset, kind.size_of(dimensions))


def _value(source: "_Source", key: str) -> Any:
    kind = source.number("I", f"the type of {key}")
    if kind == _STRING:
        return source.string(_MOST_STRING, key)[:_KEPT_STRING]
    if kind != _ARRAY:
        return source.scalar(kind, key)
    inner = source.number("I", f"the items of {key}")
    count = source.count(_MOST_ITEMS, f"items of {key}")
    if inner == _STRING:
        for _ in range(count):
            source.take(source.count(_MOST_STRING, f"bytes of an item of {key}"), key)
        return Items(count)
    if inner not in _SCALARS:
        raise GgufError(f"{key} holds items of type {inner}, which is not known")
    if count > _KEPT_ITEMS:
        source.take(count * struct.calcsize(_SCALARS[inner]), key)
        return Items(count)
    return [source.scalar(inner, key) for _ in range(count)]


class _Source:
    """at: bytes read so far."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read, self.at = read, 0

    def take(self, size: int, what: str) -> bytes:
        if self.at + size > MOST_BYTES:
            raise GgufError(f"its header has more than {MOST_BYTES >> 20} MiB, at {what}")
        taken = self._read(size)
        if len(taken) != size:
            raise GgufError(f"it ends in its header, at {what}")
        self.at += size
        return taken

    def number(self, form: str, what: str) -> int:
        """A number without a sign."""
        (found,) = struct.unpack(f"<{form}", self.take(struct.calcsize(form), what))
        return int(found)

    def scalar(self, kind: int, what: str) -> Any:
        if kind not in _SCALARS:
            raise GgufError(f"{what} is of type {kind}, which is not known")
        (found,) = struct.unpack(f"<{_SCALARS[kind]}", self.take(struct.calcsize(_SCALARS[kind]), what))
        if isinstance(found, float) and not math.isfinite(found):
            raise GgufError(f"{what} is no number")
        return bool(found) if kind == _BOOL else found

    def count(self, most: int, what: str) -> int:
        found = self.number("Q", f"the number of {what}")
        if found > most:
            raise GgufError(f"it says that it has {found} {what}; expected at most {most}")
        return found

    def string(self, most: int, what: str) -> str:
        text = self.take(self.count(most, f"bytes of {what}"), what)
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise GgufError(f"{what} is no UTF-8") from None

    def name(self, most: int, what: str) -> str:
        text = self.string(most, what)
        if not _NAME.fullmatch(text):
            raise GgufError(f"{what} is {text[:40]!a}, expected letters, digits and signs")
        return text


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


# --- what a plan needs of it ---------------------------------------------------------------------------------------

_BLOCK = re.compile(r"blk\.(\d{1,4})\..+")
_OUTPUT = ("output.weight", "output_norm.weight", "output.bias")


def facts_of(headers: Sequence[Header]) -> dict[str, Any]:
    """What a plan is made from, of a model's files in their order: ``{"gguf": FACTS}``, by ``data/forms/gguf.yml``.

    Raises GgufError. Of sizes in bytes: ``blocks`` of each layer, ``input`` of what looks tokens up, ``output`` of what
    makes logits.
    """
    metadata = headers[0].metadata if headers else {}
    name = _word(metadata, "general.architecture", "model")
    layers = _number(metadata, f"{name}.block_count")
    if not layers:
        raise GgufError(f"it has no {name}.block_count")
    if layers > _MOST_LAYERS:
        raise GgufError(f"it has {layers} layers by {name}.block_count; expected at most {_MOST_LAYERS}")
    sizes = {tensor: one.size for header in headers for tensor, one in header.tensors.items()}
    blocks = [0] * layers
    for tensor, size in sizes.items():
        found = _BLOCK.fullmatch(tensor)
        if found and int(found[1]) < layers:
            blocks[int(found[1])] += size
    output = sum(sizes.get(tensor, 0) for tensor in _OUTPUT)
    tied = "output.weight" not in sizes
    embedding = sizes.get("token_embd.weight", 0)
    tokens = metadata.get("tokenizer.ggml.tokens")
    heads = _number(metadata, f"{name}.attention.head_count")
    length = _number(metadata, f"{name}.embedding_length")
    head = _number(metadata, f"{name}.attention.key_length") or (length // heads if heads else 0)
    facts = {
        "architecture": name,
        "name": one_line(words_of(metadata["general.name"]), 100) if "general.name" in metadata else "",
        "files": len(headers),
        "blocks": blocks,
        "input": embedding,
        "output": output + (embedding if tied else 0),
        "total": sum(sizes.values()),
        "context": _number(metadata, f"{name}.context_length"),
        "embedding": length,
        "feed_forward": _number(metadata, f"{name}.feed_forward_length"),
        "expert_feed_forward": _number(metadata, f"{name}.expert_feed_forward_length"),
        "experts": _number(metadata, f"{name}.expert_count"),
        "experts_used": _number(metadata, f"{name}.expert_used_count"),
        "vocabulary": _length(tokens),
        "heads": heads,
        "kv_heads": _per_layer(metadata.get(f"{name}.attention.head_count_kv", heads), layers),
        "key_length": head,
        "value_length": _number(metadata, f"{name}.attention.value_length") or head,
        "window": _number(metadata, f"{name}.attention.sliding_window"),
    }
    return {"gguf": facts}


def of_another_size(facts: Mapping[str, Any], share: float) -> dict[str, Any]:
    """The same model packed otherwise: its layers' and matrices' bytes change as the whole file's do."""
    bytes_of = {name: int(facts[name] * share) for name in ("input", "output", "total")}
    return {**facts, **bytes_of, "blocks": [int(size * share) for size in facts["blocks"]]}


_DEEP = re.compile(r"v\.deepstack\.(\d{1,4})\.norm\.weight")


def projector_of(header: Header) -> dict[str, Any]:
    """What a plan is made from, of the file that makes tokens of pictures: ``{"projector": FACTS}``.

    Raises GgufError. total: bytes of its tensors. picture, patch: edges in pixels. merge: patches of a token, in one
    direction. into: numbers of a token. pixel_bytes: of one number of the first matrix. projection: bytes of the last
    one where it is turned (gemma3). first: whether a row of its own stands before all patches. normed_first: whether
    rows are normed before the first layer. deep: layers whose features are stacked.
    """
    metadata, tensors = header.metadata, header.tensors
    old = "clip.vision.projector_type"
    kind = _word(metadata, old if old in metadata else "clip.projector_type", "projector")
    vision = {key: _number(metadata, f"clip.vision.{key}") for key in ("image_size", "patch_size", "block_count")}
    pixels, last = tensors.get("v.patch_embd.weight"), tensors.get("mm.2.bias")
    turned = tensors.get("mm.input_projection.weight")
    into = last.dimensions[0] if last else turned.dimensions[0] if turned else 0
    merge = _number(metadata, "clip.vision.spatial_merge_size") or _number(
        metadata, "clip.vision.projector.scale_factor"
    )
    facts = {
        "kind": kind,
        "total": sum(tensor.size for tensor in tensors.values()),
        "layers": vision["block_count"],
        "width": _number(metadata, "clip.vision.embedding_length"),
        "feed_forward": _number(metadata, "clip.vision.feed_forward_length"),
        "picture": vision["image_size"],
        "patch": vision["patch_size"],
        "merge": merge or {"gemma3": 4, "qwen3vl_merger": 2}.get(kind, 1),
        "into": into,
        "pixel_bytes": TYPE_BYTES.get(pixels.type, 0) if pixels else 0,
        "projection": turned.size if turned else 0,
        "first": "v.class_embd" in tensors,
        "normed_first": "v.pre_ln.weight" in tensors,
        "deep": sorted(int(found[1]) for name in tensors if (found := _DEEP.fullmatch(name))),
    }
    return {"projector": facts}


def _word(metadata: Mapping[str, Unread], key: str, what: str) -> str:
    """A name of llama.cpp's, which others wrote; without it the file is no ``what``."""
    if (word := matching(r"[\w.-]{1,64}", metadata.get(key))) is None:
        raise GgufError(f"it has no {key}, so that it is no {what}")
    return word


def _number(metadata: Mapping[str, Unread], key: str) -> int:
    """A count; 0 where it is missing. One that differs by layer is its largest."""
    value = metadata.get(key)
    number = max(filter(_is_whole, value), default=0) if value is not None and is_list(value) else value
    return number if _is_whole(number) and 0 < number < 1 << 31 else 0


def _length(value: object) -> int:
    return value.count if isinstance(value, Items) else len(value) if isinstance(value, list) else 0


def _per_layer(value: object, layers: int) -> list[int]:
    if isinstance(value, list) and len(value) == layers and all(_is_whole(item) and item >= 0 for item in value):
        return [*value]
    return [value if isinstance(value, int) and _is_whole(value) and value > 0 else 0] * layers
