# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's disk has beyond the common base: its names, keys, management address, and the imitations' programs."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from . import imitations
from .imitations.lookalikes import HOTPLUG_MARKER, SWAP_FILE
from .model import MANAGEMENT_INTERFACE, PREFIX_LENGTH, Lab

OWNER = "nvidia"
# Made with the account, image/customize.sh.
OWNER_PASSWORD = "nvidia"
_OWNER_ID = 1000
_SWAP_BYTES = 16 << 30
# sudo asks PAM, whose helper closes every descriptor that it might have, one by one: with a hard limit of 20,000 that
# was a tenth of a host's processor time in a scenario. What systemd starts itself, Docker above all, has its own.
_SESSION_LIMITS = "[Service]\nLimitNOFILE=1024:4096\n"
_UNITS = "/etc/systemd/system"
# As Ubuntu's desktops have it, and DGX OS. Without it netplan's renderer is networkd.
_DESKTOPS_NETPLAN = (
    "/usr/lib/netplan/00-network-manager-all.yaml",
    "network:\n  version: 2\n  renderer: NetworkManager\n",
)
# What starts each of netplan's renderers. A host with networkd has no NetworkManager, as Ubuntu's servers; the other
# way round networkd is there and not started, as on its desktops and on DGX OS.
_RENDERER_LINKS = {
    "NetworkManager": {
        "multi-user.target.wants/NetworkManager.service": "/usr/lib/systemd/system/NetworkManager.service",
        "network-online.target.wants/NetworkManager-wait-online.service": (
            "/usr/lib/systemd/system/NetworkManager-wait-online.service"
        ),
        "dbus-org.freedesktop.nm-dispatcher.service": "/usr/lib/systemd/system/NetworkManager-dispatcher.service",
    },
    "networkd": {
        "multi-user.target.wants/systemd-networkd.service": "/usr/lib/systemd/system/systemd-networkd.service",
        "network-online.target.wants/systemd-networkd-wait-online.service": (
            "/usr/lib/systemd/system/systemd-networkd-wait-online.service"
        ),
        "sockets.target.wants/systemd-networkd.socket": "/usr/lib/systemd/system/systemd-networkd.socket",
        "dbus-org.freedesktop.network1.service": "/usr/lib/systemd/system/systemd-networkd.service",
        "NetworkManager.service": "/dev/null",
    },
}


@dataclass(frozen=True)
class File:
    path: str
    text: str
    mode: int = 0o644
    owner: int = 0


@dataclass(frozen=True)
class HostKey:
    """An OpenSSH host key pair, as the contents of its two files."""

    private: str
    public: str


def host_files(lab: Lab, lab_id: str, host: str, key: HostKey, authorized: str) -> list[File]:
    """Everything that is this host's own. ``authorized``: the public key of the lab's user."""
    machine_id = hashlib.md5(f"{lab_id}/{host}".encode(), usedforsecurity=False).hexdigest()
    tag = "NOPASSWD:" if lab.passwordless_sudo else ""
    return [
        File("/etc/machine-id", f"{machine_id}\n"),
        File("/etc/hostname", f"{host}\n"),
        File("/etc/hosts", _hosts_table(lab, host)),
        File("/etc/netplan/00-lab-management.yaml", _management_netplan(lab.address(host)), 0o600),
        *([File(*_DESKTOPS_NETPLAN, 0o600)] if lab.renderer == "NetworkManager" else []),
        *([File(HOTPLUG_MARKER, "")] if lab.hotplug else []),
        File(f"/etc/sudoers.d/{OWNER}", f"{OWNER} ALL=(ALL) {tag}ALL\n", 0o440),
        File("/etc/fstab", f"{SWAP_FILE} none swap sw 0 0\n"),
        File("/etc/dgx-release", imitations.DGX_RELEASE),
        File("/etc/ssh/ssh_host_ed25519_key", key.private, 0o600),
        File("/etc/ssh/ssh_host_ed25519_key.pub", key.public),
        File(f"{_UNITS}/ssh.service.d/lab.conf", _SESSION_LIMITS),
        File(f"/home/{OWNER}/.ssh/authorized_keys", authorized, 0o600, _OWNER_ID),
        *(File(f"/etc/systemd/system/{unit}", (imitations.FILES / unit).read_text()) for unit in imitations.UNITS),
        *(File(path, (imitations.FILES / name).read_text(), 0o755) for path, name in imitations.PROGRAMS.items()),
        *(File(path, (imitations.FILES / name).read_text()) for path, name in imitations.START_OF_PYTHON.items()),
    ]


def host_links(renderer: str) -> dict[str, str]:
    """Symbolic links of this host's own: where each leads. Its units are started by them."""
    imitated = {f"{target}.wants/{unit}": f"../{unit}" for unit, target in imitations.UNITS.items()}
    return {f"{_UNITS}/{name}": target for name, target in (imitated | _RENDERER_LINKS[renderer]).items()}


def _hosts_table(lab: Lab, host: str) -> str:
    others = "".join(f"{lab.address(name)} {name}\n" for name in lab.hosts)
    return f"127.0.0.1 localhost\n127.0.1.1 {host}\n{others}"


def _management_netplan(address: str) -> str:
    return (
        "network:\n  version: 2\n  ethernets:\n"
        f"    {MANAGEMENT_INTERFACE}:\n      addresses: [{address}/{PREFIX_LENGTH}]\n      link-local: []\n"
    )


def write(directory: Path, files: list[File], links: dict[str, str]) -> None:
    """The host's layer: ``upper`` has files and links, and Docker's stores lie beside it (no overlay on an overlay)."""
    for name in ("upper", "work", "docker", "containerd"):
        (directory / name).mkdir(mode=0o755)
    upper = directory / "upper"
    for file in files:
        path = upper / file.path.lstrip("/")
        _make_parents(path, upper, file.owner)
        path.write_text(file.text)
        path.chmod(file.mode)
        os.chown(path, file.owner, file.owner)
    for name, target in links.items():
        link = upper / name.lstrip("/")
        _make_parents(link, upper, 0)
        link.symlink_to(target)
    swap = upper / SWAP_FILE.lstrip("/")
    swap.touch(0o600)
    os.truncate(swap, _SWAP_BYTES)


def _make_parents(path: Path, upper: Path, owner: int) -> None:
    """Directories of the base appear here with the base's ownership: all are root's but the owner's home."""
    for parent in reversed(path.relative_to(upper).parents[:-1]):
        directory = upper / parent
        if not directory.exists():
            in_home = parent.parts[0] == "home" and len(parent.parts) > 1
            directory.mkdir()
            directory.chmod(0o700 if in_home else 0o755)
            os.chown(directory, owner if in_home else 0, owner if in_home else 0)
