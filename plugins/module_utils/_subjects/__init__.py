# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be declared of a host, one package each: its slice, its files, what drift compares."""
