# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes container images and the models for lab hosts, or finds them made.

Progress goes to stderr. One JSON object a line goes to stdout: of an image {name, path, reference, image_id, diff_ids,
bytes}, of a model {name, path, bytes}.
Status: 0 made or there, 1 failed, 2 wrong usage, 3 can't be had on this machine (the last line says why).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ..console import announce
from ..errors import LabError
from . import images, store
from .process import UnavailableError

FAILED, UNAVAILABLE, INTERRUPTED = 1, 3, 130
_KINDS = {kind.name: kind for kind in (images.VLLM_CPU, images.STAND_IN, images.LLAMA_CPP)}
_NAMES = (*_KINDS, *images.MODELS)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    try:
        for name in asked.names or _NAMES:
            facts = _ensure(name, asked.to.resolve(), asked.variant or "")
            print(json.dumps({"name": name, **facts}, sort_keys=True), flush=True)
    except LabError as problem:
        announce(str(problem))
        return UNAVAILABLE if isinstance(problem, UnavailableError) else FAILED
    except KeyboardInterrupt:
        announce("interrupted; nothing half-made is left")
        return INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tests/lab/vllm/build", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", choices=[*_NAMES, []], help=f"{', '.join(_NAMES)}; all if none is named")
    add("--to", type=Path, default=images.default_directory(), metavar="DIRECTORY", help="default: %(default)s")
    add("--variant", type=_word, metavar="WORD", help="images with WORD in the tag and another top layer")
    return parser


def _word(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,40}", text):
        raise argparse.ArgumentTypeError(f'"{text}" can\'t be part of a tag: write a-z, 0-9, "." and "-"')
    return text


def _ensure(name: str, directory: Path, variant: str) -> store.Facts:
    if name in images.MODELS:
        return images.ensure_model(name, directory)
    if os.geteuid() != 0:
        raise UnavailableError("building an image needs root (chroot, file owners): run it as root or with sudo")
    return images.ensure_image(_KINDS[name], directory, variant)


if __name__ == "__main__":
    sys.exit(main())
