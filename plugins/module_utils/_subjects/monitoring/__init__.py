# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fleet does, as Prometheus sees it: metrics of each host, who collects them, alerts, dashboards."""
