# SPDX-License-Identifier: GPL-3.0-or-later
"""The head's container, given to the linter: what is judged is what will run."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..._base.place import Place
from ..._base.slice import FabricSlice, TuningSlice
from ..._facts.models.purpose import PURPOSE
from ..interface import Facts
from ..placed import Placed
from .catalogue.version import parse
from .lint.judge import LintFinding, lint_launch

# A model without --revision: the recipe's own finding says so with its place, and where it says nothing there is none.
_ABOUT_THE_RECIPE = frozenset({"L18"})
_ABBREVIATED, _TWICE = "catalogue-abbreviated-option", "catalogue-duplicate-option"
_OPTION = re.compile('^write "--(no-)?([^"]+)"$')


def lint(request: Mapping[str, Any], place: Place) -> list[LintFinding]:
    """The linter's findings on a request of `head_request`, in the words of who writes `flags`. An abbreviation is an
    error there: vLLM takes it, and the plan looks options up by their names."""
    found = [finding for finding in lint_launch(request) if finding.rule not in _ABOUT_THE_RECIPE]
    # what a recipe's author wrote in vain does no harm
    vain = {(f"--{name}", "hint", "drop it") for name in request.get("of_recipe", ())}
    found = [one for one in found if (one.at.option, one.severity, one.remedy.partition(":")[0]) not in vain]
    whole = {finding.expected for finding in found if finding.rule == _ABBREVIATED}
    return [
        replace(
            finding,
            at=finding.at.within(place),
            remedy=_OPTION.sub(_in_flags, finding.remedy),
            severity="error" if finding.rule == _ABBREVIATED else finding.severity,
        )
        for finding in found
        if finding.rule != _TWICE or finding.at.option not in whole
    ]


def _in_flags(option: re.Match[str]) -> str:
    """There an option has no dashes before it, and false is its --no- form."""
    return f'write "{option[2]}{": false" if option[1] else ""}" in flags'


def on_host(request: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a request that a host's own facts are judged with: the preflight adds them."""
    model = {key: value for key, value in request["model"].items() if key != "config"}
    return {key: value for key, value in request.items() if key != "catalogue"} | {"model": model}


def head_request(facts: Facts, config: Mapping[str, object] | None) -> dict[str, Any]:
    """What the linter is asked of the head's container, with every fact that the plan knows.

    config: the model's config.json, None where it isn't known.

    The number of KV blocks and their size stay out: `kv` says exactly where vLLM refuses them, the rules on them are
    for those who only have a log.
    """
    placed, container, budget = facts.placed, facts.container, facts.budget
    image, model = placed.image, placed.model
    seen = facts.observed.catalogue(placed.head.name, image) if image["release"] is None else {}
    non_kv = budget.shares[placed.name].non_kv
    others = [share.utilization for name, share in budget.shares.items() if name != placed.name]
    options: dict[str, list[str]] = {}
    for option, value in facts.options:
        options.setdefault(option, []).append(value)
    request = {
        "argv": container["arguments"],
        "entrypoint": container["entrypoint"],
        "env": container["env"],
        "mounts": [
            *container["mounts"],
            *(
                {"source": folder, "target": target, "read_only": False}
                for target, folder in container["caches"].items()
            ),
        ],
        "container": options,
        "image": {**{key: image[key] for key in ("reference", "digest", "family")}, "vllm": image["release"]},
        "vllm_version": image["release"] or seen.get("version"),
        "catalogue": seen.get("catalogue"),
        "model": _known(
            {
                "repository": model["repository"],
                "gated": model["gated"],
                "weights_bytes": model["weights_bytes"],
                "table_bytes": model.get("table_bytes"),
                "quant_method": model["quantization"],
                "cached": True,  # model_store stages it before any start
                "config": config,
            }
        ),
        "host": {"memory_bytes": budget.total, "utilizations": others, **_host(facts.tuning, facts.fabric)},
        "group": {"hosts": len(placed.hosts), "fabric_addresses": _networks(facts.fabric)},
        "service": _known(
            {
                **{key: placed.settings["workload"].get(key) for key in PURPOSE},
                "recipe": placed.recipe["name"],
                "address": placed.head.address,
                "restarts": True,
                "open": placed.is_open,
                "ready_timeout_s": facts.startup_limit_s,
                "non_kv_bytes": non_kv.total.expected if non_kv else None,
                "pool_declared": "pool" in placed.settings["workload"] or None,
                "kv_pool_tokens": _capacity(image["release"], facts.kv["tokens"]),
            }
        ),
        "reported": _reported(placed),
        "of_recipe": sorted({*placed.recipe["flags"]} - {*placed.settings["flags"]}),
        "silence": placed.silence,
    }
    return _known(request)


def _reported(placed: Placed) -> str | None:
    """When somebody saw the recipe run, where the service changes nothing of its launch."""
    status, settings = placed.recipe["status"], placed.settings
    of_recipe: Mapping[str, object] = dict(placed.recipe["model"])
    # `model: org/name` that a recipe serves is no change of it
    model = {key: value for key, value in settings["model"].items() if value != of_recipe.get(key)}
    own = [settings["flags"], settings["env"], settings["image"], model]
    own += [placed.engine.spec.workload_flags(settings["workload"])]
    own += [host.own(placed.name, kind) for host in placed.hosts for kind in ("flags", "env")]
    seen = status["state"] in ("tested", "reported") and not any(own)
    return status["when"] if seen else None


def _capacity(version: str | None, tokens: int | None) -> int | None:
    """The pool's tokens as vLLM prints them; up to 0.20.0 that is no capacity, so that rules on it would be wrong."""
    release = parse(version or "")
    return tokens if release is not None and release.release >= (0, 20, 1) else None


def _host(tuning: TuningSlice, fabric: FabricSlice) -> dict[str, Any]:
    """What the plan gives the host, and what it leaves alone is not known."""
    interfaces = [each for each in fabric["interfaces"] if each["rdma_device"]]
    return _known(
        {
            "swap": tuning.get("swap"),
            "default_target": tuning.get("default_target"),
            "read_ahead_kib": tuning.get("read_ahead_kb"),
            "sysctl": tuning["sysctl"],
            "mtu": min((mtu for each in interfaces if (mtu := each["mtu"])), default=None),
            "rdma_addresses": {each["rdma_device"]: each["address"] for each in interfaces},
        }
    )


def _networks(fabric: FabricSlice) -> list[str]:
    return [each["address"] for each in fabric["interfaces"] if each["address"]]


def _known(values: Mapping[str, object]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
