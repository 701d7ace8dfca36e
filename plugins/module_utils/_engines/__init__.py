# SPDX-License-Identifier: GPL-3.0-or-later
"""What serves a model: options, memory, launch, recipes."""
