# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a host: keys of JSON files and of the kernel, read, merged and written."""
