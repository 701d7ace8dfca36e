# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway and its clients on this machine's loopback, by what the plan writes for their host.

Real: HAProxy, Open WebUI, Hermes Agent, by the plan's files, variables and secrets. Imitated: vLLM, and
the containers: paths in them are folders here, and what an image starts is the program itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.client import fetch
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.clients.kinds import (
    IN_CERTIFICATES,
    IN_SETTINGS,
    KINDS,
    gateway_secret,
    own_secret,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.clients import clients_map
from ansible_collections.gb10.fleet.plugins.plugin_utils._certificates import Pair, authority, issued, new_key
from lab.base import cache_directory

from . import engine

ROOT = Path(__file__).resolve().parents[2]
# A first start fills a database, and byte code that isn't there yet; the limit only ends a test that has failed.
PATIENCE_S = 1200
_CERTIFICATE_DAYS = 2
# What the image of each starts, and the variable by which it keeps its data in the mounted folder.
_STARTS = {
    "open-webui": (
        "open_webui",
        "from open_webui import app; app()",
        "serve --host 127.0.0.1 --port {port}",
        "DATA_DIR",
    ),
    "hermes": ("hermes", "from hermes_cli.main import main; main()", "gateway run", "HERMES_HOME"),
}


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def python_of(lock: str) -> Path:
    """Python of an environment with exactly what ``requirements/LOCK.txt`` names, made once."""
    file = ROOT / "requirements" / f"{lock}.txt"
    place = cache_directory() / "clients" / f"{lock}-{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"
    if not place.exists():
        shutil.rmtree(part := place.with_suffix(".part"), ignore_errors=True)
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run([uv, "venv", "--quiet", "--relocatable", "--python", "3.11", part], check=True)
        words = ("--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", "--compile-bytecode")
        subprocess.run([uv, "pip", "install", *words, "--python", part, "--requirements", file], check=True)
        part.rename(place)
    return place / "bin" / "python"


def haproxy() -> str:
    """Another one than in PATH by HAPROXY."""
    program = os.environ.get("HAPROXY") or shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.fail("this machine has no haproxy: apt-get install haproxy")
    return program


def eventually(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"not after {PATIENCE_S} s: {what}"
        time.sleep(0.5)


class House:
    """folder: all of it. declared: the fleet's variables, in which each port is free. plan: what was decided."""

    def __init__(self, folder: Path, declared: Mapping[str, Any], keys: Mapping[str, str]) -> None:
        self.folder, self.keys, self._processes = folder, keys, list[subprocess.Popen[bytes]]()
        self.site = folder / "site"
        self.site.mkdir()
        self._secret(self.site / "clients.yml", json.dumps(keys))
        host = {"address": "127.0.0.1", "variables": declared}
        inventory = {"hosts": {"titan": host}, "folder": str(self.site)}
        self.plan = plan_fleet(inventory, *load_all((SHIPPED_RECIPES,)))
        errors = [one for one in self.plan["findings"] if one["severity"] == "error"]
        assert errors == []
        self.clients = {one["name"]: one for one in self.plan["hosts"]["titan"]["clients"]}
        for client in self.clients.values():
            self._secret(Path(client["secrets"][-1]["source"]), f"password-of-{client['name']}-here")

    @staticmethod
    def _secret(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)

    def secret(self, client: str) -> str:
        """Its own: the first account's password, or the key of its API."""
        return Path(self.clients[client]["secrets"][-1]["source"]).read_text()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        try:
            self._serve()
            self._open_the_gateway()
            for client in self.clients.values():
                self._start(client)
            yield
        finally:
            for process in reversed(self._processes):
                process.terminate()
            for process in reversed(self._processes):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                process.kill()

    def _run(self, name: str, words: list[str], environment: Mapping[str, str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as output:
            process = subprocess.Popen(
                words, cwd=self.folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._processes.append(process)

    def _serve(self) -> None:
        (service,) = self.plan["hosts"]["titan"]["services"]
        self._secret(Path(service["key"]["source"]), engine.KEY)
        port = urlsplit(self.plan["services"]["coder"]["endpoint"]).port
        self._run("engine", [sys.executable, engine.__file__, str(port)], {"PATH": os.environ["PATH"]})
        eventually(lambda: fetch(f"http://127.0.0.1:{port}/health", "", 10).status == 200, "the engine")

    def _open_the_gateway(self) -> None:
        part = self.plan["hosts"]["titan"]["gateway"]
        own = self.folder / "gateway"
        (own / "keys").mkdir(parents=True)
        now, key = datetime.now(UTC), new_key()
        ca = Pair(authority(key, "tests", now, _CERTIFICATE_DAYS), key)
        pair = issued(ca, part["tls"]["names"], now, _CERTIFICATE_DAYS)
        certificates = self.folder / "certificates"
        certificates.mkdir()
        (certificates / "ca-certificates.crt").write_bytes(ca.certificate)
        (own / "tls.crt").write_bytes(pair.certificate)
        (own / "tls.crt.key").write_bytes(pair.key)
        for path, file in part["files"].items():
            text = file["content"].replace(layout.GATEWAY_STATUS, str(own)).replace(layout.GATEWAY, str(own))
            (own / Path(path).name).write_text(re.sub(r" +(user|group) haproxy\n", "", text))
        for one in part["backend_keys"]:
            key_text = Path(one["source"]).read_text()
            (own / "keys" / Path(one["path"]).name).write_text(one["form"] % json.dumps(key_text))
        (own / "clients.map").write_text(clients_map(json.dumps(self.keys)))
        self._run("gateway", [haproxy(), "-db", "-f", str(own / "haproxy.cfg")], {"PATH": os.environ["PATH"]})

    def _start(self, client: Mapping[str, Any]) -> None:
        """As its unit does: the variables of `docker run`, and the file that its container begins with."""
        name, kind = client["name"], client["kind"]
        settings, data = self.folder / name, self.folder / f"{name}-data"
        settings.mkdir()
        data.mkdir()
        (unit,) = [file["content"] for path, file in client["files"].items() if path.startswith(layout.UNITS)]
        (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
        words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]
        given = dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "--env")
        folders = {IN_SETTINGS: str(settings), IN_CERTIFICATES: str(self.folder / "certificates")}
        lock, code, arguments, keeps = _STARTS[kind]
        python = python_of(lock)
        program = f"{python} -c {shlex.quote(code)} {arguments.format(port=client['listens']['port'])}"
        for path, file in client["files"].items():
            if path.startswith(layout.client_folder(name)):
                text = file["content"].replace(KINDS[kind].start, program)
                place = data if Path(path).name == "config.yaml" else settings
                (place / Path(path).name).write_text(_elsewhere(text, folders))
        for one in client["secrets"]:
            rendered = gateway_secret(one["kind"], one["key"]) if one["key"] else own_secret(one["kind"])
            (settings / Path(one["path"]).name).write_text(rendered(Path(one["source"]).read_text()))
        environment = {variable: _elsewhere(value, folders) for variable, value in given.items()}
        own = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(data), keeps: str(data)}
        self._run(name, ["sh", str(settings / "start")], own | environment)
        proof = client["proof"]
        eventually(
            lambda: (
                fetch(proof["url"] + proof["health"], "", 10).status == 200 or self._processes[-1].poll() is not None
            ),
            f"{proof['health']} of {name}",
        )
        assert self._processes[-1].poll() is None, self.log(name)[-3000:]

    def commands(self) -> str:
        """The command lines of all that runs here."""
        texts = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                texts.append(place.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        return "\n".join(texts)


def _elsewhere(text: str, folders: Mapping[str, str]) -> str:
    # the longer ones first: one may begin as another does
    for inside, here in sorted(folders.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(inside, here)
    return text
