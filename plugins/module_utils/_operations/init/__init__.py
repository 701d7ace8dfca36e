# SPDX-License-Identifier: GPL-3.0-or-later
"""From machines that nobody has declared to an inventory of them: find, log in, read, decide, write."""
