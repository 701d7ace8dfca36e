# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes: one model served well, as data; read, checked, imported from other projects' formats."""
