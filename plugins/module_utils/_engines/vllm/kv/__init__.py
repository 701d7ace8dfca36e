# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV pool of a vLLM start, exactly: from a model's config.json, the options, the bytes and the release.

size_pool answers one case, for the module and the filter; kv_for_service serves the planner. One direction:
config -> Model, options -> Flags -> Settings, both -> Pages -> Groups -> Pool -> answer.
"""

from .case import LONG_ALLOWED, ServiceKv, kv_for_service, least_utilization, overridden, size_pool

__all__ = ["LONG_ALLOWED", "ServiceKv", "kv_for_service", "least_utilization", "overridden", "size_pool"]
