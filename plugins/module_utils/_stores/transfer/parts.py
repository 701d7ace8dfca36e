# SPDX-License-Identifier: GPL-3.0-or-later
"""How a file is made of parts: what a host fetches, checks and passes on, part by part, from wherever each one lies.

A part is either named by the sha256 of its bytes, or so small that the recipe holds it. Two versions of an image layer
share most of their parts although most of their bytes moved: a tar is cut where its files begin.
"""

import hashlib
import json
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..._base.received import SHA256, SIZE, checked, parsed
from ..._base.schema import Spec

# No part is longer: it is checked, written and passed on as one. 240 GB of weights are 230 000 parts, a 7 MB recipe.
PART = 1 << 20
# Shorter contents are held by the recipe: a sum takes 32 bytes, and compresses worse than text does.
_LITERAL = 1 << 10
# POSIX ustar: files carry data; so do the headers of pax and GNU tar that describe the next entry.
_WITH_DATA = frozenset(b"0\x007xgLKS")
_BLOCK = tarfile.BLOCKSIZE
# What a recipe takes at most, packed and in literals: twice the sums of the largest file. A layer of so many tiny files
# that they would fill more has them named instead.
MOST_PACKED = 64 << 20
_MOST_LITERALS = 64 << 20
_MOST_HEAD = 4096
_HEAD: Spec = {
    "type": "map",
    "options": {
        "sha256": SHA256,
        "size": SIZE,
        "lengths": {"type": "int", "required": True, "min": 0, "max": MOST_PACKED},
        "literals": {"type": "int", "required": True, "min": 0, "max": MOST_PACKED},
    },
}

Read = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes at ``offset``. sha256: of these bytes, raw; empty if the bytes are in ``literal``."""

    offset: int
    length: int
    sha256: bytes
    literal: bytes = b""


@dataclass(frozen=True)
class Recipe:
    """A file of ``size`` bytes and ``sha256`` (hex), in parts from its first byte to its last."""

    sha256: str
    size: int
    parts: tuple[Part, ...]

    def pack(self) -> bytes:
        """As it is kept and sent: a line of JSON, then lengths (negative for literals), sums and literals."""
        literals = zlib.compress(b"".join(part.literal for part in self.parts))
        signed = [part.length if part.sha256 else -part.length for part in self.parts]
        lengths = zlib.compress(struct.pack(f"<{len(signed)}q", *signed))
        head = {"sha256": self.sha256, "size": self.size, "lengths": len(lengths), "literals": len(literals)}
        return json.dumps(head).encode() + b"\n" + lengths + literals + b"".join(part.sha256 for part in self.parts)


def unpack(content: bytes) -> Recipe:
    """The recipe that ``pack`` wrote. ValueError for anything else. Takes little more memory than ``content``."""
    try:
        return _unpacked(content)
    except (ValueError, zlib.error, struct.error) as error:
        raise ValueError(f"no recipe: {error}") from None


def _unpacked(content: bytes) -> Recipe:
    line, _, rest = content.partition(b"\n")
    head = checked(_HEAD, parsed(line, _MOST_HEAD, "its head"), "its head")
    sums = rest[head["lengths"] + head["literals"] :]
    # Literals lie between named parts, so that the number of sums, which come as they are, bounds the number of parts.
    packed = _inflated(rest[: head["lengths"]], 8 * (2 * len(sums) // 32 + 1))
    signed = struct.unpack(f"<{len(packed) // 8}q", packed)
    named = [length for length in signed if length > 0]
    literals = -sum(length for length in signed if length < 0)
    if sum(named) + literals != head["size"] or len(sums) != 32 * len(named) or not all(signed):
        raise ValueError("its parts have another size")
    if max(named, default=0) > PART or literals > _MOST_LITERALS:
        raise ValueError("a part is too long")
    found = _inflated(rest[head["lengths"] : head["lengths"] + head["literals"]], literals)
    if len(found) != literals:
        raise ValueError("its literals have another size")
    return Recipe(head["sha256"], head["size"], tuple(_parts(signed, found, sums)))


def _inflated(packed: bytes, most: int) -> bytes:
    """Uncompressed, of at most so many bytes."""
    stream = zlib.decompressobj()
    content = stream.decompress(packed, most + 1)
    if len(content) > most or not stream.eof or stream.unused_data:
        raise ValueError(f"it does not unpack to at most {most} bytes")
    return content


def _parts(signed: Sequence[int], literals: bytes, sums: bytes) -> Iterator[Part]:
    offset = literal = number = 0
    for length in signed:
        if length < 0:
            yield Part(offset, -length, b"", literals[literal : literal - length])
            literal -= length
        else:
            yield Part(offset, length, sums[32 * number : 32 * number + 32])
            number += 1
        offset += abs(length)


def recipe_of(cut: Iterable[tuple[bytes, bool]]) -> Recipe:
    """The recipe of a file that one of the cuts below went through. All its bytes pass here once."""
    whole = hashlib.sha256()
    parts: list[Part] = []
    literal = bytearray()
    offset = held = 0
    for content, named in cut:
        whole.update(content)
        if named or held + len(content) > _MOST_LITERALS:
            if literal:
                parts.append(Part(offset - len(literal), len(literal), b"", bytes(literal)))
                literal.clear()
            parts.append(Part(offset, len(content), hashlib.sha256(content).digest()))
        else:
            literal += content
            held += len(content)
        offset += len(content)
    if literal:
        parts.append(Part(offset - len(literal), len(literal), b"", bytes(literal)))
    return Recipe(whole.hexdigest(), offset, tuple(parts))


def cut_evenly(read: Read) -> Iterator[tuple[bytes, bool]]:
    """Cut a file into parts of one length. read: gives so many bytes, fewer only at the end. Yields (bytes, named)."""
    while content := read(PART):
        yield content, len(content) >= _LITERAL


def cut_tar(read: Read) -> Iterator[tuple[bytes, bool]]:
    """Cut a tar where its files begin, so that a file has the same parts wherever it lies in whichever layer.

    Headers and padding, which hold times and owners, are never part of a file's parts. Anything that is no tar, or no
    longer one, is cut evenly.
    """
    while header := read(_BLOCK):
        yield header, False
        size = _data_size(header)
        if size is None:
            yield from cut_evenly(read)
            return
        end = size
        while size:
            content = read(min(PART, size))
            if not content:
                return
            size -= len(content)
            yield content, end >= _LITERAL
        if padding := read(-end % _BLOCK):
            yield padding, False


def _data_size(header: bytes) -> int | None:
    """Bytes that follow a tar header, without padding; none where there is no header."""
    if len(header) < _BLOCK:
        return None
    if not any(header):
        return 0
    try:
        checksum = tarfile.nti(header[148:156])  # type: ignore[attr-defined]  # typeshed leaves it out
        size: int = tarfile.nti(header[124:136])  # type: ignore[attr-defined]
        if size < 0 or checksum not in tarfile.calc_chksums(header):  # type: ignore[attr-defined]
            return None
    except tarfile.HeaderError:
        return None
    return size if header[156] in _WITH_DATA else 0
