# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this machine must have, and the words that say what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .console import announce
from .errors import LabError

PYTHON = "/usr/bin/python3"
DEBIAN_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# A program or file, and Debian's and Ubuntu's package that brings it.
_PACKAGES = {
    PYTHON: "python3",
    "ip": "iproute2",
    "tc": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "mount": "mount",
    "nsenter": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "strip": "binutils",
    "tar": "tar",
    "unshare": "util-linux",
    DEBIAN_KEYS: "debian-archive-keyring",
}


def missing_packages() -> list[str]:
    return sorted({package for need, package in _PACKAGES.items() if not _is_there(need)})


def _is_there(need: str) -> bool:
    return Path(need).exists() if need.startswith("/") else shutil.which(need) is not None


def complete_path() -> str:
    """Debian's `su` keeps a user's PATH, which leaves out the administrator's programs."""
    return os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"


def check() -> None:
    """Refuses before anything is touched."""
    if os.geteuid() != 0:
        raise LabError("the lab needs root on this machine (it makes user, network and mount namespaces): use sudo")
    missing = missing_packages()
    if missing:
        raise LabError(
            f"this machine lacks {', '.join(missing)}; type: apt-get install -y {' '.join(missing)} (or: lab deps)"
        )


def install() -> None:
    """``lab deps``: installs what is missing, after saying so."""
    missing = missing_packages()
    if not missing:
        announce("everything that the lab needs is installed")
        return
    if os.geteuid() != 0:
        raise LabError(f"installing {', '.join(missing)} needs root: use sudo")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *missing]):
        announce("running: " + " ".join(command))
        if subprocess.run(command, env=environment, check=False).returncode != 0:
            raise LabError(f"`{' '.join(command)}` failed: see its own words above")
