# SPDX-License-Identifier: GPL-3.0-or-later
"""Can a host carry its slice of the plan? Judged over what was read of it, before the first change."""
