# SPDX-License-Identifier: GPL-3.0-or-later
"""What a supervisor decides, pure: whether to start again, whether a load moves, whether an endpoint lives.

Times are seconds of one monotonic clock.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .probes import Metrics as Names
from .probes import Probes, Requires
from .service import Limits

# A load reads many GB and fills memory: less than this in one look is chatter.
READ_BYTES_A_SECOND = 1 << 20
MEMORY_STEP_BYTES = 32 << 20
# Longer than a gateway takes to see that nobody new is let in: two looks, a second apart.
QUIET_S = 5.0
# Of one core: an engine in a prefill uses at least this.
BUSY_SHARE = 0.05
# In less, nobody's processor time shows anything.
_SHORTEST_S = 1.0
_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 60.0

# Image ------------------------------------------------------------------------------------------------------------


def too_old(requires: Requires, output: str) -> str | None:
    """The sentence for the journal when an image is too old, by what its program prints; else None."""
    least = ".".join(map(str, requires.least))
    found = re.search(requires.pattern, output)
    if found is None:
        return f"`{' '.join(requires.command)}` shows no version: {output.strip()[-200:]!r}; expected {least} or newer"
    numbers = [int(number) for number in re.findall(r"\d{1,9}", found[1])[: len(requires.least)]]
    if numbers >= list(requires.least):
        return None
    return f"the image has {found[1]}, expected {least} or newer: {requires.otherwise}"


@dataclass(frozen=True)
class End:
    """Why an epoch is over. failed: something went wrong; not so when an owner stops or restarts a rank. drains: its
    ranks are whole, and answers under way may end first. out_of_memory: a rank was ended since its host had too little,
    as it will be again. elsewhere: a rank ended since another one did, which may tell why."""

    reason: str
    failed: bool = True
    drains: bool = False
    out_of_memory: bool = False
    elsewhere: bool = False


# Budget -----------------------------------------------------------------------------------------------------------


def recent(starts: Sequence[float], now: float, limits: Limits) -> list[float]:
    """The starts that still count."""
    return [start for start in starts if now - limits.budget.within_s < start <= now]


def may_start(starts: Sequence[float], now: float, limits: Limits) -> bool:
    return len(recent(starts, now, limits)) < limits.budget.starts


def is_owners_start(restarts: int | None, before: int | None) -> bool:
    """Whether somebody started the unit, and not systemd by `Restart=`.

    restarts: of its own, as systemd counts them now (`NRestarts`); before: at the start before this one. None: not
    known. Systemd counts one more before each start of its own. Somebody's begins anew with 0, or leaves the count as
    it is when it comes in the pause before one of systemd's.
    """
    return restarts is not None and restarts <= (before or 0)


# What site.yml brings while the supervisor waits: who waits for the service then must not wait longer.
_BROUGHT = ("No such image", "source path does not exist")


def pause_s(obstacles: int, obstacle: str = "") -> float:
    """Seconds until the next try: the kernel takes ports and memory back in a few, an obstacle (a port that is taken,
    memory that is short) may last. obstacles: how many tries in a row have met one."""
    if any(mark in obstacle for mark in _BROUGHT):
        return _PAUSE_S
    return float(min(_LONGEST_PAUSE_S, _PAUSE_S * 2 ** min(max(0, obstacles - 1), 10)))


# Load -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoadLook:
    """One look at a container that loads. read_bytes: by all its processes since they began; lines: kinds seen."""

    at: float
    lines: int
    read_bytes: int
    memory_bytes: int


@dataclass(frozen=True)
class Progress:
    """The last look that counted, and when something last moved. memory_bytes: the highest seen."""

    look: LoadLook
    moved_at: float
    memory_bytes: int


def progressed(before: Progress | None, look: LoadLook) -> Progress:
    """CPU time is no progress: ranks that wait for each other spin (NCCL). A repeated line is none either."""
    if before is None:
        return Progress(look, look.at, look.memory_bytes)
    seconds = look.at - before.look.at
    grown = look.memory_bytes >= before.memory_bytes + MEMORY_STEP_BYTES
    moved = (
        look.lines > before.look.lines
        or look.read_bytes - before.look.read_bytes >= READ_BYTES_A_SECOND * seconds > 0
        or grown
    )
    highest = look.memory_bytes if grown else before.memory_bytes
    return Progress(look, look.at if moved else before.moved_at, highest)


def is_stuck(progress: Progress, limits: Limits) -> bool:
    return progress.look.at - progress.moved_at > limits.startup_limit_s


def kind_of_line(line: str) -> str:
    """A log line without its numbers: what a load repeats while it waits is one kind."""
    return re.sub(r"0x[0-9a-f]+|\d+", "#", line)[:200]


# Liveness ---------------------------------------------------------------------------------------------------------

# hung: nothing but processor time has moved for as long as a step may take.
Verdict = Literal["alive", "canary", "patient", "strike", "hung"]
# Of a canary. silent: no answer in time; refused: anything but an answer.
Canary = Literal["answered", "silent", "refused"]
# So old the last answer to a canary may be while others' requests are computed, in looks.
PROOF_LOOKS = 4
# So often the KV gauge has to rise before it counts: once or twice it does for a request that is let in and then hangs.
# Twice by the same, within so small a part of it: a long prompt is read in equal parts.
_RISES, _EQUAL = 3, 0.05
# Of the time for a step: a change after so long a standstill is the end of a long step, whoever joined or went.
_LONG_STEP = 1 / 3


@dataclass(frozen=True)
class Metrics:
    """Their values. tokens: computed since the start, in whatever way; answered: of them, generated."""

    tokens: float
    answered: float
    running: float
    waiting: float
    kv_use: float


@dataclass(frozen=True)
class Look:
    """One look at a serving endpoint. at: when it was over, took_s after it was asked. metrics: None when it refused
    them. cpu_s: of each rank's processes so far. silent_since: when it last gave metrics in time, those of that look;
    None: now."""

    at: float
    metrics: Metrics | None
    cpu_s: Sequence[float]
    silent_since: float | None = None
    took_s: float = 0.0


@dataclass(frozen=True)
class Life:
    """at: when the endpoint last proved itself. began: no later the step began that is computed now. rises: of the KV
    gauge since it proved itself, for the same requests; rose: by how much at the last one. fell: the gauge fell since
    then, so that its rises may be other clients' prompts. moved: when anything last changed, or may have. waits: since
    it proved itself, a canary has had no answer."""

    at: float
    began: float
    rises: int = 0
    rose: float = 0.0
    fell: bool = False
    moved: float = 0.0
    waits: bool = False

    @classmethod
    def proved(cls, at: float, rises: int = 0, rose: float = 0.0) -> "Life":
        return cls(at, at, rises, rose, moved=at)


def parse_metrics(text: str, names: Names) -> Metrics:
    """Prometheus text; series of one name are added up, as are several names (of the KV use: the highest)."""
    values: dict[str, list[float]] = {}
    for name, value in re.findall(r"^([\w:]+)(?:\{[^}]*\})? ([-+.\deE]+)$", text, re.MULTILINE):
        values.setdefault(name, []).append(float(value))

    def found(wanted: Sequence[str]) -> list[float]:
        return [value for name in wanted for value in values.get(name, ())]

    return Metrics(
        tokens=sum(found(names.tokens)),
        answered=sum(found(names.answered)),
        running=sum(found(names.running)),
        waiting=sum(found(names.waiting)),
        kv_use=max(found(names.kv_use), default=0.0),
    )


def liveness(life: Life, before: Look, now: Look, probes: Probes) -> tuple[Verdict, Life]:
    """What two looks show, and the life after them. What changes lives, what stands still for its time is hung.

    Tokens move by computing alone. Engines write their gauges after a step alone, so that a change after a long
    standstill is the end of a step, and the next one has its time. In a long prefill, of which some count no token
    before its end, the KV gauge rises. It moves as well when clients come and go, and once for a step that hangs, so
    that one rise is a reason to wait for the next one, and only several are a proof, or two equal ones.
    Requests that run or wait prove nothing, nor does processor time: ranks that wait for each other spin. While
    processes work, one step may take `patience_s`, since a canary would only queue behind it. An endpoint without
    requests proves itself by a canary, as does one that refuses its metrics. Late metrics may be a long step, or a
    server that reads a long prompt.
    """
    if now.silent_since is not None:
        return _standing(life, before, now, probes), life
    if before.metrics is None or now.metrics is None:
        return "canary", life
    idle = now.metrics.running + now.metrics.waiting == 0
    if now.metrics.tokens != before.metrics.tokens:
        return "canary" if idle else "alive", Life.proved(now.at)
    joined, rose = now.metrics.running - before.metrics.running, now.metrics.kv_use - before.metrics.kv_use
    if joined or rose:
        rises = life.rises + 1 if rose > 0 and not joined else 0
        if rises >= _RISES or (rises > 1 and abs(rose - life.rose) <= _EQUAL * rose):
            return "alive", Life.proved(now.at, rises, rose)
        long_step = before.at - life.moved >= _LONG_STEP * probes.patience_s
        fell = not long_step and (life.fell or rose < 0)
        began = life.at if fell else now.at if long_step or rose > 0 else life.began
        moved = now.at if before.silent_since is None else before.silent_since
        life = replace(life, began=began, rises=rises, rose=rose, fell=fell, moved=moved)
        if rose > 0 or long_step:
            return _waits(life, now, probes), life
    return ("canary" if idle else _standing(life, before, now, probes)), life


def _standing(life: Life, before: Look, now: Look, probes: Probes) -> Verdict:
    """Of an endpoint of which nothing but processor time may have moved."""
    seconds = now.at - before.at
    work = (later - earlier for earlier, later in zip(before.cpu_s, now.cpu_s, strict=False))
    if seconds >= _SHORTEST_S and not any(used >= BUSY_SHARE * seconds for used in work):
        return "strike"
    return _waits(life, now, probes)


def _waits(life: Life, now: Look, probes: Probes) -> Verdict:
    """Silence hides the end of a step: the next metrics show whether there was one, or it is itself longer than one."""
    since = life.began + now.took_s if now.silent_since is None else max(life.began, now.silent_since)
    return "hung" if now.at - since > probes.patience_s else "patient"


def after_canary(
    verdict: Verdict, life: Life, canary: Canary, asked: Look, now: Look, probes: Probes
) -> tuple[Verdict, Life]:
    """What a canary adds to the verdict of the look before it. asked, now: looks around it.

    An answer proves the endpoint. A refusal is a strike, whatever else moves: a token of somebody else does not show
    that a new request is served. Silence beside others' requests is none: a canary queues behind a prefill. Nor is it
    one as long as processes work: a request is counted by some engines after its first step alone, and it may compile.
    The step that keeps it began before it was asked.
    """
    if canary == "answered":
        return "alive", Life.proved(now.at)
    if canary == "refused":
        return "strike", life
    if verdict != "canary":
        return verdict, life
    if not life.waits:
        life = replace(life, began=asked.at, waits=True)
    verdict, life = liveness(life, asked, now, probes)
    return (_standing(life, asked, now, probes) if verdict == "canary" else verdict), life


def wants_canary(verdict: Verdict, now: Look, answered_at: float, limits: Limits) -> bool:
    """Whether to ask: an endpoint that proves itself by it, and one that computes, if nobody waits there, and the last
    answer is old. answered_at: when the last canary was answered."""
    if verdict == "alive" and now.metrics is not None and now.metrics.waiting == 0:
        return now.at - answered_at >= PROOF_LOOKS * limits.canary_s
    return verdict == "canary"


def tokens_a_second(before: Look, now: Look) -> float | None:
    """Generated tokens; None without two readings."""
    if before.metrics is None or now.metrics is None or now.at <= before.at:
        return None
    return max(0.0, now.metrics.answered - before.metrics.answered) / (now.at - before.at)


# The last answers -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rest:
    """One look at an endpoint that drains. clients: connections to it. requests: of them under way, as its engine says;
    None when it does not say."""

    at: float
    clients: int
    requests: int | None


def under_way(seen: Metrics | None) -> int | None:
    """How many requests an engine works on; None when it is not known. Some count a prompt that they read in parts
    neither as running nor as waiting, but what it holds of the KV cache shows it."""
    if seen is None:
        return None
    requests = int(seen.running + seen.waiting)
    return None if requests == 0 and seen.kv_use > 0 else requests


def quiet_since(before: float | None, rest: Rest) -> float | None:
    """Since when nobody waits for an answer; None while somebody does, or may. before: what the look before found."""
    if rest.clients and rest.requests != 0:
        return None
    return rest.at if before is None else before


def is_drained(since: float | None, rest: Rest, refuses: bool) -> bool:
    """since: of `quiet_since`. refuses: nobody new comes in.

    A request that is just being read is none of the engine's yet, and connections are kept for later ones, so that it
    has to stay quiet; not so where nobody is connected and nobody can be.
    """
    if since is None:
        return False
    return (refuses and not rest.clients) or rest.at - since >= QUIET_S


# Containers -------------------------------------------------------------------------------------------------------


def describe_exit(status: int, exit_words: Mapping[str, str]) -> str:
    """A container's exit status in words. exit_words: of its engine, by the status."""
    docker = {"125": "Docker could not run it or went away", "137": "killed"}
    words = {**docker, **exit_words}.get(str(status))
    return f"{status}: {words}" if words else str(status)


def process_ids(running: Mapping[int, str], commands: Sequence[Sequence[str]]) -> list[int]:
    """The processes that run one of the commands. running: the words of each by its id (`host.commands_of`).

    A program may be called by its path and after its interpreter, so that the words after its name are compared.
    """
    endings = [" ".join([words[0].rpartition("/")[2], *words[1:]]) for words in commands if words]
    return [pid for pid, words in running.items() if any(words.endswith(end) for end in endings)]
