# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine as a patient: its GPU, its starts, its heat, and what its kernel complains of."""
