# SPDX-License-Identifier: GPL-3.0-or-later
"""The files and links of the role host_tuning."""
