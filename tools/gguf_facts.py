# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan needs to know of a GGUF file, for ``recipes/configs/NAME.json``, which a recipe's ``model.config`` names.

    python tools/gguf_facts.py model-00001-of-00003.gguf [mmproj.gguf] > recipes/configs/NAME.json

Of a model that is split the first file is named, and the others lie beside it; `mmproj` is the projector of a model
that is shown pictures. Headers alone are read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gb10.fleet.plugins.module_utils._facts.models import gguf  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.stored import shards_of  # noqa: E402


def main(words: list[str]) -> int:
    if len(words) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    first, *eye = map(Path, words)
    try:
        names = shards_of(first.name)
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 1
    headers = []
    for file in [*(first.with_name(name) for name in names), *eye]:
        try:
            with file.open("rb") as stream:
                header = gguf.read_header(stream.read)
        except (OSError, gguf.GgufError) as problem:
            print(f"{file}: {problem}", file=sys.stderr)
            return 1
        if header.size > file.stat().st_size:
            print(f"{file}: {file.stat().st_size} bytes; {header.size} bytes, says its header", file=sys.stderr)
            return 1
        headers.append(header)
    try:
        facts = gguf.facts_of(headers[: len(names)]) | (gguf.projector_of(headers[-1]) if eye else {})
    except gguf.GgufError as problem:
        print(f"{' '.join(words)}: {problem}", file=sys.stderr)
        return 1
    print(json.dumps(facts, indent=1, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
