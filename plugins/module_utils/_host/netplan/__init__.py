# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's netplan files: written, judged before the change, and guarded by a rollback that the host runs itself."""
