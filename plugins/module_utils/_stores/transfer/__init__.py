# SPDX-License-Identifier: GPL-3.0-or-later
"""From host to host: who asks whom, over what, part by part, resumable and checked."""
