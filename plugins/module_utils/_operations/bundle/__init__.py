# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle: everything that a plan names, carried into a room without internet."""
