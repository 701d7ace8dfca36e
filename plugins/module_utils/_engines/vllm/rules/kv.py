# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the KV cache's type and on speculative decoding."""

from ...._base.place import argv
from ...._facts.models.facts import drafter_fits
from ._base import Hit, Hits, rule, show
from .launch import Launch

_DRAFTER_FIXED = "2026-04-19"


def _tokens(launch: Launch) -> int | None:
    tokens = launch.speculation.get("num_speculative_tokens")
    text = str(tokens)
    return int(text) if text.isdigit() and len(text) < 10 else None


@rule("R071")
def other_models_drafter(launch: Launch) -> Hits:
    """A drafter that was trained for another model."""
    drafter = launch.speculation.get("model")
    if isinstance(drafter, str) and launch.model.repository and drafter_fits(drafter, launch.model) is False:
        yield Hit(argv("--speculative-config"), f'model "{drafter}" for {launch.model.repository}')


@rule("R072", drafter_fixed=_DRAFTER_FIXED)
def old_drafter(launch: Launch) -> Hits:
    """A DFlash drafter fetched before its fix."""
    date = launch.model.draft_date
    if launch.method == "dflash" and date and date < _DRAFTER_FIXED:
        yield Hit("model", f"drafter of {date}")


@rule("R073")
def number_of_draft_tokens(launch: Launch) -> Hits:
    """Too many draft tokens for MTP, or too few or many for DFlash."""
    tokens = _tokens(launch)
    high = launch.method == "mtp" and tokens is not None and tokens > 5
    odd = launch.method == "dflash" and tokens is not None and not 7 <= tokens <= 16
    if high or odd:
        yield Hit(argv("--speculative-config"), f"{tokens} tokens with {launch.method}")


@rule("X28")
def nvfp4_drafter(launch: Launch) -> Hits:
    """An NVFP4 drafter under CUDA graphs on 0.28."""
    drafter = str(launch.speculation.get("model") or "")
    built_in = launch.method == "mtp" and not drafter and launch.model.is_(r".*NVFP4-MTP")
    own = "nvfp4" in drafter.lower() and launch.method in ("mtp", "eagle", "eagle3")
    if (built_in or own) and launch.graphs != "NONE" and not launch.speculation.get("enforce_eager"):
        yield Hit(argv("--speculative-config"), show(drafter or launch.model.repository))
