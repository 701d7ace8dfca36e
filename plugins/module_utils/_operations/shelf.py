# SPDX-License-Identifier: GPL-3.0-or-later
"""Which recipes of others fit an owner's hosts, as one table; and what a source has changed since it was taken."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._base.place import Place
from .._base.plan import Plan
from .._base.received import one_line
from .._base.report import table
from .._engines.recipes.recipe import Library, Recipe
from .._engines.recipes.shelf import Kept
from .._facts.models.purpose import CHAT, POOLING
from .._plan.recipe_lint import fit_row, planned_alone

_GOOD = ("yes", "tight", "unknown", "no", "refused")
_SEES = re.compile(r"(^|[-_/.])(vl|vision|omni)([-_.]|$)", re.IGNORECASE)
_MOST_KEYS, _MOST_LOST, _MOST_VALUE = 4, 3, 60


def is_for(recipe: Recipe, purpose: str, library: Library) -> bool:
    """Whether a recipe's model serves a purpose, by what is known of it. Without one, each does."""
    data = recipe.data
    if purpose == "vision":
        config, _ = library.config_of(data["model"], Place(recipe=recipe.name))
        sees = "vision_config" in config if config else bool(_SEES.search(data["model"]["repository"]))
        return sees and not data["flags"].get("language-model-only")
    if purpose == "embed":
        return data["kind"] in POOLING
    return not purpose or (data["kind"] == CHAT and (purpose == "chat" or "tool-call-parser" in data["flags"]))


def rows(
    recipes: Sequence[Recipe],
    library: Library,
    owned: Sequence[Mapping[str, Any]],
    left_out: Mapping[str, Sequence[str]],
    context: int | None = None,
) -> list[dict[str, str]]:
    """The table, what fits first, and the largest of these. owned: ``fleet_host`` of each host; none stands for as many
    of the usual machine as a recipe wants.
    left_out: by recipe, what is not carried over. context: tokens that a request is to have."""
    library = replace(library, recipes={recipe.name: recipe for recipe in recipes})
    found = [(_plan(recipe, library, owned, context), recipe) for recipe in recipes]
    found.sort(
        key=lambda item: (
            item[1].data["status"]["state"] == "known-bad",
            _order(item[0]),
            -_fetched(item[0]),
            item[1].name,
        )
    )
    return [_row(recipe, plan, left_out.get(recipe.name, ())) for plan, recipe in found]


def _fetched(plan: Plan | None) -> int:
    return (plan["summary"][0]["download_bytes"] if plan else None) or 0


def as_text(found: Sequence[Mapping[str, str]]) -> str:
    """The table, a recipe in two lines: the model and what is not carried over are too long for columns."""
    below = ("model", "not carried over", "refused")
    heading, *lines = table([{key: row[key] for key in row if key not in below} for row in found]).splitlines()
    text = [heading]
    for line, row in zip(lines, found, strict=True):
        refused = f"; refused: {row['refused']}" if row["refused"] else ""
        text += [line, f"    {row['model']}; not carried over: {row['not carried over']}{refused}"]
    return "\n".join(text)


def _plan(recipe: Recipe, library: Library, owned: Sequence[Mapping[str, Any]], context: int | None) -> Plan | None:
    """On the fewest hosts on which it fits; None where the owner has too few."""
    plan = None
    for count in sorted(recipe.data["host_counts"]):
        # of most memory, since a rank takes as much on each
        hosts = sorted(owned, key=lambda one: -int(one.get("memory_kib", 1 << 62)))[:count] if owned else [{}] * count
        if len(hosts) == count and (plan is None or _order(plan) > _GOOD.index("tight")):
            plan = planned_alone(recipe, library, hosts, context)
    return plan


def _order(plan: Plan | None) -> int:
    return _GOOD.index(plan["summary"][0]["fits"]) if plan else len(_GOOD)


def _row(recipe: Recipe, plan: Plan | None, left_out: Sequence[str]) -> dict[str, str]:
    data = recipe.data
    row = fit_row(recipe.name, data["status"]["state"], plan["summary"][0] if plan else None)
    model, image = data["model"]["revision"], data["image"].get("digest") or data["image"].get("build")
    wrong = [finding for finding in plan["findings"] if finding["severity"] == "error"] if plan else []
    lost = [*left_out[:_MOST_LOST], *([f"and {len(left_out) - _MOST_LOST} more"] if len(left_out) > _MOST_LOST else [])]
    return {
        **row,
        "model": data["model"]["repository"],
        "hosts": row["hosts"] if plan else f"needs {min(data['host_counts'])}",
        "tok/s": _speed(recipe, plan) or ("-" if row["tok/s"] == "-" else f"~{row['tok/s']}"),
        "pin": " and ".join(["model"] * bool(model) + ["image"] * bool(image)) or "-",
        "not carried over": "; ".join(lost) or "-",
        "refused": one_line(f"{wrong[0]['found']} [{wrong[0]['rule']}]", 120) if wrong else "",
    }


def _speed(recipe: Recipe, plan: Plan | None) -> str:
    """What somebody measured of one request on so many hosts, with who it was; empty where nobody did."""
    hosts = len(plan["summary"][0]["hosts"]) if plan else min(recipe.data["host_counts"])
    measured = [
        measurement for measurement in recipe.data["measured"]
        if measurement["what"] == "decode" and measurement.get("requests") == 1 and measurement.get("hosts", 1) == hosts
    ]  # fmt: skip
    status = recipe.data["status"]
    best = max(measured, key=lambda one: one["value"], default=None)
    return f"{best['value']:.3g} ({one_line(status['by'], 30)}, {status['when'] or 'undated'})" if best else ""


def changes(before: Kept | None, after: Kept) -> Iterator[str]:
    """What another state of a source brings, a line for each recipe; nothing where it was never taken before."""
    old, new = (before["recipes"] if before else {}), after["recipes"]
    for name in sorted({*old, *new} if before else ()):
        if name not in old:
            yield f"+ {name}: {new[name]['model']['repository']}"
        elif name not in new:
            yield f"- {name}: {old[name]['model']['repository']}"
        elif different := [*_different(old[name], new[name])]:
            more = f"; and {len(different) - _MOST_KEYS} more" if len(different) > _MOST_KEYS else ""
            yield f"~ {name}: {'; '.join(different[:_MOST_KEYS])}{more}"


def _different(old: Mapping[str, Any], new: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key in sorted({*old, *new} - (set() if above else {"origin", "sources"})):
        before, after, place = old.get(key), new.get(key), f"{above}{key}"
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _different(before, after, f"{place}.")
        elif before != after:
            yield f"{place} {_shown(before)} -> {_shown(after)}"


def _shown(value: object) -> str:
    return one_line("none" if value is None else str(value), _MOST_VALUE)
