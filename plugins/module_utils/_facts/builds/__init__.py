# SPDX-License-Identifier: GPL-3.0-or-later
"""Images that a host builds itself: what is declared of a build, its name by its inputs, how it runs and fails."""
