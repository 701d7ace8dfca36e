# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what a machine brings along before anybody configures it: firmware, GPU, packages at work, sudo, network."""

import fcntl
import os
import re
import shutil
import socket
import ssl
import struct
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..._base.layout import UPDATE_RECORD
from . import nvidia_smi
from .parts import Part, Run, UnreadableError
from .parts import text_of as _text

_DMI = Path("/sys/class/dmi/id")
_NET = Path("/sys/class/net")
_PCI = Path("/sys/bus/pci")
_NVIDIA = "0x10de"
# `struct flock` of Linux on 64 bits: type, whence, start, length, process.
_FLOCK = "hhqqi4x"
# What apt, dpkg and their front ends lock, whoever they are.
_PACKAGE_LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock")
# What shows that a host has a package that roles install, by whatever package: a program, of the package's name but for
# these.
_PROGRAMS: Mapping[str, str] = {
    "docker.io": "docker",
    "ibverbs-utils": "ibv_devices",
    "nftables": "nft",
    "nvidia-container-toolkit": "nvidia-ctk",
    "perftest": "ib_write_bw",
}
_CDI = ("/etc/cdi", "/var/run/cdi")
_CDI_KIND = "nvidia.com/gpu"
# Libraries of the driver have its release in their names; others have numbers of their own.
_LIBRARY = re.compile(r"(?<![\w.])/[\w./+-]+\.so\.(\d{3,}(?:\.\d+)+)\b")
_BOOT = Path("/boot")
_CONNECT_S = 5.0
# Below it a GPU that computes is ill, or has just ended.
_CALM_MHZ = 1800
# Programs of administrators are not on everybody's path.
_SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def dgx_release(text: str) -> dict[str, str]:
    """``/etc/dgx-release``: ``KEY="value"`` lines; the last over-the-air update counts, there is one line for each."""
    return dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))


def read_platform() -> dict[str, str | None]:
    """``{ota, release, bios, vendor, product}``; None where the machine does not show it."""
    release = dgx_release(_text(Path("/etc/dgx-release")))
    names = {"bios": "bios_version", "vendor": "sys_vendor", "product": "product_name"}
    return {
        "ota": release.get("DGX_OTA_VERSION") or release.get("DGX_SWBUILD_VERSION"),
        "release": release.get("DGX_NAME"),
        **{name: _text(_DMI / file) or None for name, file in names.items()},
    }


def read_gpu(run: Run) -> dict[str, Any]:
    """``{present, module, closed, users, why}``: whether the bus has NVIDIA's GPU, whether the running kernel has a
    module for it, and NVIDIA's closed one, how many programs compute on it, and why it does not answer, empty where it
    does. Of one that answers also what `nvidia_smi.shown` finds."""
    present = _has_gpu()
    try:
        code, license_name, _err = run(["modinfo", "--field", "license", "nvidia"])
    except FileNotFoundError:
        code, license_name = 0 if Path("/sys/module/nvidia").exists() else 1, ""
    found = {"present": present, "module": code == 0, "closed": license_name.strip() == "NVIDIA", "users": 0, "why": ""}
    return {**found, **(_asked(run) if present else {})}


def _asked(run: Run) -> dict[str, Any]:
    try:
        code, out, err = run(["nvidia-smi", "--query"])
    except FileNotFoundError:
        return {"why": nvidia_smi.MISSING}
    except UnreadableError as error:  # it hangs: the other facts are read beside it
        return {"why": str(error)}
    why = nvidia_smi.trouble(code, out, err)
    return {"why": why} if why else nvidia_smi.shown(out)


def read_calm(run: Run, pause: float = 2.0) -> dict[str, Any]:
    """`read_gpu`, twice where a moment may deceive: a GPU at its end of work is busy by its last second, and slow."""
    found = read_gpu(run)
    figures = found.get("figures", {})
    if figures.get("use_percent", 0) and figures.get("clock_mhz", 0) < _CALM_MHZ:
        time.sleep(pause)
        return read_gpu(run)
    return found


def _has_gpu() -> bool:
    devices = ((_text(path / "vendor"), _text(path / "class")) for path in (_PCI / "devices").glob("*"))
    return any(vendor == _NVIDIA and kind.startswith("0x03") for vendor, kind in devices)


def networks(routes: str) -> dict[str, list[str]]:
    """``{interface: its IPv4 networks}`` of /proc/net/route's text, without default routes."""
    found: dict[str, list[str]] = {}
    for row in (line.split() for line in routes.splitlines()[1:]):
        if len(row) > 7 and row[7] != "00000000":
            address, mask = (socket.inet_ntoa(struct.pack("<L", int(row[at], 16))) for at in (1, 7))
            found.setdefault(row[0], []).append(f"{address}/{mask}")
    return found


def read_networks() -> dict[str, list[str]]:
    """`networks` of this machine."""
    return networks(_text(Path("/proc/net/route")))


def fragments(buddyinfo: str, page: int) -> dict[str, int]:
    """``{free, huge}`` in bytes of /proc/buddyinfo's text: all free pages, and those in blocks of 2 MiB or more."""
    counts = [line.split()[4:] for line in buddyinfo.splitlines()]
    sizes = [(page << order, int(count)) for row in counts for order, count in enumerate(row)]
    return {
        "free": sum(block * count for block, count in sizes),
        "huge": sum(block * count for block, count in sizes if block >= 2 << 20),
    }


def read_packages_at_work() -> dict[str, Any]:
    """``{holders, unproved}``: the programs that hold a lock of the package manager now, and whether an update of ours
    was cut off before the host had proved itself."""
    pids = {lock_holder(Path(path)) for path in _PACKAGE_LOCKS} - {None}
    return {"holders": sorted({_command(str(pid)) for pid in pids}), "unproved": Path(UPDATE_RECORD).exists()}


def lock_holder(path: Path) -> int | None:
    """Process id of who holds a lock of fcntl(2) on a file, as apt and dpkg take it; None: nobody, or no such file.

    Takes no lock. The kernel is asked, since /proc/locks knows a file by a number that isn't stat's on an overlay.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        answer = fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    finally:
        os.close(file)
    kind, _whence, _start, _length, pid = struct.unpack(_FLOCK, answer)
    return None if kind == fcntl.F_UNLCK else int(pid)


def _command(pid: str) -> str:
    return _text(Path("/proc", pid, "comm")) or f"process {pid}"


def read_installs(run: Run, packages: Iterable[str]) -> dict[str, list[dict[str, str]] | None]:
    """What apt would do (`simulated`) for each of these packages that is missing here: a second of work each.

    It is asked by the package lists that the host has, and takes no lock; None where apt can't install it by them.
    NVIDIA's toolkit is left out where there is no GPU.
    """
    useless = set() if _has_gpu() else {"nvidia-container-toolkit"}
    wanted = {name for name in packages if name not in useless}
    missing = sorted(name for name in wanted if shutil.which(_PROGRAMS.get(name, name), path=_SEARCH) is None)
    answers = {name: _simulate(run, name) for name in missing}
    return {name: None if out is None else simulated(out) for name, out in answers.items()}


def _simulate(run: Run, package: str) -> str | None:
    try:
        code, out, _err = run(["apt-get", "--option", "Debug::NoLocking=true", "--simulate", "install", package])
    except FileNotFoundError:
        return None
    return out if code == 0 else None


def simulated(text: str) -> list[dict[str, str]]:
    """``{action, package, have, version}`` of each line of ``apt-get --simulate``; action: install, upgrade, remove.

    have and version are empty where there is none.
    """
    found = re.findall(r"^(Inst|Remv) (\S+)(?: \[([^]]*)\])?(?: \((\S+))?", text, re.MULTILINE)
    return [
        {
            "action": "remove" if verb == "Remv" else "upgrade" if have else "install",
            "package": name,
            "have": have,
            "version": version,
        }
        for verb, name, have, version in found
    ]


def asks_password(listed: str) -> bool | None:
    """Whether sudo asks this account for its password, from ``sudo -l -U``'s text; None where it may run nothing."""
    entries = re.findall(r"^[ \t]+\(.*", listed, re.MULTILINE)
    return not any("NOPASSWD:" in entry for entry in entries) if entries else None


def read_sudo(run: Run) -> dict[str, Any]:
    """``{password}``: whether sudo asks the account that Ansible came in by; None where it did not come by sudo."""
    user = os.environ.get("SUDO_USER", "")
    if user in ("", "root"):
        return {"password": None}
    _code, listed, _err = run(["sudo", "-n", "-l", "-U", user])
    return {"password": asks_password(listed)}


def read_network(run: Run) -> dict[str, Any]:
    """``{renderers, wifi, default, desktop}``: who manages the network, Wi-Fi devices with their drivers, and the
    interface of the default route; desktop: whether a graphical session is offered."""
    active = {
        name: run(["systemctl", "is-active", f"{unit}.service"])[1].strip() == "active"
        for name, unit in (("NetworkManager", "NetworkManager"), ("networkd", "systemd-networkd"))
    }
    wifi = {
        path.name: (path / "device" / "driver").resolve().name
        for path in sorted(_NET.glob("*"))
        if (path / "phy80211").exists()
    }
    desktop = run(["systemctl", "is-active", "display-manager.service"])[1].strip() == "active"
    return {
        "renderers": [name for name, is_active in active.items() if is_active],
        "wifi": wifi,
        "default": default_interfaces(_text(Path("/proc/net/route"))),
        "desktop": desktop,
    }


def default_interfaces(routes: str) -> list[str]:
    """The interfaces of the default routes in /proc/net/route's text, the preferred first."""
    rows = [line.split() for line in routes.splitlines()[1:]]
    found = sorted((int(row[6]), row[0]) for row in rows if len(row) > 7 and row[1] == row[7] == "00000000")
    return list(dict.fromkeys(name for _metric, name in found))


def read_cdi_drivers() -> dict[str, dict[str, list[str]]]:
    """``{specification: {versions, missing}}`` of the files by which containers get NVIDIA's GPU: the driver's versions
    in the names of its libraries, and which of these are no files."""
    files = (path for folder in _CDI for path in sorted(Path(folder).glob("*")) if path.suffix in (".yaml", ".json"))
    return {str(path): named_libraries(text) for path in files if _CDI_KIND in (text := _text(path))}


def named_libraries(text: str) -> dict[str, list[str]]:
    found = {match[0]: match[1] for match in _LIBRARY.finditer(text)}
    gone = sorted(path for path in found if not Path(path).exists())
    return {"versions": sorted({*found.values()}), "missing": gone[:3]}


def read_boot() -> dict[str, Any]:
    """``{kernels, entries, default, driver}``: what the next restart brings. kernels: installed. entries, default: as
    `boot_menu`. driver: of the libraries on the disk, None where there are none."""
    names = (path.name for path in Path("/usr/lib").glob("*/libcuda.so.*"))
    versions = {match[1] for name in names if (match := re.fullmatch(r"libcuda\.so\.(\d{3,}(?:\.\d+)+)", name))}
    menu = boot_menu(_text(_BOOT / "grub" / "grub.cfg"), _text(_BOOT / "grub" / "grubenv"))
    return {
        "kernels": sorted(path.name.removeprefix("vmlinuz-") for path in _BOOT.glob("vmlinuz-*")),
        **menu,
        "driver": max(versions, key=lambda text: [int(number) for number in text.split(".")], default=None),
    }


def boot_menu(config: str, environment: str) -> dict[str, Any]:
    """``{entries, default}`` of GRUB's grub.cfg and grubenv: kernel and command line of each entry, in order, and which
    of them is started: a number, ``1>2`` below a menu, or a title."""
    entries = re.findall(r"^[ \t]*linux[ \t]+\S*/vmlinuz-(\S+)[ \t]*(.*)$", config, re.MULTILINE)
    kept = dict(re.findall(r"^(\w+)=(.+)$", environment, re.MULTILINE))
    asked = [
        text for text in re.findall(r'^[ \t]*set default="(.*)"$', config, re.MULTILINE) if text != "${next_entry}"
    ]
    default = asked[0] if asked else "0"
    saved = kept.get("saved_entry", "0") if default == "${saved_entry}" else default
    return {
        "entries": [{"release": release, "cmdline": words.strip()} for release, words in entries],
        "default": kept.get("next_entry") or saved,
    }


def read_iommu() -> dict[str, str]:
    """The type of the IOMMU group of each ConnectX function, by its PCI address."""
    found = {path.name: _text(path / "iommu_group" / "type") for path in (_PCI / "drivers" / "mlx5_core").glob("*:*")}
    return {name: kind for name, kind in sorted(found.items()) if kind}


def read_reach(servers: Iterable[str]) -> dict[str, str]:
    """``{server: why}`` for each HTTPS server by name, an empty text for one that answers with a good certificate.

    Where the host goes out by a proxy nothing is asked: the programs that fetch know it, and this does not.
    """
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy")):
        return {}
    return {server: _reached(server) for server in servers}


def _reached(server: str) -> str:
    name, _, port = server.partition(":")
    try:
        with (
            socket.create_connection((name, int(port or 443)), _CONNECT_S) as connection,
            ssl.create_default_context().wrap_socket(connection, server_hostname=name),
        ):
            return ""
    except (OSError, ValueError) as error:
        return str(error) or type(error).__name__


READS: Mapping[str, Part] = {
    "platform": lambda _run, _ask: read_platform(),
    "gpu": lambda run, _ask: read_calm(run),
    "apt": lambda _run, _ask: read_packages_at_work(),
    "installs": lambda run, ask: read_installs(run, ask["installs"]),
    "sudo": lambda run, _ask: read_sudo(run),
    "network": lambda run, _ask: read_network(run),
    "fragments": lambda _run, _ask: fragments(_text(Path("/proc/buddyinfo")), os.sysconf("SC_PAGE_SIZE")),
    "cdi_drivers": lambda _run, _ask: read_cdi_drivers(),
    "boot": lambda _run, _ask: read_boot(),
    "iommu": lambda _run, _ask: read_iommu(),
    "reach": lambda _run, ask: read_reach(ask["reach"]),
}
