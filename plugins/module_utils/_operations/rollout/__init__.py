# SPDX-License-Identifier: GPL-3.0-or-later
"""A changed definition comes to one replica after the other: the order, how long nobody serves, and the verdict."""
