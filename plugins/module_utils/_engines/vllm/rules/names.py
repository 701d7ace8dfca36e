# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on names: options, variables and parsers that a release doesn't have, or that don't fit the model."""

from ...._base.place import argv
from ._base import Hit, Hits, rule, show
from .launch import Launch


@rule("R039")
def quantization_not_a_method(launch: Launch) -> Hits:
    """--quantization fp4 or another name of no method, on a ModelOpt checkpoint."""
    method = launch.text("--quantization")
    known = launch.release.registries.get("quantization", ()) if launch.release else ()
    if method and known and method not in known and launch.model.quant_method == "modelopt":
        yield Hit(argv("--quantization"), show(method))


@rule("R040")
def other_familys_parser(launch: Launch) -> Hits:
    """A tool parser of another family than the model's."""
    parser, fitting = launch.text("--tool-call-parser"), launch.model.tool_parsers
    if parser and fitting and parser not in fitting and not launch.has("--tool-parser-plugin"):
        remedy = f"write --tool-call-parser {fitting[0]}"
        yield Hit(argv("--tool-call-parser"), show(parser), expected=" or ".join(fitting), remedy=remedy)
