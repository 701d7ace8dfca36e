# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back: what a host was before our first change, who depends on it, and what of ours is left."""
