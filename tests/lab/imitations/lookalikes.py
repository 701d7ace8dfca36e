# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look-alikes over names of /proc, /sys and /dev that a user namespace can't change or this kernel lacks.

All of them are ordinary files in the host's /run/lab, new at each boot, mounted over the real name. What is written to
them can be read back and changes nothing on this machine.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from ..kernel import bind, mount
from ..model import RDMA_DEVICES

# Settings of the whole machine in reality. Values: Ubuntu 24.04's own at boot.
KERNEL_SETTINGS = {
    "kernel/numa_balancing": "1",
    "kernel/panic": "0",
    "kernel/panic_on_oops": "0",
    "net/core/netdev_max_backlog": "1000",
    "net/core/optmem_max": "131072",
    "net/core/rmem_default": "212992",
    "net/core/rmem_max": "212992",
    "net/core/wmem_default": "212992",
    "net/core/wmem_max": "212992",
    "vm/compact_memory": "0",
    "vm/compaction_proactiveness": "20",
    "vm/dirty_background_bytes": "0",
    "vm/dirty_background_ratio": "10",
    "vm/dirty_bytes": "0",
    "vm/dirty_expire_centisecs": "3000",
    "vm/dirty_ratio": "20",
    "vm/dirty_writeback_centisecs": "500",
    "vm/drop_caches": "0",
    "vm/max_map_count": "1048576",
    "vm/min_free_kbytes": "67584",
    "vm/nr_hugepages": "0",
    "vm/overcommit_memory": "0",
    "vm/swappiness": "60",
    "vm/vfs_cache_pressure": "100",
    "vm/watermark_scale_factor": "10",
    "vm/zone_reclaim_mode": "0",
}
DEVICE_NODES = (
    "nvidia0",
    "nvidiactl",
    "nvidia-uvm",
    "infiniband/rdma_cm",
    *(f"infiniband/uverbs{number}" for number in range(len(RDMA_DEVICES))),
)
GID_TABLE_SIZE = 16
SWAP_FILE = "/swap.img"
# With it, the package dgx-spark-mlnx-hotplug of DGX OS switches hot-plug on at each boot.
HOTPLUG_MARKER = "/etc/nvidia/cx7-hotplug-enabled"


def install(root: Path) -> None:
    """Over a host's root that has /proc, /sys, /dev and /run mounted and is not yet the process's own root."""
    store = root / "run/lab"
    _kernel_settings(root, store / "proc")
    # Off until lab-swap.service, as swap is at a real boot until systemd has read /etc/fstab.
    bind(_write(store / "swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"), root / "proc/swaps")
    _sysfs(root, store / "sys")
    _link_speed(root, store / "speed")
    for name in DEVICE_NODES:
        node = _write(root / "dev" / name, "")
        bind("/dev/null", node)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _kernel_settings(root: Path, store: Path) -> None:
    settings = KERNEL_SETTINGS | {"kernel/random/boot_id": str(uuid.uuid4())}
    for directory in sorted({str(Path(name).parent) for name in settings}):
        names = {Path(name).name for name in settings if str(Path(name).parent) == directory}
        _make_room_for(names, root / "proc/sys" / directory, store / "room" / directory, store / "real" / directory)
    for name, value in settings.items():
        bind(_write(store / name, f"{value}\n"), root / "proc/sys" / name)


def _make_room_for(names: set[str], directory: Path, room: Path, real: Path) -> None:
    """procfs takes no new files: where one is missing, a directory with all of them and the real ones takes its place.

    A network namespace lacks most of net.core, a kernel built without a feature lacks its settings.
    """
    present = {path.name: path.is_dir() for path in directory.iterdir()}
    if names <= set(present):
        return
    real.mkdir(parents=True)
    bind(directory, real)
    room.mkdir(parents=True)
    for name in sorted(names | set(present)):
        if present.get(name):
            (room / name).mkdir()
        else:
            (room / name).touch()
    bind(room, directory)
    for name in sorted(set(present)):
        bind(real / name, directory / name)


def _sysfs(root: Path, store: Path) -> None:
    """RDMA devices, an NVMe disk and the machine's name: sysfs takes no new directories, an overlay over it does."""
    real_net = root / "run/lab/net"
    real_net.mkdir(parents=True)
    bind(root / "sys/class/net", real_net)
    for device, interface in RDMA_DEVICES.items():
        _rdma_device(store / "class/infiniband" / device, interface)
    names = {"product_name": "NVIDIA_DGX_Spark", "sys_vendor": "NVIDIA", "board_vendor": "NVIDIA"}
    for name, value in (names | {"bios_version": "5.36_0ACUM027"}).items():
        _write(store / "class/dmi/id" / name, f"{value}\n")
    # Without its class: what looks for NVIDIA's driver by that finds no GPU here, as there is no driver.
    for name, value in (("vendor", "0x10de"), ("device", "0x2e12")):
        _write(store / "bus/pci/devices/000f:01:00.0" / name, f"{value}\n")
    hotplug = store / "devices/platform/MTKP0001:00/pcie_hotplug"
    _write(hotplug / "hotplug_enabled", f"{int((root / HOTPLUG_MARKER.lstrip('/')).exists())}\n")
    _write(hotplug / "debug_state", "1\n")
    disk = store / "block/nvme0n1"
    for name, value in (("size", "7814037168"), ("queue/rotational", "0"), ("queue/scheduler", "[none] mq-deadline")):
        _write(disk / name, f"{value}\n")
    read_ahead = _write(disk / "queue/read_ahead_kb", "128\n")
    for part in ("class", "block", "devices/platform", "bus/pci/devices"):
        target = root / "sys" / part
        mount("overlay", target, "overlay", options=f"lowerdir={store / part}:{target},userxattr")
    # An overlay has no writable layer here, and remembers that a name was missing: wrong for what changes.
    bind(store / "class/infiniband", root / "sys/class/infiniband")
    bind(read_ahead, root / "sys/block/nvme0n1/queue/read_ahead_kb")
    bind(real_net, root / "sys/class/net")


def _rdma_device(device: Path, interface: str) -> None:
    _write(device / "device/net" / interface / "phys_port_name", f"p{interface[-1]}\n")
    for name, value in (
        ("hca_type", "MT4129"),
        ("fw_ver", "28.45.4028"),
        ("board_id", "NVD0000000087"),
        ("node_type", "1: CA"),
        ("ports/1/link_layer", "Ethernet"),
        ("ports/1/rate", "200 Gb/sec (4X HDR)"),
    ):
        _write(device / name, f"{value}\n")
    # Filled by lab-nic.
    for name in ("state", "phys_state"):
        _write(device / "ports/1" / name, "")
    for index in range(GID_TABLE_SIZE):
        for table in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
            _write(device / "ports/1" / table / str(index), "")


def _link_speed(root: Path, store: Path) -> None:
    for interface in RDMA_DEVICES.values():
        target = root / "sys/devices/virtual/net" / interface / "speed"
        bind(_write(store / interface, "-1\n"), target)
