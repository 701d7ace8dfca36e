# SPDX-License-Identifier: GPL-3.0-or-later
"""Container images on a host: what is there, what is missing, and how only that gets there."""
