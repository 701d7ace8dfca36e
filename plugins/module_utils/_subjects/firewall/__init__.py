# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's packet filter: planned from what its services are for, written as one nftables table of ours."""
