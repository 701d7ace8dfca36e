# SPDX-License-Identifier: GPL-3.0-or-later
"""What a playbook does with a plan."""
