# SPDX-License-Identifier: GPL-3.0-or-later
"""The services on a host: their supervisor, units, containers and ports, held against the plan."""
