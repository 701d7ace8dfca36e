# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Up and down: from a directory to running hosts, and back to nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from . import base, cgroups, disk, requirements, ssh, userns
from .connect import connect
from .console import announce
from .errors import LabError
from .labd import Settings
from .model import Lab
from .wiring import Wiring
from .workspace import Running, Workspace, start_time

_SSH_SECONDS = 180
_POLL_SECONDS = 0.05
_CONTROL_BACKLOG = 8


def up(workspace: Workspace, lab: Lab) -> None:
    """Boot the lab; returns when every host lets its user in. An interrupt or an error takes everything back."""
    requirements.check()
    Wiring.of(lab.hosts, lab.cables)
    _check_shares(lab)
    started = time.monotonic()
    with _interrupts_as_exceptions(), workspace.locked():
        running = Running.find(workspace.state)
        if running is not None:
            _keep(workspace, running, lab)
            return
        _remove_everything(workspace, keep_directory=True)
        try:
            _boot(workspace, lab, base.layers(docker=bool(lab.docker)))
        except BaseException:
            with _interrupts_ignored():
                _remove_everything(workspace)
            raise
    seconds = time.monotonic() - started
    announce(f"{', '.join(lab.hosts)}: up after {seconds:.1f} s: ssh -F {workspace.ssh_config} {lab.hosts[0]}")


def down(workspace: Workspace) -> None:
    """Leaves no process, mount, interface, cgroup, connection or file of the lab; also after a crash."""
    requirements.check()
    if not workspace.directory.exists() and not workspace.cgroup.exists():
        announce(f"no lab in {workspace.directory}")
        return
    with workspace.locked(), _interrupts_ignored():
        used = cgroups.processor_seconds(workspace.cgroup) if workspace.cgroup.exists() else 0.0
        _remove_everything(workspace)
    announce(f"the lab in {workspace.directory} is gone; its processes used {used:.0f} s of processor time")


def _keep(workspace: Workspace, running: Running, wanted: Lab) -> None:
    if running.lab != wanted:
        raise LabError(
            f"another lab is up in {workspace.directory} ({', '.join(running.lab.hosts)}; "
            f"{', '.join(map(str, running.lab.cables)) or 'no cables'}): `lab down` first, or -d for a second one"
        )
    announce(f"the lab in {workspace.directory} is up already: {', '.join(running.lab.hosts)}")


def _check_shares(lab: Lab) -> None:
    for share in lab.shares:
        if not Path(share.source).is_dir():
            raise LabError(f"--share {share.source}:{share.target}: {share.source} is not a directory on this machine")


def _remove_everything(workspace: Workspace, *, keep_directory: bool = False) -> None:
    ssh.end_masters(workspace)
    cgroups.remove(workspace.cgroup)
    workspace.clear(keep_directory=keep_directory)


def _boot(workspace: Workspace, lab: Lab, layers: Sequence[Path]) -> None:
    keys = _write_disks(workspace, lab)
    workspace.ssh_masters.mkdir(mode=0o700)
    workspace.ssh_config.write_text(ssh.config(workspace, lab))
    workspace.known_hosts.write_text(ssh.known_hosts(lab, keys))
    owners = {host: userns.first_id(workspace.id, index) for index, host in enumerate(lab.hosts)}
    cgroups.create(workspace.cgroup, owners)
    with _daemon(workspace, lab, layers) as (keeper, report_ready):
        running = Running(lab, keeper, start_time(keeper) or 0)
        _wait_for_logins(workspace, running)
        running.save(workspace.state)
        report_ready()


@contextlib.contextmanager
def _daemon(workspace: Workspace, lab: Lab, layers: Sequence[Path]) -> Iterator[tuple[int, Callable[[], object]]]:
    """The daemon with all hosts booted: its keeper's number, and what to call to let it run on its own."""
    with _control_socket(workspace) as control, workspace.log.open("w") as log:
        settings = Settings(
            lab=lab.as_json(),
            id=workspace.id,
            hosts=str(workspace.hosts),
            layers=[str(layer) for layer in layers],
            cgroup=str(workspace.cgroup),
            control=control.fileno(),
        )
        keeper = subprocess.Popen(
            [requirements.PYTHON, "-m", "lab.labd"],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=[control.fileno()],
            start_new_session=True,
            bufsize=0,
        )
    assert keeper.stdin and keeper.stdout
    orders, answers = keeper.stdin, keeper.stdout
    try:
        orders.write(settings.as_line().encode())
        if answers.readline() != b"booted\n":
            raise LabError(f"the hosts could not be started; {_last_words(workspace)}")
        yield keeper.pid, lambda: orders.write(b"ready\n")
    except BaseException:
        keeper.kill()
        keeper.wait()
        raise
    finally:
        orders.close()
        answers.close()


def _write_disks(workspace: Workspace, lab: Lab) -> dict[str, disk.HostKey]:
    workspace.hosts.mkdir(mode=0o700)
    client = ssh.make_key(workspace.key, "gb10-lab")
    keys = {}
    for host in lab.hosts:
        directory = workspace.hosts / host
        directory.mkdir()
        keys[host] = ssh.make_key(directory / "host_key", host)
        files = disk.host_files(lab, workspace.id, host, keys[host], client.public)
        disk.write(directory, files, disk.host_links(lab.renderer))
    return keys


def _control_socket(workspace: Workspace) -> socket.socket:
    """Made here, so that only this machine's root may talk to the daemon."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.bind(str(workspace.control))
    workspace.control.chmod(0o600)
    control.listen(_CONTROL_BACKLOG)
    return control


def _wait_for_logins(workspace: Workspace, running: Running) -> None:
    deadline = time.monotonic() + _SSH_SECONDS
    for host in running.lab.hosts:
        while not _lets_in(workspace, running, host):
            if time.monotonic() > deadline:
                raise LabError(f"{host} lets nobody in after {_SSH_SECONDS} s; {_last_words(workspace)}")
            if start_time(running.keeper) != running.started:
                raise LabError(f"the lab's daemon ended; {_last_words(workspace)}")
            time.sleep(_POLL_SECONDS)
        announce(f"{host} is up at {running.lab.address(host)}")


def _lets_in(workspace: Workspace, running: Running, host: str) -> bool:
    """sshd answers, and systemd no longer keeps unprivileged users out (pam_nologin)."""
    try:
        with connect(running, running.lab.address(host), 22, seconds=2) as connection:
            if connection.recv(4) != b"SSH-":
                return False
    except OSError:
        return False
    init = init_process(workspace, host)
    return init is not None and not Path(f"/proc/{init}/root/run/nologin").exists()


def init_process(workspace: Workspace, host: str) -> int | None:
    """The number that a host's systemd has on this machine; None while it is off."""
    group = workspace.cgroup / host
    found = cgroups.processes(group / "init.scope") or cgroups.processes(group)
    return found[0] if found else None


def _last_words(workspace: Workspace) -> str:
    lines = workspace.log.read_text(errors="replace").splitlines()[-15:]
    return "the daemon's last words:" + "".join(f"\n    {line}" for line in lines)


@contextlib.contextmanager
def _interrupts_as_exceptions() -> Iterator[None]:
    """SIGTERM and a closed terminal take back what was begun, just as Ctrl-C does."""

    def stop(number: int, _: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt(signal.Signals(number).name)

    with _handled(stop, signal.SIGTERM, signal.SIGHUP):
        yield


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    with _handled(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield


@contextlib.contextmanager
def _handled(handler: signal._HANDLER, *numbers: signal.Signals) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
