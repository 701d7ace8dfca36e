# SPDX-License-Identifier: GPL-3.0-or-later
"""Joins over what tasks registered and the plan says: plain data in, plain data out, for filters."""
