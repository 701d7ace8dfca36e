# SPDX-License-Identifier: GPL-3.0-or-later
"""The one memory that CPU and GPU share: what each service takes, what is left, what a boot has shown."""
