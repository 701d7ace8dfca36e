# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.lock_record: what hosts have in, the lock beside the inventory out; reaches no host."""

from pathlib import Path
from typing import Any

from ..module_utils._stores.lock.file import update
from ..module_utils._stores.lock.lock import KINDS, Lock, Settled, settle
from ..plugin_utils._documented import OnController


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        hosts, file = options["wanted"], Path(options["file"])
        wanted = {kind: {host: parts[kind] for host, parts in hosts.items()} for kind in KINDS}
        settled: list[Settled] = []

        def change(lock: Lock) -> Lock:
            settled.append(settle(lock, wanted, {kind: options[kind] for kind in KINDS}, options["relock"]))
            return settled[-1].lock

        before, after = update(file, change, write=not self._task.check_mode)
        return {
            "changed": before != after,
            "refused": {
                host: [finding.sentence() for finding in findings] for host, findings in settled[-1].refused.items()
            },
            "diff": {"before_header": str(file), "after_header": str(file), "before": before, "after": after},
        }
