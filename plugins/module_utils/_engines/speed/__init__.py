# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast a model is on GB10: forecast from its shape, before a byte of it is there."""
