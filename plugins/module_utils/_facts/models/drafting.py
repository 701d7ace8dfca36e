# SPDX-License-Identifier: GPL-3.0-or-later
"""Which way of speculative decoding an engine takes where its owner names only the drafter."""

from collections.abc import Mapping

from .config import ConfigJson

# By a part of the drafter's name, in this order (vllm/config/speculative.py of 0.33.0, __post_init__).
_BY_NAME = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
# vLLM reads Gemma 4's assistants, of the type gemma4_assistant, as gemma4_mtp.
_ASSISTANTS = ("gemma-4", "-assistant")
_WITHOUT_MODEL = ("ngram", "[ngram]")


def method_of(speculation: Mapping[str, object], config: Mapping[str, object] | None = None) -> str | None:
    """The method of ``--speculative-config``: as written, else what vLLM makes of the drafter; None without both.

    speculation: the map. config: the drafter's config.json where it is known, which says more than its name.
    """
    written, drafter = speculation.get("method"), speculation.get("model")
    if isinstance(written, str):
        return "mtp" if written.endswith("_mtp") else written.strip("[]")
    if written is not None or not isinstance(drafter, str):
        return None
    if drafter in _WITHOUT_MODEL:
        return "ngram"
    name, shown = drafter.lower(), ConfigJson(config or {})
    if by_name := next((method for part, method in _BY_NAME.items() if part in name), None):
        return by_name
    if "DSpark" in str(shown.architecture):
        return "dspark"
    of_type = str(shown.values.get("model_type"))
    is_assistant = config is None and all(part in name for part in _ASSISTANTS)
    predicts = of_type.endswith(("_mtp", "_assistant")) or of_type == "mtp" or is_assistant
    return "mtp" if predicts else "draft_model"
