# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on names: options, variables and parsers that a release doesn't have, or that don't fit the model."""

from ...._base.place import argv, env
from ._base import Hit, Hits, catalogue_rule, rule, show
from .launch import Launch

_UNKNOWN_VARIABLE = ("catalogue-unknown-variable", "catalogue-wrong-value")


@catalogue_rule(
    "R031",
    {"0.11.0..0.12.0": "error", "0.15.0..": "error"},
    lasts="vllm",
    expected="VLLM_ATTENTION_BACKEND=TRITON_ATTN up to 0.14.1, --attention-backend from 0.13.0 on",
    remedy="write --attention-backend TRITON_ATTN; with 0.11 and 0.12 set the variable",
    reason="without it profiling the vision encoder hangs on GB10; the variable is dead from 0.15.0 on",
    source="cluster owner's notes, attention backend fix; catalogue",
    covers=_UNKNOWN_VARIABLE,
)
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


@catalogue_rule(
    "R037",
    "error",
    lasts="vllm",
    expected="--reasoning-parser-plugin FILE, or the built-in nemotron_v3 from 0.17.1 on",
    remedy="write --reasoning-parser nemotron_v3 (0.17.1 on), or fetch the plugin and give its path in the container",
    reason="nano_v3 and super_v3 are in no release: the server stops after reading the configuration",
    source="Spark guide, section 7.3.1; catalogue, reasoning parser; eugr",
    covers=("catalogue-unknown-name", "catalogue-wrong-value"),
)
def parser_without_plugin(launch: Launch) -> Hits:
    """The reasoning parser nano_v3 or super_v3 without its plugin; a warning in eugr's image."""
    parser = launch.text("--reasoning-parser")
    if parser in ("nano_v3", "super_v3") and not launch.has("--reasoning-parser-plugin"):
        by_mod = launch.family == "eugr"  # runs where eugr's mod put the plugin into the image, which nobody sees
        yield Hit(argv("--reasoning-parser"), show(parser), "warning" if by_mod else None)


@catalogue_rule(
    "R039",
    "warning",
    lasts="vllm",
    expected="no --quantization, or modelopt",
    remedy="drop it: vLLM reads the method from the checkpoint",
    reason="no release has the method; it goes well only because a ModelOpt checkpoint overrides the option",
    source="prefix caching question; NVIDIA playbook; catalogue, quantization",
    covers=("catalogue-unknown-name", "R045"),
)
def quantization_not_a_method(launch: Launch) -> Hits:
    """--quantization fp4 or another name of no method, on a ModelOpt checkpoint."""
    method = launch.text("--quantization")
    known = launch.release.registries.get("quantization", ()) if launch.release else ()
    if method and known and method not in known and launch.model.quant_method == "modelopt":
        yield Hit(argv("--quantization"), show(method))


@rule(
    "R040",
    "warning",
    lasts="checkpoint",
    expected="the parser of the model's family",
    remedy="write the family's parser",
    reason="the parser must read what the model writes; it has nothing to do with the client's name",
    source="Spark guide, sections 7.1.1 and 8",
)
def other_familys_parser(launch: Launch) -> Hits:
    """A tool parser of another family than the model's."""
    parser, fitting = launch.text("--tool-call-parser"), launch.model.tool_parsers
    if parser and fitting and parser not in fitting and not launch.has("--tool-parser-plugin"):
        remedy = f"write --tool-call-parser {fitting[0]}"
        yield Hit(argv("--tool-call-parser"), show(parser), expected=" or ".join(fitting), remedy=remedy)


@rule(
    "R041",
    "error",
    lasts="vllm",
    expected="--enable-auto-tool-choice and --tool-call-parser",
    remedy="write both",
    reason='every request with tools is answered with HTTP 400: "auto" tool choice requires both',
    source="Spark guide, section 7.1.1",
)
def half_of_tools(launch: Launch) -> Hits:
    """Tools wanted, or half of what they need given."""
    switched, parser = launch.switch("--enable-auto-tool-choice"), launch.text("--tool-call-parser")
    if parser and not switched:
        yield Hit(
            argv("--tool-call-parser"), "without --enable-auto-tool-choice", remedy="add --enable-auto-tool-choice"
        )
    elif launch.service.tools and not parser and not switched:
        yield Hit(argv(), "neither is given")


@rule(
    "R042",
    "warning",
    lasts="checkpoint",
    expected="no --reasoning-parser",
    remedy="drop it",
    reason="the model doesn't reason, so that its whole answer may be taken for reasoning",
    source="Spark guide, section 7.1.3",
)
def parser_of_no_reasoning(launch: Launch) -> Hits:
    """A reasoning parser for a model that doesn't reason."""
    if launch.model.reasoning is False and launch.text("--reasoning-parser"):
        yield Hit(argv("--reasoning-parser"), show(launch.text("--reasoning-parser")))


@rule(
    "R043",
    "hint",
    lasts="checkpoint",
    expected="--reasoning-parser of the model's family",
    remedy="add it, e.g. qwen3, gemma4, nemotron_v3",
    reason="without it the reasoning stands in the answer",
    source="Spark guide, section 7.1.1",
)
def reasoning_without_parser(launch: Launch) -> Hits:
    """A reasoning model without a reasoning parser."""
    if launch.model.reasoning and not launch.has("--reasoning-parser"):
        yield Hit(argv(), "no --reasoning-parser")


@rule(
    "R044",
    "error",
    lasts="checkpoint",
    expected='"model" in --speculative-config where the draft is a model of its own',
    remedy="name the draft's folder, or drop the key",
    reason="gemma4-coder has a paired draft; most MTP models have draft heads of their own, and a separate head may be "
    "faster: 30.0 tokens a second against 28.2 for Nemotron-3-Super's MTPv2 on one GB10",
    source="Spark guide, section 14.3; sumner-harris/gb10-llm-docker-recipes (2026-09-17)",
)
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
