# SPDX-License-Identifier: GPL-3.0-or-later
"""Who ends an engine before a host without memory hangs, by the plan's floor."""
