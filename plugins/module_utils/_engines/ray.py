# SPDX-License-Identifier: GPL-3.0-or-later
"""Ray below an engine on several hosts: each container is a node, and the head's starts the engine once all are in."""

from collections.abc import Iterator

from .._base import layout
from .._base.gb10 import default_layer, fact
from .._base.layers import Layer
from .._on_host.rank.probes import Joined, Requires
from .placed import Placed
from .ports import ranks_port, spare_port

# What asks for the group's token, and an engine's name for this way over hosts.
RAY = "ray"
# A node of `ray status` below "Active:"; nodes that failed are listed behind "Pending:".
NODE = r"^ \d+ node_.*(?=(?:\n .*)*\n(?:Idle|Pending):)"
JOINED = Joined(["ray", "status"], NODE, 300)
# What it leaves in /dev/shm when it is killed.
SHARED_MEMORY = ("plasma", "ray")


def requires(otherwise: str) -> Requires:
    """A Ray that asks for a token. otherwise: what to do about an older one.

    docs.ray.io, ray-security/token-auth: before that release whoever reaches a port of Ray's runs code.
    """
    return Requires(["ray", "--version"], r"version (\d+(?:\.\d+)+)", [2, 52], otherwise)


def node_words(placed: Placed, rank: int) -> list[str]:
    """A node by its address in the group; no dashboard, and ports for workers as Linux gives them out.

    Ray starts its client server in any case, so that it gets a port of the group's own.
    """
    addresses, port = placed.addresses, ranks_port(placed.port)
    node = ["--node-ip-address", addresses[rank], "--num-cpus", str(fact("group", "ray_cpus"))]
    node += ["--min-worker-port", "0", "--max-worker-port", "0"]
    node += ["--object-store-memory", str(fact("group", "ray_object_store_bytes")), "--block"]
    if rank:
        return ["ray", "start", "--address", f"{addresses[0]}:{port}", *node]
    return [
        *("ray", "start", "--head", "--port", str(port), *node),
        *("--include-dashboard=false", "--disable-usage-stats"),
        *("--ray-client-server-port", str(spare_port(placed.port))),
    ]


def layers() -> list[Layer]:
    """The variables of a node."""
    reason = "the group's token for Ray, as a file"
    token = {"RAY_AUTH_TOKEN_PATH": layout.IN_GROUP_TOKEN}
    return [default_layer("env_ray"), Layer("computed", token, dict.fromkeys(token, reason))]


def listens(placed: Placed) -> Iterator[tuple[int, str]]:
    yield spare_port(placed.port), "nobody: Ray opens it in any case, and asks for the group's token"
