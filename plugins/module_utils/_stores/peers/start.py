# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts the server for one connection, within limits, and asks Docker for it meanwhile.

sshd starts it by sudo as root, without arguments. It reads nothing of what the other host sends: that goes straight to
the server, and all that comes from there is a byte that means "look again" (`_stores.peers.answers`).
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from ..._base.layout import CACHES, MODELS, STATE, STATUS
from ..._base.staging import LOCKS
from ..images.docker import Run, run_command
from ..transfer.access import ACCOUNT, PLACES
from . import answers

# All connections together: sshd lets in more of them than a host has memory for.
SLICE = "gb10-peer.slice"
_WRITES = (MODELS, *(f"{STATE}/{name}" for name in ("models", "recipes", "served", "unpacked")))
_CONTENT = "io.containerd.content.v1.content"
_CONTAINERD = "/var/lib/containerd"
# Of Docker's folder the images: beside them are containers with their variables and logs, and volumes.
_IMAGES = ("image", "overlay2", f"containerd/daemon/{_CONTENT}")
# It is root, since root's are Docker's store, the cache that it takes models from, and the locks that it shares with a
# staging run. Of what root may it is left (systemd.exec(5)): to read the files that it sees, and to write its stores.
# It sees no home, and next to nothing of /etc and /run. Its group is not root's: else the kernel would show it the
# variables and files of processes that have as few capabilities as itself, which containers are (ptrace(2)).
_LIMITS = {
    "User": "root",
    "Group": ACCOUNT,
    "ProtectSystem": "strict",
    "ReadWritePaths": " ".join(_WRITES),
    "BindPaths": str(LOCKS),
    "ProtectHome": "tmpfs",
    "InaccessiblePaths": "-/var/log -/var/spool -/boot",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "PrivateNetwork": "yes",
    "RestrictAddressFamilies": "AF_UNIX",
    "CapabilityBoundingSet": "CAP_DAC_READ_SEARCH",
    "NoNewPrivileges": "yes",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes",
    "ProtectClock": "yes",
    "ProtectHostname": "yes",
    "ProtectProc": "invisible",
    "SystemCallArchitectures": "native",
    # not in it is open_by_handle_at, which with this capability would open what is hidden
    "SystemCallFilter": "@system-service",
    "MemoryMax": "1G",
    "TasksMax": "128",
    "RuntimeMaxSec": "1d",
    "OOMScoreAdjust": "500",
}


def main(server: str) -> None:
    """server: the program to be started within the limits. Ends with it, with its status."""
    for folder in _WRITES:
        Path(folder).mkdir(parents=True, exist_ok=True)
    LOCKS.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="peer-", dir=STATUS) as folder:
        roots = [root for root in (docker_root(run_command), _CONTAINERD) if Path(root).is_dir()]
        status = served([*limited(Path(folder), roots), server], Path(folder), run_command)
    sys.exit(status)


def served(command: list[str], folder: Path, run: Run) -> int:
    """Run it to its end, and keep Docker's answers in ``folder``, root's alone, meanwhile. Returns its status."""
    os.mkfifo(folder / answers.LOOK, 0o600)
    threading.Thread(target=answers.keep, args=(folder, run), daemon=True).start()
    return subprocess.call(command)


def docker_root(run: Run) -> str:
    """Docker's folder; the usual one where it doesn't answer, or is called what a unit can't say."""
    _status, out, _why = run(["docker", "info", "--format", "{{json .DockerRootDir}}"])
    found = re.fullmatch(r'"((?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)+)"\s*', out)
    return found[1] if found else "/var/lib/docker"


def limited(folder: Path, roots: list[str]) -> list[str]:
    """The words before the server's. folder: of Docker's answers. roots: Docker's and containerd's folders, of which it
    sees the images alone."""
    images = [f"{root}/{part}" for root in roots for part in ((_CONTENT,) if root == _CONTAINERD else _IMAGES)]
    sees = [PLACES, "/etc/passwd", "/etc/group", "-/etc/ld.so.cache", f"{folder}:{answers.FOLDER}"]
    # without the mounts below them, which are the containers' own
    sees += [f"-{path}:{path}:norbind" for path in (*images, *CACHES)]
    properties = {
        **_LIMITS,
        "TemporaryFileSystem": " ".join(f"{path}:ro" for path in ("/etc", "/run", *roots)),
        "BindReadOnlyPaths": " ".join(sees),
    }
    words = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--service-type=exec", f"--slice={SLICE}"]
    return [*words, *(f"--property={name}={value}" for name, value in properties.items())]
