# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What dashboards and the page of Prometheus ask for, as PromQL for all hosts and services."""

from __future__ import annotations

from collections.abc import Collection

from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring import dashboards
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring import plan as console


def of_page(recorded: Collection[str]) -> list[str]:
    columns = [*console._COLUMNS_OF_HOSTS, *console._of_services(recorded)]
    return [console._HOSTS, console._RANKS, *(expr.replace("{%s}", "") for _, expr, _ in columns)]


def of_dashboards(recorded: Collection[str]) -> list[str]:
    boards = dashboards.boards(recorded)
    found = (query.expr for board in boards for panel in board.panels for query in panel.queries)
    return [expr.replace("$host", ".*").replace("$service", ".*") for expr in found]
