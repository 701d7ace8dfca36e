# SPDX-License-Identifier: GPL-3.0-or-later
"""Under what a service was measured, and whether two runs differ in more than was asked."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._base.slice import ServiceSlice

# Whatever makes a service faster or slower and is no disturbance.
NAMES = ("driver", "engine", "flags", "hosts", "image", "kernel", "model", "release", "variables")
# What differs between services that are alike: where they listen, and what they are called.
_OWN = ("--port", "--served-model-name", "--host", "--ssl-certfile", "--ssl-keyfile")


def conditions(service: Mapping[str, Any], slice_: ServiceSlice, seen: Mapping[str, Any]) -> dict[str, Any]:
    """service: of the plan's ``services``. slice_: of its head's ``services``. seen: what the head says, as
    `form.ANSWER`."""
    container = slice_["container"]
    return {
        "driver": seen["driver"],
        "engine": service["engine"],
        "flags": _flags([*container["arguments"], *(slice_["exec"] or ())]),
        "hosts": len(service["hosts"]),
        "image": seen["image"],
        "kernel": seen["kernel"],
        "model": seen["model"],
        "release": service["image"]["release"],
        "variables": dict(container["env"]),
    }


def _flags(words: Sequence[str]) -> list[str]:
    """Options with their values, each one text."""
    found: list[str] = []
    for word in words:
        if word.startswith("--") or not found:
            found.append(word)
        else:
            found[-1] += f" {word}"
    return sorted(text for text in found if text.partition(" ")[0] not in _OWN)


def differing(
    before: Mapping[str, object], after: Mapping[str, object], asked: Sequence[str], name: str
) -> Iterator[Finding]:
    """What differs and was not asked for. before, after: `conditions`. asked: of `NAMES`. name: of what is compared
    with."""
    for key in NAMES:
        if before[key] != after[key] and key not in asked:
            found = _shown(before[key], after[key])
            expected = _shown(after[key], before[key])
            keys = ",".join([*asked, key])
            yield worded.error("bench-differs/differing", f"{key} of {name}", found=found, expected=expected, keys=keys)


def _shown(value: Any, other: Any) -> str:
    """What one has and the other has not."""
    if isinstance(value, list):
        return ", ".join(item for item in value if item not in other) or "nothing more"
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items() if other.get(key) != one) or "nothing more"
    return str(value)


def other_profile(profile: str, before: Mapping[str, object]) -> Iterator[Finding]:
    """Another load generator counts in another way. before: as `form.RUN`."""
    if before["profile"] != profile:
        yield worded.error(
            "bench-differs/other-profile", f"the profile of {before['name']}", found=before["profile"], expected=profile
        )


def unlike(
    points: Sequence[Mapping[str, object]], others: Sequence[Mapping[str, object]], name: str
) -> Iterator[Finding]:
    """Another workload can't be compared, whatever was asked. points: of this run; others: of the earlier one."""
    if list(points) != list(others):
        found = ", ".join(_point(other) for other in others)
        expected = ", ".join(_point(point) for point in points)
        yield worded.error("bench-differs/unlike", f"the workload of {name}", found=found, expected=expected)


def _point(point: Mapping[str, object]) -> str:
    return f"{point['name']} ({point['answer']} answered, {point['requests']} requests)"
