# SPDX-License-Identifier: GPL-3.0-or-later
"""A run for others: in llama-benchy's form, which the community's leaderboards take, with the recipe in sparkrun's form
and with all that makes a service faster or slower. It has no address, no name of a host, and no key."""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, geometric_mean, pstdev
from typing import Any

from ..._base.plan import Measured, Plan
from .owner import RELEASE
from .report import recipe_lines

_METRICS = ("pp_throughput", "tg_throughput", "peak_throughput", "ttfr", "est_ppt", "e2e_ttft")
_LEAST_PERCENT = 5
_COMMIT = re.compile("[0-9a-f]{40}")
# Words of a command that name secrets of this site, and values that lead to a file, another machine or an address.
_OWN = ("--api-key", "--middleware", "--download-dir", "--allowed-local-media-path", "--allowed-media-domains")
_PLACE = re.compile(r"(^|[\s=:,;\"'])(~|\.{0,2}/)|://|\b\d{1,3}(\.\d{1,3}){3}\b|::|([0-9a-f]{1,4}:){3}", re.IGNORECASE)
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "ADDR", "IP", "IFNAME", "HOST", "URL", "PATH")


def shared(run: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """run: as `form.RUN`."""
    service = plan["services"][run["service"]]
    gpu = plan["hosts"][service["hosts"][0]]["gpu"]
    seen = run["conditions"]
    root, commit = seen["model"], _COMMIT.search(seen["model"])
    names = re.compile("|".join(rf"\b{re.escape(host)}\b" for host in plan["hosts"]))
    image = service["image"]["reference"] or ""

    def is_own(text: str) -> bool:
        return _PLACE.search(text) is not None or names.search(text) is not None

    model = root if re.fullmatch(r"[\w.-]+/[\w.-]+", root) else service["served_name"]
    return {
        "version": RELEASE if run["profile"] == "owner" else None,
        "timestamp": run["at"],
        "model": model,
        "benchmarks": [_benchmark(run, point) for point in run["points"]],
        "environment": {
            "hardware": f"{seen['hosts']} x GB10",
            "clock_max_mhz": gpu["clock_max_mhz"],
            "load_generator": f"llama-benchy {RELEASE}" if run["profile"] == "owner" else "the engine's own",
            **{key: seen[key] for key in ("driver", "engine", "image", "kernel", "release")},
            "revision": commit[0] if commit else None,
            "reference": None if is_own(image) else image,
        },
        "recipe": {
            "model": model,
            "container": None if is_own(image) else image,
            "hosts": seen["hosts"],
            "options": [one for one in seen["flags"] if re.split("[ =]", one)[0] not in _OWN and not is_own(one)],
            "env": {
                name: value
                for name, value in seen["variables"].items()
                if not name.endswith(_SECRET) and not is_own(str(value))
            },
            "origin": service["recipe"],
        },
        "against_recipe": list(against_recipe(run, service["measured"])),
    }


def _benchmark(run: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    given = {
        "concurrency": point["at_once"],
        "context_size": point["depth"],
        "prompt_size": point["prompt"],
        "response_size": point["answer"],
        "is_context_prefill_phase": False,
    }
    if run["profile"] != "owner":
        values = run["values"][point["name"]]
        of_ours = {"tg_throughput": values["tokens/s"], "e2e_ttft": values["first token ms"]}
        return given | {name: _spread(one) for name, one in of_ours.items()}
    results = [raw["result"] for raw in run["raw"] if raw["round"] and raw["point"] == point["name"]]
    found: dict[str, list[float]] = {name: [] for name in _METRICS}
    for benchmark in (one for result in results for one in result["benchmarks"]):
        for name in _METRICS:
            found[name] += (benchmark.get(name) or {}).get("values") or []
    return given | {name: _spread(values) for name, values in found.items() if values}


def _spread(values: Sequence[float]) -> dict[str, Any]:
    return {"mean": fmean(values), "std": pstdev(values), "values": [*values]}


def against_recipe(run: Mapping[str, Any], measured: Sequence[Measured]) -> Iterator[str]:
    """How far this is from what the recipe names, a sentence for each kind of figure. measured: of the plan."""
    hosts = run["conditions"]["hosts"]
    alone = {point["name"] for point in run["points"] if point["at_once"] == 1 and not point["depth"]}
    for what in ("decode", "prefill"):
        mine = [
            line["value"]
            for line in recipe_lines({**run, "points": [point for point in run["points"] if point["name"] in alone]})
            if line["what"] == what
        ]
        theirs = [
            one for one in measured if one["what"] == what and one.get("requests") == 1 and one.get("hosts", 1) == hosts
        ]
        if mine and theirs:
            one, ours = max(theirs, key=lambda row: row["value"]), geometric_mean(mine)
            percent = 100 * (ours / one["value"] - 1)
            word = (
                "as" if abs(percent) < _LEAST_PERCENT else f"{abs(percent):.0f} % {'above' if percent > 0 else 'below'}"
            )
            yield f"{what} of one request: {ours:.4g} tok/s, {word} the recipe's {one['value']:.4g} ({one['source']})"
