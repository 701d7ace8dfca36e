# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the pictures of the documents as SVG. Addresses, sizes, states and floors in them are those of the code.

python tools/pictures.py            writes docs/pictures/{pair,gateway,rollout,supervisor,memory,floors}.svg
python tools/pictures.py --check    fails if they are not up to date
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests" / "unit")]

from ansible_collections.gb10.fleet.plugins.module_utils._base.sizes import size  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet  # noqa: E402
from drift_fleet import LIBRARY, OF_RECIPES, planned  # noqa: E402
from test_directions import FLOORS  # noqa: E402

FOLDER = ROOT / "docs" / "pictures"
BLUE, GREEN, AMBER, GREY, RED, PAPER = "#1d4ed8", "#15803d", "#b45309", "#6b7280", "#b91c1c", "#f9fafb"
INK = "#374151"
# A letter's width at 12 px, generously: text that fits by it fits in any sans-serif font.
LETTER = 6.6


class Drawing:
    """Shapes on white, so that it can be read in a dark page."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height = width, height
        self.parts = [f"<title>{escape(title)}</title>"]

    def box(self, x: float, y: float, width: float, height: float, colour: str = GREY, fill: str = PAPER) -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}" stroke="{colour}"/>'
        )

    def text(self, x: float, y: float, words: str, anchor: str = "middle", bold: bool = False, fill: str = INK) -> None:
        assert x >= 0 and self.end(x, words, anchor) <= self.width, words
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight} fill="{fill}">{escape(words)}</text>'
        )

    @staticmethod
    def end(x: float, words: str, anchor: str) -> float:
        return x + len(words) * LETTER * {"start": 1.0, "middle": 0.5, "end": 0.0}[anchor]

    def labelled(self, x: float, y: float, width: float, lines: Sequence[str], colour: str = GREY) -> None:
        """A box around lines, the first in bold."""
        assert all(len(line) * LETTER <= width for line in lines), lines
        self.box(x, y, width, 14 + 17 * len(lines), colour)
        for number, line in enumerate(lines):
            self.text(x + width / 2, y + 20 + 17 * number, line, bold=number == 0)

    def arrow(self, points: Iterable[tuple[float, float]], colour: str = GREY, both: bool = False) -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        start = ' marker-start="url(#arrow)"' if both else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" marker-end="url(#arrow)"{start}/>')

    def svg(self) -> str:
        view = f"0 0 {self.width} {self.height}"
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" style="background: white">'
        marker = (
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
            f' orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{GREY}"/></marker></defs>'
        )
        return "\n".join([head, marker, '<g style="font: 12px sans-serif">', *self.parts, "</g>", "</svg>", ""])


def pair() -> Drawing:
    """The fabric of a pair: each port's two halves with the addresses of the plan."""
    drawing = Drawing(640, 190, "Two Sparks with one cable: each port has two halves, each half an address")
    hosts = ("spark-2", "spark-3")
    plan = planned()
    for x, host in zip((10, 410), hosts, strict=True):
        drawing.box(x, 10, 220, 170, BLUE)
        drawing.text(x + 110, 32, f"{host}, port 1", bold=True)
        for number, half in enumerate(plan["hosts"][host]["fabric"]["interfaces"]):
            lines = [f"half {number}: {half['name']}", half["address"]]
            drawing.labelled(x + 10, 46 + 66 * number, 200, lines, GREEN)
    for number in (0, 1):
        y = 70 + 66 * number
        drawing.arrow([(222, y), (418, y)], GREEN, both=True)
        drawing.text(320, y - 8, "about 100 Gb/s")
    drawing.text(320, 175, "one QSFP cable")
    return drawing


def gateway() -> Drawing:
    """The way of a request."""
    drawing = Drawing(700, 190, "A gateway with two replicas")
    drawing.labelled(10, 70, 120, ["clients", "a key each"], BLUE)
    drawing.labelled(210, 60, 210, ["gateway", "HTTPS, keys, queue,", "one name for each model"], BLUE)
    for y, host in ((10, "titan"), (120, "beast")):
        drawing.labelled(510, y, 180, [f"replica on {host}", "served_name: chat"], GREEN)
        drawing.arrow([(420, 92), (508, y + 24)])
    drawing.arrow([(130, 94), (208, 94)])
    drawing.text(315, 150, "sends to the replica that serves")
    drawing.text(315, 168, "and has the fewest requests")
    return drawing


def rollout() -> Drawing:
    """A rollout over two replicas on a time line."""
    drawing = Drawing(760, 200, "A rollout changes one replica after the other")
    steps = [("old definition", 90, GREEN), ("drains", 70, AMBER), ("starts", 80, GREY), ("test", 50, BLUE)]
    for row, (name, before) in enumerate((("replica 1", 0), ("replica 2", 200))):
        y, x = 40 + 60 * row, 90.0
        drawing.text(80, y + 22, name, "end", bold=True)
        for words, width, colour in steps:
            wide = width + (before if words == "old definition" else 0)
            drawing.box(x, y, wide, 34, colour)
            drawing.text(x + wide / 2, y + 22, words)
            x += wide
        drawing.box(x, y, 750 - x, 34, GREEN)
        drawing.text(x + (750 - x) / 2, y + 22, "new definition")
    drawing.arrow([(90, 170), (750, 170)])
    drawing.text(90, 190, "If the test fails, the old definition is restored, and replica 2 keeps it.", "start")
    drawing.text(750, 190, "time", "end")
    drawing.text(90, 24, "At each moment one replica answers.", "start")
    return drawing


def states() -> set[str]:
    """The states that a supervisor enters, from its code."""
    files = (ROOT / "plugins" / "module_utils" / "_on_host" / "rank").glob("*.py")
    return {name for path in files for name in re.findall(r'\.enter\(\s*"(\w+)"', path.read_text("utf-8"))}


def supervisor() -> Drawing:
    """The life of a supervisor as a state machine."""
    drawing = Drawing(760, 250, "The states of a supervisor")
    places = {
        "waiting": (10, 20),
        "preparing": (150, 20),
        "starting": (290, 20),
        "loading": (430, 20),
        "warming": (570, 20),
        "serving": (570, 120),
        "draining": (430, 120),
        "ending": (220, 120),
        "stopped": (10, 120),
    }
    assert places.keys() == states(), places.keys() ^ states()
    for name, (x, y) in places.items():
        drawing.labelled(x, y, 110, [name], {"serving": GREEN, "stopped": RED}.get(name, BLUE))
    for x in (120, 260, 400, 540):
        drawing.arrow([(x, 36), (x + 28, 36)])
    drawing.arrow([(625, 51), (625, 118)])
    drawing.arrow([(570, 136), (542, 136)])
    drawing.arrow([(430, 136), (332, 136)])
    drawing.arrow([(220, 136), (122, 136)])
    drawing.arrow([(275, 120), (275, 84), (65, 84), (65, 53)])
    drawing.text(635, 88, "real answer", "start")
    drawing.text(381, 128, "stop")
    drawing.text(171, 128, "no start left")
    drawing.text(170, 78, "the next epoch")
    drawing.arrow([(625, 151), (625, 190), (290, 190), (290, 153)])
    drawing.text(458, 182, "a rank failed or hangs")
    drawing.text(
        10, 230, "A failure in any state before serving also leads to ending, for all ranks of the group.", "start"
    )
    return drawing


def memory() -> Drawing:
    """One host's memory as a bar, by the plan of the example."""
    fleet = yaml.safe_load((ROOT / "inventories" / "example" / "group_vars" / "all" / "fleet.yml").read_text("utf-8"))
    name = "nemotron-super"
    variables = {"fleet_services": {name: fleet["fleet_services"][name]}}
    hosts = {"beast": {"address": "192.168.1.21", "variables": variables}}
    plan = plan_fleet({"hosts": hosts, "folder": "/inventory"}, LIBRARY, OF_RECIPES)
    lines = plan["hosts"]["beast"]["memory"][name]
    order = ("weights", "kv_pool", "runtime", "graphs", "processes", "slack", "reserve", "left")
    shown = {line: lines[line]["expected"] for line in order if lines[line]["expected"]}
    assert sum(shown.values()) == sum(line["expected"] for line in lines.values())
    total = sum(shown.values())
    drawing = Drawing(760, 60 + 22 * len(shown), "The memory of one host")
    drawing.text(10, 20, f"beast with {name}: {size(total)} in all", "start", bold=True)
    colours = {"weights": BLUE, "kv_pool": GREEN, "left": PAPER, "reserve": AMBER}
    names = {"kv_pool": "KV pool", "left": "left for other programs and the page cache"}
    x = 10.0
    for row, (line, count) in enumerate(shown.items()):
        width, colour = 740 * count / total, colours.get(line, GREY)
        drawing.box(x, 30, width, 20, INK, colour)
        drawing.box(10, 64 + 22 * row - 4, 14, 14, INK, colour)
        drawing.text(32, 72 + 22 * row, f"{names.get(line, line)}: {size(count)}", "start")
        x += width
    return drawing


def floors() -> Drawing:
    """The nine floors, the lowest at the bottom."""
    what = {
        "_operations": "a playbook's work: init, drift, doctor, verify, rollout, update, bench",
        "_plan": "from the inventory to each host's slice",
        "_subjects": "the parts of a host: fabric, firewall, services, gateway, monitoring",
        "_engines": "vLLM, SGLang, TensorRT-LLM, llama.cpp; memory, recipes, speed",
        "_stores": "images, weights, their transfer, the lock file",
        "_host": "the reading of a host, its settings, its network",
        "_facts": "facts of models and builds",
        "_on_host": "files that are copied unchanged to hosts",
        "_base": "findings, forms, sizes, paths",
    }
    order = [name for name in reversed(FLOORS) if name != "api"]
    assert order == [*what], order
    drawing = Drawing(640, 30 + 34 * len(order), "The nine floors of plugins/module_utils")
    for row, name in enumerate(order):
        drawing.box(10, 10 + 34 * row, 620, 30, BLUE)
        drawing.text(20, 30 + 34 * row, name, "start", bold=True)
        drawing.text(120, 30 + 34 * row, what[name], "start")
    drawing.text(320, 24 + 34 * len(order), "A file imports only from its own floor and the floors below.")
    return drawing


PICTURES: tuple[Callable[[], Drawing], ...] = (pair, gateway, rollout, supervisor, memory, floors)


def main(arguments: Sequence[str]) -> int:
    outdated = 0
    for picture in PICTURES:
        path, text = FOLDER / f"{picture.__name__}.svg", picture().svg()
        if path.exists() and path.read_text("utf-8") == text:
            continue
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)} is out of date; run: python tools/pictures.py", file=sys.stderr)
            outdated = 1
        else:
            path.write_text(text, "utf-8")
    return outdated


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
