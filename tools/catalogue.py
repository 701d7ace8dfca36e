# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep ``data/vllm_catalogue.json``: one command for a new vLLM release.

    python tools/catalogue.py add 0.33.0        downloads the release, reads it, writes the catalogue
    python tools/catalogue.py add --from DIR 0.33.0    the same from a directory that holds the package `vllm`
    python tools/catalogue.py check             reads all known releases anew, and says where the catalogue differs

The download goes through pip as configured. pip asks every source archive for its metadata, which would run the
release's setup.py; a stand-in build backend answers instead, so that no code of the release runs. A release without a
source archive (0.15.0, 0.15.1) is read from its aarch64 wheel.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue import releases, store  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.image import extract  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.source import Source, Tree  # noqa: E402
from profiling import profiling  # noqa: E402

BACKEND = """
from pathlib import Path


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    info = Path(metadata_directory) / "vllm.dist-info"
    info.mkdir()
    (info / "METADATA").write_bytes(Path("PKG-INFO").read_bytes())
    return info.name
"""
PIP = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir")
SOURCE = ("--no-binary", ":all:", "--no-build-isolation")
WHEEL = ("--only-binary", ":all:", "--platform", "manylinux_2_31_aarch64", "--platform", "manylinux_2_35_aarch64")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Keep the catalogue of vLLM releases.")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add", help="read releases and write them into the catalogue")
    add.add_argument("versions", nargs="+", metavar="VERSION")
    add.add_argument("--from", dest="root", type=Path, metavar="DIR", help="a directory that holds the package vllm")
    check = commands.add_parser("check", help="read releases, and compare the catalogue with them")
    check.add_argument("versions", nargs="*", metavar="VERSION", help="all that the catalogue has")
    check.add_argument("--from", dest="root", type=Path, metavar="DIR", help="a directory that holds the package vllm")
    options = parser.parse_args(arguments)
    differs = False
    for version in options.versions or releases.load().releases:
        try:
            release = read(Tree(options.root), version) if options.root else download(version)
        except FleetError as error:
            print(error, file=sys.stderr)
            return 1
        except subprocess.CalledProcessError as error:
            print(f"vllm {version}: {not_found(str(error.stderr or ''))}", file=sys.stderr)
            return 1
        if options.command == "check":
            found = [*differences(release)]
            differs = differs or bool(found)
            print("\n".join(f"{version}: {line}" for line in found or ["as the catalogue says"]), flush=True)
            continue
        write(release)
        print(f"{version}: {len(release.options)} options, {len(release.variables)} variables")
    return int(differs)


def not_found(words: str) -> str:
    """What pip's own words come to: the newest release that the index has, or pip's last line."""
    listed = ",".join(re.findall(r"from versions: ([^)]*)\)", words))
    known = {tuple(map(int, text.split("."))) for text in re.findall(r"(?<![\w.])\d+(?:\.\d+)+(?![\w.])", listed)}
    if known:
        return f"the package index has no such release; its newest is {'.'.join(map(str, max(known)))}"
    last = (words.strip().splitlines() or ["it said nothing"])[-1]
    return f"pip found neither a source archive nor a wheel: {last}"


def differences(release: releases.Release) -> Iterator[str]:
    """Where a release's own package differs from the catalogue: options, variables, registered names, and the facts
    that its memory follows from."""
    if release.version not in releases.load().releases:
        yield "not in the catalogue: add it"
        return
    stored, read = ({(kind, name): value for kind, name, value in _entries(one)} for one in _both(release))
    for key in sorted(stored.keys() | read.keys()):
        if stored.get(key) != read.get(key):
            yield f"{' '.join(key)}: {stored.get(key)} in the catalogue, {read.get(key)} in the package"


def _both(release: releases.Release) -> Iterator[releases.Release]:
    """As stored, and as it would be stored."""
    yield releases.load().release(release.version)
    yield releases.Catalogue(store.store([release])).release(release.version)


def _entries(release: releases.Release) -> Iterator[tuple[str, str, object]]:
    yield from (("option", name, option) for name, option in release.options.items())
    yield from (("variable", name, variable) for name, variable in release.variables.items())
    for registry, names in release.registries.items():
        yield from ((registry, name, True) for name in names)


def download(version: str) -> releases.Release:
    """A release from the package index, read without unpacking it."""
    with tempfile.TemporaryDirectory(prefix="vllm-") as scratch:
        target = Path(scratch)
        backend = target / "backend" / "setuptools"
        backend.mkdir(parents=True)
        (backend / "__init__.py").write_text("")
        (backend / "build_meta.py").write_text(BACKEND)
        environment = {**os.environ, "PYTHONPATH": str(backend.parent)}
        wanted = ("--dest", scratch, f"vllm=={version}")
        try:
            subprocess.run([*PIP, *SOURCE, *wanted], env=environment, check=True, stderr=subprocess.PIPE, text=True)
        except subprocess.CalledProcessError as error:
            wheel = subprocess.run([*PIP, *WHEEL, *wanted], check=False, stderr=subprocess.PIPE, text=True)
            if wheel.returncode:
                error.stderr += wheel.stderr
                raise
        archive = next(path for path in target.iterdir() if path.is_file())
        return read(dict(_wheel(archive) if archive.suffix == ".whl" else _source(archive)), version)


def read(files: Mapping[str, str], version: str) -> releases.Release:
    """What the catalogue holds of a package, the facts of its profiling pass among them."""
    release = extract(files, version)
    facts = tuple(sorted(set(profiling(Source(files)))))
    return replace(release, registries={**release.registries, "profiling": facts})


def _source(archive: Path) -> Iterator[tuple[str, str]]:
    with tarfile.open(archive) as opened:
        for member in opened:
            path = member.name.partition("/")[2]
            file = opened.extractfile(member) if _wanted(path) and member.isfile() else None
            if file is not None:
                yield path, file.read().decode("utf-8", "replace")


def _wheel(archive: Path) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(archive) as opened:
        for path in filter(_wanted, opened.namelist()):
            yield path, opened.read(path).decode("utf-8", "replace")


def _wanted(path: str) -> bool:
    return path.startswith("vllm/") and path.endswith(".py")


def write(release: releases.Release) -> None:
    """Put a release into the stored catalogue, in place of an earlier reading of it."""
    known: Mapping[str, releases.Release] = {}
    if releases.DATA.exists():
        releases.load.cache_clear()
        stored = releases.load()
        known = {version: stored.release(version) for version in stored.releases}
    text = store.text(store.store({**known, release.version: release}.values()))
    unfinished = releases.DATA.with_suffix(".json.new")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(releases.DATA)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
