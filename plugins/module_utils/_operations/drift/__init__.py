# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift: what each host should have by the plan, compared with what it has, as findings and reports."""
