# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to a run itself: Ctrl-C, a second terminal, a wrong password, a host without SSH. It ends and names
what stopped it, nothing of it goes on, and the next run ends well."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab.fixtures import eventually

from .conftest import Owner
from .test_host import KILL, RULES, SERVES, STATE, SYSCTL, UNIT

# There is something to do for each role, the long ones too.
UNDONE = (
    f"systemctl stop {UNIT}; {KILL}; docker system prune --all --force; "
    f"rm -rf {STATE}/images {STATE}/models {STATE}/hf {RULES} {SYSCTL} /etc/gb10-fleet/services/tiny.json"
)
WAITS_S = 60
# A worker that Ansible's first Ctrl-C killed while it held the lock of the queue of results (StrategyBase.cleanup waits
# for it, ansible-core 2.19) keeps the run from ending: a person presses again.
PRESSES_AGAIN_S = 30
# Whatever Ansible left of a run: its modules, their jobs and what they show.
LEFT = "pgrep -af '[A]nsiballZ|[a]sync_wrapper|BECOME-SUCCES[S]' || ls /run/gb10-fleet-progress-* 2>/dev/null"


def interrupt(run: subprocess.Popen[str], *words: str) -> str:
    """Ctrl-C once the words have been printed one after the other, and again where it goes on: its whole output."""
    assert run.stdout
    seen = ""
    for word in words:
        while word not in seen:
            line = run.stdout.readline()
            assert line, f"it ended before {word!r}: {seen[-4000:]}"
            seen += line
    os.killpg(run.pid, signal.SIGINT)
    try:
        rest, _ = run.communicate(timeout=PRESSES_AGAIN_S)
    except subprocess.TimeoutExpired:
        print(f"\nit went on for {PRESSES_AGAIN_S} s after Ctrl-C: pressed again")
        os.killpg(run.pid, signal.SIGINT)
        rest, _ = run.communicate(timeout=WAITS_S)
    return seen + rest


def processes_of(session: int) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session:
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except (OSError, ProcessLookupError):
            continue
    return found


def changes(text: str) -> int:
    found = re.search(r"^titan +: .*\bchanged=(\d+)", text, re.MULTILINE)
    assert found, text[-4000:]
    return int(found[1])


@pytest.mark.parametrize(
    ("playbook", "words"),
    [
        ("site.yml", ["TASK [gb10.fleet.fleet_plan"]),
        ("site.yml", ["Keep the settings over a boot"]),
        ("site.yml", ["Bring the images", "titan: image"]),
        ("site.yml", ["Bring the models"]),
        ("site.yml", ["Start the services"]),
        ("site.yml", ["TASK [gb10.fleet.verify"]),
        ("gb10.fleet.stage", ["Bring the images", "titan: image"]),
        ("gb10.fleet.restart", ["Stop"]),
    ],
    ids=lambda value: "-".join(value).replace(" ", "-") if isinstance(value, list) else value,
)
def test_ctrl_c(owner: Owner, playbook: str, words: list[str]) -> None:
    owner.root(UNDONE if playbook != "gb10.fleet.restart" else "true")
    arguments = ("-e", "service=tiny") if playbook == "gb10.fleet.restart" else ()
    run = owner.begin(playbook, *arguments, ANSIBLE_DISPLAY_OK_HOSTS="true")
    text = interrupt(run, *words)
    print(f"\nCtrl-C in {playbook} at {words[-1]!r}: exit {run.returncode}; its last lines:")
    print(*text.splitlines()[-12:], sep="\n")
    assert run.returncode not in {0, 250}
    assert "Traceback" not in text
    assert "interrupted" in text.lower()
    assert processes_of(run.pid) == []
    began = time.monotonic()
    eventually(lambda: not owner.fleet.ok("titan", LEFT), "nothing of the run goes on on the host")
    print(f"nothing of it is on the host {time.monotonic() - began:.0f} s later")
    owner.converge()
    assert owner.becomes(f"{{ {SERVES}; }}")
    assert changes(owner.converge()) == 0


def test_two_terminals(owner: Owner) -> None:
    owner.root(UNDONE)
    runs = [owner.begin("site.yml") for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        texts = [output for output, _ in pool.map(lambda run: run.communicate(), runs)]
    codes = [run.returncode for run in runs]
    print(f"\ntwo at once: exits {codes}")
    print(*(line for text in texts for line in text.splitlines() if "wait" in line), sep="\n")
    assert not [text for text in texts if "Traceback" in text or "MODULE FAILURE" in text]
    assert codes == [0, 0], [text[-3000:] for text, code in zip(texts, codes, strict=True) if code]
    assert owner.becomes(f"{{ {SERVES}; }}")
    assert changes(owner.converge()) == 0


def test_a_lost_control_machine(owner: Owner) -> None:
    """A clone of the inventory has no secret. It gets the key back, and the client of before is answered.

    Git keeps what was observed of the hosts (`.fleet/observed`).
    """
    if not owner.becomes(f"{{ {SERVES}; }}", 5):
        owner.converge()
    folder = owner.folder / "inventory"
    key = folder / "secrets" / "tiny"
    before = key.read_text()
    for kept in folder.glob(".fleet/*"):
        if kept.is_dir() and kept.name != "observed":
            shutil.rmtree(kept)
    key.unlink()
    tried = owner.play("gb10.fleet.recover", "--check")
    assert tried.returncode == 0 and str(key) in tried.stdout and not key.exists(), tried.stdout[-3000:]
    done = owner.play("gb10.fleet.recover")
    print(done.stdout[-1500:])
    assert done.returncode == 0 and before.strip() not in done.stdout
    assert key.read_text().strip() == before.strip()
    assert changes(owner.converge()) == 0
    assert owner.becomes(f"{{ {SERVES}; }}", 5)


@contextmanager
def serving_throughout(owner: Owner) -> Iterator[None]:
    """The same container before and after."""
    if not owner.becomes(f"{{ {SERVES}; }}", 5):
        owner.converge()
    which = f"docker inspect --format '{{{{.Id}}}}{{{{.State.StartedAt}}}}' {UNIT}"
    before = owner.fleet.root("titan", which)
    yield
    assert owner.fleet.root("titan", which) == before
    assert owner.becomes(f"{{ {SERVES}; }}", 5)


@pytest.mark.parametrize("playbook", ["site.yml", "verify.yml", "drift.yml", "status.yml", "doctor.yml"])
def test_a_wrong_password(owner: Owner, playbook: str) -> None:
    with serving_throughout(owner):
        began = time.monotonic()
        done = owner.play(playbook, "-e", "ansible_become_password=wrong")
    print(f"\nwrong password, {playbook}: exit {done.returncode}, {time.monotonic() - began:.0f} s:")
    print(done.stdout[-1800:])
    assert done.returncode not in {0, 250}
    assert "Traceback" not in done.stdout
    assert "-K" in done.stdout
    assert done.stdout.count("[ERROR]") <= 1


@pytest.mark.parametrize("playbook", ["site.yml", "verify.yml", "drift.yml", "status.yml", "doctor.yml"])
def test_without_ssh(owner: Owner, playbook: str) -> None:
    with serving_throughout(owner):
        began = time.monotonic()
        # A connection that Ansible keeps open would still work.
        owner.root("systemctl stop ssh.socket ssh.service; pkill -x sshd-session; pkill -x sshd")
        try:
            done = owner.play(playbook)
        finally:
            owner.root("systemctl start ssh.socket ssh.service")
    print(f"\nno SSH, {playbook}: exit {done.returncode}, {time.monotonic() - began:.0f} s:")
    print(done.stdout[-1800:])
    assert done.returncode not in {0, 250}
    assert "Traceback" not in done.stdout
    assert re.search(r"unreachable|can't be reached|did not answer", done.stdout, re.IGNORECASE)
    assert "titan" in done.stdout
