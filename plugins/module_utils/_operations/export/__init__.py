# SPDX-License-Identifier: GPL-3.0-or-later
"""Services of the plan for another scheduler: its objects as files, and what can't be carried over."""
