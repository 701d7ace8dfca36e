# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that fetches its slice of the plan itself: what is published for it, and what it can't do alone."""
