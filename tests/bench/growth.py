# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run costs the controller in fleets of several sizes, where all is as declared: a line of JSON each, a figure.

    cd tests && PYTHONPATH=../collections ../.venv/bin/python -m bench.growth [--hosts 8,32,128] [--figure growth.svg]
    cd tests && PYTHONPATH=../collections ../.venv/bin/python -m bench.growth --read growth.jsonl --figure growth.svg

IMITATED: the hosts. One OpenSSH server on loopback answers under all names, each with a connection of its own, and
in the place of a host's Python stands a program that takes what Ansible sends and answers as a host of which all is as
planned (the readings of the unit tests). So the controller, its plan and what goes over SSH are real, and what hosts
compute and wait for is left out: what is measured is what one machine has to do for so many hosts.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))

from drift_fleet import IMAGE  # noqa: E402  (found only through the line above)
from test_unconverged import START, reading  # noqa: E402

PORT = 2299
PLAYBOOKS = ("plan", "drift", "doctor", "status", "site", "rollout")
COLOURS = {
    "plan": "#6b7280",
    "site": "#1d4ed8",
    "drift": "#15803d",
    "doctor": "#b45309",
    "status": "#7c3aed",
    "rollout": "#be123c",
}
# What a playbook is asked for.
OPTIONS = {"rollout": ("-e", "service=gb10-lab/tiny")}
# Of the figure, in its own units: a panel, and what lies around it.
_WIDE, _HIGH, _LEFT, _TOP = 300, 210, 54, 34
# In the place of a host's Python: NAME FOLDER. What Ansible sends names the module.
_ANSWER = """\
import pathlib, re, sys, time
sent = sys.stdin.buffer.read()
if not sent:
    sys.exit()
module = re.search(rb"(?:plugins|ansible)[./]modules[./](\\w+)", sent)[1].decode()
answer = pathlib.Path(sys.argv[1], module + ".json").read_text()
print(answer.replace('"NOW"', repr(time.time())))
"""
_SUPERVISOR = {
    "state": "serving",
    **dict.fromkeys(("error", "last_end", "creep"), ""),
    **dict.fromkeys(("since", "updated_at"), "2026-11-24T00:00:00+00:00"),
    "age_s": 4.0,
    "ready_s": 71.5,
    "strikes": 0,
    "ranks_seen": [],
}
_UNIT = {"active": "active", "sub": "running", "result": "success", "invocation": "a", "started": "", "restarts": 0}


class StandIns:
    """So many hosts with a service each, by their names ``s001`` to ``s128``."""

    def __init__(self, folder: Path, count: int) -> None:
        self.names = [f"s{number:03}" for number in range(1, count + 1)]
        self._folder, self._counted = folder, folder / "counted"
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> StandIns:
        for name in ("counted", "ssh", "site"):
            (self._folder / name).mkdir(mode=0o700)
        self._serve()
        self._declare(len(self.names))
        plan = self._plan()
        for name in self.names:
            self._answers(plan, name)
        return self

    def __exit__(self, *_: object) -> None:
        self._begin_anew()
        if self._server:
            self._server.terminate()
            self._server.wait()

    def _serve(self) -> None:
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program, "there is no sshd on this machine; install openssh-server, which need not run"
        for key in ("host", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self._folder / key], check=True)
        shutil.copy(self._folder / "key.pub", self._folder / "authorized")
        settings = {
            "Port": PORT,
            "ListenAddress": "127.0.0.1",
            "HostKey": self._folder / "host",
            "AuthorizedKeysFile": self._folder / "authorized",
            "MaxStartups": 1000,
            "StrictModes": "no",
            "UsePAM": "no",
            "PidFile": "none",
        }
        text = "".join(f"{name} {value}\n" for name, value in settings.items())
        (self._folder / "sshd_config").write_text(text)
        Path("/run/sshd").mkdir(exist_ok=True)
        self._server = subprocess.Popen(
            [program, "-D", "-e", "-f", self._folder / "sshd_config"], stderr=subprocess.DEVNULL
        )
        time.sleep(1)

    def _declare(self, count: int) -> None:
        """A fleet of the first so many."""
        names = self.names[:count]
        relay = f"env PYTHONPATH={ROOT}/tests:{ROOT}/collections {sys.executable} -m bench.relay"
        options = {
            "IdentityFile": self._folder / "key",
            "UserKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "no",
            "LogLevel": "ERROR",
            "ProxyCommand": f"{relay} '' 127.0.0.1 %p {self._counted}",
        }
        self._ssh = " ".join(f"-o {shlex.quote(f'{name}={value}')}" for name, value in options.items())
        service = {
            "recipe": "lab-tiny",
            "port": 8000,
            "open": True,
            "workload": {"max_model_len": 2048, "max_num_seqs": 8},
        }
        variables = {
            "ansible_port": PORT,
            "ansible_user": getpass.getuser(),
            "ansible_become": False,
            "ansible_ssh_common_args": self._ssh,
            "ansible_control_path": f"{self._folder}/ssh/{{{{ inventory_hostname }}}}",
            "ansible_python_interpreter": f"{self._folder}/{{{{ inventory_hostname }}}}/python",
            "fleet_recipe_dirs": [str(ROOT / "inventories/lab/recipes")],
            "fleet_host": {"memory_kib": 15728640},
            "fleet_services": {f"on-{name}": service | {"hosts": [name]} for name in names},
        }
        site = self._folder / "site"
        # one address each, as the plan wants it; the relay leads all to the one server
        hosts = {name: {"ansible_host": f"127.1.0.{place}"} for place, name in enumerate(names, 1)}
        text = json.dumps({"all": {"hosts": hosts, "vars": variables}})
        (site / "hosts.yml").write_text(text)
        lock = {
            "version": 1,
            "images": {"gb10-lab/vllm-cpu:0.32.0": {"digest": None, "identity": IMAGE["identity"]}},
            "models": {"gb10-lab/tiny": {"revision": "c" * 40, "seal": "d" * 64}},
        }
        (site / ".fleet.lock").write_text(json.dumps(lock))

    def _plan(self) -> dict[str, Any]:
        text = self.play("plan", "-e", "fleet_plan_format=json")
        plan: dict[str, Any] = json.loads(text[text.index("\n{\n") : text.index("\n}\n") + 2])
        return plan

    def _answers(self, plan: Mapping[str, Any], name: str) -> None:
        """What the modules of a host answer, and what stands in for its Python."""
        read = reading(dict(plan), name)
        (service,) = plan["hosts"][name]["services"]
        for file in plan["hosts"][name]["needs"]["files"]:
            there = {"exists": True, "weights_bytes": file.get("weights_bytes")}
            read["state"]["paths"] |= {path: there for path in (file["path"], file.get("unless")) if path}
        listens = [{"id": "e" * 64, "name": service["container"]["name"], "ports": [8000]}]
        read["state"]["containers"] = listens
        rank = {
            **{key: service[key] for key in ("rank", "ranks", "memory_floor_bytes")},
            # a rollout alone looks at it, and makes of it what is planned
            "definition": "what was declared before",
            "service": service["name"],
            "unit": {**_UNIT, "drop_ins": []},
            "supervisor": _SUPERVISOR,
            "wanted": service["definition"],
            "unproved": False,
            "endpoint": None,
            "memory": {"total": 128 << 30, "available": 64 << 30},
            "docker": True,
            "health": "serving",
            "problems": [],
        }
        served = {
            "unit": {**_UNIT, "drop_ins": []},
            "supervisor": _SUPERVISOR,
            "reply": {"ok": True, "answer": "Hello", "error": "", "fingerprint": "", "seconds": 0.25},
            "memory_total_bytes": 128 << 30,
            "boot_log": [],
            "log_tail": [],
        }
        answers = {
            "host_info": {**read, "state": {**read["state"], "clock": "NOW"}},
            "rank_info": {"ranks": [rank]},
            "service_info": served,
            "observation_record": {"content": None},
            "image_prune": {"removed": []},
            "model_prune": {"removed": []},
            # of a step of a rollout
            "service_way_back": {"files": []},
            "host_files": {"changed_files": [], "changed_units": []},
            "service_credentials": {"changed_files": [], "changed_services": []},
            "service_removal": {"removed": []},
            "service_start_info": {"services": {service["name"]: {**START, "runs": False}}},
            "command": {"cmd": [], "rc": 0, "stdout": "", "stderr": ""},
            "systemd_service": {},
        }
        folder = self._folder / name
        folder.mkdir()
        (folder / "answer.py").write_text(_ANSWER)
        (folder / "python").write_text(f"#!/bin/sh\nexec /usr/bin/python3 -ISE {folder}/answer.py {folder}\n")
        (folder / "python").chmod(0o755)
        for module, answer in answers.items():
            (folder / f"{module}.json").write_text(json.dumps({"changed": False, **answer}))

    def play(self, playbook: str, *options: str) -> str:
        program = Path(sys.executable).with_name("ansible-playbook")
        words = [str(program), "-i", str(self._folder / "site" / "hosts.yml"), f"gb10.fleet.{playbook}"]
        own = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        done = subprocess.run(
            [*words, *options], cwd=ROOT, env=os.environ | own, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stdout[-6000:] + done.stderr[-2000:])
        return done.stdout

    def login(self) -> int:
        """Round trips of a lone command over a new connection."""
        self._begin_anew()
        words = shlex.split(self._ssh)
        subprocess.run(["ssh", *words, "-p", str(PORT), f"{getpass.getuser()}@127.0.0.1", "true"], check=True)
        time.sleep(1)  # the relay counts until the connection's last byte
        return self._counts()[0]["trips"]

    def _begin_anew(self) -> None:
        for path in (self._folder / "ssh").glob("*"):
            subprocess.run(["ssh", "-O", "exit", "-o", f"ControlPath={path}", "x"], capture_output=True, check=False)
        for path in self._counted.iterdir():
            path.unlink()

    def _counts(self) -> list[dict[str, int]]:
        return [json.loads(path.read_text()) for path in self._counted.glob("*.json")]

    def cost(self, playbook: str, count: int) -> dict[str, float]:
        """Over new connections, in a fleet of so many hosts. seconds: the clock's. cpu: of `ansible-playbook` and its
        workers; what holds the connections goes on by itself and is not in it. trips, kilobytes: to a host."""
        self._declare(count)
        self._begin_anew()
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        self.play(playbook, *OPTIONS.get(playbook, ()))
        seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        counts = self._counts()
        return {
            "seconds": round(seconds, 1),
            "cpu": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
            "trips": sum(one["trips"] for one in counts) / count,
            "kilobytes": round(sum(one["bytes"] for one in counts) / count / 1000, 1),
        }


def measured(hosts: StandIns, playbooks: Sequence[str], sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    login = hosts.login()
    for playbook in playbooks:
        for size in sizes:
            yield {"hosts": size, "playbook": playbook, **hosts.cost(playbook, size), "login": login}


def drawn(rows: Sequence[Mapping[str, Any]]) -> str:
    """Two panels over the number of hosts: the controller's processor seconds of a whole run, and of each host."""
    each = [{**row, "each": row["cpu"] / row["hosts"]} for row in rows]
    panels = [
        _panel(each, key, title, place)
        for place, (key, title) in enumerate((("cpu", "controller's CPU, s"), ("each", "controller's CPU, s a host")))
    ]
    wide, high = 2 * (_LEFT + _WIDE) + 70, _TOP + _HIGH + 44
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" style="background: white">\n'
        '<g style="font: 12px sans-serif; fill: #374151">\n' + "\n".join(panels) + "\n</g>\n</svg>\n"
    )


def _panel(rows: Sequence[Mapping[str, Any]], key: str, title: str, place: int) -> str:
    sizes = sorted({row["hosts"] for row in rows})
    left, most = _LEFT + place * (_LEFT + _WIDE), max(row[key] for row in rows)

    def across(size: int) -> float:
        return left + _WIDE * size / sizes[-1]

    def up(value: float) -> float:
        return _TOP + _HIGH * (1 - value / (1.1 * most))

    made = [f'<text x="{left}" y="{_TOP - 14}" font-weight="bold">{title}</text>']
    made += [f'<path d="M{left} {_TOP}V{_TOP + _HIGH}H{left + _WIDE}" fill="none" stroke="#9ca3af"/>']
    made += [
        f'<text x="{across(size):.0f}" y="{_TOP + _HIGH + 18}" text-anchor="middle">{size}</text>' for size in sizes
    ]
    made.append(f'<text x="{left + _WIDE / 2:.0f}" y="{_TOP + _HIGH + 36}" text-anchor="middle">hosts</text>')
    for value in (0, most / 2, most):
        made.append(f'<text x="{left - 6}" y="{up(value) + 4:.0f}" text-anchor="end">{float(f"{value:.2g}"):g}</text>')
    for row, name in enumerate(name for name in PLAYBOOKS if any(one["playbook"] == name for one in rows)):
        points = [(across(one["hosts"]), up(one[key])) for one in rows if one["playbook"] == name]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        made.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        made += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[name]}"/>' for x, y in points]
        if place:
            where = f'x="{left + _WIDE + 8}" y="{_TOP + 12 + 18 * row}"'
            made.append(f'<text {where} style="fill: {COLOURS[name]}">{name}</text>')
    return "\n".join(made)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.growth", description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", default="8,32,128", help="sizes of the fleet (default: %(default)s)")
    parser.add_argument("--playbooks", default=",".join(PLAYBOOKS), help="which (default: %(default)s)")
    parser.add_argument("--read", type=Path, help="lines that were measured before, instead of measuring")
    parser.add_argument("--figure", type=Path, help="where the figure is written, as SVG")
    options = parser.parse_args()
    if options.read:
        rows = [json.loads(line) for line in options.read.read_text().splitlines()]
    else:
        rows, sizes = [], [int(size) for size in options.hosts.split(",")]
        with tempfile.TemporaryDirectory(prefix="gb10-growth-") as folder, StandIns(Path(folder), max(sizes)) as hosts:
            for row in measured(hosts, options.playbooks.split(","), sizes):
                print(json.dumps(row), flush=True)
                rows.append(row)
    if options.figure:
        options.figure.write_text(drawn(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
