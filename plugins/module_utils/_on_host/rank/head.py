# SPDX-License-Identifier: GPL-3.0-or-later
"""The rank that leads: it gathers the others, runs epochs, and ends an epoch for all when any rank fails."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from . import judge
from .host import NotLaunchedError, RankError, restarts_of, run, stopped_by
from .judge import End
from .local import LocalRank
from .members import Members
from .probes import Joined, Others
from .readiness import Readiness
from .report import UNSERVED, Ledger, Report
from .service import Service
from .serving import Serving

EXIT_STOPPED = 3
_EVIDENCE_S = 30.0
# So much later than the others the rank that ended first may report it.
_FIRST_S = 10.0
# In so long a rank has read why its container ended, on a busy host too.
_NAMED_S = 30.0
_JOINED_POLL_S = 2.0
_LISTENS_POLL_S, _CONNECT_S = 0.5, 5.0


class Head:
    def __init__(self, service: Service, report: Report, secret: bytes, key: str) -> None:
        self._service, self._report, self._key = service, report, key
        self._ledger = Ledger(service, report.note)
        # of this epoch: a container was launched, which counts against the restart budget
        self._launched = False
        self._obstacles = 0
        self._end: asyncio.Future[End] | None = None
        # while it answers clients
        self._serving: Serving | None = None
        self._asked, self._hurried = False, asyncio.Event()
        self._members = Members(service, report, secret, self._over)
        self._local = LocalRank(service, report, self._over_here, secret)

    def _over(self, end: End) -> None:
        """A rank failed or left; the first to report it ends the epoch, or its drain. Who ended since another one did
        waits for that one's words."""
        is_draining = end.drains and self._report.state == "draining"
        if self._end is None or self._end.done() or is_draining:
            return
        if end.elsewhere and self._service.ranks > 1:
            self._report.update(sick=end.reason)
            asyncio.get_running_loop().call_later(_FIRST_S, self._insist, self._end, end)
        else:
            self._end.set_result(end)

    def _insist(self, epoch: asyncio.Future[End], end: End) -> None:
        """Nobody else said why, and it still is the same epoch."""
        if epoch is self._end:
            self._over(replace(end, elsewhere=False))

    def _over_here(self, end: End) -> None:
        self._over(replace(end, reason=f"rank 0: {end.reason}"))

    def stop(self, cancel: Callable[[], object]) -> None:
        """The owner wants it to end; who asks again does not want to wait for answers under way."""
        if self._asked:
            self._hurried.set()
        else:
            self._asked = True
            cancel()

    async def run(self) -> int:
        """The unit's exit status; being cancelled is the owner's stop."""
        last = "the supervisor was killed before it could report"
        ready = self._service.readiness
        gateways = asyncio.create_task(Readiness(ready, self._report, self._doubt).listen()) if ready else None
        try:
            self._ledger.supervised(await asyncio.to_thread(restarts_of, self._service.unit))
            await self._listen()
            while judge.may_start(self._ledger.starts, time.monotonic(), self._service.limits):
                await self._members.gather()
                self._report.update(epoch=self._ledger.begin(), starts_left=self._starts_left(), **UNSERVED)
                end = await self._epoch()
                last = end.reason
                if end.failed and not self._launched:
                    await self._wait_out(end.reason)
                    continue
                await self._close(end)
                if self._launched and not end.failed:
                    self._ledger.restore_budget()
                elif end.out_of_memory:
                    self._ledger.launched(time.monotonic())  # counts twice: each time may hang the host
                self._report.update(starts_left=self._starts_left())
                if self._starts_left():
                    await asyncio.sleep(judge.pause_s(0))
        except asyncio.CancelledError:
            who = await asyncio.to_thread(stopped_by, self._service)
            await self._close(End(who or "the owner stops the service", failed=False, drains=True))
            self._ledger.clear()
            self._report.enter("waiting", f"stopped: {who}" if who else "stopped by its owner")
            return 0
        finally:
            if gateways is not None:
                gateways.cancel()
        return await self._stopped(last)

    async def _doubt(self) -> None:
        if self._serving is not None:
            await self._serving.doubt()

    async def _listen(self) -> None:
        while True:
            try:
                return await self._members.listen()
            except RankError as problem:
                await self._wait_out(str(problem))

    async def _wait_out(self, obstacle: str) -> None:
        """Nothing was launched: no start is used up, and the next try comes after a pause that grows."""
        self._obstacles += 1
        pause = judge.pause_s(self._obstacles, obstacle)
        sentence = f"it can't start yet, and tries again after {pause:.0f} s: {obstacle}"
        self._report.enter("preparing", sentence, error=sentence)
        await self._stop_all(obstacle)
        await asyncio.sleep(pause)

    def _starts_left(self) -> int:
        limits = self._service.limits
        return max(0, limits.budget.starts - len(judge.recent(self._ledger.starts, time.monotonic(), limits)))

    async def _stopped(self, last: str) -> int:
        budget, unit = self._service.limits.budget, self._service.unit
        evidence = self._report.fields["evidence"] or f"`journalctl -u {unit}`"
        sentence = (
            f"stopped: {budget.starts} starts within {budget.within_s / 60:.0f} minutes did not last (one that ended "
            f"for want of memory counts as two), the last one because {last}; see {evidence}, mend it, then: "
            f"systemctl start {unit}"
        )
        await self._members.broadcast({"do": "stopped", "reason": sentence})
        self._ledger.clear()
        self._report.enter("stopped", sentence, error=sentence)
        return EXIT_STOPPED

    # One epoch ---------------------------------------------------------------------------------------------------

    async def _epoch(self) -> End:
        """From preparation to its end; returns why it is over."""
        self._launched = False
        self._end = asyncio.get_running_loop().create_future()
        flow = asyncio.create_task(self._flow())
        try:
            either: set[asyncio.Future[Any]] = {flow, self._end}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._end.done():
                return self._end.result()
            flow.result()
            raise AssertionError("serving has no end of its own")
        except (RankError, OSError) as problem:
            if self._local.is_gone:  # why it ended says more than that nobody answers
                await asyncio.wait({self._end}, timeout=_NAMED_S)
            return self._end.result() if self._end.done() else End(str(problem))
        finally:
            flow.cancel()
            self._end = None

    async def _flow(self) -> None:
        service, report = self._service, self._report
        # an obstacle stays in sight until it is known to be gone
        cleared = {} if self._obstacles else {"error": ""}
        report.enter("preparing", f"epoch {report.fields['epoch']}: all {service.ranks} ranks get ready", **cleared)
        await self._everywhere(self._local.prepare(), "prepare")
        await self._launch()
        self._obstacles = 0
        if service.probes.others is None:
            report.enter("starting", "the head's container runs, the others start", error="")
            await self._launch_others()
        if service.serve is not None:
            if service.probes.joined is not None:
                await self._joined(service.probes.joined)
            await self._local.serve()
        serving = Serving(service, report, self._key, self._members, self._local)
        await serving.load()
        await serving.warm_up()
        self._local.loaded()
        await self._members.broadcast({"do": "loaded", "epoch": report.fields["epoch"], "reason": ""})
        self._serving = serving
        await serving.watch()

    async def _launch(self) -> None:
        """This host's container, and before it those of the others where it needs them. It counts from before its
        launch, so that a supervisor that is killed has counted."""
        self._ledger.launched(time.monotonic())
        self._launched = True
        self._report.update(starts_left=self._starts_left())
        try:
            if self._service.probes.others is not None:
                self._report.enter("starting", "the other ranks' containers start, the head's after them", error="")
                await self._launch_others()
                await self._listening(self._service.probes.others)
            await self._named(self._local.launch())
        except NotLaunchedError:
            self._ledger.restore_budget()
            self._launched = False
            self._report.update(starts_left=self._starts_left())
            raise

    async def _launch_others(self) -> None:
        for member in self._members.in_order():
            await member.ask("launch")

    async def _listening(self, others: Others) -> None:
        """Each other rank's engine takes connections."""
        deadline, waiting = time.monotonic() + others.timeout_s, [*self._service.peers]
        while waiting:
            waiting = [address for address in waiting if not await _connects(address, others.port)]
            if waiting and time.monotonic() > deadline:
                late = ", ".join(f"{address}:{others.port}" for address in waiting)
                raise RankError(f"nothing listens at {late} after {others.timeout_s:.0f} s")
            if waiting:
                await asyncio.sleep(_LISTENS_POLL_S)

    async def _everywhere(self, here: Awaitable[None], order: str) -> None:
        tasks = [asyncio.ensure_future(self._named(here))]
        tasks += [asyncio.create_task(member.ask(order)) for member in self._members.in_order()]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _named(self, here: Awaitable[None]) -> None:
        try:
            await here
        except RankError as problem:
            raise type(problem)(f"rank 0: {problem}") from None

    async def _joined(self, probe: Joined) -> None:
        """All ranks are in, by the engine's own list."""
        deadline, pattern = time.monotonic() + probe.timeout_s, re.compile(probe.pattern, re.MULTILINE)
        found = 0
        while found < self._service.ranks:
            if time.monotonic() > deadline:
                raise RankError(f"{found} of {self._service.ranks} ranks joined within {probe.timeout_s:.0f} s")
            await asyncio.sleep(_JOINED_POLL_S)
            found = len(pattern.findall((await asyncio.to_thread(run, probe.command)).stdout))
            self._report.note(f"{found} of {self._service.ranks} ranks have joined")

    async def _close(self, end: End) -> None:
        """End the epoch on all ranks, in a bounded time; what went wrong is kept first.

        Answers under way may end before, where all ranks are there. The head stops first, so that nobody asks an engine
        that has lost a rank, and because its own shutdown may want its workers alive; these may never leave by
        themselves and are stopped after it.
        """
        if end.drains and self._serving is not None and self._service.limits.drain_s:
            await self._drain(self._serving, end.reason)
        self._serving = None
        self._report.enter("ending", f"the epoch ends: {end.reason}", last_end=end.reason)
        if end.failed:
            await self._keep_evidence(end.reason)
        await self._stop_all(end.reason)

    async def _drain(self, serving: Serving, reason: str) -> None:
        """Until no answer is under way, none can end any more, or the owner does not want to wait."""
        self._end = asyncio.get_running_loop().create_future()
        draining, hurried = (asyncio.create_task(awaited) for awaited in (serving.drain(reason), self._hurried.wait()))
        try:
            either: set[asyncio.Future[Any]] = {draining, hurried, self._end}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._end.done():
                self._report.note(f"the answers under way can't end: {self._end.result().reason}")
            elif hurried.done():
                self._report.note("asked to end again: the answers under way are cut off")
            else:
                draining.result()
        except OSError as problem:
            self._report.note(f"the answers under way are cut off: {problem}")
        finally:
            draining.cancel()
            hurried.cancel()
            self._end = None
            self._report.update(drains_until=None)

    async def _stop_all(self, reason: str) -> None:
        try:
            await self._local.stop()
        except RankError as problem:
            self._report.note(f"rank 0: {problem}")
        await self._members.try_all("stop", reason, self._service.limits.stop_s + 60)

    async def _keep_evidence(self, reason: str) -> None:
        others = asyncio.create_task(self._members.try_all("evidence", reason, _EVIDENCE_S))
        try:
            self._report.update(evidence=str(await asyncio.wait_for(self._local.keep_evidence(reason), _EVIDENCE_S)))
        except (OSError, TimeoutError) as problem:
            self._report.note(f"no evidence could be kept: {problem!r}")
        await others


async def _connects(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), _CONNECT_S)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
