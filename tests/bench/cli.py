# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of the benchmarks: all of them, or those that are named. Ends with 1 if a goal was not reached."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from . import chain, drift, gateway, images, monitoring, plans, tracing, weights
from .figures import Figure
from .fleet import Fleet

# Slow enough for this to hold on two cores, which nine hosts share: the links are what limits, not the processors.
RATE = "20mbit"


def of_images(directory: Path, _: argparse.Namespace) -> Iterator[Figure]:
    with Fleet(directory, 2, "1gbit") as fleet:
        fleet.trust()
        yield from images.figures(fleet)


def of_fan_out(directory: Path, _: argparse.Namespace) -> Iterator[Figure]:
    with Fleet(directory, 8, RATE) as fleet:
        fleet.trust()
        weights.prepare(fleet)
        yield from weights.fan_out(fleet, [4, 8])


def of_chain(directory: Path, options: argparse.Namespace) -> Iterator[Figure]:
    yield from chain.figures(directory, 8, options.rounds)


def of_breaks(directory: Path, options: argparse.Namespace) -> Iterator[Figure]:
    with Fleet(directory, 2, "160mbit") as fleet:
        weights.prepare(fleet)
        yield from weights.breaks(fleet, options.kills)


def of_damage(directory: Path, _: argparse.Namespace) -> Iterator[Figure]:
    with Fleet(directory, 1, "1gbit") as fleet:
        weights.prepare(fleet)
        yield from weights.damage(fleet)


def of_plans(directory: Path, _: argparse.Namespace) -> Iterator[Figure]:
    yield from plans.figures(directory, 500)


def of_drift(directory: Path, options: argparse.Namespace) -> Iterator[Figure]:
    with drift.Hosts(directory, options.hosts) as hosts:
        yield from drift.figures(hosts)


def of_gateway(directory: Path, _: argparse.Namespace) -> Iterator[Figure]:
    with Fleet(directory, 0, "1gbit") as fleet:
        yield from gateway.figures(fleet)


def of_monitoring(directory: Path, options: argparse.Namespace) -> Iterator[Figure]:
    yield from monitoring.figures(directory, options.minutes)


def of_tracing(directory: Path, _: argparse.Namespace) -> Iterator[Figure]:
    yield from tracing.figures(directory)


BENCHMARKS: dict[str, Callable[[Path, argparse.Namespace], Iterator[Figure]]] = {
    "images": of_images,
    "fan-out": of_fan_out,
    "chain": of_chain,
    "breaks": of_breaks,
    "damage": of_damage,
    "plan": of_plans,
    "drift": of_drift,
    "gateway": of_gateway,
    "monitoring": of_monitoring,
    "tracing": of_tracing,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench",
        description="Staging and drift in the lab against the peers' ways, what the gateway adds, what a plan and the "
        "monitoring of many hosts cost: one JSON line a figure.",
    )
    parser.add_argument("benchmark", nargs="*", choices=[[], *BENCHMARKS], help="default: all")
    parser.add_argument("--kills", type=int, default=20, help="how often a transfer is broken (default: %(default)s)")
    parser.add_argument("--hosts", type=int, default=8, help="of the drift check's fleet (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of the chain (default: %(default)s)")
    parser.add_argument("--minutes", type=int, default=40, help="of the monitoring (default: %(default)s)")
    options = parser.parse_args()
    met = True
    for name in options.benchmark or BENCHMARKS:
        with tempfile.TemporaryDirectory(prefix="gb10-bench-") as directory:
            for figure in BENCHMARKS[name](Path(directory) / "lab", options):
                print(figure.line(), flush=True)
                met = met and figure.met
    return 0 if met else 1
