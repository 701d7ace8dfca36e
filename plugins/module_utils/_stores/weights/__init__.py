# SPDX-License-Identifier: GPL-3.0-or-later
"""Model weights on a host: the HF cache layout, sealed manifests, and where files come from."""
