# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of the real Open WebUI and Hermes Agent for lab hosts: their packages of PyPI, by locks, over a small Debian.

Their own images can't be had by a registry here. What is imitated is the image's start alone, where `_clients.kinds`
looks for it.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.vllm import archive, debian, images, packages, store
from lab.vllm.process import UnavailableError, run

ROOT = Path(__file__).resolve().parents[2]
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Program:
    """name: of the image. lock: below requirements/. start: the file that its image has, and what it holds here."""

    name: str
    lock: str
    start: tuple[str, str]
    environment: dict[str, str]

    @property
    def reference(self) -> str:
        return f"gb10-lab/{self.name}:1"


OPEN_WEBUI = Program(
    "open-webui",
    "open_webui.txt",
    (
        "app/backend/start.sh",
        'exec python3 -c "from open_webui import app; app()" serve --host 0.0.0.0 --port 8080\n',
    ),
    {"DATA_DIR": "/app/backend/data"},
)
HERMES = Program(
    "hermes",
    "hermes.txt",
    (
        "opt/hermes/docker/entrypoint-dispatch.sh",
        '#!/bin/sh\nexec python3 -c "from hermes_cli.main import main; main()" "$@"\n',
    ),
    {"HERMES_HOME": "/opt/data"},
)


def ensure(program: Program) -> Path:
    """The archive beside those of vLLM, made if it isn't there."""
    os.umask(0o022)
    directory = images.default_directory()
    path = directory / f"{program.name}.tar"
    with store.locked(directory), store.scratch(directory) as work:
        (directory / "layers").mkdir(exist_ok=True)
        below = debian.layer(directory / "layers", work, directory / "build.log")

        def make(part: Path) -> store.Facts:
            with store.step(f"{program.reference}: download, unpack and pack"):
                tree = work / program.name
                _install(program, tree, directory / "build.log")
                top = archive.write_layer(program.name, tree, work / "top.tar")
                image = archive.Image(
                    reference=program.reference,
                    layers=[below, top],
                    entrypoint=("sh",),
                    environment={"PATH": _PATH, **program.environment},
                    architecture="amd64",
                )
                archive.write_archive(image, part)
            return {"path": str(path), "bytes": part.stat().st_size}

        lock = ROOT / "requirements" / program.lock
        store.ensure(path, store.inputs(below.digest, lock, Path(__file__), Path(archive.__file__)), make)
    return path


def _install(program: Program, tree: Path, log: Path) -> None:
    site = tree / packages.SITE.lstrip("/")
    uv = shutil.which("uv", path=os.pathsep.join([str(ROOT / ".venv" / "bin"), os.environ.get("PATH", "")]))
    if not uv:
        raise UnavailableError("uv is missing: run tests/tools/bootstrap, which puts it into .venv")
    wheels = (f"--python-version={packages.PYTHON}", "--python-platform=x86_64-manylinux_2_36", "--only-binary=:all:")
    run(
        [
            *(uv, "pip", "install", "--no-deps", "--require-hashes", "--compile-bytecode", "--link-mode=copy"),
            *(*wheels, f"--target={site}", *packages.package_sources()),
            f"--requirements={ROOT / 'requirements' / program.lock}",
        ],
        log,
        # an image's files never change, and their time stamps are not those that were compiled
        {"PYC_INVALIDATION_MODE": "UNCHECKED_HASH"},
    )
    name, text = program.start
    start = tree / name
    start.parent.mkdir(parents=True)
    start.write_text(text)
    start.chmod(0o755)
    (tree / program.environment.get("DATA_DIR", "/opt/data").lstrip("/")).mkdir(parents=True, exist_ok=True)
