# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The rules, one file an area; importing this package fills `RULES`."""

from __future__ import annotations

from . import access, group, image, kernels, kv, late, loading, memory, model, names, prefix, releases, storage
from ._base import RULES, Hit, Rule, rules_for

AREAS = (image, releases, names, kernels, kv, prefix, memory, loading, model, storage, group, access, late)

__all__ = ["AREAS", "RULES", "Hit", "Rule", "rules_for"]
