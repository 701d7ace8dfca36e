# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of an action whose module is documentation only: what that says, and no second copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._base.yaml_text import read_yaml

_KEYS = ("type", "elements", "required", "default", "choices")


def documented(documentation: str) -> dict[str, Any]:
    """The argument spec of the options in a module's DOCUMENTATION (YAML, its fragments left out)."""
    return _spec(read_yaml(documentation)["options"])


def _spec(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _option(option) for name, option in options.items()}


def _option(option: Mapping[str, Any]) -> dict[str, Any]:
    nested = {"options": _spec(option["suboptions"])} if "suboptions" in option else {}
    return {key: option[key] for key in _KEYS if key in option} | nested
