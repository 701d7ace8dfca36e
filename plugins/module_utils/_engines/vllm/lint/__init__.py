# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch checked before it starts: names and values by its release's catalogue, combinations by the rules."""
