# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM, as an engine: what it is given and how much it takes; its packages hold what is known of it."""
