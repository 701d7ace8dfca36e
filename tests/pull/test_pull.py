# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Eight hosts that fetch their slices themselves: a group of two, one service, and five bare ones (`--fleet-hosts`).

The engine is the lab's stand-in for vLLM. The tests go on where the one before ended.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from lab.fixtures import Fleet, eventually, lab_of, need_lab
from lab.vllm import images

ROOT = Path(__file__).resolve().parents[2]
PAIR = ("spark-2", "spark-3")
# Of the bare ones: what is published for this one is forged; this one is off.
FORGED, OFF = "p4", "p5"
IMAGE = {
    "reference": "gb10-lab/vllm-stand-in:0.32.0",
    "family": "upstream",
    "release": "0.32.0",
    "source": {"archive": "/srv/lab/vllm-stand-in-0.32.0.tar"},
}
PORT = 8086
STATE = "/var/lib/gb10-fleet/pull"
SIGNED = b"-----END SSH SIGNATURE-----\n"
PULL_SECONDS, ENDED = 900, ("inactive", "failed")
# The hosts have no network but the lab's.
WHEELS = ["--no-index", "--find-links", "/srv/wheels"]


class Site:
    """The publisher: its inventory, a server of what it publishes, and the hosts that read there."""

    def __init__(self, fleet: Fleet, folder: Path, hosts: Sequence[str]) -> None:
        self.fleet, self.folder, self.published = fleet, folder / "site", folder / "published"
        self.hosts = hosts
        self.published.mkdir()
        shutil.copytree(ROOT / "inventories" / "lab", self.folder, ignore=shutil.ignore_patterns(".fleet"))
        (self.folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {host: {} for host in hosts}}}))

    where: ClassVar = {
        "pull_from": f"http://10.77.0.1:{PORT}",
        "pull_pip_arguments": WHEELS,
        "pull_when": "*-*-* 03:00:00",
    }

    def declare(self, requests: int) -> None:
        """requests: how many each service works on at once."""
        service = {
            "recipe": "lab-tiny",
            "port": 8000,
            "served_name": "tiny",
            "image": IMAGE,
            "workload": {"max_model_len": 2048, "max_num_seqs": requests},
        }
        alone = {f"on-{host}": service | {"hosts": [host]} for host in self.hosts if service_of(host) != "pair"}
        pair = service | {"hosts": [*PAIR]}
        pair["workload"] = {**service["workload"], "pool": 16512}
        written = yaml.safe_load((ROOT / "inventories/lab/group_vars/all/fleet.yml").read_text())
        written["fleet_services"] = {**alone, "pair": pair}
        (self.folder / "group_vars/all/fleet.yml").write_text(yaml.safe_dump(written))

    def play(self, playbook: str, *arguments: str) -> str:
        hosts = str(self.folder / "hosts.yml")
        running = self.fleet.playbook(self.folder / "home", "-i", hosts, f"gb10.fleet.{playbook}", *arguments)
        output, _ = running.communicate()
        assert running.returncode == 0 or playbook == "status", output[-8000:]
        return output

    def publish(self) -> None:
        self.play("publish", "-e", f"publish_folder={self.published}")

    def pull(self, host: str) -> str:
        """What the timer starts; its line in the journal. A converge may have systemd begin anew, which ends whoever
        waits for a job."""
        self.fleet.root(host, "systemctl start --no-block gb10-pull.service")
        deadline = time.monotonic() + PULL_SECONDS
        while (
            self.fleet.root(host, "systemctl show -P ActiveState gb10-pull.service", check=False).strip() not in ENDED
        ):
            assert time.monotonic() < deadline, f"{host}: {self.line(host)}"
            time.sleep(1)
        return self.line(host)

    def line(self, host: str) -> str:
        return self.fleet.root(
            host, "journalctl --sync; journalctl -u gb10-pull.service -t gb10-pull -o cat -n 1 --no-pager"
        ).strip()

    def all_pull(self, *hosts: str) -> dict[str, str]:
        with ThreadPoolExecutor() as together:
            return dict(zip(hosts, together.map(self.pull, hosts), strict=True))

    def report(self, host: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.fleet.root(host, f"cat {STATE}/report.json"))
        return found

    def answers(self, host: str, service: str) -> str:
        """What a service says to a client with its key, on its host."""
        key = f"$(sed -n 's/^api-key: //p' /etc/gb10-fleet/secrets/{service}.key | tr -d '\"')"
        body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4})
        asked = f"curl -sf -m 20 -H 'Content-Type: application/json' -H \"Authorization: Bearer {key}\" -d '{body}'"
        return self.fleet.root(host, f"{asked} http://127.0.0.1:8000/v1/chat/completions", check=False)

    def requests(self, host: str, service: str) -> int:
        """How many it works on at once, of the command that its supervisor runs."""
        words = json.loads(self.fleet.root(host, f"cat /etc/gb10-fleet/services/{service}.json"))["run"]
        return int(words[words.index("--max-num-seqs") + 1])


def service_of(host: str) -> str:
    return "pair" if host in PAIR else f"on-{host}"


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    count = request.config.getoption("--fleet-hosts")
    hosts = ("titan", *PAIR, *(f"p{number}" for number in range(4, count + 1)))
    need_lab()
    wheels = ROOT / ".cache" / "pull-wheels"
    platforms = [
        "--platform",
        "manylinux2014_x86_64",
        "--platform",
        "manylinux_2_28_x86_64",
        "--python-version",
        "3.13",
    ]
    locked = ["--no-deps", "--require-hashes", "-r", str(ROOT / "roles/pull/files/pull.txt"), "--only-binary=:all:"]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels)]
    subprocess.run([*pip, *locked, *platforms], check=True)
    options = (
        "--hosts",
        ",".join(hosts),
        "--docker",
        "--share",
        images.stand_in_share(),
        "--share",
        f"{wheels}:/srv/wheels",
    )
    with lab_of(*options) as fleet, tempfile.TemporaryDirectory(prefix="gb10-pull-") as place:
        one = Site(fleet, Path(place), hosts)
        net = [str(ROOT / "tests/lab/lab"), "-d", str(fleet.directory), "net", "--"]
        words = [sys.executable, "-m", "http.server", str(PORT), "--bind", "10.77.0.1", "-d", str(one.published)]
        server = subprocess.Popen([*net, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield one
        finally:
            server.terminate()


def test_what_is_not_locked_is_published_for_nobody(site: Site) -> None:
    site.declare(8)
    with pytest.raises(AssertionError, match="pull-unlocked"):
        site.publish()
    assert [*site.published.iterdir()] == []


def test_all_hosts_converge(site: Site) -> None:
    """The controller has brought up three: one locks image and model, and the pair's cable and packet filter can't be
    given without somebody outside. All others have nothing but the timer."""
    site.play("site", "-l", ",".join(["titan", *PAIR]))
    site.publish()
    site.play("pull", "-e", json.dumps(site.where))
    assert site.play("pull", "-e", json.dumps(site.where)).count("changed=0 ") == len(site.hosts), (
        "a second run changes nothing"
    )
    lines = site.all_pull(*site.hosts)
    assert {host: line for host, line in lines.items() if "pull: converged: " not in line} == {}
    heads = [host for host in site.hosts if host != "spark-3"]
    assert [host for host in heads if "choices" not in site.answers(host, service_of(host))] == []
    again = site.all_pull(*site.hosts)
    assert {*again.values()} == {"pull: converged: nothing had to be changed"}


def test_one_with_a_forged_signature_refuses(site: Site) -> None:
    """And one is off: the others go over to what was published, the two ranks of the group by their supervisors."""
    site.fleet.lab("power", "off", OFF)
    site.declare(4)
    site.publish()
    forger = site.published.with_name("forger")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(forger)], check=True)
    file = site.published / f"{FORGED}.slice"
    slice_ = file.read_bytes().partition(SIGNED)[2]
    sign = ["ssh-keygen", "-q", "-Y", "sign", "-n", "gb10-fleet", "-f", str(forger)]
    file.write_bytes(subprocess.run(sign, input=slice_, capture_output=True, check=True).stdout + slice_)

    others = [host for host in site.hosts if host not in (FORGED, OFF)]
    lines = site.all_pull(FORGED, *others)
    assert lines.pop(FORGED).startswith(
        "pull: refused: its signature is not by the key in /etc/gb10-fleet/pull-signers"
    )
    assert {host: line for host, line in lines.items() if "pull: converged: " not in line} == {}
    assert {host: site.requests(host, service_of(host)) for host in (FORGED, *others)} == {
        FORGED: 8,
        **dict.fromkeys(others, 4),
    }
    for host in (FORGED, "titan", "spark-2"):
        eventually(lambda host=host: "choices" in site.answers(host, service_of(host)), f"{host} answers")
    shown = site.play("status")
    assert "pull: refused at " in shown
    assert "its signature is not by the key" in " ".join(shown.split())


def test_an_older_slice_is_refused(site: Site) -> None:
    file = site.published / "titan.slice"
    newer = file.read_bytes()
    site.declare(2)
    site.publish()
    assert site.pull("titan").startswith("pull: converged: ")
    newest = file.read_bytes()
    file.write_bytes(newer)
    assert "is older than" in site.pull("titan")
    assert site.requests("titan", "on-titan") == 2
    file.write_bytes(newest)
    assert site.pull("titan") == "pull: converged: nothing had to be changed"


def test_one_that_was_off_for_a_day_catches_up(site: Site) -> None:
    """By its timer alone, which makes up for what it missed; without the delay that spreads the hosts' requests."""
    site.fleet.lab("power", "on", OFF)
    eventually(lambda: site.fleet.ok(OFF, "systemctl is-active timers.target"), "it has booted")
    before = site.report(OFF)["serial"]
    # as systemd keeps when a timer last began: systemd.timer(5), Persistent
    stamp = "/var/lib/systemd/timers/stamp-gb10-pull.timer"
    folder = "/etc/systemd/system/gb10-pull.timer.d"
    site.fleet.root(OFF, f"mkdir -p {folder}; printf '[Timer]\\nRandomizedDelaySec=0\\n' > {folder}/now.conf")
    site.fleet.root(OFF, f"systemctl stop gb10-pull.timer; touch -d '25 hours ago' {stamp}; systemctl daemon-reload")
    site.fleet.lab("power", "off", OFF)
    site.fleet.lab("power", "on", OFF)
    eventually(lambda: site.report(OFF)["serial"] > before, "it has fetched what was published meanwhile", PULL_SECONDS)
    eventually(lambda: site.line(OFF).startswith("pull: converged: "), "it has converged", PULL_SECONDS)
    assert site.requests(OFF, service_of(OFF)) == 2
    assert "choices" in site.answers(OFF, service_of(OFF))


def test_a_secret_that_no_slice_holds_is_asked_for(site: Site) -> None:
    site.fleet.root("titan", "rm /etc/gb10-fleet/secrets/on-titan.key")
    line = site.pull("titan")
    assert "on-titan: its API key is not in /etc/gb10-fleet/secrets/on-titan.key" in line
    assert "run gb10.fleet.pull -l titan from the controller" in line


def test_a_changed_key_reaches_the_engine(site: Site) -> None:
    """pull brings it, and the host's next converge starts the service anew with it."""
    (site.folder / ".fleet/keys/on-titan.key").write_text("a-new-key-of-twenty-letters\n")
    site.play("pull", "-l", "titan", "-e", json.dumps(site.where))
    assert site.pull("titan").startswith("pull: converged: ")
    assert "choices" in site.answers("titan", "on-titan")


def test_no_secret_is_in_what_is_published(site: Site) -> None:
    """Nor in what a host keeps of it and writes of it into its journal."""
    made = [file for file in (site.folder / ".fleet").rglob("*") if file.is_file()]
    keys = [file for file in made if file.parent.name == "keys" or file == site.folder / ".fleet" / "publisher" / "key"]
    secrets = [file.read_bytes().strip() for file in keys]
    assert len(keys) > len(site.hosts) - len(PAIR) and all(len(secret) >= 16 for secret in secrets)
    of_host = f"journalctl -u gb10-pull.service -o cat --no-pager; cat {STATE}/*.json"
    texts = [file.read_bytes() for file in site.published.rglob("*") if file.is_file()]
    texts += [site.fleet.root(host, of_host).encode() for host in ("titan", *PAIR)]
    assert not any(secret in text for secret in secrets for text in texts)
