# SPDX-License-Identifier: GPL-3.0-or-later
"""A search for the settings that serve a load best: the goal, what is tried next, and the verdict."""
