# SPDX-License-Identifier: GPL-3.0-or-later
"""A forecast of what somebody describes in plain data."""

from collections.abc import Mapping
from typing import Any

from ..._base.findings import FleetError
from ..._base.schema import Spec, check
from .forecast import Drafts, Load, Point, Setup, calibrated, forecast
from .of_model import shape_of

_COUNT: Spec = {"type": "int", "min": 1, "max": 1 << 24}
_LOAD: dict[str, Spec] = {
    "requests": {**_COUNT, "default": 1},
    "prompt": {**_COUNT, "default": 2048},
    "answer": {**_COUNT, "default": 256},
    "depth": {"type": "int", "min": 0, "max": 1 << 24, "default": 0},
}
_NUMBER: Spec = {"type": "number", "min": 0.0001, "max": 1e7}
_CASE: Spec = {
    "type": "map",
    "options": {
        "config": {"type": "map", "required": True},
        "repository": {"type": "str", "default": ""},
        "quantization": {"type": "str", "nullable": True, "default": None},
        "weights_bytes": {"type": "int", "min": 1, "nullable": True, "default": None},
        "engine": {"type": "str", "default": "vllm", "choices": ["vllm", "sglang", "trtllm", "llama.cpp"]},
        "kernel": {"type": "str", "default": ""},
        "eager": {"type": "bool", "default": False},
        "tensor": {**_COUNT, "max": 4096, "default": 1},
        "pipeline": {**_COUNT, "max": 4096, "default": 1},
        "cache_bytes": {**_NUMBER, "max": 4, "default": 2},
        "drafts": {
            "type": "map",
            "options": {
                "method": {"type": "str", "default": "mtp"},
                "count": {**_COUNT, "max": 1024, "required": True},
                "accepted": {**_NUMBER, "min": 1},
            },
        },
        **_LOAD,
        "measured": {
            "type": "list",
            "default": [],
            "elements": {"type": "map", "options": {**_LOAD, "decode": {**_NUMBER, "required": True}}},
        },
    },
}


def forecast_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """As `api.forecast`."""
    checked, findings = check(_CASE, case, "forecast")
    if findings:
        raise FleetError(*findings)
    named = (checked[key] for key in ("config", "weights_bytes", "repository", "quantization"))
    shape = shape_of(*named)
    if shape is None:
        return {}
    drafts = Drafts(**checked["drafts"]) if checked.get("drafts") else None
    setup = Setup(
        checked["engine"],
        checked["kernel"],
        checked["eager"],
        checked["tensor"],
        checked["pipeline"],
        checked["cache_bytes"],
        drafts,
    )
    points = tuple(Point(_load(one), one["decode"]) for one in checked["measured"])
    load = _load(checked)
    factors = (calibrated(shape, setup, load, points), 1.0) if points else None
    return {**forecast(shape, setup, load, factors)}


def _load(written: Mapping[str, Any]) -> Load:
    return Load(**{key: written[key] for key in _LOAD})
