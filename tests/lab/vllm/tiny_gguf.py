# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A llama of random weights as GGUF files, for the real llama.cpp.

Equal on every machine. Its answers are printable ASCII without sense: bytes and what ends a text never win, since their
rows of the output are zeros.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

from . import gguf_files

SHAPE = gguf_files.Shape("tiny", kind="F16", layers=4, embedding=64, heads=4, kv_heads=2, head=16, feed_forward=128)
EYE = gguf_files.Projector("tiny", into=SHAPE.embedding)
FILE = "F16/tiny-F16.gguf"
PROJECTOR = "mmproj-tiny-F32.gguf"
SOURCES = (__file__, gguf_files.__file__)
# <unk>, <s>, </s>, 256 bytes and the blank.
_SILENT = 260
_SEED = 18


def write(folder: Path) -> None:
    """The folder of a repository: the model's file, its projector for pictures, and another one."""
    (folder / FILE).parent.mkdir(parents=True)
    text, size = gguf_files.header(SHAPE.metadata, SHAPE.tensors)
    (folder / FILE).write_bytes(text + b"".join(_padded(_tensor(*entry)) for entry in SHAPE.tensors.items()))
    assert (folder / FILE).stat().st_size == len(text) + size
    # all zeros: what it sees is nothing, of as many tokens as a real one has for a picture of that size
    text, size = gguf_files.header(EYE.metadata, EYE.tensors)
    (folder / PROJECTOR).write_bytes(text + bytes(size))
    (folder / "README.md").write_text("A model of random weights, for tests.\n")


def _tensor(name: str, tensor: tuple[str, list[int]]) -> bytes:
    kind, (columns, *rows) = tensor
    source = random.Random(f"{_SEED} {name}")
    many = rows[0] if rows else 1
    if kind == "F32":  # a norm's
        return struct.pack(f"<{columns}f", *[1.0] * columns)
    silent = _SILENT if name == "output.weight" else 0
    values = [0.0 if row < silent else source.gauss(0, 0.3) for row in range(many) for _ in range(columns)]
    return struct.pack(f"<{len(values)}e", *values)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 32)
