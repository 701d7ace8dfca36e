# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory gb10.fleet.discovered by ansible-inventory itself; ssh answers as two Sparks and a laptop do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SSH = """#!/bin/sh
echo "$@" >> "$ANSWERED"
rj45=4c:bb:47:00:00:0
spark='pci=0x10de:0x2e12\\nend=1'
for word; do case $word in
-G) echo 'user me'; exit;;
10.0.0.1) printf "$spark"'\\nhost=titan\\nmac='$rj45'1\\nmemory=127535084\\nsys_vendor=NVIDIA\\nota="7.5.0"\\n'; exit;;
10.0.0.2) printf "$spark"'\\nhost=gx10\\nmac='$rj45'2\\nmemory=62800000\\nsys_vendor=ASUSTeK {{ 1 }}\\n'; exit;;
10.0.0.5) printf "$spark"'\\nhost=titan\\nmac={{ 7*7 }}\\nmemory=1\\n'; exit;;
10.0.0.6) printf "$spark"'\\nhost=fe80::1%%{{ 7*7 }}\\nmac='$rj45'2\\nmemory=127535084\\n'; exit;;
10.0.0.7) printf "$spark"'\\nhost=fleet_chosen\\nmac='$rj45'2\\nmemory=127535084\\n'; exit;;
10.0.0.3) printf 'pci=0x10de:0x2e03\\nhost=laptop\\nmac='$rj45'3\\nend=1\\n'; exit;;
esac; done
echo 'Host key verification failed.' >&2; exit 255
"""
SITE = """\
plugin: gb10.fleet.discovered
hosts: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5, 10.0.0.6, 10.0.0.7]
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: %s
keyed_groups: [{key: gb10_maker, prefix: maker}]
groups: {small: gb10_memory_gib < 100}
"""


def inventory(folder: Path) -> tuple[dict[str, Any], str]:
    words = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", "site.gb10.yml", "--list"]
    paths = {"PATH": f"{folder}:{os.environ['PATH']}", "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")}
    own = {**paths, "ANSIBLE_HOME": str(folder / ".ansible"), "ANSWERED": str(folder / "answered")}
    done = subprocess.run(words, cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, check=True)
    # what a host calls itself is never a template, and is marked so
    found: dict[str, Any] = json.loads(done.stdout, object_hook=lambda one: one.get("__ansible_unsafe", one))
    return found, " ".join(done.stderr.split())


def test_sparks_that_answer_are_hosts_and_are_asked_once(tmp_path: Path) -> None:
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    (tmp_path / "site.gb10.yml").write_text(SITE % (tmp_path / "cache"))
    found, words = inventory(tmp_path)
    hosts = found["_meta"]["hostvars"]
    assert {*hosts} == {"titan", "gx10", "titan-2", "fleet-chosen"}
    # what a hostile neighbour says of itself: no template, no size that a plan takes, no other's place
    assert hosts["titan-2"]["gb10_mac"] == "" and "fleet_host" not in hosts["titan-2"]
    assert "10.0.0.5 calls itself titan, as another machine does, and is titan-2 here" in words
    assert "left out: 10.0.0.6" in words and "7*7" not in json.dumps(found)
    assert hosts["titan"]["ansible_host"] == "10.0.0.1" and hosts["titan"]["gb10_ota"] == "7.5.0"
    assert "fleet_host" not in hosts["titan"]
    assert hosts["gx10"]["fleet_host"] == {"memory_kib": 62800000} and hosts["gx10"]["gb10_maker"] == "ASUSTeK  1"
    assert found["small"]["hosts"] == ["gx10", "titan-2"] and found["maker_NVIDIA"]["hosts"] == ["titan"]
    assert "10.0.0.3: it has no GB10" in words and "10.0.0.4: nobody has compared its host key" in words
    asked = (tmp_path / "answered").read_text()
    assert "StrictHostKeyChecking=yes" in asked and "accept-new" not in asked
    again, _words = inventory(tmp_path)
    assert again["_meta"]["hostvars"] == hosts and (tmp_path / "answered").read_text() == asked
