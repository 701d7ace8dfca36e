# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on services over several hosts."""

import ipaddress
import re

from ...._base.place import argv, env
from ._base import Hit, Hits, rule, show
from .launch import Launch

# What an owner silences who runs a Ray that asks for no token.
OPEN_RAY = "R158"


def _devices(launch: Launch) -> list[str]:
    """The devices in NCCL_IB_HCA, without its prefix and port numbers."""
    text = launch.env.get("NCCL_IB_HCA", "").lstrip("=^")
    return [part.split(":")[0] for part in text.split(",") if part]


def _over_rdma(launch: Launch) -> bool:
    return (
        bool(_devices(launch)) and launch.env.get("NCCL_NET") != "Socket" and launch.env.get("NCCL_IB_DISABLE") != "1"
    )


@rule("R140")
def ranks_and_hosts(launch: Launch) -> Hits:
    """A group whose ranks aren't its hosts."""
    hosts = launch.hosts or 1
    if hosts > 1 and launch.world_size != hosts * launch.host.gpus and not launch.has("--data-parallel-size"):
        yield Hit(argv("--tensor-parallel-size"), f"{launch.world_size} ranks on {hosts} hosts")


@rule("R146")
def rdma_needs(launch: Launch) -> Hits:
    """RDMA without its device or pinned memory."""
    if not _over_rdma(launch) or launch.container is None or "privileged" in launch.container:
        return
    device = any("infiniband" in value for value in launch.container.get("device", ()))
    pinned = any(value.startswith("memlock=-1") for value in launch.container.get("ulimit", ()))
    allowed = any(value.removeprefix("CAP_") == "IPC_LOCK" for value in launch.container.get("cap-add", ()))
    if not device:
        yield Hit("container --device", "no /dev/infiniband")
    if not pinned and not allowed:
        yield Hit("container --ulimit", "no memlock=-1")


@rule("R148")
def ngc_plugin(launch: Launch) -> Hits:
    """RDMA in an NGC container with its plugin on."""
    wanted = {"NCCL_NET_PLUGIN": "none", "NCCL_DMABUF_ENABLE": "0", "NCCL_NET_GDR_C2C": "0"}
    if launch.family != "ngc" or not _over_rdma(launch):
        return
    for name, value in wanted.items():
        if launch.env.get(name) != value:
            yield Hit(env(name), show(launch.env.get(name)), expected=value)


@rule("R149")
def device_without_address(launch: Launch) -> Hits:
    """A device in NCCL_IB_HCA whose interface has no IPv4 address."""
    addresses = launch.host.rdma_addresses
    for device in _devices(launch):
        if addresses and not addresses.get(device):
            yield Hit(env("NCCL_IB_HCA"), f"{device} has no address")


@rule("R151")
def two_rails(launch: Launch) -> Hits:
    """Two devices in NCCL_IB_HCA."""
    if len(_devices(launch)) > 1:
        yield Hit(env("NCCL_IB_HCA"), launch.env["NCCL_IB_HCA"])


@rule("R154")
def different_revisions(launch: Launch) -> Hits:
    """A group whose hosts have different revisions."""
    if len(set(launch.group.revisions)) > 1:
        yield Hit("group", ", ".join(sorted(set(launch.group.revisions))))


@rule("R155")
def address_on_fabric(launch: Launch) -> Hits:
    """A service that is advertised on the fabric."""
    address = launch.service.address or ""
    if re.fullmatch(r"[0-9.]+", address) and _within(address, launch.group.fabric_addresses):
        yield Hit("service", address)


@rule("X18")
def nccl_of_a_ring(launch: Launch) -> Hits:
    """A ring with an NCCL that can't route in one, or whose release nobody knows."""
    if launch.env.get("NCCL_IB_SUBNET_AWARE_ROUTING") != "1" or not _over_rdma(launch) or launch.family is None:
        return
    if {"VLLM_NCCL_SO_PATH", "LD_PRELOAD"} & launch.env.keys():
        return
    if launch.family != "upstream":
        remedy = "see whether `grep -rl IB_SUBNET_AWARE_ROUTING / --include=libnccl*` in it finds its NCCL; then "
        yield Hit("image", "nobody knows its NCCL", "warning", remedy=f"{remedy}silence this rule")
    elif launch.before("0.33.0"):
        yield Hit("image", "its NCCL is 2.29.7 or older")


def _within(address: str, networks: tuple[str, ...]) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
        return any(parsed in ipaddress.ip_network(network, strict=False) for network in networks)
    except ValueError:
        return False
