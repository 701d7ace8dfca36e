# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels of a bundle, by the locks of hashes that roles install by; and the collection itself."""

import email
import hashlib
import re
import sys
import tarfile
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..._base import worded
from ..._base.gb10 import ROOT
from .folder import Target
from .locks import TOOLS, pins, plain
from .manifest import COLLECTION, WHEELS
from .programs import run

_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}
# glibc's releases up to that of Ubuntu 24.04; pip takes each by its own name (PEP 600).
_GLIBC = range(39, 16, -1)


def locks(tools: Collection[str]) -> list[Path]:
    """The locks of hashes by which roles install. tools: what hosts of the plan install besides (`locks.TOOLS`), of
    which Phoenix alone is 190 MB."""
    left_out = {Path(ROOT, lock) for tool, lock in TOOLS.items() if tool not in tools}
    return [path for path in sorted(Path(ROOT, "roles").glob("*/files/*.txt")) if path not in left_out]


def chosen_by(architecture: str, python: str, tools: Collection[str]) -> str:
    """One sum for locks, architecture and release: by the same ones pip chooses the same wheels."""
    words = [architecture, python, *(path.read_text("utf-8") for path in locks(tools))]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def held(chosen: str, known: Mapping[str, Any], target: Target) -> list[dict[str, Any]] | None:
    """The entries of an earlier bundle, where it has just these wheels and all of them are held; None else."""
    entries = [{**entry} for entry in known["wheels"]]
    if known.get("wheels_by") != chosen or not all(target.known(entry["file"]) for entry in entries):
        return None
    for entry in entries:
        target.name(entry["file"])
    return entries


def fetch(
    architecture: str, python: str, tools: Collection[str], target: Target, work: Path
) -> list[dict[str, str | None]]:
    """The manifest's entries of all wheels, held from then on. python: the hosts' release, as ``3.12``."""
    machine = _MACHINES.get(architecture, architecture)
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC] + [f"manylinux2014_{machine}"]
    chosen = [word for name in platforms for word in ("--platform", name)]
    work.mkdir(parents=True, exist_ok=True)
    for lock in locks(tools):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        only = ["--require-hashes", "--only-binary=:all:", "--python-version", python, *chosen]
        run([*pip, *only, "--dest", str(work), "--requirement", str(lock)], "wheels")
    pinned = {pin for lock in locks(tools) for pin in pins(lock.read_text())}
    entries: list[dict[str, str | None]] = []
    for file in sorted(work.glob("*.whl")):
        name, version, licence = _described(file)
        if (plain(name), version) in pinned:
            target.put(f"{WHEELS}/{file.name}", file)
            origin = f"the package index of pip, {name}=={version}"
            path = f"{WHEELS}/{file.name}"
            entries.append({"name": name, "version": version, "file": path, "licence": licence, "origin": origin})
        file.unlink()
    return entries


def _described(wheel: Path) -> tuple[str, str, str | None]:
    """Name, version and licence, by the wheel's own METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [member for member in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", member)]
        metadata = email.message_from_bytes(archive.read(name))
    licence = metadata["License-Expression"] or metadata["License"]
    return str(metadata["Name"]), str(metadata["Version"]), str(licence).splitlines()[0][:1024] if licence else None


def collection(target: Target, work: Path) -> dict[str, str]:
    """The manifest's entry of this collection's own artifact, as ansible-galaxy builds it."""
    if not (ROOT / "galaxy.yml").is_file():
        raise worded.refusal("bundle-collection", str(ROOT))
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    run([galaxy, "collection", "build", str(ROOT), "--force", "--output-path", str(work)], "the collection")
    (file,) = work.glob("gb10-fleet-*.tar.gz")
    path = f"{COLLECTION}/{file.name}"
    if target.known(path) and _content(target.folder / path) == _content(file):
        target.name(path)  # of the same files ansible-galaxy makes another archive each time
    else:
        target.put(path, file)
    file.unlink()
    return {"version": file.name.removeprefix("gb10-fleet-").removesuffix(".tar.gz"), "file": path}


def _content(artifact: Path) -> bytes:
    """The artifact's MANIFEST.json, which has the sum of its list of files; nothing where it is not at hand."""
    if not artifact.is_file():
        return b""
    with tarfile.open(artifact) as archive:
        stream = archive.extractfile("MANIFEST.json")
        return stream.read() if stream else b""
