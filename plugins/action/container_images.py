# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows the progress of the module of the same name, which holds the documentation."""

from ansible_collections.gb10.fleet.plugins.plugin_utils._watched import WatchedAction


class ActionModule(WatchedAction):
    pass
