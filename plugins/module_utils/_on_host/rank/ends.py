# SPDX-License-Identifier: GPL-3.0-or-later
"""Who ended a container, by what its host shows: a watchdog, a person, Docker, a signal. Pure."""

import json
import re
import signal
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

_ENDS = re.compile(r"kill|terminat|SIGTERM|SIGKILL|signal 9|\bstop|remov|\brm\b|restart|\boom\b", re.IGNORECASE)
# How a program tells whose command it runs.
_CRON = re.compile(r"\((\S+)\) CMD \((.+)\)$")
_COMMANDS = {
    "sudo": re.compile(r"\s*(\S+) : .*\bCOMMAND=(.+)"),
    "doas": re.compile(r"(\S+) ran command (.+) as \S+ from "),
    "CRON": _CRON,
    "CROND": _CRON,
}
# It names no container, but all of a project.
_COMPOSE = re.compile(r"\bdocker[- ]compose\b.*\b(?:down|stop|kill|rm|restart)\b")
_OF_THE_SYSTEM = re.compile(r"debian-sa1|e2scrub|/etc/cron\.(?:hourly|daily|weekly|monthly)|anacron")
_NUMBER, _SHORT_ID = re.compile(r"\b\d{2,8}\b"), re.compile(r"(?<=[ /])[0-9a-f]{4,11}\b")
_BY_NAME = re.compile(r"\b(?:pkill|killall)\b")
_DOCKER_ENDS = re.compile(r"Daemon shutdown complete|Processing signal|Stopping docker", re.IGNORECASE)
# Who only reports what others do.
_REPORTERS = ("docker.service", "containerd.service", "init.scope", "")
# Units that end programs, by their names.
_WATCHDOG = re.compile(r"oomd?\b|nohang|watchdog|thrash|reaper|guard|killer|monit\b")
_SHOWN = 160
GUARD = "the memory guard"
_BY_DOCKER = "somebody ended it by Docker (`docker stop`, `docker kill`, `docker rm -f`, or a tool that does so)"
PERHAPS = "ended a process of it"


@dataclass(frozen=True)
class Scene:
    """What a host shows of the last seconds. journal: entries as journalctl's JSON. events: Docker's of the container,
    ``ACTION SIGNAL`` a line. units: those that run, one a line. own: units of this collection, which end nobody unsaid.
    names: the container's."""

    journal: str
    events: str
    units: str
    own: Collection[str]
    names: Collection[str]


def ended_by(scene: Scene, pids: Collection[int], status: int, cause_is_known: bool) -> str:
    """A clause that names who ended it; empty where it ended by itself."""
    found = _by_journal(scene, pids) or _by_docker(scene)
    units = [unit for unit in re.findall(r"^\s*(\S+\.service)", scene.units, re.MULTILINE) if _watches(unit, scene)]
    may = _may(units)
    if found:
        perhaps = _may([*units, *_perhaps(scene, compose=True)]) if found == _BY_DOCKER else ""
        return f"{found}: {perhaps}" if perhaps else found
    if status in (128 + signal.SIGKILL, 128 + signal.SIGTERM):
        # of a process so young that nobody had seen it
        guard = [text for who, text in _entries(scene.journal) if who in scene.own and text.startswith("sending SIG")]
        if guard:
            return f"{GUARD} ended it ({guard[-1][:_SHOWN]}), since the host had too little memory left"
        # SGLang ends itself by SIGKILL when a start fails
        if not cause_is_known:
            perhaps = _may([*units, *_perhaps(scene)])
            return f"somebody ended it by signal {status - 128} (`kill`, `pkill`){perhaps and f': {perhaps}'}"
    return "" if cause_is_known or not may else f"{may} {PERHAPS}"


def _by_journal(scene: Scene, pids: Collection[int]) -> str:
    for who, text in _entries(scene.journal):
        if command := _command(who, text):
            by_name = _BY_NAME.search(command[2]) and "kill" not in scene.events
            ends_it = _ENDS.search(command[2]) or _COMPOSE.search(command[2])
            if by_name or (ends_it and _is_about(command[2], scene.names, pids)):
                return f"{_whose(who, command)} ended it by `{command[2].strip()[:_SHOWN]}`"
        elif who not in (*scene.own, *_REPORTERS) and _ENDS.search(text) and _is_about(text, scene.names, pids):
            return f"{who} ended it ({' '.join(text.split())[:_SHOWN]})"
    return ""


def _by_docker(scene: Scene) -> str:
    if any(who == "docker.service" and _DOCKER_ENDS.search(text) for who, text in _entries(scene.journal)):
        return "Docker itself was stopped or restarted, and ended it"
    actions = {line.split(" ")[0] for line in scene.events.splitlines()}
    if "oom" in actions:
        return "the kernel ended it at the container's own memory limit"
    return _BY_DOCKER if actions & {"kill", "stop"} else ""


def _may(others: Sequence[str]) -> str:
    return f"{' and '.join(others)} on this host may have" if others else ""


def _perhaps(scene: Scene, compose: bool = False) -> Iterator[str]:
    """Commands of these seconds that do not say what they end: cron's jobs, and compose's of whole projects."""
    for who, text in _entries(scene.journal):
        command = _command(who, text)
        is_job = who.startswith("CRON") and not _OF_THE_SYSTEM.search(text)
        if command and (is_job or (compose and _COMPOSE.search(command[2]))):
            yield f"{_whose(who, command)} (`{command[2].strip()[:_SHOWN]}`)"


def _command(who: str, text: str) -> re.Match[str] | None:
    return _COMMANDS[who].match(text) if who in _COMMANDS else None


def _whose(who: str, command: re.Match[str]) -> str:
    return f"{command[1]}'s cron job" if who.startswith("CRON") else command[1]


def _watches(unit: str, scene: Scene) -> bool:
    return unit not in scene.own and not unit.startswith("gb10-") and bool(_WATCHDOG.search(unit))


def _entries(journal: str) -> Iterator[tuple[str, str]]:
    """(unit or program, words) of each."""
    for line in journal.splitlines():
        try:
            entry = json.loads(line)
            text, program = entry["MESSAGE"], str(entry.get("SYSLOG_IDENTIFIER", ""))
            who = program if program in _COMMANDS else entry.get("_SYSTEMD_UNIT") or program
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if isinstance(text, str) and isinstance(who, str):
            yield who, text


def _is_about(text: str, names: Collection[str], pids: Collection[int]) -> bool:
    if any(name and name in text for name in names) or any(int(word) in pids for word in _NUMBER.findall(text)):
        return True
    # Docker takes the beginning of an id
    return any(name.startswith(word) for word in _SHORT_ID.findall(text) for name in names)
