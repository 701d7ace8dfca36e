# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shapes of models and projectors with what a real `llama-server` printed of its buffers:
`tests/data/llama_buffers.json`, which says of which release. The first rows are of models as they are, the others of
odd shapes that were drawn.

Anew: PATH with llama-server, then ``python tests/unit/llama_shapes.py`` prints the rows. The files are of `gguf_files`.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.boot_log import buffers, of_projector
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.buffers import Settings
from lab.vllm.gguf_files import Projector, Shape, write

PROGRAM = "llama-server"
_RECORDED = Path(__file__).parents[1] / "data" / "llama_buffers.json"


@dataclass(frozen=True)
class Row:
    """printed: MiB of model, cache, and what it computes in with what it puts out."""

    shape: Shape
    settings: Settings
    printed: tuple[float, float, float]


ROWS = [
    Row(Shape(**row["shape"]), Settings(**row["settings"]), tuple(row["printed"]))
    for row in json.loads(_RECORDED.read_text("utf-8"))["rows"]
]


@dataclass(frozen=True)
class EyeRow:
    """patches: of the picture that it warms up with. printed: MiB of the projector, and what it computes in."""

    shape: Projector
    patches: int
    printed: tuple[float, float]


EYES = [
    EyeRow(Projector(**row["shape"]), row["patches"], tuple(row["printed"]))
    for row in json.loads(_RECORDED.read_text("utf-8"))["projectors"]
]


def options(settings: Settings) -> list[str]:
    """The words of `llama-server` for them."""
    words = ["--ctx-size", str(settings.context), "--parallel", str(settings.slots)]
    words += ["--ubatch-size", str(settings.batch), "--kv-unified" if settings.unified else "--no-kv-unified"]
    return [*words, "--cache-type-k", settings.key_type, "--cache-type-v", settings.value_type]


def printed(program: str, file: Path, words: Sequence[str]) -> tuple[float, float, float]:
    """What the program says of its buffers: model, cache, compute."""
    found = buffers(started(program, file, ["--no-warmup", "--no-repack", "--flash-attn", "on", *words]))
    of = {
        kind: sum(mib for (_, one), mib in found.items() if one == kind)
        for kind in ("model", "KV", "compute", "output")
    }
    return of["model"], of["KV"], of["compute"] + of["output"]


def printed_of(program: str, shape: Projector, folder: Path) -> tuple[float, float]:
    """What the program says of a projector, beside a model of its embedding: its model, compute."""
    own = Shape("model", kind="F16", layers=1, embedding=shape.into, heads=shape.into // 32, kv_heads=1)
    words = ["--mmproj", str(write(folder / "mmproj.gguf", shape)), "--ctx-size", "256", "--parallel", "1"]
    found = of_projector(started(program, write(folder / "model.gguf", own), words))
    return found["model"], found["compute"]


def started(program: str, file: Path, words: Sequence[str], limit_s: float = 120.0) -> str:
    """The log of a start, until it serves."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = ["--fit", "off", "--cache-ram", "0", "--offline"]
    log = file.with_suffix(".log")
    command = [program, "--model", str(file), "--host", "127.0.0.1", "--port", str(port), "--log-verbosity", "4"]
    with log.open("w") as output, subprocess.Popen([*command, *quiet, *words], stdout=output, stderr=output) as server:
        try:
            until = time.monotonic() + limit_s
            while time.monotonic() < until and server.poll() is None and not _serves(port):
                time.sleep(0.2)
        finally:
            server.kill()
    return log.read_text()


def _serves(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    program = shutil.which(PROGRAM) or sys.exit(f"no {PROGRAM}")
    for row in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            file = write(Path(folder, f"{row.shape.name}.gguf"), row.shape)
            seen = printed(program, file, options(row.settings))
        print(row.shape.name, [round(mib, 2) for mib in seen], flush=True)
    for eye in EYES:
        with tempfile.TemporaryDirectory() as folder:
            print(eye.shape.name, printed_of(program, eye.shape, Path(folder)), flush=True)
