# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shapes of models with what a real `llama-server` printed of its buffers, in MiB: release 0.7.0 (build 11669),
Debian's package, on a machine without a GPU, the files of `gguf_files` with --no-warmup --no-repack --flash-attn on.

Anew: PATH with llama-server, then ``python tests/unit/llama_shapes.py`` prints the table.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.boot_log import buffers
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.buffers import Settings
from lab.vllm.gguf_files import Shape, write

PROGRAM = "llama-server"
_BIG = {"layers": 32, "embedding": 4096, "heads": 32, "head": 128, "vocabulary": 128256, "context": 131072}
_QWEN = {"kind": "Q4_K", "head": 128, "vocabulary": 151936, "context": 40960}
_MOE = {"architecture": "qwen3moe", "layers": 2, "embedding": 1024, "kv_heads": 2, "experts": 16}
_SMALL = Shape("small")
_LLAMA = Shape("llama-8b", kind="Q4_K", kv_heads=8, feed_forward=14336, **_BIG)
_DENSE = Shape("qwen3-32b", "qwen3", layers=64, embedding=5120, heads=64, feed_forward=25600, **_QWEN)
_MIXED = Shape(
    "qwen3-30b-a3b",
    "qwen3moe",
    **_QWEN,
    layers=48,
    embedding=2048,
    heads=32,
    kv_heads=4,
    feed_forward=768,
    experts=128,
    used=8,
)
_SLIDING = Shape("gemma3-27b", "gemma3", "Q8_0", 62, 5376, 32, 16, 128, 21504, 262208, sliding=1024, tied=True)


def _mixture(name: str, wide: int, used: int, heads: int = 8, head: int = 64) -> Shape:
    return Shape(name, heads=heads, head=head, feed_forward=wide, used=used, **_MOE)


# (shape, settings, MiB that it printed of: model, cache, what it computes in with what it puts out)
CASES: list[tuple[Shape, Settings, tuple[float, float, float]]] = [
    (_SMALL, Settings(8192, 4), (1.51, 32.0, 7.53)),
    (_SMALL, Settings(8192, 4, batch=256), (1.51, 32.0, 3.77)),
    (_SMALL, Settings(8192, 4, unified=True), (1.51, 32.0, 13.53)),
    (_LLAMA, Settings(8192, 4), (4308.64, 1024.0, 127.98)),
    (_LLAMA, Settings(4096, 1, batch=2048), (4308.64, 512.0, 512.56)),
    (_LLAMA, Settings(4096, 1, key_type="q8_0", value_type="q8_0"), (4308.64, 272.0, 128.59)),
    (_DENSE, Settings(8192, 4), (17577.19, 2048.0, 204.34)),
    (_MIXED, Settings(8192, 4), (16420.65, 768.0, 92.34)),
    (_SLIDING, Settings(8192, 4), (27371.80, 3136.0, 186.03)),
]
# (shape, MiB that it computes in) with Settings(2048, 1), where the graph's allocator decides most
GRAPHS = [
    (_mixture("m1", 256, 4), 20.02),
    (_mixture("m2", 1024, 4), 36.02),
    (_mixture("m3", 2048, 2), 36.02),
    (_mixture("m4", 128, 8), 28.02),
    (_mixture("m5", 512, 1), 14.02),
    (_mixture("n1", 512, 4), 24.02),
    (_mixture("n2", 768, 8), 48.02),
    (_mixture("n3", 1536, 4), 48.02),
    (_mixture("n4", 384, 3), 24.77),
    (_mixture("m6", 256, 2, 64, 128), 44.02),
    (Shape("d1", layers=2, embedding=1024, head=64, kv_heads=2, feed_forward=512), 12.02),
    (Shape("d2", layers=2, heads=64, head=128, feed_forward=256), 36.52),
    (Shape("d3", layers=2, feed_forward=256, vocabulary=200000), 5.52),
]


def options(settings: Settings) -> list[str]:
    """The words of `llama-server` for them."""
    words = ["--ctx-size", str(settings.context), "--parallel", str(settings.slots)]
    words += ["--ubatch-size", str(settings.batch), "--kv-unified" if settings.unified else "--no-kv-unified"]
    return [*words, "--cache-type-k", settings.key_type, "--cache-type-v", settings.value_type]


def printed(program: str, file: Path, words: Sequence[str], limit_s: float = 120.0) -> tuple[float, float, float]:
    """What the program says of its buffers: model, cache, compute."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = ["--no-warmup", "--no-repack", "--fit", "off", "--flash-attn", "on", "--cache-ram", "0", "--offline"]
    log = file.with_suffix(".log")
    command = [program, "--model", str(file), "--host", "127.0.0.1", "--port", str(port), "--log-verbosity", "4"]
    with log.open("w") as output, subprocess.Popen([*command, *quiet, *words], stdout=output, stderr=output) as server:
        try:
            until = time.monotonic() + limit_s
            while time.monotonic() < until and server.poll() is None and not _serves(port):
                time.sleep(0.2)
        finally:
            server.kill()
    found = buffers(log.read_text())
    of = {
        kind: sum(mib for (_, one), mib in found.items() if one == kind)
        for kind in ("model", "KV", "compute", "output")
    }
    return of["model"], of["KV"], of["compute"] + of["output"]


def _serves(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    program = shutil.which(PROGRAM) or sys.exit(f"no {PROGRAM}")
    for shape, settings, _ in CASES:
        with tempfile.TemporaryDirectory() as folder:
            seen = printed(program, write(Path(folder, f"{shape.name}.gguf"), shape), options(settings))
        print(shape.name, tuple(round(mib, 2) for mib in seen), flush=True)
