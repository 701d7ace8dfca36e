# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request to the real vLLM costs while nobody takes its traces, against the same request with a collector.

One host serves the model several times, by `site.yml`: without traces, with a collector that takes them, with one that
refuses them and with one whose answer is lost on the way. Each request goes to all of them, one after the other and
begun by each in turn, so that what disturbs the machine disturbs all.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.compare import differences
from lab.fixtures import Fleet
from lab.vllm import images

from .figures import Figure

ROOT = Path(__file__).resolve().parents[2]
HOST, _ADDRESS = "titan", "10.77.0.11"
# Of the documentation's own network (RFC 5737); what goes there is dropped on the host.
_NOWHERE = "198.51.100.1"
COLLECTORS = {
    "untraced": None,
    "taken": f"http://{_ADDRESS}:4318",
    "refused": f"http://{_ADDRESS}:4319",
    "lost": f"http://{_NOWHERE}:4318",
}
_LOST = (
    "add table ip lost",
    "add chain ip lost away { type filter hook forward priority 0; }",
    f"add rule ip lost away ip daddr {_NOWHERE} drop",
)
_PORTS = dict(zip(COLLECTORS, range(8000, 8010), strict=False))
_BLOCKS, _REQUESTS = 100, 15
# A collector that is not there may cost nothing. To be traced costs what it costs, beside an answer of eight tokens.
_GOALS = {"refused": "<= 1.05", "lost": "<= 1.05", "taken": "<= 1.25"}
_TAKES = """
import http.server
class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("", 4318), Collector).serve_forever()
"""
# On the host, given {ports, blocks, requests}: by service the milliseconds of a request, the geometric mean of a block.
_ASKS = """
import http.client, json, math, sys, time
task = json.loads(sys.argv[1])
body = json.dumps({"model": "gb10-lab/tiny", "prompt": "Gutenberg printed", "max_tokens": 8, "ignore_eos": True})
ways = {name: http.client.HTTPConnection("127.0.0.1", port, timeout=120) for name, port in task["ports"].items()}
def ask(way):
    began = time.perf_counter()
    way.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    answer = way.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    return 1000 * (time.perf_counter() - began)
for _ in range(30):
    [ask(way) for way in ways.values()]
names, found = list(ways), {name: [] for name in ways}
for block in range(task["blocks"]):
    taken = {name: 0.0 for name in ways}
    for number in range(task["requests"]):
        names.append(names.pop(0))
        for name in names:
            taken[name] += math.log(ask(ways[name])) / task["requests"]
    [found[name].append(math.exp(taken[name])) for name in ways]
json.dump(found, sys.stdout)
"""


def _service(name: str) -> dict[str, Any]:
    endpoint = COLLECTORS[name]
    declared = {
        "recipe": "lab-tiny",
        "hosts": [HOST],
        "port": _PORTS[name],
        "listen": "127.0.0.1",
        "open": True,
        "workload": {"max_model_len": 1024, "max_num_seqs": 8, "pool": "4 MiB"},
    }
    return declared | ({"tracing": {"endpoint": endpoint}} if endpoint else {})


def _site(fleet: Fleet, folder: Path) -> None:
    lab = ROOT / "inventories" / "lab"
    shutil.copytree(lab, folder / "inventory", ignore=shutil.ignore_patterns(".fleet"))
    (folder / "inventory" / "hosts.yml").write_text(json.dumps({"all": {"hosts": {HOST: None}}}), "utf-8")
    declared = {
        "fleet_fabric": None,
        # the real vLLM four times; as much as a machine of 24 GiB has
        "fleet_host": {"memory_kib": 23 << 20},
        "fleet_services": {name: _service(name) for name in COLLECTORS},
    }
    program = Path(sys.executable).with_name("ansible-playbook")
    own = {"GB10_LAB_DIR": str(fleet.directory), "ANSIBLE_HOME": str(folder / "home")}
    words = [str(program), "-i", str(folder / "inventory"), "gb10.fleet.site", "-e", json.dumps(declared)]
    done = subprocess.run(words, cwd=ROOT, env=os.environ | own, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"site.yml: {done.stdout[-6000:]}")


def figures(directory: Path) -> Iterator[Figure]:
    archives = images.default_directory()
    images.ensure_model("tiny", archives)
    images.ensure_image(images.VLLM_CPU, archives)
    fleet = Fleet(directory)
    fleet.lab("up", "--hosts", HOST, "--docker", "--share", f"{archives}:/srv/lab")
    try:
        for words in _LOST:
            fleet.root(HOST, f"nft {shlex.quote(words)}")
        fleet.root(HOST, f"systemd-run --unit bench-collector python3 -c {shlex.quote(_TAKES)}")
        with tempfile.TemporaryDirectory(prefix="gb10-tracing-") as own:
            _site(fleet, Path(own))
        task = json.dumps({"ports": _PORTS, "blocks": _BLOCKS, "requests": _REQUESTS})
        found = json.loads(fleet.root(HOST, shlex.join(["python3", "-c", _ASKS, task])))
    finally:
        fleet.lab("down")
    for name, against in (("refused", "taken"), ("lost", "taken"), ("taken", "untraced")):
        (one,) = differences({"": {"ms": found[against]}}, {"": {"ms": found[name]}}, {"ms": False}, paired=True)
        what = f"a request whose traces are {name}, against {against}"
        yield Figure(f"{what}: the most of its interval", one.high, one.ratio, "times", _GOALS[name])
        yield Figure(what, fmean(found[name]), fmean(found[against]), "ms", "<= 1000")
