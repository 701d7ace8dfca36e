# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Phoenix takes the real vLLM's spans, at one address and with its key alone; its absence slows no request.

By GB10_WHOLE=1 alone: its 190 MB of locked packages come from the package index, and are kept in .cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.compare import differences
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]
pytestmark = [pytest.mark.whole, pytest.mark.story]

Playbook = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).resolve().parents[4]
VARS = ROOT / "extensions/molecule/bench/vars"
WHEELS = ROOT / ".cache/phoenix-wheels"
KEY, PHOENIX_KEY = ((VARS / name).read_text("utf-8").strip() for name in ("key.txt", "phoenix-key.txt"))
SPANS = VARS / "phoenix-key.txt.spans"
URL = "http://10.77.0.11:6006"
UNITS = ("gb10-phoenix.service", "gb10-phoenix-proxy.socket")


def bring_wheels(host: Host) -> None:
    """A lab has no package index."""
    release = host.check_output("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'")
    words = [sys.executable, "-m", "pip", "download", "-q", "--require-hashes", "--only-binary=:all:", "--no-deps"]
    lock = ROOT / "roles/phoenix/files/phoenix.txt"
    words += ["--python-version", release, "-d", str(WHEELS), "-r", str(lock)]
    subprocess.run(words, check=True, capture_output=True)
    tar = subprocess.Popen(["tar", "-C", str(WHEELS), "-c", "."], stdout=subprocess.PIPE)
    login = ["ssh", "-F", os.environ["GB10_LAB_DIR"] + "/ssh_config", "titan"]
    subprocess.run([*login, "sudo mkdir -p /srv/wheels && sudo tar -x -C /srv/wheels"], stdin=tar.stdout, check=True)
    assert tar.wait() == 0


def site(playbook: Playbook, variables: str) -> str:
    pip = json.dumps({"phoenix_pip_arguments": ["--no-index", "--find-links", "/srv/wheels"]})
    words = ("-i", "inventories/lab", "-l", "localhost,titan", "-e", f"@{VARS / variables}", "-e", pip)
    done = playbook("gb10.fleet.site", *words)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def asked(host: Host, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        host.check_output("curl -sf -m 30 -H %s %s", f"Authorization: Bearer {PHOENIX_KEY}", f"{URL}{path}")
    )
    return found


def ask_vllm(host: Host) -> None:
    body = json.dumps({"model": "tiny", "prompt": "Gutenberg printed", "max_tokens": 4})
    host.check_output(
        "curl -skf -m 120 --retry 30 --retry-delay 2 --retry-all-errors -H 'Content-Type: application/json'"
        f" -H 'Authorization: Bearer {KEY}' -d %s https://127.0.0.1:8000/v1/completions",
        body,
    )


def spans(host: Host) -> list[dict[str, Any]]:
    """Of all projects."""
    projects = [one["name"] for one in asked(host, "/v1/projects")["data"]]
    return [span for name in projects for span in asked(host, f"/v1/projects/{name}/spans?limit=100")["data"]]


def test_site_brings_it_and_a_second_run_changes_nothing(playbook: Playbook, host: Host, tmp_path: Path) -> None:
    """Its first run makes the key for spans, which the traced service is given then."""
    bring_wheels(host)
    SPANS.unlink(missing_ok=True)
    untraced = yaml.safe_load((VARS / "phoenix.yml").read_bytes())
    del untraced["fleet_services"]["tiny"]["tracing"]
    (tmp_path / "untraced.yml").write_text(yaml.safe_dump(untraced), "utf-8")
    site(playbook, str(tmp_path / "untraced.yml"))
    assert SPANS.stat().st_mode & 0o777 == 0o600
    site(playbook, "phoenix.yml")
    assert all(host.service(unit).is_running and host.service(unit).is_enabled for unit in UNITS)
    assert "changed=0" in site(playbook, "phoenix.yml").partition("PLAY RECAP")[2].partition("titan")[2].splitlines()[0]


def test_a_request_is_a_span_there(host: Host) -> None:
    ask_vllm(host)
    until = time.monotonic() + 120
    while not (found := spans(host)) and time.monotonic() < until:
        time.sleep(1)
    assert found
    text = json.dumps(found)
    assert "time_to_first_token" in text
    assert "Gutenberg" not in text


def test_the_key_for_spans_administers_nothing(host: Host) -> None:
    ask = """mutation { createSystemApiKey(input: {name: "x"}) { jwt } }"""
    words = f"curl -s -m 30 -H %s -H 'Content-Type: application/json' -d %s {URL}/graphql"
    answer = json.loads(host.check_output(words, SPANS.read_text("utf-8").strip(), json.dumps({"query": ask})))
    assert answer["errors"] and not answer.get("data")


def test_nobody_without_its_key_reads_or_writes(host: Host) -> None:
    status = "curl -s -m 30 -o /dev/null -w '%{http_code}' "
    assert host.check_output(f"{status} {URL}/v1/projects") == "401"
    assert host.check_output(f"{status} -H 'Authorization: Bearer {KEY}' {URL}/v1/projects") == "401"
    post = "-X POST -H 'Content-Type: application/x-protobuf' --data-binary ''"
    assert host.check_output(f"{status} {post} {URL}/v1/traces") == "401"


def test_it_is_reached_at_its_address_alone_and_reaches_nobody(host: Host) -> None:
    listening = host.check_output("ss -Hltnp").splitlines()
    ours = [line.split()[3] for line in listening if ":6006 " in line or "phoenix" in line or ":4317 " in line]
    assert ours == ["10.77.0.11:6006"]
    pid = host.check_output("systemctl show -P MainPID gb10-phoenix.service")
    assert host.check_output(f"nsenter -t {pid} -n ip -br link").split()[0] == "lo"
    assert "root" not in host.check_output(f"ps -o user= -p {pid}")


def test_its_key_is_in_no_argument_and_no_file_that_others_read(host: Host) -> None:
    assert PHOENIX_KEY not in host.check_output("ps -eo args")
    assert PHOENIX_KEY not in host.check_output("systemctl show gb10-phoenix.service")
    assert PHOENIX_KEY not in host.run("journalctl -b --no-pager -u gb10-phoenix -u gb10-phoenix-proxy").stdout
    readable = host.check_output("find /etc/gb10-fleet /etc/systemd/system /var/lib/gb10-phoenix/ -type f -perm /044")
    assert PHOENIX_KEY not in "".join(
        host.file(path).content_string for path in readable.splitlines() if "db" not in path
    )


# On the host: requests, one after the other, for ten seconds each while spans are taken, refused and lost, in changing
# order. An exporter sends after five seconds at the latest.
PAIRED = """\
import json, ssl, subprocess, sys, time, http.client
key, rounds, each_s = sys.argv[1], 8, 10
ask = json.dumps({"model": "tiny", "prompt": "Gutenberg printed", "max_tokens": 16}).encode()
words = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
trust = ssl._create_unverified_context()
nft = "add table inet lost; add chain inet lost in { type filter hook input priority 0; }; "
nft += "add rule inet lost in tcp dport 6006 drop"
units = ["gb10-phoenix-proxy.socket", "gb10-phoenix-proxy.service"]
def run(*command): subprocess.run(command, check=True)
begin = {
    "taken": lambda: None,
    "refused": lambda: run("systemctl", "stop", *units),
    "lost": lambda: run("nft", nft),
}
end = {
    "taken": lambda: None,
    "refused": lambda: run("systemctl", "start", units[0]),
    "lost": lambda: run("nft", "delete table inet lost"),
}
def request():
    began = time.monotonic()
    link = http.client.HTTPSConnection("127.0.0.1", 8000, context=trust, timeout=120)
    link.request("POST", "/v1/completions", ask, words)
    assert link.getresponse().read()
    link.close()
    return time.monotonic() - began
taken = {state: [] for state in begin}
for number in range(rounds):
    order = [*begin][number % 3:] + [*begin][:number % 3]
    for state in order:
        begin[state]()
        try:
            request()
            until, times = time.monotonic() + each_s, []
            while time.monotonic() < until:
                times.append(request())
            taken[state].append(sum(times) / len(times))
        finally:
            end[state]()
print(json.dumps(taken))
"""


def test_a_request_is_no_slower_while_spans_are_refused_or_lost(host: Host) -> None:
    taken = json.loads(host.check_output("python3 -c %s %s", PAIRED, KEY).splitlines()[-1])
    for state in ("refused", "lost"):
        first, second = ({"a request": {"seconds": taken[one]}} for one in ("taken", state))
        (found,) = differences(first, second, {"seconds": False}, paired=True)
        print(
            f"{state}: {found.before:.4f} s, {found.after:.4f} s, {found.ratio:.3f} ({found.low:.3f}..{found.high:.3f})"
        )
        assert found.verdict != "slower", found


def test_what_is_no_longer_declared_goes_and_traces_stay(playbook: Playbook, host: Host) -> None:
    site(playbook, "fleet.yml")
    assert host.run("ls /etc/systemd/system/gb10-phoenix*").stdout == ""
    assert host.run("ss -Hltn sport = :6006").stdout == ""
    assert host.file("/var/lib/private/gb10-phoenix").is_directory
