# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the benchmarks move: image archives made without Docker, and weights of random bytes."""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Mapping, Sequence

from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.archive import Layer, digest_of, load_stream
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.identity import parse_reference

MB = 1_000_000
# A vLLM image's fat layer, package by package, in MB at 1:100 (ai-dynamo/dynamo pull request 5494): an upgrade of vLLM
# changes its own package, and every file's time.
PACKAGES = {"nvidia": 45, "flashinfer_jit_cache": 41, "torch": 21, "vllm": 12, "triton": 6, "flashinfer_cubin": 4}
_FILES_OF_A_PACKAGE = 60


def layer(files: Mapping[str, bytes], time: int = 0) -> bytes:
    """A layer's uncompressed tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), time
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def noise(seed: str, size: int) -> bytes:
    """The same incompressible bytes at every run."""
    return random.Random(seed).randbytes(size)


def fat_layer(vllm: str) -> bytes:
    """One layer with all packages, of which ``vllm`` is of that version (a number)."""
    files = {}
    for name, size in PACKAGES.items():
        seed = f"{name}-{vllm}" if name == "vllm" else name
        for number in range(_FILES_OF_A_PACKAGE):
            files[f"usr/lib/{name}/{number}.so"] = noise(f"{seed}-{number}", size * MB // _FILES_OF_A_PACKAGE)
    return layer(files, time=int(vllm))


def archive(reference: str, layers: Sequence[bytes]) -> bytes:
    """What ``docker save`` would write of an image of these layers."""
    content = {digest_of(tar): tar for tar in layers}
    config = {
        "os": "linux",
        "architecture": "amd64",
        "config": {"Env": [f"REFERENCE={reference}"]},
        "rootfs": {"type": "layers", "diff_ids": list(content)},
    }
    parts = [Layer(digest, digest, len(tar)) for digest, tar in content.items()]
    return b"".join(
        load_stream(
            parse_reference(reference),
            json.dumps(config).encode(),
            parts,
            lambda part: iter([content[part.digest]]),
            frozenset(),
        )
    )
