# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sources say and no rule checks. R, X: survey of flags; K: the KV cache's start-up; L: recipes of others."""

from __future__ import annotations

# Rule of the sources -> why it isn't checked here, and who sees to it.
NOT_CHECKABLE = {
    "R046": "--quantization modelopt needs no writing: vLLM finds it out by itself in all releases since 0.11.0.",
    "R049": "Answers of `!!!!!` or nothing show only after the start: `verify` asks one real question.",
    "R080": "Acceptance of draft tokens is a figure of the running server: `vllm:spec_decode_*` in /metrics.",
    "R084": "That prefix caching on Mamba layers is experimental up to 0.27.1 asks nothing of the owner.",
    "R110": "A Mamba or CUDA-graph size error stands in the log: lower --max-cudagraph-capture-size then (0.11.1 on).",
    "R111": "Advice for monitoring: nvidia-smi shows no memory on GB10; read /proc/meminfo.",
    "R124": "Advice for clients of Nemotron-3: max_tokens of about 10000, as reasoning comes first.",
    "R132": "A stale compile cache shows only when a start fails after an upgrade; ours is kept by image.",
    "R136": "The warm-up request after /health is a step of `verify`.",
    "R152": "Which port a cable joins is seen on the link: the fabric's preflight compares both ends.",
    "R156": "SGLang, which hung with an AWQ model over two hosts, is out of scope: a plan runs vLLM.",
}

# The same statement from another place -> the rule that checks it.
SAME_AS = {
    "R038": "R037",
    "R051": "R052",
    "X1": "R076",
    "X2": "R142",
    "X3": "R118",
    "X5": "R045",
    "X6": "R077",
    "X7": "catalogue-unknown-key",
    "X8": "R098",
    "K1": "R098",
    "K2": "R088",
    "K3": "R103",
    "K8": "R009",
    "L1": "R001",
    "L2": "R045",
    "L3": "R047",
    "L4": "R025",
    "L5": "R041",
    "L6": "R060",
    "L7": "R065",
    "L10": "R118",
    "L12": "R103",
    "L14": "R112",
    "L15": "R081",
    "R082": "R081",
    "L19": "R126",
    "L20": "R037",
}
