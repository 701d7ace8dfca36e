# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker and its settings: the engine that runs the containers."""
