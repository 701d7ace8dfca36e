# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who ended a container: each by its name."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import ends

NAME, PIDS = "gb10-service-chat", {4711, 4712}
OWN = ("gb10-memory-guard.service", f"{NAME}.service")


def entry(who: str, text: str, program: str = "") -> str:
    return json.dumps({"_SYSTEMD_UNIT": who, "SYSLOG_IDENTIFIER": program, "MESSAGE": text})


def who(journal: list[str], events: str = "", units: str = "", status: int = 137, known: bool = False) -> str:
    scene = ends.Scene("\n".join(journal), events, units, OWN, (NAME, "0f3a5c7e9b1d"))
    return ends.ended_by(scene, PIDS, status, known)


WATCHDOG = entry("spark-oom-guard.service", "free 2.1 GiB, killing pid 4712 (VLLM::EngineCor)", "python3")
PERSON = "   maria : TTY=pts/0 ; PWD=/home/maria ; USER=root ; COMMAND=/usr/bin/docker kill gb10-service-chat"


@pytest.mark.parametrize(
    ("journal", "events", "named"),
    [
        ([WATCHDOG], "", "spark-oom-guard.service ended it (free 2.1 GiB, killing pid 4712 (VLLM::EngineCor))"),
        (
            [entry("systemd-oomd.service", "Killed /system.slice/docker-0f3a5c7e9b1d2.scope due to memory pressure")],
            "",
            "systemd-oomd.service ended it",
        ),
        ([entry("earlyoom.service", 'sending SIGTERM to process 4711 uid 0 "vllm": badness 900')], "", "earlyoom."),
        ([entry("session-3.scope", PERSON, "sudo")], "kill 9", "maria ended it by `/usr/bin/docker kill gb10-"),
        (
            [entry("session-3.scope", PERSON.replace("kill gb10-service-chat", "rm -f 0f3a5c"), "sudo")],
            "kill 9",
            "maria ended it by `/usr/bin/docker rm -f 0f3a5c`",
        ),
        (
            [entry("session-3.scope", PERSON.replace("kill gb10-service-chat", "rm -f 7b3a5c"), "sudo")],
            "kill 9",
            "somebody ended it by Docker",
        ),
        (
            [entry("user@1000.service", PERSON.replace("docker kill gb10-service-chat", "pkill -9 -f vllm"), "sudo")],
            "",
            "maria ended it by `/usr/bin/pkill -9 -f vllm`",
        ),
        (
            [entry("cron.service", "watchtower: Stopping /gb10-service-chat (0f3a5c7e9b1d) with SIGTERM")],
            "kill 15",
            "cron.service ended it",
        ),
        (
            [entry("session-3.scope", "maria ran command docker kill gb10-service-chat as root from /root", "doas")],
            "kill 9",
            "maria ended it by `docker kill gb10-service-chat`",
        ),
        (
            [entry("session-3.scope", "maria ran command pkill -9 -f vllm as root from /home/maria", "doas")],
            "",
            "maria ended it by `pkill -9 -f vllm`",
        ),
        (
            [entry("cron.service", "(root) CMD (docker restart gb10-service-chat >/dev/null)", "CRON")],
            "kill 15",
            "root's cron job ended it by `docker restart gb10-service-chat >/dev/null`",
        ),
        (
            [entry("crond.service", "(ops) CMD (pkill -f vllm)", "CROND")],
            "",
            "ops's cron job ended it by `pkill -f vllm`",
        ),
        ([], "kill 15\nkill 9\nstop \ndie ", "somebody ended it by Docker"),
        ([], "oom \ndie ", "the kernel ended it at the container's own memory limit"),
        ([entry("docker.service", "Processing signal 'terminated'")], "", "Docker itself was stopped"),
        ([], "die ", "somebody ended it by signal 9 (`kill`, `pkill`)"),
    ],
)
def test_each_is_named(journal: list[str], events: str, named: str) -> None:
    assert who(journal, events).startswith(named)


def test_a_kill_of_something_else_is_not_blamed_for_dockers() -> None:
    """Found in the lab: somebody's pkill of another engine, twenty seconds before."""
    pkill = PERSON.replace("docker kill gb10-service-chat", "pkill -9 other")
    assert who([entry("session-3.scope", pkill, "sudo")], "kill 9\ndie ").startswith("somebody ended it by Docker")


def test_who_has_systemd_stop_it_is_named() -> None:
    stop = PERSON.replace("docker kill gb10-service-chat", "systemctl stop gb10-service-chat")
    assert who([entry("session-3.scope", stop, "sudo")], status=0, known=True) == (
        "maria ended it by `/usr/bin/systemctl stop gb10-service-chat`"
    )
    assert who([entry("docker.service", "Processing signal 'terminated'")], status=0, known=True).startswith("Docker")
    assert who([], units="spark-watchdog.service loaded", status=0, known=True) == ""


def test_the_guards_second_one_is_named_though_nobody_had_seen_its_process() -> None:
    """Found: "killed by somebody", for the memory guard's own word."""
    journal = [entry("gb10-memory-guard.service", "sending SIGKILL to process 999 (vllm)")]
    assert who(journal, "die ").startswith("the memory guard ended it (sending SIGKILL to process 999 (vllm))")


def test_who_only_reports_others_ended_nobody() -> None:
    journal = [
        entry("containerd.service", f'level=info msg="shim disconnected, killing" id={NAME}'),
        entry("docker.service", f"container {NAME} failed to exit within 10s of signal 15"),
        entry(f"{NAME}.service", "(EngineCore pid=4711) killed"),
        entry("gb10-memory-guard.service", "sending SIGTERM to process 4711"),
        entry("nginx.service", "stopped worker 99"),
        "no JSON",
        json.dumps({"MESSAGE": [1, 2]}),
        json.dumps({"MESSAGE": "killed 4711", "SYSLOG_IDENTIFIER": ["sudo", "doas"], "_SYSTEMD_UNIT": {"a": 1}}),
    ]
    assert who(journal, status=1, known=True) == ""
    assert who(journal, status=1) == ""


def test_an_engine_that_ends_itself_after_its_own_words_was_ended_by_nobody() -> None:
    """SGLang kills its whole tree, itself too, when a start fails."""
    assert who([], "die ", status=137, known=True) == ""
    assert who([], "die ", status=137).startswith("somebody ended it by signal 9")


def test_a_silent_watchdog_is_named_as_one_that_may_have() -> None:
    units = (
        "spark-watchdog.service loaded active running Ends engines\ngb10-memory-guard.service loaded active running\n"
    )
    assert who([], units=units).endswith(": spark-watchdog.service on this host may have")
    assert who([], units=units, status=0) == "spark-watchdog.service on this host may have ended a process of it"
    assert who([], units=units, status=1, known=True) == ""


DOWN = PERSON.replace("docker kill gb10-service-chat", "docker compose -f /srv/x.yml down")
NIGHT = entry("cron.service", "(root) CMD (/usr/local/bin/night.sh)", "CRON")


@pytest.mark.parametrize(
    ("journal", "events", "perhaps"),
    [
        ([entry("session-3.scope", DOWN, "sudo")], "kill 15", "maria (`/usr/bin/docker compose -f /srv/x.yml down`)"),
        ([entry("session-3.scope", DOWN.replace("r compose", "r-compose"), "sudo")], "kill 15", "maria (`"),
        (
            [entry("session-3.scope", "maria ran command docker compose down as root from /srv", "doas")],
            "stop \nkill 15",
            "maria (`docker compose down`)",
        ),
        ([NIGHT], "kill 15", "root's cron job (`/usr/local/bin/night.sh`)"),
        ([NIGHT], "die ", "root's cron job (`/usr/local/bin/night.sh`)"),
    ],
)
def test_a_command_that_names_no_container_is_named_as_one_that_may_have(
    journal: list[str], events: str, perhaps: str
) -> None:
    found = who(journal, events)
    assert found.startswith("somebody ended it by ")
    assert f": {perhaps}" in found
    assert found.endswith(" on this host may have")


def test_compose_and_cron_are_not_blamed_for_what_they_cannot_have_ended() -> None:
    own_jobs = entry("cron.service", "(root) CMD (command -v debian-sa1 > /dev/null && debian-sa1 1 1)", "CRON")
    assert who([entry("session-3.scope", DOWN, "sudo"), own_jobs], "die ") == (
        "somebody ended it by signal 9 (`kill`, `pkill`)"
    )
    assert who([NIGHT, entry("session-3.scope", DOWN, "sudo")], status=1) == ""
    assert who([NIGHT], status=137, known=True) == ""
