#!/usr/bin/python
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: peer_access
short_description: Let hosts of the fleet read this one's images and models, and this one theirs
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Where there are readers, makes an account (C(gb10-peer)) whose SSH keys may start one program, as root and without
    arguments, and nothing else; the program gives images, models and their files over that connection. It is made of
    this collection and needs nothing but Python 3.
  - Pins the SSH host keys of the hosts that this one reads from, by their inventory names.
  - A diff shows each file, and of the program its sum.
  - A host that is left out of O(readers) can't log in any more.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  readers:
    description: All hosts that may read from this one.
    type: list
    elements: str
    default: []
  reader_keys:
    description: Their public keys. A reader that is not named keeps the key that it has.
    type: dict
    default: {}
  reads:
    description: All hosts that this one reads from.
    type: list
    elements: str
    default: []
  host_keys:
    description: Their SSH host keys. A host that is not named keeps the key that it has.
    type: dict
    default: {}
  folder:
    description: Where the host keeps its notes on images and models, and layers on their way.
    type: path
    default: /var/lib/gb10-fleet
  models:
    description: What C(HF_HOME) is for the services on this host.
    type: path
    default: /var/lib/gb10-fleet/hf
  caches:
    description: Patterns of Hugging Face caches (their C(hub) folders) of the host's users, whose models it may give.
    type: list
    elements: str
    default: [/root/.cache/huggingface/hub, /home/*/.cache/huggingface/hub]
"""

EXAMPLES = r"""
- name: Let spark-2 read
  gb10.fleet.peer_access:
    readers: [spark-2]
    reader_keys:
      spark-2: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDaEMdWrCqYimdLYpOHDLOZ4f8xy8BAn+VNs26CMw5bY
"""

RETURN = r"""#"""

import hashlib
import json
import pwd
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.fleet.plugins.module_utils._peers.program import peer_program
from ansible_collections.gb10.fleet.plugins.module_utils._transfer import access
from ansible_collections.gb10.fleet.plugins.module_utils._transfer.staging import replace_file

CACHES = ["/root/.cache/huggingface/hub", "/home/*/.cache/huggingface/hub"]


def main() -> None:
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "readers": names,
            "reader_keys": {"type": "dict", "default": {}, "no_log": False},
            "reads": names,
            "host_keys": {"type": "dict", "default": {}, "no_log": False},
            "folder": {"type": "path", "default": "/var/lib/gb10-fleet"},
            "models": {"type": "path", "default": "/var/lib/gb10-fleet/hf"},
            "caches": {"type": "list", "elements": "str", "default": CACHES},
        },
        supports_check_mode=True,
    )
    wanted = wanted_files(module)
    account_missing = bool(module.params["readers"]) and not has_account()
    changed = [path for path, (content, _) in wanted.items() if read(path) != content]
    diff = [
        {"before_header": path, "after_header": path, "before": shown(read(path)), "after": shown(wanted[path][0])}
        for path in changed
    ]
    known = wanted.get(access.KNOWN_HOSTS, (b"", 0))[0].decode()
    for host in access.unknown_hosts(known, module.params["reads"]):
        module.warn(f"{host} was never in a run with this host, which can't read from it: run once with both")
    if not module.check_mode:
        if account_missing:
            make_account(module)
        for path in changed:
            replace_file(Path(path), *wanted[path])
    module.exit_json(changed=account_missing or bool(changed), diff=diff)


def wanted_files(module: AnsibleModule) -> dict[str, tuple[bytes, int]]:
    """Content and mode of each file, the one that lets others in last."""
    parameters = module.params
    files: dict[str, tuple[bytes, int]] = {}
    if parameters["reads"] or read(access.KNOWN_HOSTS):
        known = access.known_hosts(read(access.KNOWN_HOSTS).decode(), parameters["reads"], parameters["host_keys"])
        files[access.KNOWN_HOSTS] = known.encode(), 0o644
    if parameters["readers"]:
        places = {name: parameters[name] for name in ("folder", "models", "caches")}
        files[access.PLACES] = json.dumps(places, indent=1, sort_keys=True).encode() + b"\n", 0o644
        files[access.PROGRAM] = peer_program(), 0o755
        files[access.SUDOERS] = access.SUDOERS_TEXT.encode(), 0o440
    if parameters["readers"] or read(access.AUTHORIZED_KEYS):
        found = read(access.AUTHORIZED_KEYS).decode()
        keys = access.authorized_keys(found, parameters["readers"], parameters["reader_keys"])
        files[access.AUTHORIZED_KEYS] = keys.encode(), 0o644
    return files


def read(path: str) -> bytes:
    """A file's content, empty if there is none."""
    return Path(path).read_bytes() if Path(path).exists() else b""


def has_account() -> bool:
    try:
        pwd.getpwnam(access.ACCOUNT)
    except KeyError:
        return False
    return True


def make_account(module: AnsibleModule) -> None:
    """No password; root owns its home, so that it can't let anybody else in."""
    words = ["--system", "--user-group", "--no-create-home", "--home-dir", access.HOME, "--shell", "/bin/sh"]
    module.run_command(["useradd", *words, "--password", "*", access.ACCOUNT], check_rc=True)


def shown(content: bytes) -> str:
    """For a diff: text as it is, a program by its sum."""
    return f"sha256 {hashlib.sha256(content).hexdigest()}\n" if content.startswith(b"#!") else content.decode()


if __name__ == "__main__":
    main()
