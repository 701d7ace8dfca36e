# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules; those that need code by what they judge. Importing this package fills `RULES`."""

# each fills RULES
from . import condition, group, image, memory, model  # noqa: F401
from ._base import RULES, Hit, Rule, rules_for

__all__ = ["RULES", "Hit", "Rule", "rules_for"]
