# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a new definition answers as fast as the one that it replaces."""

from collections.abc import Mapping, Sequence
from typing import Any

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


def slower_services(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], least: float
) -> list[str]:
    """A sentence for each service that answers too slowly. before, after: seconds of the same request, by service.
    least: of the speed before."""
    found = {name: slower(seconds, after.get(name, ()), least) for name, seconds in sorted(before.items())}
    return [f"{name}: {words}" for name, words in found.items() if words]


def answer_seconds(found: Mapping[str, Any]) -> dict[str, list[float]]:
    """Seconds by service. found: the registered results of a loop over services; what is by service already stays.

    In check mode, and of a service that was not asked, a result has no seconds.
    """
    results = found.get("results")
    if results is None or any(not isinstance(result, Mapping) for result in results):
        return {name: list(seconds) for name, seconds in found.items()}
    by_service: dict[str, list[float]] = {}
    for result in results:
        if "seconds" in result:
            by_service.setdefault(result["service"], []).append(result["seconds"])
    return by_service
