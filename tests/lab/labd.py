# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's daemon: process 1 of the lab's namespaces. It boots and reboots the hosts, holds the cables, takes orders.

`up` starts it as ``python3 -m lab.labd`` (as the machine's root) with one line of JSON on stdin (``Settings``). It
answers ``booted`` on stdout, and keeps running once it has read ``ready``; if stdin ends before that, so does the lab.
Whatever ends this process ends every process, mount and interface of the lab: all of them live in its namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from . import base, hostinit, links, userns
from .errors import LabError
from .imitations.lookalikes import HOTPLUG_MARKER
from .kernel import Mount, Namespace, bind_mapped, die_with_parent, make_mounts_private, mount, unshare
from .linkwatch import LinkWatch
from .model import Lab, parse_cable, parse_port
from .wiring import Half, Socket, Wiring, sees_cable, sockets

# In the daemon's own mount namespace, a tmpfs with these directories hides whatever this machine has there.
_STAGE = Path("/mnt")
# A Spark that boots looks for cables after its adapter is up (16 s on an owner's). Hosts that boot together meet.
_FIRST_LOOK_S = 15.0


@dataclass(frozen=True)
class Settings:
    """lab: as JSON. id: the workspace's. layers: of hosts' disks, the uppermost first, which is Docker's where a host
    has it. control: number of the inherited, listening unix socket. The rest: paths."""

    lab: dict[str, Any]
    id: str
    hosts: str
    layers: list[str]
    cgroup: str
    control: int

    def as_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Daemon:
    """The lab's hosts and cables. One thread: it sleeps until a host ends, an interface changes or an order comes."""

    def __init__(self, lab: Lab, places: dict[str, hostinit.Place], control: socket.socket) -> None:
        self._lab = lab
        self._places = places
        self._control = control
        self._wiring = Wiring.of(lab.hosts, lab.cables)
        # What the kernel was told last; of hosts that are on: process -> host, network namespace, its announcements.
        self._sockets: dict[Half, Socket] = {}
        self._processes: dict[int, str] = {}
        self._networks: dict[str, int] = {}
        self._watches: dict[str, LinkWatch] = {}
        # Hosts that are on and have hot-plug: when each first looks for its cables. Of them: those without an adapter,
        # and those whose adapter came back since their boot.
        self._hotplug: dict[str, float] = {}
        self._unplugged: set[str] = set()
        self._replugged: set[str] = set()
        self._selector = selectors.DefaultSelector()

    # -- hosts

    def power_on(self, host: str) -> None:
        place = self._places[host]
        network = userns.new_network(place.users)
        self._networks[host] = network
        links.run(links.plug_in_host(self._lab.hosts, host, f"/proc/self/fd/{network}"), descriptors=[network])
        if (place.directory / "disk/upper" / HOTPLUG_MARKER.lstrip("/")).exists():
            self._hotplug[host] = time.monotonic() + _FIRST_LOOK_S
        self._watches[host] = LinkWatch(network)
        self._selector.register(self._watches[host], selectors.EVENT_READ, self._rewire)
        self._rewire()
        try:
            self._processes[hostinit.start(place, network)] = host
        except LabError:
            self._disconnect(host)
            raise
        log(f"{host}: on")

    def power_off(self, host: str) -> None:
        """As if the plug were pulled."""
        process = self._process_of(host)
        if process is not None:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            self._is_off(process)

    def _process_of(self, host: str) -> int | None:
        return next((process for process, name in self._processes.items() if name == host), None)

    def _is_off(self, process: int) -> None:
        host = self._processes.pop(process)
        self._disconnect(host)
        _remove_cgroups_below(self._places[host].cgroup)
        log(f"{host}: off")

    def _disconnect(self, host: str) -> None:
        watch = self._watches.pop(host)
        self._selector.unregister(watch)
        watch.close()
        links.run(links.unplug_host(self._lab.hosts, host))
        if host not in self._unplugged:
            links.run(links.unplug_adapter(self._lab.hosts, host))
        self._hotplug.pop(host, None)
        self._unplugged.discard(host)
        self._replugged.discard(host)
        os.close(self._networks.pop(host))
        self._rewire()

    def _reap(self, announced: int) -> None:
        """Every ended child. A host that called reboot(2) starts again (the kernel says: SIGHUP), others stay off."""
        os.read(announced, 512)
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            if process in self._processes:
                self._has_ended(process, status)

    def _has_ended(self, process: int, status: int) -> None:
        host = self._processes[process]
        self._is_off(process)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGHUP:
            try:
                self.power_on(host)
            except LabError as error:
                log(f"{error}\n{host}: stays off")

    # -- cables

    def _look_for_cables(self) -> None:
        """What hot-plug does: an adapter leaves its host while no cable is seen, and comes back slow."""
        for host, first_look in self._hotplug.items():
            seen = sees_cable(self._wiring, self._networks, host)
            network = self._networks[host]
            if not seen and host not in self._unplugged and time.monotonic() >= first_look:
                self._unplugged.add(host)
                links.run(links.unplug_adapter(self._lab.hosts, host))
            elif seen and host in self._unplugged:
                self._unplugged.remove(host)
                self._replugged.add(host)
                links.run(
                    links.plug_in_adapter(self._lab.hosts, host, f"/proc/self/fd/{network}"), descriptors=[network]
                )

    def _next_look(self) -> float | None:
        """Seconds until a host that has just booted looks for its cables."""
        now = time.monotonic()
        return min((at - now for at in self._hotplug.values() if at > now), default=None)

    def _rewire(self) -> None:
        self._look_for_cables()
        on = set(self._networks) - self._unplugged
        up = {host: watch.interfaces_up() for host, watch in self._watches.items()}
        active = frozenset(
            half for host in on for half in links.ports_of(host) if half.interface in up.get(host, frozenset())
        )
        ends = sockets(self._wiring, active, frozenset(self._replugged))
        wanted = {half: end for half, end in ends.items() if half.port.host in on}
        links.run(links.rewire(self._lab.hosts, self._sockets, wanted))
        links.run(links.reshape(self._lab.hosts, self._sockets, wanted), program="tc")
        self._sockets = wanted

    # -- orders

    def _answer_order(self) -> None:
        connection, _ = self._control.accept()
        # Outermost, since what is left to write is written as the stream closes: who asked may be gone by then.
        with contextlib.suppress(OSError), connection, connection.makefile("rw", encoding="utf-8") as stream:
            answer: dict[str, Any]
            try:
                answer = {"done": self._carry_out(json.loads(stream.readline()))}
            except LabError as error:
                answer = {"refused": str(error)}
            except Exception:
                log(traceback.format_exc())
                answer = {"refused": "the lab's daemon failed; see labd.log in the lab's directory"}
            stream.write(json.dumps(answer) + "\n")

    def _carry_out(self, order: dict[str, Any]) -> dict[str, Any]:
        match order:
            case {"power": "on", "host": host} if self._process_of(host) is None:
                self.power_on(host)
            case {"power": "off", "host": host}:
                self.power_off(host)
            case {"cable": "pull", "ports": [port]}:
                self._wiring = self._wiring.pull(parse_port(port))
            case {"cable": "plug", "ports": [port]}:
                self._wiring = self._wiring.plug_back(parse_port(port))
            case {"cable": "plug", "as": cable}:
                self._wiring = self._wiring.plug(parse_cable(cable))
            case {"cable": "swap", "ports": [one, other]}:
                self._wiring = self._wiring.swap(parse_port(one), parse_port(other))
            case {"cable": "rate", "ports": [port], "rate": rate}:
                self._wiring = self._wiring.limit(parse_port(port), rate)
        self._rewire()
        return {
            "hosts": {host: "on" if host in self._networks else "off" for host in self._lab.hosts},
            "cables": [str(cable) for cable in self._wiring.plugged],
        }

    # -- life

    def run(self) -> NoReturn:
        # A cable says nothing of its own on the wire.
        for name in ("all", "default"):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            # Nor does it answer for the controller's address.
            Path(f"/proc/sys/net/ipv4/conf/{name}/arp_ignore").write_text("1")
        links.run(links.lab_network())
        for host in self._lab.hosts:
            self.power_on(host)
        os.write(1, b"booted\n")
        child_ended, child_ended_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(child_ended_writer)
        self._selector.register(child_ended, selectors.EVENT_READ, lambda: self._reap(child_ended))
        self._selector.register(self._control, selectors.EVENT_READ, self._answer_order)
        self._selector.register(0, selectors.EVENT_READ, self._receive_from_up)
        os.write(child_ended_writer, b"x")  # one may have ended before
        while True:
            events = self._selector.select(self._next_look())
            for key, _ in events:
                key.data()
            if not events:
                self._rewire()

    def _receive_from_up(self) -> None:
        if os.read(0, 64) != b"ready\n":
            log("`up` ended before the lab was ready")
            os._exit(1)
        self._selector.unregister(0)
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)


def _remove_cgroups_below(cgroup: Path) -> None:
    for directory, _, _ in os.walk(cgroup, topdown=False):
        if Path(directory) != cgroup:
            with contextlib.suppress(OSError):
                Path(directory).rmdir()


def _stage(settings: Settings, lab: Lab) -> dict[str, hostinit.Place]:
    """Mount what each host is made of where its root can reach it: the lab's directory may be closed to it."""
    hosts, *layers = [_open(path) for path in (settings.hosts, *settings.layers)]
    shares = [_open(share.source) for share in lab.shares]
    mount("gb10-lab", _STAGE, "tmpfs", Mount.NO_SUID | Mount.NO_DEV, "mode=755")
    places = {}
    for index, host in enumerate(lab.hosts):
        own = [*zip(layers, settings.layers, strict=True)][0 if host in lab.docker else -1 :]
        place = hostinit.Place(
            name=host,
            directory=_STAGE / host,
            layers=len(own),
            shares=tuple(share.target for share in lab.shares),
            cgroup=Path(settings.cgroup, host),
            users=userns.create(userns.first_id(settings.id, index)),
        )
        for name in ("disk", "root", *place.layer_names, *(f"share-{number}" for number in range(len(shares)))):
            (place.directory / name).mkdir(parents=True)
        for name, (handle, path) in zip(place.layer_names, own, strict=True):
            _bind_layer(f"/proc/self/fd/{handle}", place, name, path, read_only=True)
        _bind_layer(f"/proc/self/fd/{hosts}/{host}", place, "disk", settings.hosts, read_only=False)
        for number, (handle, share) in enumerate(zip(shares, lab.shares, strict=True)):
            _bind_share(f"/proc/self/fd/{handle}", place, f"share-{number}", read_only=not share.writable)
        places[host] = place
    return places


def _open(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _bind_layer(source: str, place: hostinit.Place, name: str, shown_as: str, *, read_only: bool) -> None:
    try:
        bind_mapped(source, place.directory / name, place.users, read_only=read_only)
    except OSError as error:
        raise LabError(
            f"the file system of {shown_as} can't map owners ({os.strerror(error.errno or 0)}): "
            "put the lab (-d) and the cache (XDG_CACHE_HOME) on ext4, xfs or btrfs"
        ) from error


def _bind_share(source: str, place: hostinit.Place, name: str, *, read_only: bool) -> None:
    """Also from a file system that can't map owners, NFS for one: then what everybody may read can be read."""
    try:
        bind_mapped(source, place.directory / name, place.users, read_only=read_only)
    except OSError:
        bind_mapped(source, place.directory / name, None, read_only=True)


def main() -> int:
    """The keeper: this machine's child that waits for the daemon. Its network is the lab's."""
    settings = Settings(**json.loads(sys.stdin.readline()))
    for layer in settings.layers:
        base.hold(layer)
    Path(settings.cgroup, "labd/cgroup.procs").write_text("0")
    unshare(Namespace.MOUNT | Namespace.NET | Namespace.PID | Namespace.IPC | Namespace.UTS)
    make_mounts_private()
    daemon = os.fork()
    if daemon == 0:
        _become_daemon(settings)
    null = os.open("/dev/null", os.O_RDWR)
    for inherited in (0, 1, settings.control):
        os.dup2(null, inherited)
    os.waitpid(daemon, 0)
    return 0


def _become_daemon(settings: Settings) -> NoReturn:
    die_with_parent()
    try:
        mount("proc", "/proc", "proc", Mount.NO_SUID | Mount.NO_DEV | Mount.NO_EXEC)
        lab = Lab.from_json(settings.lab)
        Daemon(lab, _stage(settings, lab), socket.socket(fileno=settings.control)).run()
    except LabError as error:
        log(str(error))
    except BaseException:
        log(traceback.format_exc())
    finally:
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
