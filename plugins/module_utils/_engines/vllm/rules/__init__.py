# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules, one file an area for those that need code; importing this package fills `RULES`."""

# each fills RULES
from . import condition, group, image, kernels, kv, late, loading, memory, model, names, releases, storage  # noqa: F401
from ._base import RULES, Hit, Rule, rules_for

__all__ = ["RULES", "Hit", "Rule", "rules_for"]
