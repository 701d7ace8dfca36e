# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a new definition answers as fast as the one that it replaces."""

from __future__ import annotations

from collections.abc import Sequence

# What a busy host makes of the same request: no difference below it counts.
_NOISE_S = 0.25


def slower(before: Sequence[float], after: Sequence[float], least: float) -> str:
    """A sentence where the new one is too slow, else an empty string.

    before, after: seconds of the same request, of which the best counts: other requests only make it slower. least: of
    the old one's speed. Without a measurement of one of them there is nothing to compare.
    """
    if not before or not after:
        return ""
    old, new = min(before), min(after)
    if new - old <= _NOISE_S or new * least <= old:
        return ""
    return (
        f"it answers at {old / new:.0%} of the old one's speed ({new:.2f} s instead of {old:.2f} s for the same "
        f"request), expected at least {least:.0%}"
    )
