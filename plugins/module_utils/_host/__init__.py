# SPDX-License-Identifier: GPL-3.0-or-later
"""How a host is read, and how one setting of it is changed."""
