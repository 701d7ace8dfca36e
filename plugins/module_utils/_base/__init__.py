# SPDX-License-Identifier: GPL-3.0-or-later
"""What knows nothing of hosts, models or engines. Every floor may import it."""
