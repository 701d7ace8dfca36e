# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on prefix caching, which hybrid models treat differently by release."""

from ...._base.place import argv
from ._base import Hit, Hits, rule
from .launch import Launch

_QWEN4 = "Qwen4ExpForConditionalGeneration"
_PLACE = argv("--enable-prefix-caching")


@rule("X22")
def growing_conversation(launch: Launch) -> Hits:
    """Qwen3.8-Flash-Next with prefix caching."""
    flash_next = launch.model.is_(r".*Qwen3\.8-Flash-Next.*") or launch.model.architecture == _QWEN4
    if launch.gb10 and flash_next and launch.prefix_caching:
        yield Hit(_PLACE, "on" if launch.switch("--enable-prefix-caching") else "on by default")
