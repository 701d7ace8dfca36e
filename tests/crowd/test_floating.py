# SPDX-License-Identifier: GPL-3.0-or-later
"""Two gateways with a floating address, by the real HAProxy and keepalived: who answers nobody gives the address away.

Two network namespaces and a cable between them, as root: `pytest tests/crowd/test_floating.py -s`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.plan import address_config

ADDRESS, PORT = "10.99.0.100", 8443
HOSTS = {"gb10-one": "10.99.0.1", "gb10-two": "10.99.0.2"}
# Five looks, five seconds apart, and the three seconds of VRRP.
MOVED_S = 60

HAPROXY = f"""
defaults
    mode http
    timeout client 10s
frontend fleet
    bind :::{PORT} v4v6 ssl crt {{folder}}/tls.pem
    http-request return status 200 content-type text/plain lf-string {{host}}
"""


class Pair:
    """Two hosts, each with both programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.haproxies: dict[str, subprocess.Popen[bytes]] = {}
        self.others: list[subprocess.Popen[bytes]] = []

    def start(self, host: str) -> None:
        folder = self.folder / host
        folder.mkdir()
        shutil.copy(self.folder / "tls.pem", folder)
        (folder / "haproxy.cfg").write_text(HAPROXY.format(folder=folder, host=host))
        part = {"members": HOSTS, "address": ADDRESS, "port": PORT}
        (folder / "address.conf").write_text(address_config(part, host, "cable"))  # type: ignore[arg-type]
        log = (self.folder / f"{host}.log").open("wb")
        inside = ["ip", "netns", "exec", host]
        own = [f"--{kind}={folder}/{kind}" for kind in ("pid", "vrrp_pid")]
        keepalived = ["keepalived", "--dont-fork", "--vrrp", "--log-console", "--no-syslog"]
        haproxy = subprocess.Popen([*inside, "haproxy", "-db", "-f", f"{folder}/haproxy.cfg"], stdout=log, stderr=log)
        self.haproxies[host] = haproxy
        config = ["--use-file", f"{folder}/address.conf"]
        self.others.append(subprocess.Popen([*inside, *keepalived, *config, *own], stdout=log, stderr=log))

    def holders(self) -> set[str]:
        shown = {host: subprocess.check_output(["ip", "-n", host, "address"], text=True) for host in HOSTS}
        return {host for host, text in shown.items() if f"{ADDRESS}/32" in text}

    def awaited(self, holders: set[str]) -> float:
        """Seconds until just these have the address."""
        begun = time.monotonic()
        while self.holders() != holders:
            log = "\n".join(path.read_text()[-1500:] for path in self.folder.glob("*.log"))
            assert time.monotonic() - begun < MOVED_S, f"{self.holders()} have it, not {holders}\n{log}"
            time.sleep(0.2)
        return time.monotonic() - begun


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    if os.geteuid():
        pytest.skip("needs root, for network namespaces")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
    missing = [name for name in ("haproxy", "keepalived", "curl", "openssl") if shutil.which(name) is None]
    assert not missing, f"apt-get install {' '.join(missing)}"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "crt")]
    subprocess.run([*words, "-days", "2", "-subj", "/CN=llm.lab", *files], check=True, capture_output=True)
    (tmp_path / "tls.pem").write_text((tmp_path / "crt").read_text() + (tmp_path / "key").read_text())
    one, two = HOSTS
    for host in HOSTS:
        subprocess.run(["ip", "netns", "add", host], check=True)
    cable = ["ip", "link", "add", "cable", "netns", one, "type", "veth", "peer", "name", "cable", "netns", two]
    subprocess.run(cable, check=True)
    for host, address in HOSTS.items():
        for command in (f"address add {address}/24 dev cable", "link set cable up", "link set lo up"):
            subprocess.run(["ip", "-n", host, *command.split()], check=True)
    found = Pair(tmp_path)
    try:
        for host in HOSTS:
            found.start(host)
        yield found
    finally:
        for process in [*found.haproxies.values(), *found.others]:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait()
        for host in HOSTS:
            subprocess.run(["ip", "netns", "delete", host], check=False)


def test_a_frozen_gateway_gives_the_address_away(pair: Pair) -> None:
    begun = time.monotonic()
    while len(pair.holders()) != 1 or time.monotonic() - begun < 5:
        assert time.monotonic() - begun < MOVED_S, (pair.folder / f"{next(iter(HOSTS))}.log").read_text()[-2000:]
        time.sleep(0.2)
    (holder,) = pair.holders()
    other = ({*HOSTS} - {holder}).pop()
    pair.haproxies[holder].send_signal(signal.SIGSTOP)
    print(f"moved after {pair.awaited({other}):.1f} s")
    ask = ["curl", "-ks", "--max-time", "5", f"https://{ADDRESS}:{PORT}/"]
    inside = ["ip", "netns", "exec", holder]
    assert subprocess.check_output([*inside, *ask], text=True) == other
    # Who answers again waits: a move cuts answers.
    pair.haproxies[holder].send_signal(signal.SIGCONT)
    time.sleep(15)
    assert pair.holders() == {other}
    log = "".join(path.read_text() for path in pair.folder.glob("*.log"))
    assert not re.search(r"SECURITY VIOLATION|Unable to|syntax", log), log
