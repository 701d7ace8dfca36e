# SPDX-License-Identifier: GPL-3.0-or-later
"""A forecast of what somebody describes in plain data."""

from collections.abc import Mapping
from typing import Any

from ..._base.findings import FleetError
from ..._base.forms import forms
from ..._base.schema import check
from ..registry import DEFAULT, ENGINES
from .forecast import Drafts, Load, Point, Setup, calibrated, forecast
from .of_model import shape_of

_FORMS = forms("speed", engine={"type": "str", "default": DEFAULT, "choices": [*ENGINES]})


def forecast_case(case: Mapping[str, object]) -> dict[str, Any]:
    """As `api.forecast`."""
    checked, findings = check(_FORMS["case"], case, "forecast")
    if findings:
        raise FleetError(*findings)
    named = (checked[key] for key in ("config", "weights_bytes", "repository", "quantization"))
    shape = shape_of(*named)
    if shape is None:
        return {}
    drafts = Drafts(**checked["drafts"]) if checked.get("drafts") else None
    alike = {key: checked[key] for key in ("engine", "kernel", "eager", "tensor", "pipeline")}
    setup = Setup(**alike, element=checked["cache_bytes"], drafts=drafts)
    points = tuple(Point(_load(item), item["decode"]) for item in checked["measured"])
    load = _load(checked)
    factors = (calibrated(shape, setup, load, points), 1.0) if points else None
    return {**forecast(shape, setup, load, factors)}


def _load(written: Mapping[str, int]) -> Load:
    return Load(**{key: written[key] for key in _FORMS["load"]["options"]})
