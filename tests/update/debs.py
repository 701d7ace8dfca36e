# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of ours in a flat repository, named and versioned as DGX OS's: a kernel's image is a text in /boot."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

META = "linux-image-nvidia-hwe-24.04"


def image(kernel: str) -> str:
    return f"linux-image-{kernel}"


def publish_kernel(repository: Path, kernel: str) -> str:
    """A kernel's image, and the package that brings the newest one. Returns the latter's version."""
    version = f"{kernel.removesuffix('-nvidia')}.1"
    _build(repository, image(kernel), version, files={f"boot/vmlinuz-{kernel}": "an imitation\n"})
    _build(repository, META, version, depends=image(kernel))
    index(repository)
    return version


def withdraw(repository: Path, kernel: str) -> None:
    version = f"{kernel.removesuffix('-nvidia')}.1"
    for name in (image(kernel), META):
        (repository / f"{name}_{version}_all.deb").unlink()
    index(repository)


def index(repository: Path) -> None:
    """As tests/lab/image/customize.sh does it: `Packages` of all files."""
    rows = []
    for deb in sorted(repository.glob("*.deb")):
        fields = subprocess.run(["dpkg-deb", "--field", deb], check=True, capture_output=True, text=True).stdout
        content = deb.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        rows.append(f"{fields}Filename: ./{deb.name}\nSize: {len(content)}\nSHA256: {digest}\n")
    (repository / "Packages").write_text("\n".join(rows))


def _build(repository: Path, name: str, version: str, depends: str = "", files: dict[str, str] | None = None) -> None:
    tree = repository / "tree"
    control = {"Package": name, "Version": version, "Architecture": "all", "Maintainer": "tests <tests@example.org>"}
    control |= {"Depends": depends} if depends else {}
    control["Description"] = "an imitation for tests"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text("".join(f"{key}: {value}\n" for key, value in control.items()))
    for path, text in (files or {}).items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    target = repository / f"{name}_{version}_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, target], check=True, capture_output=True)
    subprocess.run(["rm", "-r", tree], check=True)
