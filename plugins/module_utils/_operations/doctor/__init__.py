# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a host is in the way of a first run: judged over a bundle, which is all that is kept of a reading."""
