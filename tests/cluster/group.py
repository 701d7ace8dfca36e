# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group of two ranks on lab hosts, under the real supervisor: the plan's file written by hand, vLLM or a stand-in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._engines.ports import spare_port
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.probes import probes
from ansible_collections.gb10.fleet.plugins.module_utils._host.netplan import document as netplan
from ansible_collections.gb10.fleet.plugins.module_utils._plan.container import docker_ask
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric import hotplug
from lab.fixtures import Fleet

from .bare import HOSTS

ROOT = Path(__file__).resolve().parents[2]
UTILITIES = ROOT / "plugins" / "module_utils"
MANAGEMENT = {"spark-2": "10.77.0.11", "spark-3": "10.77.0.12"}
ADDRESSES = {"spark-2": "192.168.100.1", "spark-3": "192.168.100.2"}
INTERFACE = "enp1s0f1np1"
NAME = "pair"
CONTAINER = f"gb10-service-{NAME}"
UNIT = f"{CONTAINER}.service"
PORT, MASTER, RENDEZVOUS = 8000, 29501, 29400
KEY, SECRET = "canary-key-5f0c", "canary-secret-91ab-8d20f3c97e5146ab"
PATIENCE_S = 400
LIBRARY = "/usr/local/lib/gb10-fleet"
TOKENS = ["usage", "completion_tokens"]
GUARD = {
    "floor_bytes": 1 << 28,
    "high_bytes": 1 << 36,
    "creep_s": 300,
    "on_creep": "report",
    "unit": "gb10-memory-guard.service",
}
LIMITS = {
    "startup_limit_s": 120,
    "stop_s": 10,
    "drain_s": 20,
    "canary_s": 3,
    "strikes": 3,
    "budget": {"starts": 3, "within_s": 1800},
}
KEY_FILE, SECRET_FILE = "/etc/gb10-fleet/secrets/pair.yaml", "/etc/gb10-fleet/secrets/pair"
TOKEN_FILE = f"/run/gb10-fleet/{NAME}/token"
DOCKER_RUN = [
    *("/usr/bin/docker", "run", "--rm", "--name", CONTAINER, "--pull", "never"),
    *("--network", "host", "--ipc", "host"),
]
SERVE = ["/models/tiny", "--served-model-name", "tiny", "--tensor-parallel-size", "2", "--max-model-len", "2048"]
LISTEN = ["--port", str(PORT), "--config", "/run/secrets/vllm.yaml", "--middleware", "gb10_api_key.KeyOnEveryRoute"]
# What vLLM's own check leaves open (perf-reliability 8.1), and what it guards.
ROUTES = (
    *("/invocations", "/tokenize", "/detokenize", "/metrics", "/pooling", "/classify", "/score", "/rerank", "/pause"),
    *("/resume", "/load", "/version", "/docs", "/openapi.json", "/ping", "/v1/models", "/v1/completions", "/"),
)
KEY_CHECK = "/etc/gb10-fleet/gb10_api_key.py"
SERVE_RAY = [
    *("/usr/bin/docker", "exec", CONTAINER, "vllm", "serve", *SERVE, *LISTEN),
    *("--distributed-executor-backend", "ray"),
]
UNIT_TEXT = f"""\
[Unit]
Requires=docker.service
After=docker.service
StartLimitIntervalSec=0

[Service]
Type=exec
NotifyAccess=main
WorkingDirectory={LIBRARY}
ExecStart=/usr/bin/python3 -m gb10_rank.supervise /etc/gb10-fleet/services/{NAME}.json
Restart=always
RestartSec=5
RestartPreventExitStatus=3
WatchdogSec=30
WatchdogSignal=SIGKILL
TimeoutStopSec=80
SyslogIdentifier={CONTAINER}

[Install]
WantedBy=multi-user.target docker.service
"""


class Group:
    """The pair and what a person could see of it."""

    def __init__(self, fleet: Fleet, image: str, ray: bool = False) -> None:
        self.fleet, self.image, self.ray = fleet, image, ray
        body = {"model": "tiny", "prompt": "x" * 200, "max_tokens": 8}
        self.first_tokens: dict[str, list[float]] = {}
        self.warm_up: list[dict[str, Any]] = [{"path": "/v1/completions", "body": body, "answer": TOKENS}]
        self.head, self.worker = HOSTS

    # Set up ------------------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Docker, the image, the supervisor and the fabric addresses on both hosts; the units are not started."""
        for host in HOSTS:
            self.fleet.root(host, "apt-get install -y docker.io docker-cli > /dev/null")
            self.fleet.root(host, f"docker load --quiet --input /srv/lab/{self.archive}")
            rail = {"name": INTERFACE, "kind": "cable", "address": f"{ADDRESSES[host]}/24", "mtu": 9000}
            self.write(host, netplan.PATH, netplan.text(netplan.document([rail], "static")), mode="600")
            self.write(host, netplan.NETWORKMANAGER, netplan.networkmanager([INTERFACE]))
            # the port's other half has no address and small packets, and would answer for this one
            self.write(host, "/etc/sysctl.d/90-halves.conf", "net.ipv4.conf.all.arp_ignore = 1")
            self.fleet.root(host, "sysctl --quiet --system && netplan apply")
            for source in sorted((UTILITIES / "_on_host" / "rank").glob("*.py")):
                self.write(host, f"{LIBRARY}/gb10_rank/{source.name}", source.read_text("utf-8"))
            self.write(host, f"{LIBRARY}/gids.py", (UTILITIES / "_on_host" / "gids.py").read_text("utf-8"))
            self.write(host, SECRET_FILE, SECRET, mode="600")
            self.write(host, f"/etc/systemd/system/{UNIT}", UNIT_TEXT)
        self.write(self.head, KEY_CHECK, (UTILITIES / "_on_host" / "api_key.py").read_text("utf-8"))
        self.write(self.head, KEY_FILE, f'api-key: "{KEY}"\n', mode="600")

    @property
    def archive(self) -> str:
        name, _, tag = self.image.rpartition("/")[2].partition(":")
        return f"{name}-{tag}.tar"

    def write(self, host: str, path: str, text: str, mode: str = "644") -> None:
        folder = path.rpartition("/")[0]
        command = f"mkdir -p {folder} && cat > {path} <<'END_OF_FILE'\n{text}\nEND_OF_FILE\nchmod {mode} {path}"
        self.fleet.root(host, command)

    def place(self, **changes: Any) -> None:
        """Write both ranks' files and start the units."""
        for rank in range(len(HOSTS)):
            self.define(self.service(rank, **changes))
        for host in HOSTS:
            self.fleet.root(host, f"systemctl daemon-reload && systemctl enable --quiet {UNIT}")
        self.restart(wait=False)

    def define(self, service: Mapping[str, Any]) -> None:
        self.write(HOSTS[service["rank"]], f"/etc/gb10-fleet/services/{NAME}.json", json.dumps(service))

    def start(self) -> None:
        for host in HOSTS:
            self.fleet.root(host, f"systemctl start {UNIT}")

    def stop(self) -> None:
        for host in HOSTS:
            self.fleet.root(host, f"systemctl stop {UNIT}")

    def restart(self, wait: bool = True) -> None:
        """As an owner does, with a new budget."""
        self.stop()
        before = self.status(self.head)["epoch"]
        self.start()
        if wait:
            self.until_serving(before)

    def service(
        self,
        rank: int,
        *,
        environment: Mapping[str, str] | None = None,
        limits: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """What the plan writes for one rank; changes replace whole keys, of `limits` and `environment` single ones."""
        host = HOSTS[rank]
        run = [*DOCKER_RUN, "--mount", "type=bind,source=/srv/lab/tiny,target=/models/tiny,readonly"]
        variables = {"VLLM_HOST_IP": ADDRESSES[host], "GLOO_SOCKET_IFNAME": INTERFACE, **(environment or {})}
        if rank == 0:
            run += ["--mount", f"type=bind,source={KEY_FILE},target=/run/secrets/vllm.yaml,readonly"]
            run += ["--mount", f"type=bind,source={KEY_CHECK},target=/opt/gb10-fleet/gb10_api_key.py,readonly"]
            variables = {"PYTHONPATH": "/opt/gb10-fleet", **variables}
        if self.ray:
            variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/run/secrets/ray"}
            run += ["--mount", f"type=bind,source={TOKEN_FILE},target=/run/secrets/ray,readonly"]
            run += ["--entrypoint", "ray"]
        run += [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        run += [self.image, *(_ray_node(rank) if self.ray else [*SERVE, *_node(rank)])]
        endpoint = {
            "url": f"http://127.0.0.1:{PORT}",
            "model": "tiny",
            "key_file": KEY_FILE,
            "key_form": "api-key: %s\n",
            "certificate": None,
        }
        written = {
            "service": NAME,
            "container": CONTAINER,
            "rank": rank,
            "ranks": 2,
            "address": ADDRESSES[host],
            "peers": [address for peer, address in ADDRESSES.items() if peer != host],
            "rendezvous": {"address": ADDRESSES["spark-2"], "port": RENDEZVOUS},
            "adapter": {"address": ADDRESSES[host], "state_file": hotplug.STATE, "absent": hotplug.SEAT},
            "definition": "one",
            "secret_file": SECRET_FILE,
            "token": {"file": TOKEN_FILE, "purpose": "ray"} if self.ray else None,
            "run": run,
            "serve": SERVE_RAY if self.ray and rank == 0 else None,
            "gids": None,
            "memory_bytes": 1 << 28,
            "guard": GUARD,
            "ports": [] if rank else [PORT, MASTER],
            "endpoint": None if rank else endpoint,
            "readiness": None,
            "probes": _probes(self.ray, self.image),
            "warm_up": [] if rank else self.warm_up,
            "limits": LIMITS | dict(limits or {}),
        }
        return written | changes

    # What can be seen --------------------------------------------------------------------------------------------

    def status(self, host: str) -> dict[str, Any]:
        text = self.fleet.root(host, f"cat /run/gb10-fleet/{NAME}/status.json", check=False)
        found: dict[str, Any] = json.loads(text) if text else {"state": "", "epoch": 0, "error": ""}
        return found

    def answers(self) -> bool:
        """A chat completion through the API, from this machine, by the head's management address."""
        return self.chat() != ""

    def chat(self, key: str = KEY, prompt: str = "hi") -> str:
        found = self.completion(key, prompt)
        return str(found["choices"][0]["message"]["content"]) if found else ""

    def completion(self, key: str = KEY, prompt: str = "hi", patience_s: int = 60) -> dict[str, Any]:
        asked = {"model": "tiny", "messages": [{"role": "user", "content": prompt}], "max_tokens": 4, "temperature": 0}
        headers = ["-H", f"Authorization: Bearer {key}", "-H", "Content-Type: application/json"]
        url = f"http://{MANAGEMENT[self.head]}:{PORT}/v1/chat/completions"
        done = self.fleet.lab(
            "net", "--", "curl", "-sf", "-m", str(patience_s), *headers, "-d", json.dumps(asked), url, check=False
        )
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        return found

    def first_token_s(self, prompt: str) -> float:
        """Seconds of a client until the first token of an answer that has one."""
        began = time.monotonic()
        asked = {"model": "tiny", "prompt": prompt, "max_tokens": 1, "temperature": 0}
        headers = ["-H", f"Authorization: Bearer {KEY}", "-H", "Content-Type: application/json"]
        url = f"http://{MANAGEMENT[self.head]}:{PORT}/v1/completions"
        timed = ["-o", "/dev/null", "-w", "%{time_total}"]
        done = self.fleet.lab("net", "--", "curl", "-sf", "-m", "300", *timed, *headers, "-d", json.dumps(asked), url)
        assert 0 < float(done.stdout) <= time.monotonic() - began
        return float(done.stdout)

    def open_routes(self, key: str = "") -> list[str]:
        """Those of ROUTES that answer anything but 401, asked with or without a key."""
        url = f"http://{MANAGEMENT[self.head]}:{PORT}"
        headers = ["-H", f"Authorization: Bearer {key}"] if key else []
        found = []
        for route in ROUTES:
            ask = [
                "curl",
                "-s",
                "-m",
                "20",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                *headers,
                "-X",
                "POST",
                url + route,
            ]
            if self.fleet.lab("net", "--", *ask).stdout != "401":
                found.append(route)
        return found

    def unit(self, host: str) -> str:
        return self.fleet.root(host, f"systemctl is-active {UNIT}", check=False).strip()

    def evidence(self, host: str, file: str) -> str:
        """A file of the newest bundle."""
        records = f"/var/lib/gb10-fleet/evidence/{NAME}"
        return self.fleet.root(host, f"cat {records}/$(ls {records} | tail -n 1)/{file}")

    def journal(self, host: str) -> str:
        return self.fleet.root(host, f"journalctl --no-pager --output cat --unit {UNIT}", check=False)

    def recovers(self, harm: Callable[[], object]) -> dict[str, Any]:
        """Do harm, and see the endpoint answer again in a later epoch; the time is printed (pytest -s)."""
        before = self.until_serving()["epoch"]
        began = time.monotonic()
        harm()
        harmed = time.monotonic()
        status = self.until_serving(before)
        assert self.answers()
        print(f"\n{harm.__name__}: {harmed - began:.1f} s of harm, answers {time.monotonic() - harmed:.1f} s after it")
        return status

    def until_serving(self, after_epoch: int = 0) -> dict[str, Any]:
        """The head's status once a later epoch serves."""
        self.until(lambda: self.is_serving(after_epoch), f"an epoch after {after_epoch} serves")
        return self.status(self.head)

    def is_serving(self, after_epoch: int = 0) -> bool:
        seen = self.status(self.head)
        return bool(seen["state"] == "serving" and seen["epoch"] > after_epoch)

    def until(self, true: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> float:
        """Seconds that it took; the limit only ends a test that has failed."""
        began = time.monotonic()
        while not true():
            if time.monotonic() > began + patience_s:
                logs = "\n".join(f"--- {host}\n{self.journal(host)[-4000:]}" for host in HOSTS)
                raise AssertionError(f"not after {patience_s} s: {what}\n{logs}")
            time.sleep(0.25)
        return round(time.monotonic() - began, 1)


def _probes(ray: bool, image: str) -> dict[str, Any]:
    """vLLM's, as the plan writes them."""
    found = probes("chat", "tiny", ray)
    joined = (
        replace(found.joined, command=["docker", "exec", CONTAINER, *found.joined.command]) if found.joined else None
    )
    requires = replace(found.requires, command=docker_ask(image, found.requires.command)) if found.requires else None
    return asdict(replace(found, joined=joined, requires=requires))


def _node(rank: int) -> list[str]:
    words = ["--nnodes", "2", "--node-rank", str(rank), "--master-addr", ADDRESSES[HOSTS[0]]]
    return [*words, "--headless"] if rank else [*words, *LISTEN]


def _ray_node(rank: int) -> list[str]:
    head = f"{ADDRESSES[HOSTS[0]]}:{MASTER}"
    node = [
        "--node-ip-address",
        ADDRESSES[HOSTS[rank]],
        "--object-store-memory",
        "100000000",
        "--num-cpus",
        "1",
        "--block",
    ]
    # as the plan writes them (`_engines.vllm.launch`): Ray takes no 0 for its client server
    node += ["--min-worker-port", "0", "--max-worker-port", "0"]
    if rank:
        return ["start", "--address", head, *node]
    alone = ["--include-dashboard=false", "--disable-usage-stats", "--ray-client-server-port", str(spare_port(PORT))]
    return ["start", "--head", "--port", str(MASTER), *alone, *node]
