# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on names: options, variables and parsers that a release doesn't have, or that don't fit the model."""

from ...._base.place import argv, env
from ._base import Hit, Hits, rule, show
from .launch import Launch


@rule("R031")
def attention_variable(launch: Launch) -> Hits:
    """A vision model on GB10 without Triton attention (to 0.12), or with only the dead variable (from 0.15)."""
    variable = launch.env.get("VLLM_ATTENTION_BACKEND")
    place = env("VLLM_ATTENTION_BACKEND")
    if launch.before("0.13.0"):
        if launch.model.vision and launch.gb10 and (variable or "").upper() != "TRITON_ATTN":
            yield Hit(place, show(variable), expected="TRITON_ATTN", remedy="set it to TRITON_ATTN")
    elif variable is not None:
        known = launch.text("--attention-backend")
        remedy = "drop it" if known else f"drop it and write --attention-backend {variable}"
        yield Hit(place, show(variable), expected="--attention-backend", remedy=remedy)


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


@rule("R041")
def half_of_tools(launch: Launch) -> Hits:
    """Tools wanted, or half of what they need given."""
    switched, parser = launch.switch("--enable-auto-tool-choice"), launch.text("--tool-call-parser")
    if parser and not switched:
        yield Hit(
            argv("--tool-call-parser"), "without --enable-auto-tool-choice", remedy="add --enable-auto-tool-choice"
        )
    elif launch.service.tools and not parser and not switched:
        yield Hit(argv(), "neither is given")


@rule("R044")
def mtp_draft(launch: Launch) -> Hits:
    """MTP without its paired draft, or with a draft for built-in heads."""
    if launch.method != "mtp":
        return
    draft = launch.speculation.get("model")
    if launch.model.paired_draft and not draft:
        remedy = 'add "model": the folder of the draft, e.g. /model/assistant'
        yield Hit(argv("--speculative-config"), "no draft model", expected='a "model"', remedy=remedy)
    if launch.model.built_in_mtp and draft:
        found, remedy = f'model "{draft}", beside the heads in the checkpoint', "compare both"
        yield Hit(argv("--speculative-config"), found, severity="hint", expected='no "model"', remedy=remedy)
