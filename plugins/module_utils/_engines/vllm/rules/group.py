# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on services over several hosts."""

import ipaddress
import re

from ...._base.gb10 import fact
from ...._base.place import argv, env
from ._base import Hit, Hits, rule, show
from .launch import Launch

_EXECUTOR = argv("--distributed-executor-backend")
_MTU: int = fact("fabric", "mtu")
# What an owner silences who runs a Ray that asks for no token.
OPEN_RAY = "R158"
_INTERFACES = ("GLOO_SOCKET_IFNAME", "UCX_NET_DEVICES")


def _devices(launch: Launch) -> list[str]:
    """The devices in NCCL_IB_HCA, without its prefix and port numbers."""
    text = launch.env.get("NCCL_IB_HCA", "").lstrip("=^")
    return [part.split(":")[0] for part in text.split(",") if part]


def _over_rdma(launch: Launch) -> bool:
    return (
        bool(_devices(launch)) and launch.env.get("NCCL_NET") != "Socket" and launch.env.get("NCCL_IB_DISABLE") != "1"
    )


@rule(
    "R139",
    "hint",
    lasts="operation",
    needs=("container", "group.hosts", "service.restarts=false"),
    expected="a bounded restart on every host",
    remedy="take --restart on-failure:10, or leave it to the service's unit",
    reason="a rank that dies takes the group with it",
    source="cluster owner's notes, auto-restart",
)
def group_without_restart(launch: Launch) -> Hits:
    """A group whose containers nobody restarts."""
    if not launch.spread or launch.container is None or launch.service.restarts:
        return
    if "restart" not in launch.container:
        yield Hit("container --restart", "not given")


@rule(
    "R140",
    "error",
    lasts="machine",
    needs=("group.hosts",),
    expected="one rank for each host",
    remedy="make --tensor-parallel-size times --pipeline-parallel-size the number of hosts",
    reason="a GB10 has one GPU",
    source="Spark guide, section 13",
)
def ranks_and_hosts(launch: Launch) -> Hits:
    """A group whose ranks aren't its hosts."""
    hosts = launch.hosts or 1
    if hosts > 1 and launch.world_size != hosts * launch.host.gpus and not launch.has("--data-parallel-size"):
        yield Hit(argv("--tensor-parallel-size"), f"{launch.world_size} ranks on {hosts} hosts")


@rule(
    "R141",
    {"0.11.0..0.16.0": "warning", "0.17.0..": "hint"},
    lasts="measured",
    needs=("group.hosts",),
    expected="--enforce-eager over several hosts",
    remedy="write it; from 0.17.0 on compare both",
    reason="with Ray's compiled DAG graphs halved the speed of one request; recipes of August 2026 run graphs",
    source="cluster owner's notes, eager mode; vllm-project/recipes, DeepSeek-V4 on two GB10",
)
def graphs_in_group(launch: Launch) -> Hits:
    """CUDA graphs over several hosts."""
    if launch.spread and not launch.switch("--enforce-eager"):
        yield Hit(argv("--enforce-eager"), "not given")


@rule(
    "R142",
    {"0.11.0..0.20.2": "error"},
    expected="no --async-scheduling with Ray",
    remedy="drop it, or use --nnodes without Ray",
    reason="ValueError up to 0.20.2; from 0.21.0 on Ray's second executor supports it (X2)",
    source="cluster owner's notes, Notes; vllm/config/vllm.py",
)
def async_with_ray(launch: Launch) -> Hits:
    """--async-scheduling with the Ray executor before 0.21.0."""
    if launch.switch("--async-scheduling") and launch.executor == "ray":
        yield Hit(argv("--async-scheduling"), "with ray")


@rule(
    "R143",
    {"0.11.1..": "error"},
    lasts="vllm",
    needs=("group.hosts",),
    expected="--nnodes, or --distributed-executor-backend ray",
    remedy="write --nnodes, --node-rank and --master-addr on every host",
    reason="vLLM takes no executor for several hosts by itself since 0.11.1 (X3)",
    source="cluster owner's notes; vllm/config/parallel.py",
    covers=("R118",),
)
def no_executor(launch: Launch) -> Hits:
    """A group without an executor for several hosts."""
    nodes = launch.number("--nnodes") or 1
    if (launch.hosts or 1) > 1 and launch.executor != "ray" and nodes < 2:
        yield Hit(_EXECUTOR, show(launch.executor))


@rule(
    "R144",
    "error",
    lasts="machine",
    needs=("group.hosts",),
    expected="NCCL_SOCKET_IFNAME: an interface of the fabric",
    remedy="set it to the QSFP interface of each host",
    reason="over the management network throughput falls to a tenth or less",
    source="Spark guide, section 13",
)
def no_interface(launch: Launch) -> Hits:
    """A group without NCCL_SOCKET_IFNAME."""
    if launch.spread and not launch.env.get("NCCL_SOCKET_IFNAME"):
        yield Hit(env("NCCL_SOCKET_IFNAME"), "not set")


@rule(
    "R145",
    "error",
    lasts="machine",
    needs=("group.hosts",),
    expected="the fabric's interface in the container's environment on every host",
    remedy="set them with `docker run -e`, not in `docker exec`",
    reason="Ray's workers inherit the container's environment, not that of the driver's shell",
    source="cluster owner's notes, NCCL with GDR disabled",
)
def variables_of_workers(launch: Launch) -> Hits:
    """A group without the interfaces of Gloo and UCX in its environment."""
    missing = [name for name in _INTERFACES if not launch.env.get(name)]
    if launch.spread and launch.env.get("NCCL_SOCKET_IFNAME") and missing:
        yield Hit("env " + missing[0], "not set", severity="error" if "GLOO_SOCKET_IFNAME" in missing else "warning")


@rule(
    "R146",
    "error",
    lasts="machine",
    needs=("container",),
    expected="--device /dev/infiniband, --ulimit memlock=-1, --cap-add IPC_LOCK",
    remedy="add what is missing",
    reason="RDMA needs its device, and memory that may be pinned",
    source="cluster owner's notes, NCCL with GDR disabled",
)
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


@rule(
    "R147",
    "error",
    lasts="machine",
    expected="NCCL_NET_GDR_LEVEL=LOC, NCCL_DMABUF_ENABLE=0",
    remedy="set both",
    reason="GPUDirect RDMA isn't supported on GB10",
    source="cluster owner's notes, key facts",
)
def no_gpudirect(launch: Launch) -> Hits:
    """GPUDirect RDMA asked for on GB10."""
    level, dmabuf = launch.env.get("NCCL_NET_GDR_LEVEL"), launch.env.get("NCCL_DMABUF_ENABLE")
    if launch.gb10 and level not in (None, "LOC", "0"):
        yield Hit(env("NCCL_NET_GDR_LEVEL"), show(level), expected="LOC")
    if launch.gb10 and dmabuf == "1":
        yield Hit(env("NCCL_DMABUF_ENABLE"), show(dmabuf), expected="0")


@rule(
    "R148",
    "warning",
    lasts="image",
    expected="NCCL_NET_PLUGIN=none, NCCL_DMABUF_ENABLE=0, NCCL_NET_GDR_C2C=0",
    remedy="set all three, or NCCL_NET=Socket",
    reason="the NGC container's DMABUF plugin crashes on GB10",
    source="cluster owner's notes, NCCL with GDR disabled",
)
def ngc_plugin(launch: Launch) -> Hits:
    """RDMA in an NGC container with its plugin on."""
    wanted = {"NCCL_NET_PLUGIN": "none", "NCCL_DMABUF_ENABLE": "0", "NCCL_NET_GDR_C2C": "0"}
    if launch.family != "ngc" or not _over_rdma(launch):
        return
    for name, value in wanted.items():
        if launch.env.get(name) != value:
            yield Hit(env(name), show(launch.env.get(name)), expected=value)


@rule(
    "R149",
    "error",
    lasts="machine",
    kind="host",
    needs=("host.rdma_addresses",),
    expected="an IPv4 address on the interface of each device",
    remedy="give both halves of the port an address",
    reason="RoCE needs IP on its interface",
    source="cluster owner's notes, IP setup",
)
def device_without_address(launch: Launch) -> Hits:
    """A device in NCCL_IB_HCA whose interface has no IPv4 address."""
    addresses = launch.host.rdma_addresses
    for device in _devices(launch):
        if addresses and not addresses.get(device):
            yield Hit(env("NCCL_IB_HCA"), f"{device} has no address")


@rule(
    "R150",
    "warning",
    lasts="machine",
    kind="host",
    needs=("group.hosts", "host.mtu"),
    expected=f"MTU {_MTU}",
    remedy="let the role fabric set it",
    reason="small frames cost throughput and CPU",
    source="cluster owner's notes, IP setup",
)
def small_frames(launch: Launch) -> Hits:
    """A fabric interface with a small MTU."""
    if launch.spread and launch.host.mtu is not None and launch.host.mtu < _MTU:
        yield Hit("host", f"MTU {launch.host.mtu}")


@rule(
    "R151",
    "hint",
    lasts="measured",
    expected="a measurement of one rail against two",
    remedy="compare both",
    reason="one rail gave 299 tok/s at 256 requests, two gave 239",
    source="cluster owner's notes, single against dual rail",
)
def two_rails(launch: Launch) -> Hits:
    """Two devices in NCCL_IB_HCA."""
    if len(_devices(launch)) > 1:
        yield Hit(env("NCCL_IB_HCA"), launch.env["NCCL_IB_HCA"])


@rule(
    "R153",
    "error",
    lasts="operation",
    expected="RAY_memory_monitor_refresh_ms=0",
    remedy='set RAY_memory_monitor_refresh_ms: "0" on every host',
    reason="Ray takes the GPU's share of the memory for a leak, and kills the worker",
    source="cluster owner's notes, critical variables",
)
def ray_memory_monitor(launch: Launch) -> Hits:
    """Ray over several hosts with its memory monitor on."""
    variable = launch.env.get("RAY_memory_monitor_refresh_ms")
    if launch.spread and launch.executor == "ray" and variable != "0":
        yield Hit(env("RAY_memory_monitor_refresh_ms"), show(variable))


@rule(
    "R154",
    "error",
    lasts="operation",
    kind="host",
    needs=("group.revisions",),
    expected="the same revision of the model on every host",
    remedy="stage the pinned revision everywhere",
    reason="ranks of different weights answer garbage, or stop at the load",
    source="Spark guide, section 13",
)
def different_revisions(launch: Launch) -> Hits:
    """A group whose hosts have different revisions."""
    if len(set(launch.group.revisions)) > 1:
        yield Hit("group", ", ".join(sorted(set(launch.group.revisions))))


@rule(
    "R155",
    "warning",
    lasts="machine",
    needs=("group.fabric_addresses", "service.address"),
    expected="an address that clients reach",
    remedy="advertise the address of the management network",
    reason="the fabric's addresses work between its own hosts only",
    source="cluster owner's notes, access from spark-1",
)
def address_on_fabric(launch: Launch) -> Hits:
    """A service that is advertised on the fabric."""
    address = launch.service.address or ""
    if re.fullmatch(r"[0-9.]+", address) and _within(address, launch.group.fabric_addresses):
        yield Hit("service", address)


@rule(
    OPEN_RAY,
    {"..0.11.0": "warning"},
    expected="Ray 2.52 or newer, which asks for a token",
    remedy="take an image with one; where whoever reaches the ranks may run code on them, silence this rule",
    reason="images of vLLM 0.11.0 are older; the supervisor asks the image for its Ray, and starts none that is older",
    source="docs.ray.io, ray-security/token-auth",
)
def open_ray(launch: Launch) -> Hits:
    """Ray over several hosts in an image whose Ray asks nobody who he is."""
    if launch.spread and launch.executor == "ray":
        yield Hit(_EXECUTOR, "ray")


@rule(
    "X18",
    "error",
    lasts="image",
    expected="NCCL 2.30.7 or later, which vLLM's own images have since 0.33.0",
    remedy="take 0.33.0 or later, or an image with a newer NCCL that VLLM_NCCL_SO_PATH names",
    reason="an older NCCL does not know NCCL_IB_SUBNET_AWARE_ROUTING: it pairs devices by number, and the ranks of a "
    "ring wait for each other for ever",
    source="NVIDIA/nccl commit 5c1c4288, first in v2.30.7-1; requirements of torch 2.11 to 2.14, and of vLLM 0.20 to "
    "0.33; an owner's journal of three Sparks in a ring",
)
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
