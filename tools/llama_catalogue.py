# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep ``data/llama_cpp_catalogue.json``: what a release's own program prints of its options.

python tools/llama_catalogue.py llama-server                 the program on this machine
python tools/llama_catalogue.py docker run --rm IMAGE        an image whose entrypoint it is
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp import catalogue  # noqa: E402


def main(words: list[str]) -> int:
    if not words:
        print(__doc__, file=sys.stderr)
        return 2
    version, build = catalogue.read_version(_printed([*words, "--version"]))
    rows = [asdict(option) for option in catalogue.read_help(_printed([*words, "--help"]))]
    release = catalogue.release_of(version, build, rows)
    catalogue.DATA.write_text(catalogue.as_json({**catalogue.load(), version: release}), encoding="utf-8")
    print(f"{version}: build {build}, {len(rows)} options")
    return 0


def _printed(words: list[str]) -> str:
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
