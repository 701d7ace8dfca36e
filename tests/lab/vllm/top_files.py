# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is laid over an image's `/` last: our own files."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import DATA, Catalogue

from .packages import SITE, VLLM

_HERE = Path(__file__).resolve().parent
_PROGRAMS = "usr/local/bin"


def build_real(root: Path) -> None:
    """The platform plugin, and the programs that pip would make."""
    _copy(_HERE / "real" / "plugin", root / SITE.lstrip("/"))
    _copy(_HERE / "real" / "bin", root / _PROGRAMS)


def build_stand_in(root: Path) -> None:
    """The program, with the options of the release that it stands for, from the collection's catalogue."""
    site = root / SITE.lstrip("/")
    _copy(_HERE / "stand_in" / "lib", site)
    _copy(_HERE / "stand_in" / "bin", root / _PROGRAMS)
    release = Catalogue(json.loads(DATA.read_text())).release(VLLM)
    # argparse has its own --help
    options = [asdict(option) for option in release.options.values() if option.name != "--help"]
    (site / "vllm_stand_in" / "options.json").write_text(json.dumps(options, indent=0))
    (site / "vllm_stand_in" / "release.json").write_text(json.dumps(VLLM))


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
