# SPDX-License-Identifier: GPL-3.0-or-later
"""A container as data, and the `docker run` words that it comes to.

The plan, the linter and drift hold the data. Words are made at the very end, for the supervisor that runs them and for
a person who reads them; nobody takes them apart again. No value passes through a shell, so that JSON survives as it is.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from .._base.addresses import in_url
from .._base.gb10 import fact
from .._base.sizes import GIB
from .._base.slice import ContainerEntry, Published

# Of /dev/shm, in GiB, in every container that has one of its own.
_SHARED_GIB = 16


@dataclass(frozen=True)
class Mount:
    """A bind mount: both paths absolute."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class Container:
    """One container as the plan wants it; `as_data` is its form in the plan.

    entrypoint: instead of the image's own. arguments: what follows the image. env holds no secret: `docker inspect`
    shows it. network: ``bridge`` for a network of its own, with ports, ``{address, port}``, given to the same port of
    the container; ``host`` for the host's network. ipc: ``private`` or ``host``. capabilities: all that it has.
    pids_limit: processes and threads. memory_limit: bytes of all it has in memory, files in the page cache included;
    None for no limit. oom_score_adj: how readily its processes are ended where the host's memory runs out, to 1000.
    read_only: its root, but for mounts, caches and the folders of tmpfs. caches: folders of the host by those of the
    container, to be written; an empty one begins with what the image has there. stop_signal: what its first process is
    asked to end by, where the image's own means nothing to it. more_shared_memory: bytes of /dev/shm beside what every
    container has.
    """

    name: str
    image: str
    arguments: Sequence[str]
    entrypoint: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    caches: Mapping[str, str] = field(default_factory=dict)
    ports: Sequence[Published] = ()
    network: str = "bridge"
    ipc: str = "private"
    devices: Sequence[str] = ()
    capabilities: Sequence[str] = ()
    pids_limit: int = fact("container", "pids_limit")
    memory_limit: int | None = None
    oom_score_adj: int = fact("group", "oom_score_adj")
    read_only: bool = False
    tmpfs: Sequence[str] = ()
    security: Sequence[str] = ("no-new-privileges",)
    ulimits: Mapping[str, str] = field(default_factory=lambda: {"memlock": "-1", "stack": "67108864"})
    stop_signal: str | None = None
    more_shared_memory: int = 0

    def as_data(self) -> ContainerEntry:
        """A map of JSON values, with what follows for memory that its processes share."""
        data: dict[str, Any] = listed(asdict(self)) | {"env": dict(sorted(self.env.items()))}
        gibibytes = _SHARED_GIB + math.ceil(data.pop("more_shared_memory") / GIB)
        data["shared_memory"] = None if self.ipc == "host" else f"{gibibytes}g"
        if (signal := data.pop("stop_signal")) is not None:
            data["stop_signal"] = signal
        return cast(ContainerEntry, data)


def listed(value: object) -> Any:
    """With lists for tuples, as JSON has them."""
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    return [listed(item) for item in value] if isinstance(value, list | tuple) else value


def docker_options(container: ContainerEntry) -> Iterator[tuple[str, str]]:
    """Options of `docker run` by their long names, without mounts, variables and the entrypoint; "" for a switch.

    Docker keeps no log: what the container prints goes to the attached supervisor alone, which hides keys in it.
    """
    yield from (("rm", ""), ("name", container["name"]), ("pull", "never"), ("gpus", "all"), ("log-driver", "none"))
    yield "cap-drop", "ALL"
    yield from (("cap-add", capability) for capability in container["capabilities"])
    yield from (("security-opt", option) for option in container["security"])
    yield from (("ulimit", f"{name}={value}") for name, value in sorted(container["ulimits"].items()))
    if container["network"] != "bridge":
        yield "network", container["network"]
    yield from (("ipc", container["ipc"]), ("pids-limit", str(container["pids_limit"])))
    if container["memory_limit"] is not None:
        yield "memory", str(container["memory_limit"])
    yield "oom-score-adj", str(container["oom_score_adj"])
    if container["read_only"]:
        yield "read-only", ""
    # compilers load what they have built there
    yield from (("tmpfs", f"{folder}:exec,mode=1777") for folder in container["tmpfs"])
    if "stop_signal" in container:
        yield "stop-signal", container["stop_signal"]
    if container["shared_memory"] is not None:
        yield "shm-size", container["shared_memory"]
    yield from (("publish", f"{in_url(port['address'])}:{port['port']}:{port['port']}") for port in container["ports"])
    yield from (("device", device) for device in container["devices"])


def docker_run(container: ContainerEntry) -> list[str]:
    """The full argument list, beginning with the docker client's path."""
    words = ["/usr/bin/docker", "run"]
    for option, value in docker_options(container):
        words += [f"--{option}", value] if value else [f"--{option}"]
    for mount in container["mounts"]:
        read_only = ",readonly" if mount["read_only"] else ""
        words += ["--mount", f"type=bind,source={mount['source']},target={mount['target']}{read_only}"]
    for target, folder in container["caches"].items():
        words += ["--mount", _filled(folder, target)]
    for name, value in sorted(container["env"].items()):
        words += ["--env", f"{name}={value}"]
    if container["entrypoint"] is not None:
        words += ["--entrypoint", container["entrypoint"]]
    return [*words, container["image"], *container["arguments"]]


def _filled(folder: str, target: str) -> str:
    """A volume without a name, which ends with its container, over a folder that stays. A bind mount would hide what
    the image has at its target; to a volume that is empty Docker copies it."""
    options = {"type": "none", "o": "bind", "device": folder}
    given = ",".join(f"volume-opt={name}={value}" for name, value in options.items())
    return f"type=volume,volume-driver=local,{given},target={target}"


def docker_ask(image: str, words: Sequence[str]) -> list[str]:
    """A program of an image that only prints something: without network, capabilities and devices."""
    asked = ["--rm", "--pull", "never", "--network", "none", "--cap-drop", "ALL", "--entrypoint", words[0]]
    return ["/usr/bin/docker", "run", *asked, image, *words[1:]]


def docker_exec(container: str, words: Sequence[str]) -> list[str]:
    """A further command in a container that runs."""
    return ["/usr/bin/docker", "exec", container, *words]
