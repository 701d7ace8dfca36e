# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""titan checks spark-2 unattended: clean, drifted, off, with a broken inventory, and clean again."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from lab.fixtures import Fleet, eventually

pytestmark = pytest.mark.story
SCENARIO = Path(__file__).resolve().parents[1]
# As its owner types it: molecule's own configuration would come along into the host, and names paths of this machine.
OWNERS = "env -u ANSIBLE_COLLECTIONS_PATH -u ANSIBLE_CONFIG COLUMNS=200"
PLAYBOOK = f"cd /srv/fleet && {OWNERS} /opt/ansible/bin/ansible-playbook -i /srv/site"
WHEELS = "--no-index --find-links /srv/fleet/.cache/drift-timer"
STATE = "/var/lib/gb10-fleet/drift"
PAGE = f"{STATE}/fleet.html"
PIP = json.dumps({"drift_timer_pip_arguments": WHEELS.split(), "drift_timer_keep": 2, "drift_timer_page": PAGE})
# A unit may have ended before the journal has its last line.
JOURNAL = "journalctl --sync; journalctl"


class Control:
    """titan, whose owner has Ansible."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def run(self, command: str) -> str:
        return self.fleet.root("titan", command)

    def owner(self, command: str) -> str:
        """As the account that the owner works with, who has neither a password for sudo nor root's files."""
        return self.run(f"runuser -u nvidia -- sh -c {shlex.quote(command)}")

    def night(self) -> tuple[str, str, str]:
        """What the timer starts: its exit status, the state of its unit afterwards, and its line in the journal."""
        self.run("systemctl start gb10-drift.service || :")
        shown = self.run("systemctl show gb10-drift.service -P ExecMainStatus -P ActiveState")
        status, state = shown.split()
        lines = self.run(f"{JOURNAL} -u gb10-drift.service -t gb10-drift -o cat --no-pager").splitlines()
        return status, state, lines[-1] if lines else ""

    def must_find(self, *expected: str) -> None:
        """The next night's three; a failure shows the report that it is about."""
        found = self.night()
        assert found == expected, f"{found}\n{self.run(f'cat {STATE}/reports/report.json || :')}"

    def inventory(self, text: str) -> None:
        self.run(f"cat > /srv/site/hosts.yml <<'END'\n{text}\nEND")


@pytest.fixture(scope="module")
def control() -> Control:
    found = Control(Fleet(Path(os.environ["GB10_LAB_DIR"])))
    locked = "--require-hashes --requirement /srv/fleet/requirements/drift_timer.txt"
    found.run(f"python3 -m venv /opt/ansible; /opt/ansible/bin/pip install --quiet {WHEELS} {locked}")
    found.owner(f"{PLAYBOOK} site.yml")
    return found


def test_typed_on_the_control_host_it_is_the_same(control: Control) -> None:
    output = control.owner(f"{PLAYBOOK} gb10.fleet.drift_timer --diff -e '{PIP}'")
    assert "changed=0 " in output, output


def test_root_runs_no_files_of_others(control: Control) -> None:
    """Whoever may write the inventory or the clone would be root at 3 o'clock."""
    output = control.run(f"{PLAYBOOK} gb10.fleet.drift_timer -e '{PIP}' 2>&1 || :")
    assert "found root, and /srv/site" in output and "name him as drift_timer_user" in output, output
    assert control.run("systemctl show gb10-drift.service -P User") == "nvidia\n"


def test_a_job_of_ansible_runner_brings_what_programs_read(control: Control) -> None:
    """As AWX and ansible-navigator drive it: events with results, artifacts, a refusal."""
    job = "/home/nvidia/job"
    runner = f"{OWNERS} PATH=/opt/ansible/bin:$PATH ansible-runner run {job} --project-dir /srv/fleet --quiet"
    newest = f"{job}/artifacts/$(ls -t {job}/artifacts | head -1)/job_events"
    events = f"for file in {newest}/*.json; do cat $file; echo; done"

    def ran(playbook: str, inventory: str) -> list[dict[str, Any]]:
        control.owner(f"mkdir -p {job}; {runner} -p gb10.fleet.{playbook} --inventory {inventory} || :")
        found = [json.loads(line) for line in control.owner(events).splitlines()]
        return sorted(found, key=lambda event: event["counter"])

    planned = ran("plan", "/srv/fleet/inventories/example/hosts.yml")
    (plan,) = (
        one["event_data"]["res"]
        for one in planned
        if one["event"] == "runner_on_ok" and "plan" in one["event_data"]["res"]
    )
    kept = planned[-1]["event_data"]["artifact_data"]["gb10_fleet"]["services"]
    assert [*kept] == [row["service"] for row in plan["plan"]["summary"]] == plan["services"]
    assert kept["qwen3-vl"]["hosts"] == ["spark-2", "spark-3"]
    assert any("nemotron-nano" in one["stdout"] for one in planned)

    control.owner("mkdir -p /home/nvidia/none; echo 'all: {hosts: {titan: {}}}' > /home/nvidia/none/hosts.yml")
    (refused,) = (one for one in ran("plan", "/home/nvidia/none/hosts.yml") if one["event"] == "runner_on_failed")
    assert "input-no-services" in refused["event_data"]["res"]["msg"]


def test_a_host_fetches_its_slice_and_converges_itself(control: Control) -> None:
    """titan publishes and spark-2 fetches, here by HTTP and started by hand; eight hosts with services: tests/pull."""
    published, where = "/home/nvidia/published", "http://10.77.0.11:8086"
    options = {"pull_from": where, "pull_pip_arguments": WHEELS.split(), "pull_when": "*-*-* 03:00:00"}
    options |= {"publish_folder": published}

    def play(playbook: str) -> str:
        name = playbook.removesuffix(".yml")
        return control.owner(f"{PLAYBOOK} gb10.fleet.{name} -l spark-2 -e '{json.dumps(options)}'")

    def pull() -> str:
        control.fleet.root("spark-2", "systemctl start gb10-pull.service", check=False)
        return control.fleet.root("spark-2", f"{JOURNAL} -u gb10-pull -t gb10-pull -o cat -n 1 --no-pager").strip()

    assert "changed=1 " in play("publish.yml")
    assert "changed=0 " in play("publish.yml")
    control.run(f"systemd-run --quiet --unit=published python3 -m http.server 8086 -d {published}")
    eventually(lambda: control.fleet.ok("spark-2", f"curl -sfo /dev/null {where}"), "it is published")
    play("pull.yml")
    assert "changed=0 " in play("pull.yml")
    control.fleet.root("spark-2", "sysctl -qw vm.swappiness=60")
    assert pull().startswith("pull: converged: 1 change")
    assert control.fleet.root("spark-2", "sysctl -n vm.swappiness") == "1\n"
    assert pull() == "pull: converged: nothing had to be changed"
    control.run(f"sed -i 's/swappiness/swappines2/' {published}/spark-2.slice")
    assert pull().startswith("pull: refused: its signature is not by the key in /etc/gb10-fleet/pull-signers")
    control.run("systemctl stop published.service")
    control.fleet.root("spark-2", "systemctl disable --now gb10-pull.timer")


def test_the_timer_waits_for_the_night(control: Control) -> None:
    assert (
        control.run("systemctl is-enabled gb10-drift.timer; systemctl is-active gb10-drift.timer")
        == "enabled\nactive\n"
    )
    assert control.run("systemctl show gb10-drift.timer -P Unit") == "gb10-drift.service\n"
    assert control.run("systemd-analyze verify gb10-drift.service gb10-drift.timer 2>&1") == ""


def test_the_nights(control: Control) -> None:
    """In one test, since each night goes on where the one before ended."""
    clean = ("0", "inactive", "drift: everything is as declared: 1 host")
    control.must_find(*clean)

    control.fleet.root("spark-2", "sysctl -qw vm.swappiness=60")
    control.must_find("2", "inactive", "drift: not everything is as declared: 1 host, 1 warning")
    shown = control.run(
        f"grep -e '<dt>drift' -e 'as seen' {PAGE}; {JOURNAL} -u gb10-drift -o cat --no-pager | grep page || :"
    )
    assert "✗ 0 errors, 1 warnings, 0 hints" in shown, shown
    report = json.loads(control.run(f"cat {STATE}/reports/report.json"))
    assert [one["resource"] for one in report["findings"]] == ["sysctl vm.swappiness"]
    control.fleet.root("spark-2", "sysctl -qw vm.swappiness=1")
    control.must_find(*clean)

    control.fleet.lab("power", "off", "spark-2")
    control.must_find("1", "failed", "drift: unknown: not everything could be read: 1 host, 1 unknown")
    control.fleet.lab("power", "on", "spark-2")
    # It may be on its way still: Docker waits for the network longer than SSH.
    eventually(lambda: control.fleet.lab("ssh", "spark-2", "true", check=False).returncode == 0, "spark-2 lets us in")

    control.inventory("all: [")
    status, state, output = control.night()
    assert (status, state) == ("1", "failed")
    assert output.startswith("drift: unknown: ") and "/srv/site/hosts.yml" in output
    control.inventory((SCENARIO / "files" / "hosts.yml").read_text())
    control.must_find(*clean)

    kept = control.run(f"ls {STATE}/artifacts").split()
    assert len(kept) == 2


def test_a_page_is_drawn_for_who_types_it_and_over_no_file_of_his(control: Control) -> None:
    typed = f"{PLAYBOOK} gb10.fleet.status -e page=/home/nvidia/fleet.html || :"
    control.owner(typed)
    assert "0 of 0 services answer" in control.run("cat /home/nvidia/fleet.html")
    control.owner("echo mine > /home/nvidia/fleet.html")
    assert "page: found /home/nvidia/fleet.html, which is no page of gb10.fleet" in control.owner(typed)
    assert control.run("cat /home/nvidia/fleet.html") == "mine\n"
