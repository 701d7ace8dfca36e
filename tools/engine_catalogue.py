# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep ``data/sglang_catalogue.json`` and ``data/trtllm_catalogue.json``: the options that a release's own parser has.

python tools/engine_catalogue.py sglang python3                                        the Python that has it
python tools/engine_catalogue.py trtllm docker run --rm --entrypoint python3 IMAGE     an image that has it
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gb10.fleet.plugins.module_utils._engines import options  # noqa: E402

# Each runs in the engine's own Python and prints its release and, of every option, a row of the catalogue.
_SGLANG = """
import argparse, json
from sglang.srt.server_args import ServerArgs
from sglang.version import __version__
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
rows = []
for action in parser._actions:
    names = [name[2:] for name in action.option_strings if name.startswith("--")]
    if names and names != ["help"]:
        rows.append({
            "names": names,
            "switch": action.nargs == 0,
            "many": action.nargs in ("+", "*") or isinstance(action.nargs, int) and action.nargs > 1,
            "choices": [str(choice) for choice in action.choices or ()],
            "gone": type(action).__name__ == "DeprecatedAction",
        })
print("\\n" + json.dumps([__version__, rows]))
"""
_TRTLLM = """
import json
import click
from tensorrt_llm.commands.serve import serve
from tensorrt_llm.version import __version__
rows = []
for option in serve.params:
    names = [name[2:].replace("_", "-") for name in option.opts if name.startswith("--")]
    if names:
        rows.append({
            "names": names,
            "negative": [name[2:].replace("_", "-") for name in option.secondary_opts],
            "switch": option.is_flag,
            "many": False,
            "choices": [str(choice) for choice in getattr(option.type, "choices", ())],
        })
print("\\n" + json.dumps([__version__, rows]))
"""
PROGRAMS = {"sglang": _SGLANG, "trtllm": _TRTLLM}


def main(words: list[str]) -> int:
    if len(words) < 2 or words[0] not in PROGRAMS:
        print(__doc__, file=sys.stderr)
        return 2
    engine, python = words[0], words[1:]
    done = subprocess.run([*python, "-c", PROGRAMS[engine]], check=True, stdout=subprocess.PIPE, text=True)
    # libraries print, too
    version, rows = json.loads(done.stdout.strip().splitlines()[-1])
    path = ROOT / "data" / f"{engine}_catalogue.json"
    known = options.releases_of(path.read_text("utf-8")) if path.exists() else {}
    release = options.release_of(version, [{key: value for key, value in row.items() if value} for row in rows])
    path.write_text(options.as_json({**known, version: release}), encoding="utf-8")
    print(f"{engine} {version}: {len(rows)} options")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
