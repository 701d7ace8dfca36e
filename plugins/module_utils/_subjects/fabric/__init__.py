# SPDX-License-Identifier: GPL-3.0-or-later
"""The ConnectX-7 fabric: planned from the declared cables, read off the hosts, judged."""
