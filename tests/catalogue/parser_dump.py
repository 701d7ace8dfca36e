# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints what vLLM's own parser has, as JSON. Runs under the Python of an environment with vLLM; needs nothing of ours.

Standard input: a list of argument lists. For each the answer says whether the parser takes it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # vLLM logs to standard output while it is imported
    probes = json.load(sys.stdin)
    sys.argv = ["vllm", "serve"]
    _old_cpu_build()
    envs = import_module("vllm.envs")
    serve = import_module("vllm.entrypoints.cli.serve")
    home = "vllm.utils.argparse_utils" if find_spec("vllm.utils.argparse_utils") else "vllm.utils"
    parser_type = import_module(home).FlexibleArgumentParser

    def parser() -> Any:
        return serve.make_arg_parser(parser_type(prog="vllm serve"))

    built = parser()
    found = {
        "options": [_described(built, action) for action in built._actions if action.option_strings],
        "variables": sorted(name for name in envs.environment_variables if name.startswith("VLLM_")),
        "help": _help(parser()),
        "accepted": [_accepts(parser(), probe) for probe in probes],
    }
    json.dump(found, answers)
    answers.close()


def _old_cpu_build() -> None:
    """Let a release's plain source run with the compiled parts of another: these are asked for at import."""
    compiled = import_module("torch")._C._cpu
    for name in ("_is_avx512_supported", "_is_avx2_supported", "_is_amx_tile_supported"):
        if not hasattr(compiled, name):
            setattr(compiled, name, lambda: False)


def _described(parser: Any, action: Any) -> dict[str, Any]:
    choices = None if action.choices is None else sorted(str(choice) for choice in action.choices if choice is not None)
    return {
        "names": sorted(name for name, known in parser._option_string_actions.items() if known is action),
        "value": action.nargs != 0,
        "nargs": action.nargs,
        "choices": choices,
        "type": _type(action.type),
    }


def _type(converter: Any) -> str:
    """The converter's name; those that wrap another are written before it with a colon."""
    name = getattr(converter, "__name__", "str" if converter is None else repr(converter))
    inner = getattr(converter, "__closure__", None)
    if name in ("_optional_type", "_parse_type") and inner:
        return f"{name}:{_type(inner[0].cell_contents)}"
    return str(name)


def _help(parser: Any) -> list[str]:
    """The option strings that ``vllm serve --help=all`` shows."""
    type(parser)._search_keyword = "all"
    lines = re.findall(r"^  (-.*)$", parser.format_help(), re.MULTILINE)
    return sorted({name for line in lines for name in re.findall(r"(?:^|, )(--?[A-Za-z][\w-]*)", line)})


def _accepts(parser: Any, probe: list[str]) -> bool:
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            parser.parse_args(probe)
        except (SystemExit, Exception):
            return False
    return True


if __name__ == "__main__":
    main()
