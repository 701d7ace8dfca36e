# SPDX-License-Identifier: GPL-3.0-or-later
"""Arize Phoenix, which keeps and shows the traces of requests."""
