# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the lists of docs/reference from the description of each plugin, role and recipe.

python tools/contents.py            writes them
python tools/contents.py --check    fails if they are not up to date
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- made by tools/contents.py -->\n", "<!-- end of what tools/contents.py made -->\n"


def playbooks() -> Iterator[tuple[str, str]]:
    """Name and the first play's name, which is what a run prints first."""
    for path in sorted((ROOT / "playbooks").glob("*.yml")):
        play = yaml.safe_load(path.read_text("utf-8"))[0]
        yield path.stem, play["name"].removesuffix(f" (gb10.fleet.{path.stem})")


def roles() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        point = yaml.safe_load(path.read_text("utf-8"))["argument_specs"]["main"]
        yield path.parents[1].name, point["short_description"]


def plugins(kind: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "plugins" / kind).glob("*.py")):
        described = re.search(r"^short_description: (.*)$", path.read_text("utf-8"), re.MULTILINE)
        assert described is not None
        yield path.stem, described[1]


def plugins_and_roles() -> str:
    """The generated part of docs/reference/contents.md."""
    kinds = {
        "Playbooks": playbooks(),
        "Roles": roles(),
        "Modules": plugins("modules"),
        "Filters": plugins("filter"),
        "Callbacks": plugins("callback"),
        "Inventory": plugins("inventory"),
        "Lookups": plugins("lookup"),
    }
    tables = (
        "\n".join([f"| {title} | |", "|---|---|", *(f"| `{name}` | {what} |" for name, what in rows), ""])
        for title, rows in kinds.items()
    )
    return "\n" + "\n".join(tables) + "\n"


_TWO_QUARTERS = 6  # in months


def _known(status: dict[str, object], newest: str) -> str:
    """A recipe's state and month. newest: the day of the newest recipe, by which two quarters are counted."""
    months = [12 * int(day[:4]) + int(day[5:7]) for day in (newest, str(status["when"]))]
    old = ", more than two quarters old" if months[0] - months[1] > _TWO_QUARTERS else ""
    ended = status.get("ended")
    if isinstance(ended, dict):
        old = f", ended on {ended['when']}: take {ended['successor']}"
    return f"{status['state']} {str(status['when'])[:7]}{old}"


def recipes() -> str:
    """The generated part of docs/reference/models.md."""
    rows = ["| recipe | what it is | hosts | known as |", "|---|---|---|---|"]
    found = [yaml.safe_load(path.read_text("utf-8")) for path in sorted((ROOT / "recipes").glob("*.yml"))]
    newest = max(str(recipe["status"]["when"]) for recipe in found)
    for recipe in found:
        hosts = " or ".join(map(str, recipe.get("host_counts", [1])))
        rows.append(f"| {recipe['name']} | {recipe['summary']} | {hosts} | {_known(recipe['status'], newest)} |")
    table = yaml.safe_load((ROOT / "data" / "models_without.yml").read_text("utf-8"))
    parts = [part for recipe in found for part in (recipe["model"], recipe["model"].get("draft") or {})]
    named = {part.get("config") for part in parts}
    shapes = {
        path.stem
        for path in (ROOT / "recipes" / "configs").glob("*.json")
        if path.stem not in named and not any(recipe["name"].startswith(path.stem) for recipe in found)
    }
    unnamed = {name: table["sized"][name] for name in sorted(shapes) if not re.search("-(dflash2?|dspark)$", name)}
    sized = [[row["model"], name, row["why"]] for name, row in unnamed.items()]
    missing = [[one["model"], one["missing"]] for one in table["not_sized"]]
    rows += ["", *_WITHOUT, *_table(["model", "shapes", "why no recipe"], sized), ""]
    rows += [*_NOT_SIZED, *_table(["model", "what is missing"], missing)]
    return "\n".join(["", *rows, "", ""])


_WITHOUT = [
    "## Without a recipe, with a known KV pool",
    "",
    "`model: organisation/name` serves them; the plan sizes their cache by the shapes in `recipes/configs`.",
    "",
]
_NOT_SIZED = [
    "## Not sized",
    "",
    "The plan says so (`kv-unknown`, or that no vLLM has the architecture), and sizes them after a first boot",
    "([kv-sizing.md](../explanation/kv-sizing.md)).",
    "",
]


def _table(heading: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heading, ["---"] * len(heading), *rows)]


def findings() -> str:
    """The generated part of docs/reference/findings.md. A value of the call is written in capitals."""
    table: dict[str, dict[str, str]] = yaml.safe_load((ROOT / "data" / "findings.yml").read_text("utf-8"))

    def cell(row: dict[str, str], name: str) -> str:
        text = " ".join(row.get(name, "").split())
        text = re.sub(r"(?<!\{)\{(\w+)(?::[^}]+)?\}", lambda value: value[1].upper(), text)
        return text.replace("{{", "{").replace("}}", "}").replace("|", "\\|").replace("<", "\\<") or "..."

    rows = ["| rule | found | expected | remedy |", "|---|---|---|---|"]
    for name, row in sorted(table.items()):
        cells = " | ".join(cell(row, part) for part in ("found", "expected", "remedy"))
        rows.append(f"| `{name.partition('/')[0]}` | {cells} |")
    return "\n".join(["", *rows, "", ""])


DOCUMENTS: dict[str, Callable[[], str]] = {
    "docs/reference/contents.md": plugins_and_roles,
    "docs/reference/findings.md": findings,
    "docs/reference/models.md": recipes,
}


def renewed(text: str, contents: str) -> str:
    """A document with other contents between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + contents + END + after


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Keep the lists of docs/reference.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if they are not up to date")
    is_check = parser.parse_args(arguments).check
    outdated = 0
    for name, contents in DOCUMENTS.items():
        old = (ROOT / name).read_text("utf-8")
        new = renewed(old, contents())
        if is_check and new != old:
            print(f"{name} is out of date; expected: today's lists; run: python tools/contents.py", file=sys.stderr)
            outdated = 1
        elif new != old:
            (ROOT / name).write_text(new, "utf-8")
    return outdated


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
