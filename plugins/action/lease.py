# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.lease: takes over what nobody holds any more, and says how it is given back."""

from pathlib import Path
from typing import Any, cast

from ansible.errors import AnsibleActionFail

from ..module_utils._plan.inventory_files import inventory_folder
from ..plugin_utils._asking import Asking, NoAnswerError
from ..plugin_utils._lease import HOLDER, busy, is_over, release, this_work, wait
from ..plugin_utils._who import refuse_older


class ActionModule(Asking):
    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables) | {"changed": False, "release": []}
        # by another connection, the end of the run would not reach the host
        if self._task.check_mode or self._connection.transport not in ("local", "ssh"):
            return result
        mine, take_over = this_work(), variables.get("take_over")
        host, hosts = str(variables["inventory_hostname"]), cast(list[str], variables["ansible_play_hosts"])
        try:
            holder = self._asked({"holder": mine}, variables)["holder"]
            # of two runs with several hosts, one must not wait: each could hold what the other waits for
            if holder and (len(hosts) == 1 or mine["token"] < holder.get("token", "")):
                over = wait(host, holder, lambda: self._asked({}, variables)["holder"], take_over)
                if run := self._task.args.get("run"):
                    # what the other run did, this one has not read
                    last = self._asked({}, variables)["last_run"]
                    refuse_older(run, Path(inventory_folder(variables.get("inventory_dir"))), {host: last})
                holder = self._asked({"holder": mine, "instead_of": over.get("token", "")}, variables)["holder"]
            elif holder and is_over(holder, mine, take_over):
                holder = self._asked({"holder": mine, "instead_of": holder.get("token", "")}, variables)["holder"]
        except NoAnswerError as why:
            raise AnsibleActionFail(str(why)) from None
        if holder:
            raise busy(host, holder)
        return result | {"release": release(self._connection, mine["token"])}

    def _asked(self, arguments: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("gb10.fleet.lease", arguments, variables, HOLDER)
        return found
