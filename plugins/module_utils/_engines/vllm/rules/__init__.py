# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules, one file an area; importing this package fills `RULES`."""

from . import access, group, image, kernels, kv, late, loading, memory, model, names, prefix, releases, storage
from ._base import RULES, Hit, Rule, rules_for

AREAS = (image, releases, names, kernels, kv, prefix, memory, loading, model, storage, group, access, late)

__all__ = ["AREAS", "RULES", "Hit", "Rule", "rules_for"]
