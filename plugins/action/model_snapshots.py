# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows the progress of the module of the same name, which holds the documentation."""

from ..plugin_utils._watched import WatchedAction


class ActionModule(WatchedAction):
    pass
