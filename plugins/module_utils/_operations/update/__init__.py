# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages, kernel, driver and firmware, one host first: what would change, whether it may, in which order, and whether
it has proved itself."""
