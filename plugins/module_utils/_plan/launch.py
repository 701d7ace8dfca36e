# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""From decisions to what runs on a host: the `docker run` argument list and the systemd unit that owns it.

Everything here is data in, text or lists out. No value passes through a shell, so that JSON flags survive as written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.gb10.fleet.plugins.module_utils._layout import LIBRARY, container, rank_file


@dataclass(frozen=True)
class Mount:
    """A bind mount: both paths absolute."""

    source: str
    target: str
    read_only: bool = True

    def argument(self) -> str:
        return f"type=bind,source={self.source},target={self.target}" + (",readonly" if self.read_only else "")


@dataclass(frozen=True)
class Container:
    """One container as the plan wants it.

    arguments: what follows the image. published: host address and port given to the container's own port; empty on the
    host's network. environment holds no secret: `docker inspect` shows it.
    """

    name: str
    image: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    published: Sequence[tuple[str, int]] = ()
    host_network: bool = False
    devices: Sequence[str] = ()
    capabilities: Sequence[str] = ()
    entrypoint: str | None = None
    shared_memory: str = "16g"


def docker_run(wanted: Container) -> list[str]:
    """The full argument list, beginning with the docker client's path."""
    run = ["/usr/bin/docker", "run", "--rm", "--name", wanted.name, "--pull", "never", "--gpus", "all"]
    run += ["--security-opt", "no-new-privileges", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864"]
    if wanted.host_network:
        run += ["--network", "host", "--ipc", "host"]
    else:
        run += ["--shm-size", wanted.shared_memory]
        for address, port in wanted.published:
            run += ["--publish", f"{address}:{port}:{port}"]
    for device in wanted.devices:
        run += ["--device", device]
    for capability in wanted.capabilities:
        run += ["--cap-add", capability]
    for mount in wanted.mounts:
        run += ["--mount", mount.argument()]
    for name in sorted(wanted.environment):
        run += ["--env", f"{name}={wanted.environment[name]}"]
    if wanted.entrypoint is not None:
        run += ["--entrypoint", wanted.entrypoint]
    return [*run, wanted.image, *wanted.arguments]


def rank_unit(service: str, summary: str, stop_s: int) -> str:
    """The unit that owns a service's rank on one host, through its supervisor.

    The supervisor restarts the group and keeps the budget for it; systemd restarts the supervisor alone, and not after
    its status 3, which says that the budget is used up. The start has no time limit: a large model loads for many
    minutes. The watchdog ends a supervisor that stands still: it could not notice that its rank is dead.
    """
    return f"""\
# Managed by gb10.fleet: changes are overwritten by site.yml and reported by drift.yml.
[Unit]
Description=gb10.fleet: {summary}
Wants=network-online.target
Requires=docker.service
After=network-online.target docker.service
StartLimitIntervalSec=0

[Service]
Type=exec
NotifyAccess=main
WorkingDirectory={LIBRARY}
ExecStart=/usr/bin/python3 -m gb10_rank.supervise {rank_file(service)}
Restart=always
RestartSec=5
RestartPreventExitStatus=3
WatchdogSec=120
WatchdogSignal=SIGKILL
TimeoutStopSec={2 * stop_s + 60}
SyslogIdentifier={container(service)}

[Install]
WantedBy=multi-user.target docker.service
"""
