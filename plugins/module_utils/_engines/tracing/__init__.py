# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an engine sends its traces: the collector, and headers for it."""
