# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""One rank on its own host: prepare, launch, watch, stop. The head and the others do the same with theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import admission, evidence, host
from .container import Container
from .host import NotLaunchedError, RankError
from .report import Report
from .service import Service


class LocalRank:
    """over: called with one sentence when the rank's container ended by itself. secret: the group's."""

    def __init__(self, service: Service, report: Report, over: Callable[[str], None], secret: bytes = b"") -> None:
        self._service, self._report, self._over = service, report, over
        self._container: Container | None = None
        self._secret = secret
        self._required = service.probes.requires
        self._stopping = False
        self._variables: list[str] = []

    @property
    def init(self) -> int:
        """The container's first process on the host; 0 without one."""
        return self._container.init if self._container else 0

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
        exit_words = self._service.probes.exit_words
        container = self._container = Container(self._service.container, self._report.log, exit_words)
        await container.launch(host.with_environment(await asyncio.to_thread(self._words), self._variables))
        # not before: where a container never ran the launch itself fails, and uses up no start
        container.ended.add_done_callback(lambda ended: self._ended(container, ended.result()))

    def _words(self) -> Sequence[str]:
        words = self._service.run
        return host.with_specification(words) if "--gpus" in words and host.gpu_by_specification() else words

    def _ended(self, container: Container, status: int) -> None:
        if container is self._container and not self._stopping:
            self._over(f"its container ended {container.last_words(status)}")

    async def serve(self) -> None:
        """Begin to serve, once all ranks have joined."""
        assert self._container is not None and self._service.serve is not None
        await self._container.execute(self._service.serve)

    async def stop(self) -> None:
        """Nothing of the rank runs when this returns, or RankError."""
        self._stopping = True
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
