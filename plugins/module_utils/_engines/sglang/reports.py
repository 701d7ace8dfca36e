# SPDX-License-Identifier: GPL-3.0-or-later
"""What others saw go wrong with SGLang on a GB10: warnings, each with who saw it."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ..._base.findings import Finding, warning
from ..._base.place import Place

_SPARK = "lmsysorg/sglang:spark"


def reported(request: Mapping[str, Any], place: Place) -> Iterator[Finding]:
    """request: as `engine.Sglang.request` makes it, with hosts, image, model and sees (whether it takes images). place:
    the service's."""
    flags = request["flags"]
    seen = partial(warning, kind="combination")
    if request["hosts"] > 1 and "awq" in request["model"]:
        yield seen(
            "sglang-awq-group",
            place,
            found=f"an AWQ checkpoint over {request['hosts']} hosts",
            expected="somebody who has run one so",
            remedy="watch its first start; if the ranks meet and no weights load, take an NVFP4 or FP8 checkpoint",
            reason="with nvcr.io/nvidia/sglang:25.11-py3 the ranks met and no weights were loaded. Others hung at the "
            "same place until SGLANG_HOST_IP named the address in the fabric, which is set here",
            source="cluster owner's notes, SGLang multi-node TP=2; MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks, PR 9",
        )
    if request["image"].removeprefix("docker.io/") == _SPARK and request["sees"] is not False:
        yield seen(
            "sglang-spark-image",
            place.below("image"),
            found=f"{_SPARK}, which holds 0.5.3.post3",
            expected="a later image for a model that takes images",
            remedy="take lmsysorg/sglang:latest-cu130, as NVIDIA's playbook does, or a release's own tag",
            reason="its processors of images can't be imported, and the server ends",
            source="sglang, issue 12134; NVIDIA/dgx-spark-playbooks, issue 68",
        )
    if str(flags.get("kv-cache-dtype")) in ("nvfp4", "fp4_e2m1"):
        yield seen(
            "sglang-fp4-cache",
            place.below("flags", "kv-cache-dtype"),
            found=str(flags["kv-cache-dtype"]),
            expected="fp8_e4m3",
            remedy="write it, or silence this where your model's answers with tools and thinking are whole",
            reason="with thinking and tools answers ended in the token 0 again and again, and held up all others",
            source="MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks, issue 19; sglang, issue 36537",
        )
    if flags.get("fp4-gemm-backend") == "cutlass" and request["hosts"] > 1:
        yield seen(
            "sglang-fp4-cutlass",
            place.below("flags", "fp4-gemm-backend"),
            found="cutlass, over several hosts",
            expected="a kernel that nobody saw fail there",
            remedy="leave it to SGLang, or know that a rank may end: the group then begins anew by itself",
            reason="on four hosts one rank ended twice in a day with 'Error Internal' of this kernel",
            source="sglang, issue 32021",
        )
