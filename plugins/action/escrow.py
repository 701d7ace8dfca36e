# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.escrow: keeps the controller's secrets encrypted beside the inventory; reaches no host."""

import json
import secrets
import subprocess
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base import worded
from ..module_utils._base.own_files import read, replace_file
from ..module_utils._base.place import Place
from ..module_utils._operations import escrow
from ..plugin_utils._documented import OnController
from ..plugin_utils._kept_secret import keep, make_folder
from ..plugin_utils._screen import warn

_PATIENCE_S = 60
_IDENTITIES = ("~/.ssh/id_ed25519", "~/.ssh/id_rsa")


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        if not options["recipients"] and not options["restore"]:
            raise AnsibleActionFail(worded.error("escrow-nobody", Place(variable="fleet_escrow")).sentence())
        folder = Path(options["folder"]).resolve()
        secret = {Path(file).resolve() for file in escrow.secrets_of(options["plan"])}
        named = {str(file.relative_to(folder)) for file in secret if file.is_relative_to(folder)}
        try:
            if options["restore"]:
                return self._restored(folder, named, options["identity"])
            for file in sorted(secret):
                if file.exists() and not file.is_relative_to(folder):
                    warn(worded.warning("escrow-outside", str(file), folder=folder).sentence())
            return self._kept(folder, named, [" ".join(recipient.split()[:2]) for recipient in options["recipients"]])
        except ValueError as problem:
            raise AnsibleActionFail(
                worded.error("escrow", escrow.FILE, found=problem, folder=folder).sentence()
            ) from None

    def _kept(self, folder: Path, named: set[str], recipients: list[str]) -> dict[str, Any]:
        key = folder / escrow.KEY
        if not self._task.check_mode:
            keep(key, secrets.token_hex(32).encode() + b"\n")
        found = {path for name in escrow.FOLDERS for path in (folder / name).rglob("*") if path.is_file()}
        names = named | {str(path.relative_to(folder)) for path in found if not path.name.startswith(".")}
        files = {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}
        archive = escrow.packed(files)
        if len(archive) > escrow.MOST:
            raise ValueError(f"{len(archive)} bytes of secrets, and at most {escrow.MOST} are kept")
        file, of_key = folder / escrow.FILE, key.read_bytes() if key.exists() else b""
        sealed = file.read_bytes() if file.exists() else b""
        before = read(folder / escrow.RECORD, escrow.parsed, None) or {"files": []}
        if lacks := sorted({*before["files"]} - files.keys()):
            raise ValueError(f"it has {', '.join(lacks)}, which this machine lacks")
        if sealed and escrow.record(archive, files, recipients, of_key, sealed) == before:
            return {"changed": False, "files": sorted(files)}
        if not self._task.check_mode:
            sealed = _age("--encrypt", *(word for recipient in recipients for word in ("-r", recipient)), stdin=archive)
            now = escrow.record(archive, files, recipients, of_key, sealed)
            replace_file(file, sealed)
            replace_file(folder / escrow.RECORD, json.dumps(now, indent=1, sort_keys=True).encode() + b"\n")
        return {"changed": True, "files": sorted(files)}

    def _restored(self, folder: Path, named: set[str], identity: str) -> dict[str, Any]:
        if not (folder / escrow.FILE).exists():
            return {"changed": False, "files": []}
        known = [str(path) for file in _IDENTITIES if (path := Path(file).expanduser()).exists()]
        words = [word for one in ([identity] if identity else known) for word in ("-i", one)]
        files = escrow.unpacked(_age("--decrypt", *words, stdin=(folder / escrow.FILE).read_bytes()), named)
        missing = {folder / name: content for name, content in files.items() if not (folder / name).exists()}
        for path, content in missing.items() if not self._task.check_mode else ():
            if not path.parent.exists():
                make_folder(path.parent)
            replace_file(path, content, 0o600)
        return {"changed": bool(missing), "files": sorted(map(str, missing))}


def _age(*words: str, stdin: bytes) -> bytes:
    """What age prints. ValueError, with its words, if it fails. It finds no terminal to ask for a passphrase."""
    try:
        done = subprocess.run(
            ["age", *words], input=stdin, capture_output=True, check=False, timeout=_PATIENCE_S, start_new_session=True
        )
    except FileNotFoundError:
        raise ValueError("there is no program age on this machine (install the package age)") from None
    except subprocess.TimeoutExpired:
        raise ValueError(f"age did not end within {_PATIENCE_S} s") from None
    if done.returncode:
        raise ValueError(" ".join(done.stderr.decode(errors="replace").split())[:400])
    return done.stdout
