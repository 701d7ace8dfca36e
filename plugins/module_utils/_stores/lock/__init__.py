# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock: by what images and models are known in the whole fleet, kept beside the inventory."""
