# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab says when it can't do what was asked."""

from __future__ import annotations


class LabError(Exception):
    """One sentence for a person: what was found, and what to do next. Never shown as a traceback."""
