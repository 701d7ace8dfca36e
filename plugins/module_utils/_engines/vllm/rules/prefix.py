# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on prefix caching, which hybrid models treat differently by release."""

from ...._base.place import argv
from ._base import Hit, Hits, rule, show
from .launch import Launch

_QWEN4 = "Qwen4ExpForConditionalGeneration"
_PLACE = argv("--enable-prefix-caching")


@rule(
    "R081",
    {"0.11.0..0.27.1": "hint"},
    expected="--enable-prefix-caching",
    remedy="write it (0.11.0 forces it off)",
    reason="off by default for hybrid models before 0.28.0: every request computes its whole prompt, and that of a "
    "coding agent grows each turn",
    source="migration note, prefix caching status; Spark guide, section 7.1.3; vllm/model_executor/models/config.py",
)
def hybrid_without_cache(launch: Launch) -> Hits:
    """A hybrid model before 0.28.0 without --enable-prefix-caching; a warning for Qwen3-Coder-Next."""
    given, coder = launch.switch("--enable-prefix-caching"), launch.model.family == "qwen3-coder-next"
    if (launch.model.hybrid and given is None) or (coder and not given):
        yield Hit(_PLACE, "not given", "warning" if coder else None)


@rule(
    "R083",
    {"0.15.0..0.19.1": "hint", "0.22.0..0.27.1": "hint"},
    expected="--mamba-cache-mode align, unless requests share a prompt and differ in a long end",
    remedy="write --mamba-cache-mode align",
    reason="mode all keeps a state for every block, which takes far more memory than align, where only the last "
    "before the prompt's end is kept; it alone reuses a shared prompt before a long end of each request's own",
    source="vllm/model_executor/models/config.py; vLLM, issue 45238",
)
def mode_all(launch: Launch) -> Hits:
    """Nemotron-H with prefix caching in mode all."""
    nemotron = launch.model.family == "nemotron3" or (launch.model.architecture or "").startswith("NemotronH")
    mode = launch.text("--mamba-cache-mode")
    if nemotron and launch.prefix_caching and mode not in ("align", "none"):
        yield Hit(argv("--mamba-cache-mode"), show(mode))


@rule(
    "R085",
    "hint",
    lasts="vllm",
    expected="no --enable-prefix-caching",
    remedy="drop it: it is on by default",
    reason="V1 has it on for every model that isn't hybrid",
    source="Spark guide, section 8",
)
def redundant_switch(launch: Launch) -> Hits:
    """--enable-prefix-caching for a model that isn't hybrid."""
    if launch.model.hybrid is False and launch.switch("--enable-prefix-caching"):
        yield Hit(_PLACE, "given")


@rule(
    "X22",
    "warning",
    lasts="measured",
    expected="--no-enable-prefix-caching",
    remedy="write enable-prefix-caching: false, until a release is shown to be free of it",
    reason="the engine dies with an illegal memory access as soon as a conversation grows",
    source="vLLM, issue 54173 (open); 0xBakeer/inference-atlas, pull requests 58 and 126",
)
def growing_conversation(launch: Launch) -> Hits:
    """Qwen3.8-Flash-Next with prefix caching."""
    flash_next = launch.model.is_(r".*Qwen3\.8-Flash-Next.*") or launch.model.architecture == _QWEN4
    if launch.gb10 and flash_next and launch.prefix_caching:
        yield Hit(_PLACE, "on" if launch.switch("--enable-prefix-caching") else "on by default")
