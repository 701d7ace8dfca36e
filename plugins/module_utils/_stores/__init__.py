# SPDX-License-Identifier: GPL-3.0-or-later
"""Images and weights: what a host keeps of them, what it gives to others, by what they are known."""
