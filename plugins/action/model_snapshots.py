# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows the progress of the module of the same name, which holds the documentation."""

from __future__ import annotations

from ansible_collections.gb10.fleet.plugins.plugin_utils._watched import WatchedAction


class ActionModule(WatchedAction):
    pass
