# SPDX-License-Identifier: GPL-3.0-or-later
"""What no role sets: versions, packages, clock, memory and disks, held against what is declared or known to fail."""
