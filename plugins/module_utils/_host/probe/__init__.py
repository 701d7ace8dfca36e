# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what a host is and has, as plain data, with Python and read-only commands alone. Judges nothing."""
