# SPDX-License-Identifier: GPL-3.0-or-later
"""llama.cpp: `llama-server` on a service's head, `rpc-server` on its other hosts."""
