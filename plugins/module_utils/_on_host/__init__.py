# SPDX-License-Identifier: GPL-3.0-or-later
"""What is copied to hosts and into containers as it is: Python's standard library alone, no byte changed by a move."""
