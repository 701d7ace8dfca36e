# SPDX-License-Identifier: GPL-3.0-or-later
"""From the inventory to each host's slice, and whether the host can carry it."""
