# SPDX-License-Identifier: GPL-3.0-or-later
"""A service's own benchmarks, kept beside the inventory. Two of their points calibrate the forecast."""

from collections.abc import Mapping
from dataclasses import replace
from statistics import geometric_mean
from typing import Any

from .forecast import Load, Point, Setup, Shape, calibrated, forecast


def own_setup(setup: Setup, run: Mapping[str, Any]) -> Setup:
    """With the acceptance that a run has shown."""
    if setup.drafts is None or run["accepted"] is None:
        return setup
    return replace(setup, drafts=replace(setup.drafts, accepted=run["accepted"]))


def own_factor(shape: Shape, setup: Setup, load: Load, run: Mapping[str, Any]) -> float:
    """Measured over forecast, from the points with the fewest and the most requests."""
    points = [
        Point(
            Load(**{key: point[key] for key in ("requests", "prompt", "answer", "depth")}),
            geometric_mean(point["decode"]),
        )
        for point in run["points"]
    ]
    points.sort(key=lambda point: (point.load.requests, point.load.depth + point.load.prompt))
    most = next(point for point in points if point.load.requests == points[-1].load.requests)
    return calibrated(shape, setup, load, (most, points[0]))


def is_sound(shape: Shape, setup: Setup, load: Load, factor: float) -> bool:
    """Whether a machine is as fast as the forecast allows: what a slow machine shows is nobody's measure."""
    found = forecast(shape, setup, load)
    return factor * found["decode"] >= found["low"]
