# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine before a load: no rank left behind, an empty page cache, free ports, enough memory; and its processes.

CPU and GPU share one memory on GB10: what the page cache or a dead rank's shared memory holds, the GPU can't have
(source 003, tips 1 and 6).
"""

import asyncio
import contextlib
import errno
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import ends, judge, memory
from .probes import Requires
from .service import Adapter, Gid, Service, Token

GIB = 1 << 30
_COMMAND_S = 60
# A container of a large image, and a program of Python in it.
_ASKED_S = 180
_ANSWER_S = 10
# Before an end, in which whoever ended it says so.
_SCENE_S = 60
# Docker may just be starting, with this unit or after a crash.
_DOCKER_S = 120
_GPU_SPECIFICATION = re.compile(r"""\bkind"?:\s*"?nvidia\.com/gpu(?![\w-])""")
# With the driver's release in its name: others, as libnvidia-egl-gbm.so.1.1.2, have numbers of their own.
_DRIVER_LIBRARY = re.compile(r"(?<![\w.])/[\w./+-]+\.so\.\d{3,}(?:\.\d+)+\b")
_APPS = ("nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
_RESOLVER = Path(__file__).parents[1] / "gids.py"


class RankError(Exception):
    """This rank can't go on; one sentence for the journal."""


class NotLaunchedError(RankError):
    """Something was in the way before the container ran."""


def prepare(service: Service) -> None:
    """Make the machine ready for a load; RankError says what is in the way."""
    # what a supervisor left that was killed: an engine that is killed leaves its memory with the driver
    run(["docker", "stop", "-t", f"{service.limits.stop_s:.0f}", service.container], service.limits.stop_s + 10)
    run(["docker", "rm", "--force", "--volumes", service.container])
    for file in orphans(Path("/dev/shm"), Path("/proc"), service.probes.shared_memory):
        file.unlink(missing_ok=True)
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")
    available = available_bytes(Path("/proc/meminfo").read_text(encoding="ascii"))
    taken = (port_taken(port) for port in service.ports)
    short = short_of_memory(available, service.memory_bytes, guard_floor(service.guard.unit))
    problem = next(filter(None, [short, *taken]), None)
    if problem:
        raise RankError(problem)


def memory_now() -> memory.Memory:
    return memory.read_memory(Path("/proc/meminfo").read_text(encoding="ascii"))


def drop_caches() -> int:
    """Have the kernel give up its caches and join what is free; the bytes that are free since."""
    before = memory_now().free
    Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")
    Path("/proc/sys/vm/compact_memory").write_text("1\n", encoding="ascii")
    return max(0, memory_now().free - before)


def killer(pids: Collection[int], since: float, guard: str) -> str:
    """Who killed one of these processes for want of memory since a time of the clock; empty: nobody, or not known.
    guard: the memory guard's unit."""
    lines = ["_TRANSPORT=kernel", "+", f"_SYSTEMD_UNIT={guard}"]
    done = run(["journalctl", "--no-pager", "--output", "cat", f"--since=@{since:.0f}", *lines], _ANSWER_S)
    return memory.killer(done.stdout, pids)


def scene(container: str, identity: str, own: Sequence[str], began: float = 0.0) -> ends.Scene:
    """What the host shows of the last minute of a container, which began then. own: units of this collection."""
    now, fields = time.time(), "--output-fields=MESSAGE,_SYSTEMD_UNIT,SYSLOG_IDENTIFIER"
    # a second that is rounded down is the one in which Docker was asked to kill
    since = f"{max(began, now - _SCENE_S):.3f}"
    asked = ["journalctl", "--no-pager", "--output=json", fields, f"--since=@{since}", "--lines=5000"]
    chosen = ["--since", since, "--until", f"{now:.3f}", "--filter", f"container={container}"]
    chosen += ["--format", '{{.Action}} {{index .Actor.Attributes "signal"}}']
    running = ["systemctl", "list-units", "--type=service", "--state=running", "--plain", "--no-legend"]
    journal, events, units = (run(words, _ANSWER_S).stdout for words in (asked, ["docker", "events", *chosen], running))
    return ends.Scene(journal, events, units, own, (container, identity[:12]))


def stopped_by(service: Service) -> str:
    """A clause that names who has systemd stop the unit; empty where nobody says so."""
    own = (service.guard.unit, service.unit)
    return ends.ended_by(scene(service.container, "", own), (), 0, cause_is_known=True)


async def await_docker() -> None:
    deadline = time.monotonic() + _DOCKER_S
    while not await asyncio.to_thread(docker_answers):
        if time.monotonic() > deadline:
            raise RankError("Docker does not answer: `systemctl status docker` says why")
        await asyncio.sleep(1)


def docker_answers() -> bool:
    """Whether Docker's daemon does, within a short time: its socket takes requests while nobody reads them."""
    return run(["docker", "version"], _ANSWER_S).returncode == 0


def run(command: Sequence[str], timeout_s: float = _COMMAND_S) -> subprocess.CompletedProcess[str]:
    """Never raises for what the command does; status 124 when it takes too long, as timeout(1) has it."""
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no end after {timeout_s:.0f} s")
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def restarts_of(unit: str) -> int | None:
    """How often systemd has started it by itself (`Restart=`) since somebody did; None where it does not say."""
    shown = run(["systemctl", "show", "--property=NRestarts", "--value", unit], _ANSWER_S).stdout.strip()
    return int(shown) if re.fullmatch("[0-9]{1,9}", shown) else None


def guard_floor(unit: str) -> int:
    """Available bytes below which the memory guard ends an engine, as it runs now; 0 without it."""
    shown = run(["systemctl", "show", "--property=ActiveState,ExecStart", unit], _ANSWER_S).stdout
    found = re.search(r"\.py (\d+) \d+ ", shown)
    return int(found[1]) if found and "ActiveState=active" in shown.splitlines() else 0


def require(requires: Requires) -> None:
    """RankError when the image is not fit for a launch."""
    done = run(requires.command, _ASKED_S)
    problem = judge.too_old(requires, done.stdout + done.stderr)
    if problem:
        raise RankError(problem)


def give_token(token: Token, secret: bytes) -> None:
    """Write the group's token for the container, for root alone."""
    file = Path(token.file)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(token.derived(secret))
    partial.replace(file)


def gid_environment(gids: Sequence[Gid]) -> list[str]:
    """NAME=value for NCCL about the GIDs, read now: the table's order changes with addresses and boots."""
    if not gids:
        return []
    done = run([sys.executable, str(_RESOLVER), *(f"{gid.device}={gid.address}" for gid in gids)])
    if done.returncode != 0:
        raise RankError(done.stderr.strip().removeprefix("gb10.fleet: "))
    return done.stdout.splitlines()


def without_adapter(adapter: Adapter | None) -> str:
    """Why this host can't meet the other ranks, where its own interface is gone; else an empty string."""
    if adapter is None:
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((adapter.address, 0))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                return ""
        else:
            return ""
    with contextlib.suppress(OSError):
        if Path(adapter.state_file).read_text(encoding="ascii", errors="replace").strip() == "0":
            return adapter.absent
    return f"no interface of this host has the address {adapter.address}: `ip -br address`; site.yml sets it"


def with_environment(run_words: Sequence[str], variables: Sequence[str]) -> list[str]:
    """`docker run` words with NAME=value added right behind `docker run`."""
    more = [word for variable in variables for word in ("--env", variable)]
    return [*run_words[:2], *more, *run_words[2:]]


def gpu_by_specification() -> bool:
    """Whether this Docker reads CDI specifications (since 28.3 by itself), and those of NVIDIA's GPU name libraries
    that are there: one that somebody wrote by hand may be of an earlier driver.

    Read at each launch: NVIDIA's toolkit writes the specification anew at each boot.
    """
    done = run(["docker", "info", "--format", "{{json .CDISpecDirs}}"])
    with contextlib.suppress(ValueError, OSError):
        folders = (json.loads(done.stdout) or []) if done.returncode == 0 else []
        files = (path for folder in folders for path in Path(folder).glob("*") if path.suffix in (".yaml", ".json"))
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in files)
        named = [{*_DRIVER_LIBRARY.findall(text)} for text in texts if _GPU_SPECIFICATION.search(text)]
        return bool(named) and all(Path(library).exists() for libraries in named for library in libraries)
    return False


def with_specification(run_words: Sequence[str]) -> list[str]:
    """`docker run` words that take the GPU by its CDI specification instead of NVIDIA's hook, which a reload of systemd
    takes away again (nvidia-container-toolkit issue 48)."""
    place = run_words.index("--gpus")
    return [*run_words[:place], "--device", "nvidia.com/gpu=all", *run_words[place + 2 :]]


# Judged -----------------------------------------------------------------------------------------------------------


def available_bytes(meminfo: str) -> int:
    """MemAvailable of /proc/meminfo's text, in bytes."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE)
    if found is None:
        raise RankError("/proc/meminfo has no MemAvailable line")
    return int(found.group(1)) * 1024


def short_of_memory(available: int, needed: int, floor: int = 0) -> str | None:
    """The sentence for the journal, or None when there is enough. floor: under which the memory guard would end it."""
    if available >= needed + floor:
        return None
    beside = f" beside the {floor / GIB:.1f} GiB under which the memory guard ends an engine" if floor else ""
    return (
        f"{available / GIB:.1f} GiB of memory are free, this service needs {needed / GIB:.1f} GiB{beside}: "
        "stop what else runs on this host (`docker ps`, `ps aux --sort=-rss | head`) or plan a smaller KV pool; where "
        "nothing else runs, a program that was killed has left it with the driver: restart this host, unless "
        "`ansible-playbook gb10.fleet.doctor` shows restart-known-bad"
    )


def port_taken(port: int) -> str | None:
    """The sentence for the journal when somebody else already listens on a TCP port, else None."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError as error:
            return taken(port, error)
    return None


def taken(port: int, error: OSError) -> str:
    return f"port {port} can't be had ({error.strerror}): `ss -ltnp sport = :{port}` says who has it"


def orphans(folder: Path, proc: Path, beginnings: Sequence[str]) -> list[Path]:
    """Files of dead ranks in shared memory: ours by name and owner, and no process has them open or mapped."""
    candidates = [
        file
        for file in folder.iterdir()
        if file.name.startswith(tuple(beginnings)) and file.is_file() and not file.is_symlink()
    ]
    mine = [file for file in candidates if file.stat().st_uid == os.geteuid()]
    used = {status for process in _processes(proc) for status in _files_in_use(process)} if mine else set()
    return [file for file in mine if file.stat().st_ino not in used]


def _processes(proc: Path) -> Iterator[Path]:
    return (entry for entry in proc.iterdir() if entry.name.isdigit())


def _files_in_use(process: Path) -> Iterator[int]:
    """Inodes of shared memory that a process has mapped or open."""
    with contextlib.suppress(OSError):
        for line in (process / "maps").read_text(encoding="utf-8", errors="replace").splitlines():
            words = line.split(None, 5)
            if len(words) == 6 and words[5].startswith("/dev/shm/"):
                yield int(words[4])
    with contextlib.suppress(OSError):
        for entry in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                if str(entry.readlink()).startswith("/dev/shm/"):
                    yield entry.stat().st_ino


# Processes of a container -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Usage:
    """Sums over a container's processes, each since it began. read_bytes: from disk, cache and network."""

    cpu_s: float = 0.0
    read_bytes: int = 0
    memory_bytes: int = 0


def usage(init: int, proc: Path = Path("/proc")) -> Usage:
    """What the container with this first process uses now; its processes are those of its process namespace."""
    found = [_usage_of(process) for process in processes_of(init, proc)]
    return Usage(sum(item[0] for item in found), sum(item[1] for item in found), sum(item[2] for item in found))


def memory_of(init: int, proc: Path = Path("/proc")) -> memory.Taken:
    """The memory of a container's processes: their own, the largest part of what they share, and the GPU's, which on a
    GB10 counts for no process. Files that they have mapped are the page cache's."""
    processes = processes_of(init, proc)
    own, shared = 0, 0
    for process in processes:
        with contextlib.suppress(OSError):
            status = (process / "status").read_text(encoding="utf-8", errors="replace")
            kib = {name: int(size) for name, size in re.findall(r"^(Rss\w+):\s+(\d+) kB$", status, re.MULTILINE)}
            own += kib.get("RssAnon", 0) << 10
            shared = max(shared, kib.get("RssShmem", 0) << 10)
    pids = {int(process.name) for process in processes}
    apps = memory.compute_apps(run(_APPS, _ANSWER_S).stdout) if pids else {}
    gpu = sum(size for pid, size in apps.items() if pid in pids)
    return memory.Taken(own + shared + gpu, gpu, pids)


def pids_of(init: int) -> set[int]:
    return {int(process.name) for process in processes_of(init)}


def processes_of(init: int, proc: Path = Path("/proc")) -> list[Path]:
    try:
        namespace = (proc / str(init) / "ns" / "pid").readlink()
    except OSError:
        return []
    members = []
    for process in _processes(proc):
        with contextlib.suppress(OSError):
            if (process / "ns" / "pid").readlink() == namespace:
                members.append(process)
    return members


def is_first_process(pid: int, container: str, proc: Path = Path("/proc")) -> bool:
    """Whether a container still runs with this first process, whose id another may have got. container: its whole id,
    which its control group is named after."""
    process = proc / str(pid)
    try:
        group = (process / "cgroup").read_text(encoding="utf-8", errors="replace")
        state = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return bool(container) and container in group and state not in ("Z", "X")


def commands_of(init: int, container: str, proc: Path = Path("/proc")) -> dict[int, str]:
    """The words of each process of a container by its id on the host; as `is_first_process`."""
    found = {}
    for process in processes_of(init, proc) if is_first_process(init, container, proc) else ():
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_text(encoding="utf-8", errors="replace")
            found[int(process.name)] = words.rstrip("\0").replace("\0", " ")
    return found


def _usage_of(process: Path) -> tuple[float, int, int]:
    """CPU seconds, bytes read, resident bytes; zeros for a process that ended meanwhile."""
    try:
        fields = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        counts: Mapping[str, str] = dict(
            line.split(": ") for line in (process / "io").read_text(encoding="ascii").splitlines()
        )
        pages = int((process / "statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError):
        return 0.0, 0, 0
    ticks = int(fields[11]) + int(fields[12])
    read = int(counts["rchar"]) + int(counts["read_bytes"])
    return ticks / os.sysconf("SC_CLK_TCK"), read, pages * os.sysconf("SC_PAGE_SIZE")
