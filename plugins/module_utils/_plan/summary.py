# SPDX-License-Identifier: GPL-3.0-or-later
"""What an owner wants to know of each service first: does it fit, what is left, what does it cost, what is to do."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from .._base.plan import Plan, ServicePlan, SummaryRow
from .._base.sizes import gib
from .._engines.declaration import DraftData, ModelData
from .._engines.observed import Observed
from .._engines.placed import Placed
from .._engines.starts import LOADERS, PUBLISHED, forecast, of_class, seconds_a_gb

_SHORT = ("memory-tight", "memory-pool-small")
_START = "start"  # what a recipe calls a measured start


def summary(plan: Plan, declared: Mapping[str, Mapping[str, object]]) -> list[SummaryRow]:
    """One row a declared service, in the order of declaration, the services that can't be planned included.

    plan: with hosts, services and findings. declared: the services' own settings. A row: {service, hosts, fits: yes,
    tight, no, unknown or refused; requests: of full length at once, context: their tokens, both None where that isn't
    known; free_bytes: what is expected to be left of its fullest host, or None; download_bytes: of weights, None where
    that isn't known; decode: tokens a second that one request should get;
    first_start_s: as somebody has measured it, or None; start_s: between how many it lies, by start_by, or None;
    start_limit_s; errors, warnings: how many
    ask for something; remedy: of the gravest, or empty}.
    """
    return [cast(SummaryRow, _row(name, plan, settings)) for name, settings in declared.items()]


def _row(name: str, plan: Plan, settings: Mapping[str, Any]) -> dict[str, Any]:
    hosts = list(settings["hosts"])
    service = plan["services"].get(name)
    recipe = service["recipe"] if service else settings.get("recipe")
    found = [*_of_service(name, recipe or "", settings, plan["findings"])]
    errors, warnings = ([row for row in found if row["severity"] == severity] for severity in ("error", "warning"))
    to_do = [*errors, *warnings]
    facts = {
        "service": name,
        "hosts": hosts,
        "fits": _fits(service, errors, found),
        "errors": len(errors),
        "warnings": len(warnings),
        "remedy": to_do[0]["remedy"] if to_do else "",
    }
    if service is None:
        return dict.fromkeys(SummaryRow.__annotations__) | facts
    kv, lines = service["kv"], [plan["hosts"][host]["memory"][name] for host in hosts]
    return facts | {
        "requests": kv["max_concurrency"],
        "context": kv["context"],
        "free_bytes": min(line["left"]["expected"] for line in lines),
        "decode": service["speed"]["alone"]["decode"] if service["speed"] else None,
        **service["costs"],
    }


def _of_service(
    name: str, recipe: str, settings: Mapping[str, Any], findings: Iterable[Mapping[str, object]]
) -> Iterator[Mapping[str, Any]]:
    """What is found of one service, of its recipe, and of its hosts' memory."""
    for finding in findings:
        of_host = finding["kind"] == "memory" and finding["host"] in settings["hosts"]
        of_recipe = recipe and finding["recipe"] == recipe
        own = finding["service"] == name if finding["service"] else of_recipe or of_host
        if own and not finding.get("silenced"):
            yield finding


def _fits(
    service: ServicePlan | None, errors: Sequence[Mapping[str, object]], found: Sequence[Mapping[str, object]]
) -> str:
    if service is None:
        return "refused"
    if any(row["kind"] == "memory" for row in errors):
        return "no"
    if any(row["rule"] in _SHORT for row in found):
        return "tight"
    return "yes" if service["kv"]["tokens"] or not service["kv"]["has_cache"] else "unknown"


def _fetched(placed: Placed) -> tuple[int | None, int | None]:
    """Bytes of weights from the hub, None where not known; and those of all ranks that a start has shown."""
    models: list[ModelData | DraftData] = [placed.model, *([placed.model["draft"]] if "draft" in placed.model else [])]
    shown = [gib(row["weights_gib"]) * row["hosts"] for row in placed.recipe["memory"].get("calibrations", [])]
    fetched = [model["weights_bytes"] for model in models if model.get("source", "hub") == "hub"]
    if fetched and fetched[0] is None and shown:
        fetched[0] = shown[0]
    return None if None in fetched else sum(size or 0 for size in fetched), shown[0] if shown else None


def weights_read(placed: Placed, flags: Mapping[str, object]) -> tuple[float | None, str | None]:
    """Of weights that one of its hosts reads, in 10^9 bytes, and how, lazy or direct; None where not known."""
    fetched, shown = _fetched(placed)
    size, is_published = fetched or shown, placed.engine.spec.name == PUBLISHED
    loader = LOADERS.get(str(flags.get("load-format") or "auto")) if is_published else None
    return round(size / 1e9 / len(placed.hosts), 3) if size else None, loader


def costs(
    placed: Placed, flags: Mapping[str, object], key: str, observed: Observed, start_limit_s: int
) -> dict[str, Any]:
    """What a first run of a service costs: {download_bytes, first_start_s, start_s, start_by, start_limit_s}, None
    where not known. key: under which its starts are kept."""
    starts = [row["value"] for row in placed.recipe["measured"] if row["what"] == _START and row["unit"] == "s"]
    image, host = placed.image["digest"] or placed.image["reference"], placed.head.name
    gb, loader = weights_read(placed, flags)
    caches = "warm" if flags.get("enforce-eager") else "cold"
    own = seconds_a_gb(observed.starts.get(host, {}), loader)
    unseen = of_class(gb, loader, caches, own=own) if gb and loader else None
    expected = forecast(observed.starts, host, key, image, placed.model["repository"], unseen)
    return {
        "download_bytes": _fetched(placed)[0],
        "first_start_s": max(starts, default=None),
        "start_s": [round(expected.low), round(expected.high)] if expected else None,
        "start_by": expected.basis if expected else None,
        "start_limit_s": start_limit_s,
    }
