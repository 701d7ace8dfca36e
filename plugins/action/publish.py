# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.publish: the plan in, a signed slice a host out; runs on the controller, reaches no host."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.own_files import replace_file, unwritten
from ..module_utils._operations.pull.published import content, is_same, refused
from ..module_utils._stores.lock.file import read
from ..module_utils._stores.lock.lock import dump
from ..plugin_utils import _publisher
from ..plugin_utils._documented import OnController
from ..plugin_utils._screen import refusal


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        fleet, folder, key = options["fleet"], Path(options["folder"]), Path(options["key"])
        hosts = fleet["hosts"]
        hostvars = variables["hostvars"]
        findings = [
            item for host in hosts for item in refused(host, fleet["plan"]["hosts"][host], hostvars.raw_get(host))
        ]
        if findings:
            raise refusal(
                "\n".join(finding.sentence() for finding in findings), "nothing was published, as named above"
            )
        try:
            if not self._task.check_mode:
                _publisher.made_key(key, fleet["plan"]["inventory"])
            lock = dump(read(Path(fleet["lock_file"])))
            digest, archive = _publisher.archive()
            now = {host: content(fleet, host, digest, lock) for host in hosts}
            then = {host: _publisher.before(folder / f"{host}.slice", key) for host in hosts}
            changed = [host for host in hosts if not is_same(then[host], now[host])]
            gone = [path for path in sorted(folder.glob("*.slice")) if path.stem not in fleet["plan"]["hosts"]]
            packed = folder / f"collection-{digest}.tar.gz"
            is_new = bool(changed or gone or not packed.exists())
            if is_new and not self._task.check_mode:
                replace_file(packed, archive, 0o644)
                serials = _publisher.serials_of(then)
                newest = max([int(time.time()), *serials.values()]) + 1
                self._write(folder, key, {host: now[host] for host in changed}, newest)
                _publisher.keep_serials(key, serials | dict.fromkeys(changed, newest))
                for path in gone:
                    path.unlink()
                _publisher.forget_archives(folder, key, digest, hosts)
            public = _publisher.public_of(key)
            known = public.read_text("ascii").strip() if public.exists() else ""
        except _publisher.KeygenError as problem:
            remedy = "bring it back from a copy or the escrow; or remove it: each host needs gb10.fleet.pull then"
            raise AnsibleActionFail(f"{key}: nothing can be signed with it: {problem}; {remedy}") from None
        except OSError as problem:
            expected = "folders of yours for what is published and for the key"
            remedy = "make them, or name others with publish_folder and publish_key"
            raise AnsibleActionFail(unwritten(problem, folder, expected, remedy)) from None
        return {"changed": is_new, "published": changed, "public_key": known}

    @staticmethod
    def _write(folder: Path, key: Path, slices: dict[str, dict[str, object]], serial: int) -> None:
        """All are signed before the first one is written."""
        published = datetime.now(UTC).isoformat(timespec="seconds")
        made = {
            host: _publisher.signed(json.dumps({**one, "serial": serial, "published": published}, sort_keys=True), key)
            for host, one in slices.items()
        }
        for host, text in made.items():
            replace_file(folder / f"{host}.slice", text, 0o644)
