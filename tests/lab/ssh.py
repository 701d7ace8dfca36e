# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SSH to the hosts: keys, the client's configuration, shared connections (masters) and their end."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from .disk import OWNER, HostKey
from .model import Lab
from .requirements import PYTHON
from .workspace import Workspace

_PACKAGE_PARENT = Path(__file__).resolve().parents[1]


def make_key(path: Path, comment: str) -> HostKey:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return HostKey(path.read_text(), path.with_suffix(".pub").read_text())


def config(workspace: Workspace, lab: Lab) -> str:
    """For ``ssh -F``: the connection is made inside the lab's network and handed to ssh as an open socket."""
    connector = (
        f"env PYTHONPATH={_quoted(_PACKAGE_PARENT)} {PYTHON} -S -m lab.connect {_quoted(workspace.directory)} %h %p"
    )
    hosts = "".join(f"Host {host}\n    HostName {lab.address(host)}\n" for host in lab.hosts)
    return (
        f"# Written by `lab up`.\n{hosts}"
        "Host *\n"
        f"    User {OWNER}\n"
        f'    IdentityFile "{workspace.key}"\n'
        "    IdentitiesOnly yes\n"
        f'    UserKnownHostsFile "{workspace.known_hosts}"\n'
        "    StrictHostKeyChecking yes\n"
        "    ControlMaster auto\n"
        "    ControlPersist 60s\n"
        f'    ControlPath "{workspace.ssh_masters}/%n"\n'
        f"    ProxyCommand {connector}\n"
        "    ProxyUseFdpass yes\n"
        # A master whose host lost its power hears nothing more; it shall not outlive it for long.
        "    ServerAliveInterval 5\n"
        "    ServerAliveCountMax 3\n"
    )


def _quoted(path: Path) -> str:
    """For a shell, through ssh's own percent signs."""
    return shlex.quote(str(path)).replace("%", "%%")


def known_hosts(lab: Lab, keys: dict[str, HostKey]) -> str:
    return "".join(f"{host},{lab.address(host)} {keys[host].public}" for host in lab.hosts)


def end_masters(workspace: Workspace) -> None:
    """Ask every shared connection below the lab's directory, ssh's own or Ansible's, to end."""
    if workspace.ssh_masters.is_dir():
        for path in workspace.ssh_masters.iterdir():
            subprocess.run(
                ["ssh", "-F", "none", "-o", f"ControlPath={path}", "-O", "exit", "lab"],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
