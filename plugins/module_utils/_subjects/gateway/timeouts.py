# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the two processes of a gateway wait: one table, since a request goes through both."""

# For a whole body.
BODY = "60s"
# Lines of `defaults` in both configurations.
SHARED = """\
    timeout connect 2s
    timeout http-keep-alive 60s
    timeout queue 2m
    # silence, and not length: a long prefill says nothing, a stream may go on for hours
    timeout server 1h
"""
