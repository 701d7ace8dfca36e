# SPDX-License-Identifier: GPL-3.0-or-later
"""SGLang: `sglang.launch_server`, the same on each host of a service."""
