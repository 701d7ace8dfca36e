# SPDX-License-Identifier: GPL-3.0-or-later
"""The endpoint from its load to its end, as the head sees it: ready by a real answer, alive by what it computes."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

from . import admission, client, endpoint, judge, listener
from .host import RankError
from .local import LocalRank
from .members import Members
from .probes import Request
from .report import Report, later_text, now_text
from .service import Service

_POLL_S = 2.0
_HEALTH_S = 10.0
# So much more often it looks at what stands still: the sooner it sees the end of a step, the sooner it knows a hang.
_PATIENT_LOOKS = 3
# So young an answer is proof enough for a gateway, which waits so long for another one.
_FRESH_S, _DOUBT_S = 0.3, 1.0
# Between two canaries of an endpoint that refuses them.
_AGAIN_S = 2.0
# Between two looks while it drains.
_REST_S = 1.0
# The first request may compile for minutes.
_FIRST_ANSWER_S = 300.0

Found = TypeVar("Found")


class Serving:
    def __init__(self, service: Service, report: Report, key: str, members: Members, local: LocalRank) -> None:
        assert service.endpoint is not None
        self._service, self._endpoint, self._report = service, service.endpoint, report
        try:
            tls = client.trusting(service.endpoint.certificate)
        except ValueError as problem:
            raise RankError(str(problem)) from None
        self._access = endpoint.Access(service.endpoint.url, key, tls)
        self._probes = service.probes
        self._members, self._local = members, local
        self._began = self._answered_at = self._asked_at = time.monotonic()
        self._doubting: asyncio.Task[endpoint.Answer] | None = None

    async def load(self) -> None:
        """Until it answers; RankError when nothing has moved for too long on any rank, or it refuses for good."""
        self._report.enter("loading", "the model loads; that may take as long as something moves")
        progress: judge.Progress | None = None
        error = "it is not healthy yet"
        while True:
            if await _within(_HEALTH_S, False, endpoint.is_healthy, self._access, self._probes.health, _HEALTH_S):
                answer = await self._ask(self._probes.proof, _FIRST_ANSWER_S)
                if answer.ok and not (error := await self._key_problem()):
                    break
                error = error if answer.ok else f"healthy, but no answer: {answer.error}"
                if answer.final:
                    raise RankError(f"the endpoint refuses our own request: {answer.error}")
            progress = judge.progressed(progress, await self._load_look())
            if judge.is_stuck(progress, self._service.limits):
                words = self._local.complaint and f"; {self._local.complaint}"
                raise RankError(f"nothing has moved for {self._service.limits.startup_limit_s:.0f} s: {error}{words}")
            await asyncio.sleep(_POLL_S)
        seconds = round(time.monotonic() - self._began, 1)
        self._report.enter(
            "warming", f"the model answers, {seconds} s after its start", ready_at=now_text(), ready_s=seconds
        )

    async def _key_problem(self) -> str:
        """Why nobody knows yet that it refuses who has no key, else empty. RankError when it answers anybody: what a
        recipe lays over its image may have taken the check out."""
        limit_s = self._service.limits.canary_s
        if not self._access.key:
            return ""
        status = await _within(limit_s, 0, endpoint.status_without_key, self._access, self._probes.proof, limit_s)
        if status in (401, 403):
            return ""
        if status in (0, 408, 429) or status >= 500:
            return f"healthy, but without its key it gave {f'HTTP {status}' if status else 'no answer'}, expected 401"
        raise RankError(
            f"the endpoint asks nobody for its API key: a request without it gave HTTP {status}, expected 401; find "
            "what takes the check out, a file, variable or option of the recipe or of the image"
        )

    async def _load_look(self) -> judge.LoadLook:
        """Of all ranks together: one that moves is enough."""
        used = [await self._local.usage(), *(member.reported for member in self._members.in_order())]

        def total(name: str) -> int:
            return sum(int(usage.get(name, 0)) for usage in used)

        return judge.LoadLook(time.monotonic(), total("lines"), total("read_bytes"), total("memory_bytes"))

    async def warm_up(self) -> None:
        """Each request waited for and timed. One that is refused is the plan's mistake, not the model's, and one that
        fails ends the start only where the first proof now fails, too: a template that takes no tools is no end."""
        taken = []
        for request in self._service.warm_up:
            began = time.monotonic()
            answer = await self._ask(request, self._service.limits.startup_limit_s)
            if not answer.ok and not answer.final:
                again = await self._ask(self._probes.proof, _FIRST_ANSWER_S)
                if not again.ok:
                    raise RankError(f"a warm-up request was not answered: {answer.error}")
            if not answer.ok:
                self._report.note(f"a warm-up request was refused: {answer.error}")
            taken.append(round(time.monotonic() - began, 2))
            self._report.update(warm_up_s=taken)
        words = f", warm-up requests took {', '.join(map(str, taken))} s" if taken else ""
        self._report.enter("serving", f"serving {self._endpoint.model} at {self._endpoint.url}{words}")

    async def watch(self) -> None:
        """As long as it lives; RankError after so many bad looks in a row, or when it has stood still for too long."""
        limits, probes = self._service.limits, self._probes
        strikes, life = 0, judge.Life.proved(time.monotonic())
        self._answered_at, before, pace_s = life.at, await self._look(), limits.canary_s
        began = before.at
        while True:
            # what was waited for in vain, /metrics or a canary, has taken its time already
            await asyncio.sleep(max(0.0, began + pace_s - time.monotonic()))
            began = time.monotonic()
            beside: endpoint.Answer | None = None
            if before.silent_since is not None:  # whatever keeps its metrics need not keep answers
                beside, now = await asyncio.gather(self._canary(), self._look(before))
            else:
                now = await self._look(before)
            verdict, life = judge.liveness(life, before, now, probes)
            self._show_progress(before, now)
            if beside is not None:
                verdict, life = judge.after_canary(verdict, life, beside.canary, before, now, probes)
            before, problem = now, "" if now.silent_since is None else "it gives no metrics"
            if beside is None and judge.wants_canary(verdict, now, self._answered_at, limits):
                answer, alone = await self._canary(), verdict == "canary"
                if answer.canary != "refused":
                    now = await self._look(now)
                verdict, life = judge.after_canary(verdict, life, answer.canary, before, now, probes)
                problem = f"a canary failed: {answer.error}"
                # the canary's own tokens are no proof the next time
                before = now if answer.ok or alone else before
                if alone and verdict == "patient":
                    self._report.update(sick=problem)
            strikes = strikes + 1 if verdict == "strike" else 0
            if verdict == "alive":
                self._report.update(sick="")
            elif verdict == "strike":
                problem = problem or "requests are running, but no token is computed and no process works"
                self._report.note(f"strike {strikes} of {limits.strikes}: {problem}")
                self._report.update(sick=problem)
            self._report.update(strikes=strikes)
            pace_s = limits.canary_s / (_PATIENT_LOOKS if verdict == "patient" else 1)
            if verdict == "hung":
                problem = f"its processes work, and nothing has been computed for {now.at - life.began:.0f} s"
            if verdict == "hung" or strikes >= limits.strikes:
                raise RankError(f"the endpoint is dead, whatever {probes.health} says: {problem}")

    async def _canary(self) -> endpoint.Answer:
        """Whether a new request is served. A refusal ends others' way here at once; silence may be a queue."""
        answer = await self._ask(self._probes.proof, self._service.limits.canary_s)
        self._asked_at = time.monotonic()
        if answer.ok:
            self._answered_at = self._asked_at
        if answer.canary != "silent":
            self._report.update(sick=answer.error)
        return answer

    async def doubt(self) -> None:
        """A gateway has seen requests fail: ask a canary, unless one just was, and wait for it for a moment."""
        if time.monotonic() - self._asked_at < (_AGAIN_S if self._report.fields["sick"] else _FRESH_S):
            return
        if self._doubting is None or self._doubting.done():
            self._doubting = asyncio.create_task(self._canary())
        await asyncio.wait({self._doubting}, timeout=_DOUBT_S)

    async def drain(self, reason: str) -> None:
        """Let in nobody new and wait until the answers under way have ended: for `drain_s` at the longest, and not for
        an engine that has computed nothing for as long as a canary may take."""
        began, limits = time.monotonic(), self._service.limits
        refused = await asyncio.to_thread(admission.refuse, self._port)
        until = later_text(limits.drain_s)
        sentence = f"{reason}; answers under way may go on until {until}"
        self._report.enter("draining", f"{sentence}{refused and f', and new ones come: {refused}'}", drains_until=until)
        since: float | None = None
        life, worked_at, before = judge.Life.proved(began), began, None
        while True:
            # before our own question, which is a connection, too
            clients = await asyncio.to_thread(admission.clients, self._local.init, self._port)
            look = await self._look() if clients else judge.Look(time.monotonic(), None, [])
            seen = look.metrics
            verdict, life = judge.liveness(life, before or look, look, self._probes)
            refuses_metrics = bool(clients) and seen is None and look.silent_since is None
            if before is None or not (refuses_metrics or verdict in ("strike", "hung")):
                worked_at = look.at
            before = look
            requests = judge.under_way(seen)
            if seen is not None:
                self._report.update(running=int(seen.running), waiting=int(seen.waiting))
            rest = judge.Rest(look.at, clients, requests)
            since, took = judge.quiet_since(since, rest), time.monotonic() - began
            if judge.is_drained(since, rest, refuses=not refused):
                return self._report.note(f"no answer is under way any more, after {took:.0f} s")
            words = f"{'some' if requests is None else requests} answers are cut off"
            if self._probes.metrics is not None and look.at - worked_at >= limits.canary_s:
                return self._report.note(f"{words}: nothing has been computed for {look.at - worked_at:.0f} s")
            if took >= limits.drain_s:
                return self._report.note(f"{words}: they did not end within {took:.0f} s")
            await asyncio.sleep(_REST_S)

    @property
    def _port(self) -> int:
        return self._endpoint.port

    async def _look(self, before: judge.Look | None = None) -> judge.Look:
        """before: whose metrics stand in for those that it does not give in time."""
        began, limit_s, names = time.monotonic(), self._service.limits.canary_s, self._probes.metrics
        metrics = None
        if names is not None and not await self._stranger():
            metrics = await _within(limit_s, None, endpoint.metrics, self._access, names, limit_s)
        used = [await self._local.usage(), *(member.reported for member in self._members.in_order())]
        cpu_s = [float(usage.get("cpu_s", 0.0)) for usage in used]
        ended = time.monotonic()
        if metrics is not None or names is None or ended - began < limit_s:
            return judge.Look(ended, metrics, cpu_s, took_s=ended - began)
        then = before or judge.Look(began, None, cpu_s)
        since = then.at if then.silent_since is None else then.silent_since
        return judge.Look(ended, then.metrics, cpu_s, since, ended - began)

    def _show_progress(self, before: judge.Look, now: judge.Look) -> None:
        rate = judge.tokens_a_second(before, now)
        self._report.update(tokens_per_s=None if rate is None else round(rate, 1))
        if now.metrics is not None:
            seen = now.metrics
            self._report.update(running=int(seen.running), waiting=int(seen.waiting), kv_use=round(seen.kv_use, 4))

    async def _ask(self, request: Request, timeout_s: float) -> endpoint.Answer:
        if stranger := await self._stranger():
            return endpoint.Answer(False, f"{stranger}, so that its key is not sent there")
        late = endpoint.Answer(False, f"no answer within {timeout_s:.0f} s", busy=True)
        return await _within(timeout_s, late, endpoint.ask, self._access, request, timeout_s)

    async def _stranger(self) -> str | None:
        """A sentence when a request with the key would not reach the service's own container.

        It reads every process's open files: in a thread, so that a busy host keeps no heartbeat waiting.
        """
        if not self._access.key:
            return None
        late, url = "who listens there could not be read in time", self._endpoint.url
        return await _within(self._service.limits.canary_s, late, listener.stranger, url, self._local.init)


async def _within(limit_s: float, late: Found, ask: Callable[..., Found], *words: Any) -> Found:
    """What a blocking question finds, `late` when it takes too long: a socket's own time-out begins anew with a byte.

    The thread of a question that is given up ends with the connection.
    """
    try:
        return await asyncio.wait_for(asyncio.to_thread(ask, *words), limit_s + 1)
    except TimeoutError:
        return late
