# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host has shown is kept there and beside the inventory, by the module and its action together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KEEP = """
    - gb10.fleet.observation_record:
        path: "{{ folder }}/host/boots/x.json"
        content: "{{ content | default(none) }}"
        kind: "{{ kind | default('boot') }}"
        copy: "{{ folder }}/.fleet/observed/boots/titan/x.json"
      register: kept
    - ansible.builtin.debug:
        msg: "{{ 'changed' if kept is changed else 'same' }} {{ kept.content | to_json }}"
"""
PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:"""


def run(folder: Path, tasks: str, *words: str, **variables: Any) -> list[str]:
    """What the tasks said, each time that they kept it: changed or same, and the document that is kept."""
    play = folder / "play.yml"
    play.write_text(PLAY + tasks, encoding="utf-8")
    given = json.dumps({**variables, "folder": str(folder), "ansible_python_interpreter": sys.executable})
    environment = {
        **os.environ,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_DISPLAY_OK_HOSTS": "true",
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
    }
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        "-i",
        "localhost,",
        str(play),
        "-e",
        given,
        *words,
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    messages = [line.strip().rstrip(",") for line in done.stdout.splitlines() if line.strip().startswith('"msg"')]
    return [str(json.loads("{" + line + "}")["msg"]) for line in messages]


def test_a_record_is_kept_on_the_host_and_beside_the_inventory(tmp_path: Path) -> None:
    host, copy = tmp_path / "host" / "boots" / "x.json", tmp_path / ".fleet" / "observed" / "boots" / "titan" / "x.json"
    record = {"service": "nano", "booted": "2026-11-20", "requested_bytes": 1, "log": {"weights_gib": 17.7}}
    changed, same = f"changed {json.dumps(record)}", f"same {json.dumps(record)}"
    assert run(tmp_path, KEEP, "--check", content=record) == [changed]
    assert not host.exists()
    assert not copy.exists()
    assert run(tmp_path, KEEP + KEEP, content=record) == [changed, same]
    assert json.loads(host.read_text()) == json.loads(copy.read_text()) == record
    assert sorted(path.name for path in copy.parent.iterdir()) == ["x.json"]
    # a fresh clone of the inventory gets it back from the host, though the journal no longer has the start
    copy.unlink()
    assert run(tmp_path, KEEP) == [changed]
    assert json.loads(copy.read_text()) == record


def test_without_a_record_there_is_nothing_to_keep(tmp_path: Path) -> None:
    assert run(tmp_path, KEEP) == ["same null"]
    assert not (tmp_path / ".fleet" / "observed").exists()


def test_starts_that_are_known_cost_no_call(tmp_path: Path) -> None:
    phases = {"container": 1.0, "weights": 2.0}
    start = {"began": "2026-11-27T17:00:00+00:00", "seconds": 4.0, "caches": "warm", "phases": phases}
    kept = {"service": "chat", "image": "i", "model": "m", "gb": 1.0, "loader": "lazy", "starts": [start]}
    first, again = run(tmp_path, KEEP + KEEP, content=kept, kind="start")
    assert (first.split()[0], again.split()[0]) == ("changed", "same")
    host = tmp_path / "host" / "boots" / "x.json"
    host.unlink()
    assert [one.split()[0] for one in run(tmp_path, KEEP, content=kept, kind="start")] == ["same"]
    assert not host.exists()
