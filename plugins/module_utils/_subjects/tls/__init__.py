# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS of endpoints: certificates of the owner's or of a local CA, which the fleet's hosts trust."""
