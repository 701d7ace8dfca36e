# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank on its own host: prepare, launch, watch, stop. The head and the others do the same with theirs."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import admission, causes, ends, evidence, host, memory
from .container import Container
from .host import NotLaunchedError, RankError
from .judge import End
from .report import Report
from .service import Service

# Between two looks at what is free, and at what the rank takes.
_LOOK_S, _MEASURE_S = 1.0, 10.0


class LocalRank:
    """over: called when the rank's container ended by itself, or has to, and why. secret: the group's."""

    def __init__(self, service: Service, report: Report, over: Callable[[End], None], secret: bytes = b"") -> None:
        self._service, self._report, self._over = service, report, over
        self._container: Container | None = None
        self._secret = secret
        self._required = service.probes.requires
        self._stopping = False
        self._variables: list[str] = []
        self._loading = False
        self._pids: set[int] = set()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def init(self) -> int:
        """The container's first process on the host; 0 without one."""
        return self._container.init if self._container else 0

    @property
    def is_gone(self) -> bool:
        """Its container ran and has ended; `over` follows with the reason."""
        return self.init > 0 and not Path(f"/proc/{self.init}").exists()

    @property
    def complaint(self) -> str:
        """What its engine says that it fails by; empty where it says nothing."""
        found = causes.cause(self._container.tail) if self._container else None
        return found.sentence if found else ""

    async def prepare(self) -> None:
        """The host is ready for a launch when this returns; NotLaunchedError says what is in the way."""
        try:
            await self._let_in()
            await host.await_docker()
            await asyncio.to_thread(host.prepare, self._service)
            if self._required:
                await asyncio.to_thread(host.require, self._required)
                self._required = None  # once is enough: another image restarts the supervisor
            if self._service.token:
                await asyncio.to_thread(host.give_token, self._service.token, self._secret)
            self._variables = await asyncio.to_thread(host.gid_environment, self._service.gids or ())
        except (RankError, OSError) as problem:
            raise NotLaunchedError(host.without_adapter(self._service.adapter) or str(problem)) from None

    async def launch(self) -> None:
        """The container runs when this returns."""
        self._stopping = False
        probes = self._service.probes
        container = Container(self._service.container, self._report.log, probes.exit_words, probes.insist_s)
        self._container = container
        self._report.update(cache_drops=0, memory_taken=None, creep="")
        self._loading, self._pids, began = True, set(), time.time()
        self._tasks = [asyncio.create_task(self._guard(container))]
        await container.launch(host.with_environment(await asyncio.to_thread(self._words), self._variables))
        # not before: where a container never ran the launch itself fails, and uses up no start
        container.ended.add_done_callback(lambda ended: self._ended(container, ended.result(), began))

    def _words(self) -> Sequence[str]:
        words = self._service.run
        return host.with_specification(words) if "--gpus" in words and host.gpu_by_specification() else words

    def _ended(self, container: Container, status: int, began: float) -> None:
        self._tasks.append(asyncio.create_task(self._name_the_end(container, status, began)))

    async def _name_the_end(self, container: Container, status: int, began: float) -> None:
        guard, unit = self._service.guard.unit, self._service.unit
        killer = await asyncio.to_thread(host.killer, self._pids, began, guard)
        cause = causes.cause(container.tail)
        scene = await asyncio.to_thread(host.scene, self._service.container, container.id, (guard, unit), began)
        who = killer or ends.ended_by(scene, self._pids, status, cause is not None)
        if container is self._container and not self._stopping:
            is_clear = who and cause is None and not who.endswith(ends.PERHAPS)
            words = container.with_status(status) if is_clear else container.last_words(status)
            reason = f"{who}; its container ended {words}" if who else f"its container ended {words}"
            lost = cause is not None and cause.elsewhere and not who
            no_memory = bool(killer) or who.startswith(ends.GUARD)
            self._over(End(reason, out_of_memory=no_memory, elsewhere=lost))

    def loaded(self) -> None:
        """The group serves: from now on the rank takes what it was planned to."""
        self._loading = False

    async def _guard(self, container: Container) -> None:
        """Look after the host's memory until cancelled: docs/explanation/memory.md, "The memory guard"."""
        last: memory.Drop | None = None
        since: float | None = None
        measured_at = -math.inf
        while True:
            at = time.monotonic()
            try:
                if self._loading:
                    last = await self._look_at_caches(last, at)
                    # who is killed while it loads may be younger than the last measurement
                    self._pids |= await asyncio.to_thread(host.pids_of, container.init)
                if at - measured_at >= _MEASURE_S:
                    measured_at = at
                    since = await self._look_at_rank(container, since, at)
            except (OSError, ValueError) as problem:
                self._report.note(f"the host's memory can't be looked after: {problem}")
            await asyncio.sleep(_LOOK_S)

    async def _look_at_caches(self, last: memory.Drop | None, at: float) -> memory.Drop | None:
        floor = self._service.guard.floor_bytes
        if not memory.drops_caches(await asyncio.to_thread(host.memory_now), floor, last, at):
            return last
        gained = await asyncio.to_thread(host.drop_caches)
        self._report.note(f"less than {floor / host.GIB:.1f} GiB are free while the model loads: caches are dropped")
        self._report.update(cache_drops=self._report.fields["cache_drops"] + 1)
        return memory.Drop(at, gained)

    async def _look_at_rank(self, container: Container, since: float | None, at: float) -> float | None:
        guard, taken = self._service.guard, await asyncio.to_thread(host.memory_of, container.init)
        self._pids |= {*taken.pids}
        self._report.update(memory_taken=taken.bytes)
        since = None if self._loading else memory.over_since(since, taken.bytes, guard.high_bytes, at)
        if not memory.creeps(since, guard, at):
            self._report.update(creep="")
        elif not self._report.fields["creep"]:
            sentence = memory.creep_sentence(taken, guard)
            self._report.note(sentence)
            if guard.on_creep == "restart":
                self._report.update(creep=sentence)
                self._over(End(sentence, drains=True))
            else:
                self._report.update(creep=sentence, evidence=str(await self.keep_evidence(sentence)))
        return since

    async def serve(self) -> None:
        """Begin to serve, once all ranks have joined."""
        assert self._container is not None and self._service.serve is not None
        await self._container.execute(self._service.serve)

    async def stop(self) -> None:
        """Nothing of the rank runs when this returns, or RankError."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        try:
            if self._container is not None:
                await self._container.stop(self._service.limits.stop_s)
                self._container = None
        finally:
            await self._let_in()

    async def _let_in(self) -> None:
        """What a drain has shut, also that of a supervisor that was killed in it."""
        if self._service.endpoint is not None:
            await asyncio.to_thread(admission.admit, self._service.endpoint.port)

    async def keep_evidence(self, reason: str) -> Path:
        return await asyncio.to_thread(evidence.keep, self._service, self._report, self._container, reason)

    async def usage(self) -> dict[str, Any]:
        """{cpu_s, read_bytes, memory_bytes, lines, memory_available}: of the rank's processes, and of the machine."""
        container = self._container
        used = await asyncio.to_thread(host.usage, container.init) if container else host.Usage()
        meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
        return {
            "cpu_s": used.cpu_s,
            "read_bytes": used.read_bytes,
            "memory_bytes": used.memory_bytes,
            "lines": container.kinds if container else 0,
            "memory_available": host.available_bytes(meminfo),
        }
