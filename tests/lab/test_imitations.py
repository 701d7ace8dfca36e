# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What isn't real says what a Spark would say, and changes nothing on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from .fixtures import Fleet, eventually
from .imitations import DRIVER
from .imitations.lookalikes import KERNEL_SETTINGS
from .model import RDMA_DEVICES

HOST = "spark-2"
PORT = "enp1s0f1np1"
DEVICE = "rocep1s0f1"


def reboot(fleet: Fleet) -> None:
    fleet.lab("power", "cycle", HOST)
    running = "systemctl is-system-running"
    eventually(lambda: fleet.root(HOST, running, check=False).strip() in ("running", "degraded"), "booted")


def gid_rows(fleet: Fleet) -> list[tuple[str, str]]:
    """(type, gid) by index of one device, without the empty rows."""
    table = f"/sys/class/infiniband/{DEVICE}/ports/1"
    text = fleet.root(
        HOST,
        f'cd {table}; for i in gids/*; do i=${{i#gids/}}; echo "$i $(cat gids/$i) $(cat gid_attrs/types/$i)"; done',
    )
    rows = sorted((int(line.split(" ")[0]), line.split(" ", 2)[1:]) for line in text.splitlines())
    return [(kind, gid) for _, (gid, kind) in rows if kind]


def test_gids_come_in_mlx5s_order_and_follow_the_addresses(fleet: Fleet) -> None:
    fleet.root(HOST, f"ip address add 192.168.100.2/24 dev {PORT}")
    mapped = "0000:0000:0000:0000:0000:ffff:c0a8:6402"
    kinds = ["IB/RoCE v1", "RoCE v2"]
    eventually(lambda: [k for k, gid in gid_rows(fleet) if gid == mapped] == kinds, "the address has its two entries")
    # NetworkManager may have given the port a link-local address of its own by now, which has two entries as well
    rows = gid_rows(fleet)
    assert [kind for kind, _ in rows] == kinds * (len(rows) // 2)
    assert rows[0][1].startswith("fe80:")
    fleet.root(HOST, f"ip address del 192.168.100.2/24 dev {PORT}")
    eventually(lambda: mapped not in [gid for _, gid in gid_rows(fleet)], "the entries are gone")


def test_rdma_tools_name_every_device(fleet: Fleet) -> None:
    eventually(lambda: f"{DEVICE} port 1 ==> {PORT} (Up)" in fleet.ssh(HOST, "ibdev2netdev"), "the cabled port is Up")
    assert len(fleet.ssh(HOST, "ibdev2netdev").splitlines()) == len(RDMA_DEVICES)
    *rows, count = [line.split() for line in fleet.ssh(HOST, "show_gids").splitlines()[2:]]
    assert count == [f"n_gids_found={len(rows)}"]
    named = {(row[0], kind) for row in rows for kind in row if kind in ("v1", "v2")}
    assert named == {(device, kind) for device in RDMA_DEVICES for kind in ("v1", "v2")}


def test_link_speed_is_that_of_a_connectx7(fleet: Fleet) -> None:
    eventually(lambda: fleet.ssh(HOST, f"cat /sys/class/net/{PORT}/speed") == "200000\n", "speed of the cabled port")
    assert "Speed: 200000Mb/s" in fleet.ssh(HOST, f"ethtool {PORT}")
    assert "driver: mlx5_core" in fleet.ssh(HOST, f"ethtool -i {PORT}")
    assert "Speed: Unknown!" in fleet.ssh("titan", f"ethtool {PORT}")
    assert fleet.ssh(HOST, f"cat /sys/class/infiniband/{DEVICE}/device/net/{PORT}/phys_port_name") == "p1\n"


def test_nvidia_smi_answers_as_on_a_gb10(fleet: Fleet) -> None:
    query = "nvidia-smi --query-gpu=name,memory.total,compute_cap,driver_version --format=csv,noheader"
    assert fleet.ssh(HOST, query) == f"NVIDIA GB10, [N/A], 12.1, {DRIVER}\n"
    assert fleet.lab("ssh", HOST, "nvidia-smi --query-gpu=nonsense", check=False).returncode == 2
    assert "NVIDIA GB10" in fleet.ssh(HOST, "nvidia-smi")
    assert "DGX Spark" in fleet.ssh(HOST, "cat /etc/dgx-release")


@pytest.mark.parametrize("setting", KERNEL_SETTINGS)
def test_kernel_settings_are_there_even_where_this_kernel_lacks_them(fleet: Fleet, setting: str) -> None:
    assert fleet.root("titan", f"cat /proc/sys/{setting}").strip() == KERNEL_SETTINGS[setting]


def test_kernel_settings_can_be_set_and_a_boot_resets_them(fleet: Fleet) -> None:
    machine = Path("/proc/sys/vm/swappiness").read_text()
    fleet.root(HOST, "sysctl -w vm.swappiness=1 vm.dirty_bytes=268435456 && echo 3 > /proc/sys/vm/drop_caches")
    assert fleet.root(HOST, "sysctl -n vm.swappiness vm.dirty_bytes") == "1\n268435456\n"
    assert Path("/proc/sys/vm/swappiness").read_text() == machine
    fleet.root(HOST, "echo 'vm.dirty_background_bytes = 134217728' > /etc/sysctl.d/60-test.conf; sysctl --system")
    reboot(fleet)
    assert fleet.root(HOST, "sysctl -n vm.swappiness vm.dirty_background_bytes") == "60\n134217728\n"
    fleet.root(HOST, "rm /etc/sysctl.d/60-test.conf")


@pytest.mark.parametrize(
    ("keep_off", "undo"),
    [
        ("sed -i 's|^/swap|#/swap|' /etc/fstab", "sed -i 's|^#/swap|/swap|' /etc/fstab"),
        ("systemctl mask swap.target", "systemctl unmask swap.target"),
    ],
)
def test_swap_can_be_switched_off_and_kept_off(fleet: Fleet, keep_off: str, undo: str) -> None:
    assert "/swap.img" in fleet.root(HOST, "swapon --show")
    fleet.root(HOST, "swapoff -a")
    assert fleet.root(HOST, "swapon --show") == ""
    fleet.root(HOST, keep_off)
    reboot(fleet)
    assert fleet.root(HOST, "swapon --show") == ""
    fleet.root(HOST, undo)
    reboot(fleet)
    assert "/swap.img" in fleet.root(HOST, "swapon --show")


def test_read_ahead_can_be_written_and_a_udev_rule_keeps_it(fleet: Fleet) -> None:
    name = "/sys/block/nvme0n1/queue/read_ahead_kb"
    assert fleet.root(HOST, f"cat {name}; echo 4096 > {name}; cat {name}") == "128\n4096\n"
    rule = 'ACTION=="add|change", KERNEL=="nvme*n*", ATTR{queue/read_ahead_kb}="8192"'
    fleet.root(HOST, f"echo '{rule}' > /etc/udev/rules.d/60-test.rules")
    reboot(fleet)
    eventually(lambda: fleet.root(HOST, f"cat {name}") == "8192\n", "udev has come to the disk")
    fleet.root(HOST, "rm /etc/udev/rules.d/60-test.rules")
    reboot(fleet)
    assert fleet.root(HOST, f"cat {name}") == "128\n"


def test_new_interfaces_appear_in_sysfs(fleet: Fleet) -> None:
    """The overlay over /sys/class must not remember that a name was missing."""
    look = "ls /sys/class/net/new0/address"
    assert (
        fleet.root(HOST, f"{look}; ip link add new0 type bridge; {look}; ip link del new0", check=False).count("new0")
        == 1
    )


def test_device_nodes_and_container_device_description(fleet: Fleet) -> None:
    assert fleet.ok(HOST, "test -c /dev/nvidia0 && test -c /dev/infiniband/uverbs3")
    assert "nvidia.com/gpu=all" in fleet.root(HOST, "nvidia-ctk cdi list")
