# SPDX-License-Identifier: GPL-3.0-or-later
"""What is declared once for the whole fleet, and has a part on some of its hosts."""
