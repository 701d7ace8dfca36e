# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model is for, as its recipe writes it (``kind``), and a service, as its owner does: in ``workload`` of
fleet_services, and for the linter."""

from ..._base.schema import Spec

CHAT, TRANSCRIBE = "chat", "transcribe"
# What models do that give one result for a text instead of generating one.
POOLING = ("embed", "rerank", "score", "classify")
KINDS = (CHAT, *POOLING, TRANSCRIBE)

# The same, by what the hub calls a model's task.
TASKS = {
    "feature-extraction": "embed",
    "sentence-similarity": "embed",
    "text-ranking": "rerank",
    "text-classification": "classify",
    "automatic-speech-recognition": TRANSCRIBE,
}

_YES_NO: Spec = {"type": "bool"}

PURPOSE: dict[str, Spec] = {
    "profile": {"type": "str", "choices": ["interactive", "concurrent", "single-user", "minimal-memory"]},
    "tools": _YES_NO,
    "reasoning": _YES_NO,
    "video": _YES_NO,
    "media_files": _YES_NO,
}
