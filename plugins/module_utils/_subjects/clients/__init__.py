# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that people and agents use, as clients of the gateway: Open WebUI and Hermes Agent, each in a container."""
