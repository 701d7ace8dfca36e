# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything in the lab that is not real, in one place. The lab's README.md has the table of what each part imitates.

``files/`` is laid on a host's disk; ``lookalikes`` puts files over names in /proc, /sys and /dev at a host's boot.
"""

from __future__ import annotations

import re
from pathlib import Path

FILES = Path(__file__).resolve().parent / "files"
# The driver of every host, as the imitation of nvidia-smi names it.
DRIVER = "".join(re.findall(r'^DRIVER = "(.+)"$', (FILES / "nvidia-smi").read_text("utf-8"), re.MULTILINE))

# Where a host has the programs of files/.
PROGRAMS = {
    "/usr/local/sbin/lab-disk": "lab-disk",
    "/usr/local/sbin/lab-nic": "lab-nic",
    "/usr/bin/nvidia-smi": "nvidia-smi",
    "/usr/bin/nvidia-ctk": "nvidia-ctk",
    "/usr/bin/nvidia-container-runtime-hook": "nvidia-container-runtime-hook",
    "/usr/local/sbin/ethtool": "ethtool",
    "/usr/local/sbin/runc": "runc",
    "/usr/local/sbin/swapoff": "swap",
    "/usr/local/sbin/swapon": "swap",
    "/usr/sbin/ibdev2netdev": "ibdev2netdev",
    "/usr/sbin/show_gids": "show_gids",
}
# What Python runs at each start, so that a module's imports are compiled once a host instead of once a task.
START_OF_PYTHON = {
    "/usr/lib/python3/dist-packages/lab_compiled.py": "lab-compiled",
    "/usr/lib/python3/dist-packages/lab_compiled.pth": "lab-compiled.pth",
}
# And its units, with the target that wants each.
UNITS = {"lab-disk.service": "sysinit.target", "lab-nic.service": "sysinit.target", "lab-swap.service": "swap.target"}
DGX_RELEASE = 'DGX_NAME="DGX Spark"\nDGX_PRETTY_NAME="NVIDIA DGX Spark"\nDGX_SWBUILD_VERSION="7.2.3"\n'
