# SPDX-License-Identifier: GPL-3.0-or-later
"""What `nvidia-smi --query` prints, of drivers 535 to 610. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

MISSING = "nvidia-smi is not installed"
# Ours by the sections above a line and its own name; the first that has a number counts: drivers differ.
_FIGURES: Mapping[str, tuple[str, ...]] = {
    "use_percent": ("Utilization/GPU", "Utilization/Gpu"),
    "heat_c": ("Temperature/GPU Current Temp",),
    "power_w": (
        "GPU Power Readings/Average Power Draw",
        "GPU Power Readings/Instantaneous Power Draw",
        "GPU Power Readings/Power Draw",
        "Power Readings/Power Draw",
    ),
    "clock_mhz": ("Clocks/SM",),
    "clock_most_mhz": ("Max Clocks/SM",),
}
# Reasons that hold a clock back; the others are an idle GPU and a clock that somebody set.
_REASONS = re.compile(
    r"Clocks (?:Event|Throttle) Reasons/(?:.*/)?(SW Power Cap|(?:HW|SW) Thermal Slowdown|HW Power Brake Slowdown)"
)
# Words in place of values, of a GPU that the driver has lost.
_LOST = re.compile(r"(?m)^.*(?:GPU is lost|Unknown Error|requires? reset|Unable to determine the device handle).*")
_MOST_WORDS = 300


def trouble(code: int, out: str, err: str) -> str:
    """Why the GPU does not answer, in nvidia-smi's own words, on one line; empty where it does."""
    words = " ".join(f"{out} {err}".split())[:_MOST_WORDS]
    if code:
        return f"nvidia-smi ended with {code}: {words}" if words else f"nvidia-smi ended with {code}"
    if (lost := _LOST.search(out)) and "clock_mhz" not in shown(out)["figures"]:
        return " ".join(lost[0].split())[:_MOST_WORDS]
    return "" if re.search(r"^GPU \S", out, re.MULTILINE) else words or "nvidia-smi prints nothing"


def shown(text: str) -> dict[str, Any]:
    """``{users, persistence, held_back, figures}`` of the first GPU; what it does not tell is left out."""
    lines = list(_lines(text))
    values = dict(reversed(lines))
    figures: dict[str, float] = {}
    for name, paths in _FIGURES.items():
        numbers = [number for path in paths if (number := _number(values.get(path, ""))) is not None]
        if numbers:
            figures[name] = numbers[0]
    persistence = values.get("Persistence Mode")
    return {
        "users": sum(path == "Processes/Process ID/Type" and value.startswith("C") for path, value in lines),
        "persistence": {"Enabled": True, "Disabled": False}.get(persistence or ""),
        "held_back": [match[1] for path, value in lines if value == "Active" and (match := _REASONS.fullmatch(path))],
        "figures": figures,
    }


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Each line below a GPU as the path of its sections, by indentation, and its value."""
    above: list[tuple[int, str]] = []
    for line in text.partition("\nGPU ")[2].partition("\nGPU ")[0].splitlines()[1:]:
        name, _, value = (part.strip() for part in line.partition(":"))
        indent = len(line) - len(line.lstrip())
        while above and above[-1][0] >= indent:
            above.pop()
        above.append((indent, name))
        yield "/".join(part for _, part in above), value


def _number(value: str) -> float | None:
    found = re.match(r"-?\d+(?:\.\d+)?(?= )", f"{value} ")
    return float(found[0]) if found else None
