# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a service do what the plan promised? Its unit, its ranks, its boot log, one real answer; the tables of them."""
