# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The KV pool of a vLLM start, exactly: from a model's config.json, the options, the bytes and the release.

size_pool answers one case, for the module and the filter; kv_for_service serves the planner. One direction:
config -> Model, options -> Flags -> Settings, both -> Pages -> Groups -> Pool -> answer.
"""

from .case import ServiceKv, kv_for_service, size_pool
from .inverse import least_utilization

__all__ = ["ServiceKv", "kv_for_service", "least_utilization", "size_pool"]
