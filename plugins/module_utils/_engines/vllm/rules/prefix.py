# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on prefix caching, which hybrid models treat differently by release."""

from ...._base.place import argv
from ._base import Hit, Hits, rule, show
from .launch import Launch

_QWEN4 = "Qwen4ExpForConditionalGeneration"
_PLACE = argv("--enable-prefix-caching")


@rule("R081")
def hybrid_without_cache(launch: Launch) -> Hits:
    """A hybrid model before 0.28.0 without --enable-prefix-caching; a warning for Qwen3-Coder-Next."""
    given, coder = launch.switch("--enable-prefix-caching"), launch.model.family == "qwen3-coder-next"
    if (launch.model.hybrid and given is None) or (coder and not given):
        yield Hit(_PLACE, "not given", "warning" if coder else None)


@rule("R083")
def mode_all(launch: Launch) -> Hits:
    """Nemotron-H with prefix caching in mode all."""
    nemotron = launch.model.family == "nemotron3" or (launch.model.architecture or "").startswith("NemotronH")
    mode = launch.text("--mamba-cache-mode")
    if nemotron and launch.prefix_caching and mode not in ("align", "none"):
        yield Hit(argv("--mamba-cache-mode"), show(mode))


@rule("X22")
def growing_conversation(launch: Launch) -> Hits:
    """Qwen3.8-Flash-Next with prefix caching."""
    flash_next = launch.model.is_(r".*Qwen3\.8-Flash-Next.*") or launch.model.architecture == _QWEN4
    if launch.gb10 and flash_next and launch.prefix_caching:
        yield Hit(_PLACE, "on" if launch.switch("--enable-prefix-caching") else "on by default")
