# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is laid over an image's `/` last: our own files."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from ansible_collections.gb10.fleet.plugins.module_utils._engines.options import Option, Release
from ansible_collections.gb10.fleet.plugins.module_utils._engines.sglang import catalogue as sglang_catalogue
from ansible_collections.gb10.fleet.plugins.module_utils._engines.trtllm import catalogue as trtllm_catalogue
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import DATA, Catalogue

from .packages import SITE, VLLM

_HERE = Path(__file__).resolve().parent
_PROGRAMS = "usr/local/bin"
# What the images of SGLang run, `python3 -m sglang.launch_server`.
_SGLANG = "import sys\n\nfrom other_engines.sglang import main\n\nsys.exit(main(sys.argv[1:]))\n"


def build_real(root: Path) -> None:
    """The platform plugin, and the programs that pip would make."""
    _copy(_HERE / "real" / "plugin", root / SITE.lstrip("/"))
    _copy(_HERE / "real" / "bin", root / _PROGRAMS)


def build_stand_in(root: Path) -> None:
    """The programs, each with the options of the release that it stands for, from the collection's catalogues."""
    site = root / SITE.lstrip("/")
    _copy(_HERE / "stand_in" / "lib", site)
    _copy(_HERE / "stand_in" / "bin", root / _PROGRAMS)
    release = Catalogue(json.loads(DATA.read_text())).release(VLLM)
    # argparse has its own --help
    options = [asdict(option) for option in release.options.values() if option.name != "--help"]
    (site / "vllm_stand_in" / "options.json").write_text(json.dumps(options, indent=0))
    (site / "vllm_stand_in" / "release.json").write_text(json.dumps(VLLM))
    (site / "sglang").mkdir()
    (site / "sglang" / "launch_server.py").write_text(_SGLANG)
    of_sglang = sglang_catalogue.load()[sglang_catalogue.NEWEST]
    (site / "other_engines" / "sglang.json").write_text(_options(of_sglang))
    of_trtllm = trtllm_catalogue.load()[trtllm_catalogue.NEWEST]
    (site / "other_engines" / "trtllm.json").write_text(_options(of_trtllm, underscores=True))


def _options(release: Release[Option], underscores: bool = False) -> str:
    """underscores: whether the program's own names have them."""
    rows = [asdict(option) for option in {*release.options.values()}]
    for row in rows if underscores else ():
        row["names"] = [name.replace("-", "_") for name in row["names"]]
    return json.dumps({"release": release.version, "options": sorted(rows, key=lambda row: row["names"])}, indent=0)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
