# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmarks: what is measured in which order, what may be compared, and whether there is a difference."""
