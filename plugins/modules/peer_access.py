#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: peer_access
short_description: Allow hosts to read images and models from each other
version_added: 0.1.0
description:
  - Where there are readers, makes an account (C(gb10-peer)) whose SSH keys may start one program, as root and without
    arguments, and nothing else. The program and the account's rule for sudo are files of the host's slice of the plan.
  - Pins the SSH host keys of the hosts that this host reads from, by their inventory names.
  - A host that is left out of O(readers) can't log in any more. If there are none, the program and the rule go also.
    Readers of another inventory keep their access.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  inventory: {description: The inventory of the readers., type: str, default: ""}
  readers:
    description: By host that may read from this host, its addresses in the fabric, as far as the plan knows them.
    type: dict
    default: {}
  reader_keys:
    description: Their public keys. A reader that is not named keeps the key that it has.
    type: dict
    default: {}
  reader_addresses:
    description:
      - By reader, its further source addresses. Its key is accepted only from those and from its addresses in the
        fabric; of IPv6 from their networks of 64 bits, since hosts change the rest by themselves.
    type: dict
    default: {}
  reads: {description: All hosts that this host reads from., type: list, elements: str, default: []}
  host_keys:
    description: Their SSH host keys. A host that is not named keeps the key that it has.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Let spark-2 read
  gb10.fleet.peer_access:
    readers:
      spark-2: [192.168.100.10]
    reader_keys:
      spark-2: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDaEMdWrCqYimdLYpOHDLOZ4f8xy8BAn+VNs26CMw5bY
"""

RETURN = r"""#"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.own_files import replace_file
from ..module_utils._stores.peers.reading import has_account, read_inventory
from ..module_utils._stores.transfer import access


def main() -> None:
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "inventory": {"type": "str", "default": ""},
            "readers": {"type": "dict", "default": {}},
            "reader_keys": {"type": "dict", "default": {}, "no_log": False},
            "reader_addresses": {"type": "dict", "default": {}},
            "reads": names,
            "host_keys": {"type": "dict", "default": {}, "no_log": False},
        },
        supports_check_mode=True,
    )
    is_ours = bool(module.params["readers"]) or not access.is_of_another(read_inventory(), module.params["inventory"])
    wanted = wanted_files(module, is_ours)
    gone = [path for path in access.ENTRIES if is_ours and not module.params["readers"] and Path(path).exists()]
    account_missing = bool(module.params["readers"]) and not has_account()
    changed = [path for path, (content, _) in wanted.items() if read(path) != content]
    after = {path: wanted[path][0] for path in changed} | dict.fromkeys(gone, b"")
    diff = [
        {"before_header": path, "after_header": path, "before": read(path).decode(), "after": content.decode()}
        for path, content in after.items()
    ]
    known = wanted.get(access.KNOWN_HOSTS, (b"", 0))[0].decode()
    for host in access.unknown_hosts(known, module.params["reads"]):
        module.warn(f"{host} was never in a run with this host, which can't read from it: run once with both")
    authorized = wanted.get(access.AUTHORIZED_KEYS, (b"", 0))[0].decode()
    for host in access.without_line(authorized, {*module.params["reader_keys"]} & {*module.params["readers"]}):
        if module.params["reader_keys"][host]:
            module.warn(
                f"{host} has named no key and address that could be let in: `ip -br address` there, and run again"
            )
    if not module.check_mode:
        if account_missing:
            make_account(module)
        for path in changed:
            replace_file(Path(path), *wanted[path])
        for path in gone:
            Path(path).unlink()
    module.exit_json(changed=account_missing or bool(changed or gone), diff=diff)


def wanted_files(module: AnsibleModule, is_ours: bool) -> dict[str, tuple[bytes, int]]:
    """Content and mode of both files of keys. is_ours: whether it is this inventory's to say who comes to this host."""
    parameters = module.params
    files: dict[str, tuple[bytes, int]] = {}
    if parameters["reads"] or read(access.KNOWN_HOSTS):
        known = access.known_hosts(read(access.KNOWN_HOSTS).decode(), parameters["reads"], parameters["host_keys"])
        files[access.KNOWN_HOSTS] = known.encode(), 0o644
    if is_ours and (parameters["readers"] or read(access.AUTHORIZED_KEYS)):
        found = read(access.AUTHORIZED_KEYS).decode()
        answered = parameters["reader_keys"], parameters["reader_addresses"]
        keys = access.authorized_keys(found, parameters["readers"], *answered)
        files[access.AUTHORIZED_KEYS] = keys.encode(), 0o644
    return files


def read(path: str) -> bytes:
    """A file's content, empty if there is none."""
    return Path(path).read_bytes() if Path(path).exists() else b""


def make_account(module: AnsibleModule) -> None:
    """No password; root owns its home, so that it can't let anybody else in."""
    words = ["--system", "--user-group", "--no-create-home", "--home-dir", access.HOME, "--shell", "/bin/sh"]
    module.run_command(["useradd", *words, "--password", "*", access.ACCOUNT], check_rc=True)


if __name__ == "__main__":
    main()
