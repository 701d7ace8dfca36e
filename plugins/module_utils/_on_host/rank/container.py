# SPDX-License-Identifier: GPL-3.0-or-later
"""One container in the foreground: what it prints goes to our own output, its end is noticed, its stop is bounded."""

import asyncio
import contextlib
import json
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import causes, judge
from .host import NotLaunchedError, RankError, commands_of, docker_answers, is_first_process, run

_TAIL_LINES = 2000
# What engines print is far below. A longer line is left out whole: cut, it could end inside a key, and show the rest.
_LINE_BYTES = 1 << 16
# More is chatter of requests, each with an id of its own.
_KINDS = 10_000
_START_S = 120.0
_POLL_S = 0.2
# After its kill a container may still take long: the kernel gives the GPU's memory back.
_KILLED_S = 30.0
# Docker's clients end with their container, but for those whose daemon is gone.
_CLIENT_S = 2.0
# Of `docker run`: Docker itself could not do it.
_NOT_RUN = 125


class Container:
    """A container from its launch to its end; a new object for each launch.

    tail: its last lines. kinds: how many kinds of line it has printed (a measure of progress). ended: its exit status,
    or that of a command run inside (`execute`), whichever comes first. exit_words, insist_s: `probes.Probes`.
    """

    def __init__(
        self, name: str, log: Callable[[str], None], exit_words: Mapping[str, str], insist_s: float | None = None
    ) -> None:
        self._name, self._log, self._exit_words, self._insist_s = name, log, exit_words, insist_s
        self._kinds: set[str] = set()
        self._clients: list[asyncio.subprocess.Process] = []
        self._executed: list[Sequence[str]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.inspected: dict[str, Any] = {}

    @property
    def kinds(self) -> int:
        return len(self._kinds)

    @property
    def init(self) -> int:
        """The first process's id on the host; 0 before it is known."""
        return int(self.inspected.get("State", {}).get("Pid", 0))

    @property
    def id(self) -> str:
        return str(self.inspected.get("Id", ""))

    async def launch(self, words: Sequence[str]) -> None:
        """Return when the container runs; RankError when it does not come up, NotLaunchedError when it never ran."""
        try:
            await self._attach(words)
        except OSError as error:
            raise NotLaunchedError(f"{words[0]} can't be run ({error.strerror})") from None
        deadline = asyncio.get_running_loop().time() + _START_S
        while not self.init:
            if self.ended.done():
                status = self.ended.result()
                problem = NotLaunchedError if status == _NOT_RUN else RankError
                raise problem(f"the container ended at once, {self.last_words(status)}")
            if asyncio.get_running_loop().time() > deadline:
                raise RankError(f"the container does not run after {_START_S:.0f} s")
            await asyncio.sleep(_POLL_S)
            self.inspected = await asyncio.to_thread(inspect, self._name)

    def last_words(self, status: int) -> str:
        """Of its end, for a sentence."""
        return f"{self.with_status(status)}; {causes.explained(self.tail)}"

    def with_status(self, status: int) -> str:
        return f"with status {judge.describe_exit(status, self._exit_words)}"

    async def execute(self, words: Sequence[str]) -> None:
        """Run `docker exec` words beside it; their end counts as the container's."""
        self._executed.append(words[words.index(self._name) + 1 :] if self._name in words else words)
        await self._attach(words)

    async def _attach(self, words: Sequence[str]) -> None:
        client = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        self._clients.append(client)
        self._tasks.append(asyncio.create_task(self._follow(client)))

    async def _follow(self, client: asyncio.subprocess.Process) -> None:
        assert client.stdout is not None
        rest = b""
        while chunk := await client.stdout.read(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[: _LINE_BYTES + 1]
            for line in lines:
                self._print(line)
        if rest:
            self._print(rest)
        status = await client.wait()
        if not self.ended.done():
            self.ended.set_result(status)

    def _print(self, printed: bytes) -> None:
        is_line = len(printed) <= _LINE_BYTES
        line = printed.decode("utf-8", "replace") if is_line else f"(a line of more than {_LINE_BYTES} bytes)"
        self._log(line)
        self.tail.append(line)
        if len(self._kinds) < _KINDS:
            self._kinds.add(judge.kind_of_line(line))

    async def stop(self, stop_s: float) -> None:
        """Ended when this returns, or RankError: first asked, then killed, within stop_s and the kill's own time."""
        deadline = asyncio.get_running_loop().time() + stop_s
        await self._end_executed(stop_s)
        left = max(1, int(deadline - asyncio.get_running_loop().time()))
        insisting = asyncio.create_task(self._insist())
        try:
            if await asyncio.to_thread(docker_answers):
                await asyncio.to_thread(run, ["docker", "stop", "-t", str(left), self._name], left + 10)
                await self._removed()
            else:
                await self._signalled(left)
        finally:
            insisting.cancel()
        # Docker's clients end with what they show. One is asked to only when it is known to run: `terminate` looks for
        # the status of an ended one itself, and asyncio, which comes too late then, makes 255 of it.
        await self._ended(self._clients, _CLIENT_S)
        for client in self._clients:
            if client.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    client.terminate()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    @staticmethod
    async def _ended(clients: Sequence[asyncio.subprocess.Process], patience_s: float) -> None:
        """Wait until all of them have ended, for so long."""
        running = [asyncio.ensure_future(client.wait()) for client in clients if client.returncode is None]
        if running:
            await asyncio.wait(running, timeout=patience_s)

    async def _end_executed(self, stop_s: float) -> None:
        """Ask the commands of `execute` to end. `docker stop` reaches the container's first process alone, and an
        engine that is killed leaves its GPU memory with the driver until the host restarts."""
        clients = [client for client in self._clients[1:] if client.returncode is None]
        if not clients:
            return
        commands = await asyncio.to_thread(commands_of, self.init, self.id)
        for pid in judge.process_ids(commands, self._executed):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)
        await self._ended(clients, stop_s)

    async def _insist(self) -> None:
        """Ask a second time, where the engine ends at once by that: one that waits for what is lost (llama-server for
        an RPC server behind a pulled cable) hears the first, and waits on."""
        if self._insist_s is None:
            return
        await asyncio.sleep(self._insist_s)
        if self._is_alive():
            self._log(f"gb10.fleet: it has not ended {self._insist_s:.0f} s after it was asked to: it is asked again")
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.init, signal.SIGTERM)

    async def _signalled(self, stop_s: float) -> None:
        """As `docker stop` does it, without Docker's daemon: systemd starts one that was killed only when this unit has
        stopped. What is left of the container is removed before the next launch."""
        for number, patience_s in ((signal.SIGTERM, stop_s), (signal.SIGKILL, _KILLED_S)):
            deadline = asyncio.get_running_loop().time() + patience_s
            if self._is_alive():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.init, number)
            while self._is_alive() and asyncio.get_running_loop().time() < deadline:
                await asyncio.sleep(_POLL_S)
        if self._is_alive():
            raise RankError(f"Docker does not answer, and the container {self._name} can't be killed")

    def _is_alive(self) -> bool:
        return is_first_process(self.init, self.id)

    async def _removed(self) -> None:
        """`--rm` removes it too, and Docker then refuses to: what counts is that it is gone."""
        deadline = asyncio.get_running_loop().time() + _KILLED_S
        while True:
            removal = await asyncio.to_thread(run, ["docker", "rm", "--force", "--volumes", self._name], _KILLED_S)
            left = await asyncio.to_thread(
                run, ["docker", "ps", "--all", "--quiet", "--filter", f"name=^{self._name}$"]
            )
            if left.returncode == 0 and not left.stdout.strip():
                return
            if asyncio.get_running_loop().time() > deadline:
                raise RankError(f"the container {self._name} can't be removed: {removal.stderr.strip()[-300:]}")
            await asyncio.sleep(_POLL_S)


def inspect(name: str) -> dict[str, Any]:
    """`docker inspect` while the container runs, else an empty map."""
    done = run(["docker", "inspect", name])
    found = json.loads(done.stdout) if done.returncode == 0 else []
    facts: dict[str, Any] = found[0] if found and found[0]["State"]["Running"] else {}
    return facts
