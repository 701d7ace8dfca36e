# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images: which layers, what is laid on top, which environment."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..base import cache_directory
from . import archive, debian, llama_cpp, packages, store, tiny_gguf, tiny_model, top_files

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Kind:
    """An image: its name and version, what lays its own files over `/`, and what makes the layers below: of a folder
    where they are kept, one to work in, and a log."""

    name: str
    version: str
    build: Callable[[Path], None]
    environment: Mapping[str, str]
    layers: Callable[[Path, Path, Path], list[archive.Layer]]
    entrypoint: tuple[str, ...] = ("vllm", "serve")

    def tag(self, variant: str) -> str:
        return f"{self.version}-{variant}" if variant else self.version


def _debian(directory: Path, work: Path, log: Path) -> list[archive.Layer]:
    return [debian.layer(directory, work, log)]


def _with_vllm(directory: Path, work: Path, log: Path) -> list[archive.Layer]:
    base = debian.layer(directory, work, log)
    return [base, packages.layer(directory, base, work, log)]


VLLM_CPU = Kind(
    name="vllm-cpu",
    version=packages.VLLM,
    build=top_files.build_real,
    environment={
        "PATH": _PATH,
        "VLLM_CACHE_ROOT": packages.CACHE,
        "VLLM_NO_USAGE_STATS": "1",
        # All lab hosts share the machine's cores: pinning would put every rank on the same ones.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        # No compiler in the image; without this the first request with more than one rank runs one.
        "TORCHDYNAMO_DISABLE": "1",
        # What a Spark's GPU is to Ray; the plugin asks for it.
        "RAY_OVERRIDE_RESOURCES": '{"GPU": 1}',
        "RAY_USAGE_STATS_ENABLED": "0",
        # It would watch the memory of the whole machine, and kill workers for what others use.
        "RAY_memory_monitor_refresh_ms": "0",
    },
    layers=_with_vllm,
)
STAND_IN = Kind(
    name="vllm-stand-in",
    version=packages.VLLM,
    build=top_files.build_stand_in,
    environment={"PATH": _PATH},
    layers=_debian,
)
LLAMA_CPP = Kind(
    name="llama-cpp",
    version=llama_cpp.VERSION,
    build=llama_cpp.link_programs,
    environment={"PATH": _PATH, "LD_LIBRARY_PATH": llama_cpp.LIBRARY_PATH},
    layers=llama_cpp.layers,
    entrypoint=("llama-server",),
)


MODELS = {"tiny": tiny_model, "tiny-gguf": tiny_gguf}


def default_directory() -> Path:
    return cache_directory() / "vllm"


def ensure_image(kind: Kind, directory: Path, variant: str = "") -> store.Facts:
    """The archive, built if it isn't there: {path, reference, image_id, diff_ids, bytes}.

    variant: another top layer and tag, as a small upgrade has; the other layers are the same.
    """
    os.umask(0o022)
    reference = f"gb10-lab/{kind.name}:{kind.tag(variant)}"
    path = directory / f"{kind.name}-{kind.tag(variant)}.tar"
    with store.locked(directory), store.scratch(directory) as work:
        image = archive.Image(
            reference=reference,
            layers=_layers(kind, variant, directory / "layers", work, directory / "build.log"),
            entrypoint=kind.entrypoint,
            environment=kind.environment,
            architecture=_ARCHITECTURES[platform.machine()],
            labels={"org.opencontainers.image.version": kind.version, "org.opencontainers.image.title": kind.name},
        )

        def make(part: Path) -> store.Facts:
            with store.step(f"{reference}: write the archive"):
                archive.write_archive(image, part)
            return {
                "path": str(path),
                "reference": reference,
                "image_id": archive.image_id(image),
                "diff_ids": [layer.digest for layer in image.layers],
                "bytes": part.stat().st_size,
            }

        wanted = store.inputs(str(path), reference, archive.image_id(image), Path(archive.__file__))
        return store.ensure(path, wanted, make)


def _layers(kind: Kind, variant: str, directory: Path, work: Path, log: Path) -> list[archive.Layer]:
    directory.mkdir(exist_ok=True)
    return [*kind.layers(directory, work, log), _top_layer(kind, variant, directory, work)]


def _top_layer(kind: Kind, variant: str, directory: Path, work: Path) -> archive.Layer:
    """Packed anew each time: it is a few KB."""
    root = work / "top"
    kind.build(root)
    if variant:
        (root / "etc").mkdir()
        (root / "etc" / "gb10-lab-variant").write_text(f"{variant}\n")
    for path in [root, *root.rglob("*")]:
        if path.is_symlink():
            continue
        # A checkout keeps no more of a mode than this bit.
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    return archive.write_layer("gb10-lab: imitation", root, directory / f"{kind.name}-{kind.tag(variant)}-top.tar")


def ensure_model(name: str, directory: Path) -> store.Facts:
    """The folder of a tiny model, made if it isn't there: {path, bytes}. name: of `MODELS`."""
    path, module = directory / name, MODELS[name]

    def make(part: Path) -> store.Facts:
        with store.step(f"tiny model {name}"):
            module.write(part)
        return {"path": str(path), "bytes": sum(file.stat().st_size for file in part.rglob("*") if file.is_file())}

    with store.locked(directory):
        return store.ensure(path, store.inputs(str(path), *map(Path, module.SOURCES)), make)


def stand_in_share() -> str:
    """The folder with the stand-in and its model, as ``lab up --share`` takes it and recipes of the lab look for it."""
    directory = default_directory()
    ensure_model("tiny", directory)
    ensure_image(STAND_IN, directory)
    return f"{directory}:/srv/lab"
