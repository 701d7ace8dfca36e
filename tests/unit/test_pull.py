# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A published slice, and the program that fetches it: signed by OpenSSH for real, converged by an imitated Ansible.

On hosts: molecule/drift_timer, and eight of them in tests/pull.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.services import service_starts
from ansible_collections.gb10.fleet.plugins.module_utils._operations.pull import published
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify import service
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.ranks import CONVERGED
from ansible_collections.gb10.fleet.plugins.plugin_utils import _publisher
from drift_fleet import planned

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "roles" / "pull" / "files" / "gb10_pull.py"
SPEC = importlib.util.spec_from_file_location("gb10_pull", PROGRAM)
assert SPEC and SPEC.loader
gb10_pull = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(gb10_pull)

# No owner sets the first; hosts with Phoenix are refused for its key.
NOT_OF_OWNERS = {"preflight_groups", "phoenix_pip_arguments"}
DIGEST, ARCHIVE = _publisher.archive()
RECAP = "titan : ok=9    changed={}    unreachable=0    failed=0\n"


# What is published ------------------------------------------------------------------------------------------------


def fleet() -> tuple[dict[str, Any], str]:
    """What `gb10.fleet.plan` returns of a fleet, and a host of it with a service that has a key."""
    plan = planned(fleet_drift={"hook": ["/inventory/tell"]})
    host = next(name for name, one in plan["hosts"].items() if any(service["key"] for service in one["services"]))
    removal = {"inventory": plan["inventory"], "placed": {}, "clients": {}, "gateway": [], "hosts": [], "retire": ["x"]}
    return {"plan": plan, "removal": removal}, host


def test_a_slice_names_nothing_of_the_controller_and_of_no_other_host() -> None:
    whole, host = fleet()
    made = published.content(whole, host, DIGEST, "{}")
    text = json.dumps(made)
    sources = [one["source"] for service in whole["plan"]["hosts"][host]["services"] if (one := service["key"])]
    assert sources
    assert [source for source in sources if source in text] == []
    assert "/inventory" not in text
    assert made["fleet"]["plan"].keys() == whole["plan"].keys()
    assert [*made["fleet"]["plan"]["hosts"]] == [host]
    held = {one["path"] for one in made["held"]}
    assert {service["key"]["path"] for service in whole["plan"]["hosts"][host]["services"] if service["key"]} <= held
    assert made["fleet"]["removal"]["retire"] == [], "nothing is removed unasked, again and again"
    # a changed secret starts its service anew, as site.yml would
    own = whole["plan"]["hosts"][host]
    (given,) = made["fleet"]["plan"]["hosts"].values()
    assert service_starts(given["services"]) == service_starts(own["services"])
    assert published.checked({**made, "serial": 1, "published": "now"}, "x")["host"] == host


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"gateway": {"packages": []}}, "pull-secrets"),
        ({"clients": [{}]}, "pull-secrets"),
        ({"monitoring": {"secrets": [{}]}}, "pull-secrets"),
        ({"phoenix": {"secrets": [{}]}}, "pull-secrets"),
        ({"container_engine": {"registries": [{}]}}, "pull-secrets"),
        ({"tls": {"source": "/ca.crt"}}, "pull-certificates"),
        ({"services": [{"tls": {"names": []}}]}, "pull-certificates"),
        ({"images": [{"reference": "vllm:1", "digest": None, "lock": None}]}, "pull-unlocked"),
        ({"models": [{"repository": "a/b", "revision": None, "lock": None}]}, "pull-unlocked"),
    ],
)
def test_what_needs_the_controller_is_refused(change: dict[str, Any], rule: str) -> None:
    free: dict[str, Any] = {"gateway": {}, "clients": [], "monitoring": {"secrets": []}, "tls": {"source": None}}
    free |= {
        "phoenix": {"secrets": []},
        "memory_guard": {"enabled": True},
        "container_engine": {"registries": []},
        "services": [{"tls": None}],
        "images": [{"reference": "vllm:1", "digest": None, "lock": {"identity": "sha256:1"}}],
        "models": [{"repository": "a/b", "revision": "c" * 40, "lock": None}],
    }
    assert [*published.refused("titan", free, ())] == []
    (found,) = published.refused("titan", free | change, ())
    assert found.rule == rule
    assert found.place.startswith("titan")
    assert found.remedy


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"serial": 0}, {"serial": True}, {"host": "beast"}, {"fleet": {}}, {"held": "x"}, {"new": 1}],
)
def test_a_file_of_another_form_is_refused(change: dict[str, Any]) -> None:
    whole, host = fleet()
    made = {**published.content(whole, host, DIGEST, "{}"), "serial": 1, "published": "now"}
    with pytest.raises(FleetError, match="pull-form"):
        published.checked(made | change, "slice.json")


def test_the_same_plan_is_published_once(tmp_path: Path) -> None:
    key, file = tmp_path / "publisher" / "key", tmp_path / "titan.slice"
    _publisher.made_key(key, "lab")
    now = {"format": 1, "fleet": {"a": 1}}
    file.write_bytes(_publisher.signed(json.dumps({**now, "serial": 5}), key))
    assert published.is_same(_publisher.before(file, key), now)
    assert not published.is_same(_publisher.before(file, key), now | {"fleet": {"a": 2}})
    _publisher.keep_serials(key, _publisher.serials_of({"titan": _publisher.before(file, key), "bare": None}))
    assert json.loads((tmp_path / "publisher" / "key.serials").read_text()) == {"titan": 5}
    good = file.read_bytes()
    for damage in (
        b"",
        b"[]",
        b'{"slice": "{"}',
        b"\xff",
        good.replace(b"BEGIN", b"BEGAN"),
        good.replace(b"1}", b"2}"),
    ):
        assert damage != good
        file.write_bytes(damage)
        assert _publisher.before(file, key) is None
    assert key.stat().st_mode & 0o777 == 0o600


def test_by_a_new_key_all_is_published_anew(tmp_path: Path) -> None:
    """Hosts that were given the new one would refuse what the old one has signed."""
    key, file = tmp_path / "publisher" / "key", tmp_path / "titan.slice"
    _publisher.made_key(key, "lab")
    file.write_bytes(_publisher.signed(json.dumps({"serial": 5}), key))
    for gone in (key, key.with_name("key.pub")):
        gone.unlink()
        assert _publisher.before(file, key) is None
    _publisher.made_key(key, "lab")
    assert _publisher.before(file, key) is None
    # cut off between the two files of a key
    public = _publisher.public_of(key).read_text().split()[:2]
    _publisher.public_of(key).unlink()
    _publisher.made_key(key, "lab")
    assert _publisher.public_of(key).read_text().split()[:2] == public


def test_collections_that_no_slice_names_are_removed(tmp_path: Path) -> None:
    key = tmp_path / "publisher" / "key"
    _publisher.made_key(key, "lab")
    (tmp_path / "titan.slice").write_bytes(_publisher.signed(json.dumps({"collection": "a"}), key))
    for name in ("a", "b"):
        (tmp_path / f"collection-{name}.tar.gz").touch()
    _publisher.forget_archives(tmp_path, key, "c", ())
    assert [path.name for path in tmp_path.glob("*.gz")] == ["collection-a.tar.gz"]
    # what a host of the run names is known without its slice
    _publisher.forget_archives(tmp_path, key, "a", ("titan",))
    assert [path.name for path in tmp_path.glob("*.gz")] == ["collection-a.tar.gz"]


def test_the_collection_is_packed_alike_and_whole() -> None:
    digest, archive = _publisher.archive()
    assert digest == DIGEST
    assert len(archive) == len(ARCHIVE) and hashlib.sha256(archive).digest() == hashlib.sha256(ARCHIVE).digest()


# What a host does with it -----------------------------------------------------------------------------------------


class Site:
    """A publisher's folder, and a host that reads it; Ansible is imitated by a script that prints and leaves a mark."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state, self.published = folder, folder / "state", folder / "published"
        self.key = folder / "publisher" / "key"
        _publisher.made_key(self.key, "lab")
        self.published.mkdir()
        (self.published / f"collection-{DIGEST}.tar.gz").write_bytes(ARCHIVE)
        self.trust(self.key)
        self.ansible("printf '" + RECAP.format(3).strip() + "\\n'")

    def trust(self, key: Path) -> None:
        words = _publisher.public_of(key).read_text().split()[:2]
        (self.folder / "signers").write_text(f'publisher namespaces="gb10-fleet" {" ".join(words)}\n')

    def ansible(self, script: str) -> None:
        program = self.folder / "bin/ansible-playbook"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "$@" > {self.folder}/called\n{script}\n')
        program.chmod(0o755)

    def publish(self, serial: int = 7, key: Path | None = None, **change: Any) -> None:
        slice_ = {
            "format": 1,
            "host": "titan",
            "inventory": "lab",
            "serial": serial,
            "collection": DIGEST,
            "lock": "{}",
            "units": [],
        }
        text = json.dumps(slice_ | change)
        (self.published / "titan.slice").write_bytes(_publisher.signed(text, key or self.key))

    def pull(self, **change: Any) -> tuple[int, str]:
        """Its exit code and the line in the journal; what was called is kept."""
        (self.folder / "called").unlink(missing_ok=True)
        settings = {
            "host": "titan",
            "inventory": "lab",
            "from": str(self.published),
            "state": str(self.state),
            "signers": str(self.folder / "signers"),
            "path": str(self.folder / "bin"),
            "seconds": 20,
        }
        (self.folder / "pull.json").write_text(json.dumps(settings | change))
        done = subprocess.run(
            [sys.executable, "-I", str(PROGRAM), str(self.folder / "pull.json")],
            env=os.environ | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.returncode, done.stdout.strip()

    @property
    def has_converged(self) -> bool:
        return (self.folder / "called").exists()

    def report(self) -> Any:
        return json.loads((self.state / "report.json").read_text())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_signed_slice_is_taken(site: Site) -> None:
    site.publish()
    assert site.pull() == (0, "pull: converged: 3 changes")
    words = (site.folder / "called").read_text()
    assert "gb10.fleet.site" in words
    assert str(site.state / "slice.json") in words
    assert (site.state / "collections" / DIGEST / "ansible_collections/gb10/fleet/playbooks/site.yml").exists()
    assert {key: site.report()[key] for key in ("outcome", "serial")} == {"outcome": "converged", "serial": 7}
    assert (site.state / "slice.json").stat().st_mode & 0o777 == 0o600
    site.ansible("printf '" + RECAP.format(0).strip() + "\\n'")
    assert site.pull() == (0, "pull: converged: nothing had to be changed")


def forged(site: Site) -> None:
    other = site.folder / "other" / "key"
    _publisher.made_key(other, "lab")
    site.publish(8, other)


def changed_after(site: Site) -> None:
    site.publish(8)
    file = site.published / "titan.slice"
    file.write_text(file.read_text().replace('"serial": 8', '"serial": 9'))


def of_another_purpose(site: Site) -> None:
    """A signature of the right key, but for something else: `git` signs commits with such keys."""
    site.publish(8)
    file = site.published / "titan.slice"
    text = file.read_bytes().partition(gb10_pull._SIGNED)[2]
    words = ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", str(site.key)]
    file.write_bytes(subprocess.run(words, input=text, capture_output=True, check=True).stdout + text)


def no_envelope(site: Site) -> None:
    (site.published / "titan.slice").write_text("[1]")


def no_signature(site: Site) -> None:
    (site.published / "titan.slice").write_bytes(gb10_pull._SIGNED + b"{}")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (forged, "its signature is not by the key in "),
        (changed_after, "its signature is not by the key in "),
        (of_another_purpose, "its signature is not by the key in "),
        (no_signature, "its signature is not by the key in "),
        (no_envelope, "it is no file that gb10.fleet.publish has written"),
        (lambda site: site.publish(6), "its serial 6 is older than 7, which this host had before"),
        (lambda site: site.publish(8, host="beast"), "it was signed for beast of lab; expected titan of lab"),
        (lambda site: site.publish(8, inventory="home"), "it was signed for titan of home; expected titan of lab"),
        (lambda site: site.publish(8, format=2), "its form is 2, and this host reads 1"),
        (lambda site: site.publish("8"), "its serial is '8'; expected a whole number"),
        (lambda site: site.publish(8, collection="../x"), "it names the collection '../x'; expected a SHA-256"),
    ],
)
def test_what_is_not_for_this_host_is_refused(site: Site, harm: Callable[[Site], None], words: str) -> None:
    """And nothing is run, and what was taken before stays in force."""
    site.publish()
    assert site.pull()[0] == 0
    before = (site.state / "slice.json").read_text()
    harm(site)
    code, line = site.pull()
    assert code == 2
    assert line.startswith(f"pull: refused: {words}"), line
    assert not site.has_converged
    assert (site.state / "slice.json").read_text() == before
    assert (site.report()["outcome"], site.report()["serial"]) == ("refused", 7)
    site.publish(9)
    assert site.pull()[0] == 0


def test_a_bare_host_takes_no_older_slice_than_was_signed_for_it_last(site: Site) -> None:
    """Whoever serves the folder has each slice that was ever signed; `gb10.fleet.pull` knows the newest."""
    site.publish(7)
    code, line = site.pull(newest=8)
    assert (code, site.has_converged) == (2, False)
    assert line.startswith("pull: refused: its serial 7 is older than 8"), line
    site.publish(8)
    assert site.pull(newest=8)[0] == 0
    site.publish(7)
    assert site.pull(newest=0)[0] == 2


def test_by_another_key_serials_are_counted_anew(site: Site) -> None:
    """Whoever had the old one may have published the highest serial that there is."""
    site.publish(published.MOST_SERIAL)
    assert site.pull()[0] == 0
    site.publish(published.MOST_SERIAL + 1)
    assert "expected a whole number up to" in site.pull()[1]
    site.key = site.folder / "new" / "key"
    _publisher.made_key(site.key, "lab")
    site.trust(site.key)
    site.publish(8)
    assert site.pull() == (0, "pull: converged: 3 changes")


def test_a_service_that_was_stopped_stays_so(site: Site) -> None:
    site.publish(units=["gb10-service-chat.service"])
    systemctl = site.folder / "bin" / "systemctl"
    systemctl.write_text("#!/bin/sh\necho disabled\nexit 1\n")
    systemctl.chmod(0o755)
    code, line = site.pull()
    assert (code, line.partition(";")[0]) == (2, "pull: refused: gb10-service-chat.service was stopped by somebody")
    assert not site.has_converged
    systemctl.write_text("#!/bin/sh\necho enabled\n")
    assert site.pull()[0] == 0


class Wrong(BaseHTTPRequestHandler):
    """What a server may answer: another protocol, a terminal's orders, an answer that is cut."""

    words = b""

    def do_GET(self) -> None:
        self.wfile.write(self.words)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize(
    "words",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 404 \x1b[2J\x1b]0;x\x07" + b"y" * 3000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc",
    ],
)
def test_any_answer_of_a_server_ends_in_a_printable_line(site: Site, words: bytes) -> None:
    handler = type("Handler", (Wrong,), {"words": words})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code, line = site.pull(**{"from": f"http://127.0.0.1:{server.server_port}/fleet"})
        server.shutdown()
    assert code == 1
    assert line.isprintable()
    assert len(line) < 400
    assert site.report()["outcome"] == "unknown"


def test_a_run_that_is_ended_in_the_middle_is_not_the_last_ones_success(site: Site) -> None:
    site.publish()
    assert site.pull()[0] == 0
    site.ansible('kill -9 "$(ps -o ppid= -p $$ | tr -d " ")"')
    assert site.pull()[0] == -signal.SIGKILL
    assert site.report()["outcome"] == "unknown"


def test_what_the_program_and_the_publisher_have_in_common_is_the_same() -> None:
    """The program is one file, which a host runs without the collection."""
    assert (gb10_pull.NAMESPACE, gb10_pull.SIGNER, gb10_pull.FORMAT, gb10_pull._MOST_SERIAL, gb10_pull._SIGNED) == (
        published.NAMESPACE,
        published.SIGNER,
        published.FORMAT,
        published.MOST_SERIAL,
        _publisher._SIGNED,
    )
    assert gb10_pull._WORDS[gb10_pull.CONVERGED] == CONVERGED
    assert f'{published.SIGNER} namespaces="{published.NAMESPACE}"' in (ROOT / "roles/pull/vars/main.yml").read_text()


def test_options_of_roles_that_no_slice_holds_are_refused() -> None:
    """All that site.yml leaves to the inventory, but for how its output is shown."""
    plays = yaml.safe_load((ROOT / "playbooks/site.yml").read_text())
    text = (ROOT / "playbooks/site.yml").read_text()
    left = set()
    for role in {one["role"].removeprefix("gb10.fleet.") for play in plays for one in play.get("roles", ())} - {
        "fleet_plan"
    }:
        spec = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]
        left |= {name for name in spec.get("options", {}) if not re.search(rf"\b{name}:", text)}
    assert {name for name in left if not name.endswith("_secure_logging")} - NOT_OF_OWNERS == {*published.OPTIONS}


def test_an_archive_with_another_content_is_refused(site: Site) -> None:
    (site.published / f"collection-{DIGEST}.tar.gz").write_bytes(ARCHIVE + b"\0")
    site.publish()
    assert site.pull() == (2, f"pull: refused: collection-{DIGEST}.tar.gz has another content than its name says")
    assert not (site.state / "collections" / DIGEST).exists()


def test_what_is_not_known(site: Site) -> None:
    code, line = site.pull()
    assert code == 1
    assert line.startswith(f"pull: unknown: file://{site.published}/titan.slice can't be read: ")
    code, line = site.pull(**{"from": "http://127.0.0.1:1/fleet"})
    assert (code, line) == (1, "pull: unknown: http://127.0.0.1:1/fleet/titan.slice can't be read: "
                               "[Errno 111] Connection refused")  # fmt: skip
    site.publish()
    site.ansible("sleep 60")
    assert site.pull(seconds=1) == (1, "pull: unknown: the converge took more than 1 s")
    site.ansible("echo '[ERROR]: Task failed: no room'; printf '" + RECAP.format(2).strip() + "\\n'; exit 2")
    assert site.pull() == (1, "pull: unknown: Task failed: no room")
    site.ansible("echo '[ERROR]: nothing was changed: its API key is not there [pull-secret-missing]'; exit 2")
    assert site.pull() == (2, "pull: refused: nothing was changed: its API key is not there [pull-secret-missing]")
    assert site.report()["serial"] == 7, "it was taken; an older one is refused all the same"


def test_a_damaged_serial_is_named_and_nothing_is_taken(site: Site) -> None:
    site.publish()
    assert site.pull()[0] == 0
    (site.state / "serial").write_text("")
    code, line = site.pull()
    assert (code, line) == (1, f"pull: unknown: {site.state}/serial holds ''; expected a serial; remove it, and the "
                               "next slice is taken")  # fmt: skip
    assert not site.has_converged


def test_two_runs_at_once_are_one(site: Site) -> None:
    (site.state).mkdir()
    with (site.state / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        site.publish()
        assert site.pull() == (1, "pull: unknown: another run of it is under way")
    assert not site.has_converged
    assert site.pull()[0] == 0


def an_unpacked_file(site: Site) -> Path:
    return site.state / "collections" / DIGEST / "ansible_collections/gb10/fleet/plugins/module_utils/_base/findings.py"


@pytest.mark.parametrize(
    "harm",
    [
        lambda file, whole: file.write_bytes(file.read_bytes()[:100]),
        lambda file, whole: file.unlink(),
        lambda file, whole: (whole / "ansible_collections/gb10/fleet/plugins/action/own.py").write_text(""),
        lambda file, whole: (whole / "sums.json").write_text("{"),
        lambda file, whole: (shutil.rmtree(whole), whole.write_text("")),
    ],
    ids=["cut", "gone", "more", "sums", "file"],
)
def test_a_damaged_collection_is_fetched_anew(site: Site, harm: Callable[[Path, Path], object]) -> None:
    """A cut module ended each later pull, and no command of ours mended it."""
    site.publish()
    assert site.pull()[0] == 0
    file = an_unpacked_file(site)
    before = file.read_bytes()
    harm(file, site.state / "collections" / DIGEST)
    assert site.pull()[0] == 0
    assert file.read_bytes() == before


def test_a_whole_collection_is_not_fetched_again(site: Site) -> None:
    site.publish()
    assert site.pull()[0] == 0
    (an_unpacked_file(site).parent / "__pycache__").mkdir()
    (an_unpacked_file(site).parent / "__pycache__" / "findings.pyc").write_bytes(b"compiled")
    (site.published / f"collection-{DIGEST}.tar.gz").unlink()
    assert site.pull()[0] == 0


def test_after_a_converge_that_failed_nothing_compiled_is_trusted(site: Site) -> None:
    site.publish()
    site.ansible("echo 'EOFError: marshal data too short'; exit 1")
    assert site.pull() == (1, "pull: unknown: EOFError: marshal data too short")
    assert not (site.state / "collections" / DIGEST).exists()


@pytest.mark.parametrize(
    "name", ["lock", "report.json", "serial", ".serial.part", "slice.json", "collections/" + DIGEST]
)
def test_a_folder_in_the_way_is_named_or_gives_way(site: Site, name: str) -> None:
    site.publish()
    (site.state / name / "x").mkdir(parents=True)
    code, line = site.pull()
    assert (code, line) == (0, "pull: converged: 3 changes") or (code == 1 and f"{site.state}/" in line), line
    assert code == 0 or "remove that folder, and the next try goes on" in line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_a_full_folder_is_one_sentence(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gb10_pull.os, "fsync", lambda number: os.write(os.open("/dev/full", os.O_WRONLY), b"x"))
    with pytest.raises(OSError, match="No space left") as caught:
        gb10_pull.write(site.folder / "serial", "7")
    message = gb10_pull.unwritten(caught.value, site.state)
    assert message == f"{site.folder}/serial: No space left on device; make room there, and the next try goes on"


def test_a_host_without_a_readable_report_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report was a folder, and status had no problem."""
    monkeypatch.setattr(layout, "PULL_REPORT", str(tmp_path / "report.json"))
    monkeypatch.setattr(layout, "PULL_ENABLED", str(tmp_path / "enabled"))
    assert service._last_pull() is None
    (tmp_path / "enabled").touch()
    (tmp_path / "report.json").mkdir()
    found = {"outcome": "unknown", "why": f"no report in {tmp_path}/report.json", "at": "its last try"}
    assert service._last_pull() == found


class Cut(BaseHTTPRequestHandler):
    """Promises more than it sends, or sends it a byte at a time."""

    drips = False

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(900 if self.drips else 10):
                self.wfile.write(b"x")
                time.sleep(0.01)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("drips", [False, True])
def test_half_a_file_and_a_slow_server_are_named(monkeypatch: pytest.MonkeyPatch, drips: bool) -> None:
    """A cut slice read as a forged one; a dripping server held all tries back for two hours."""
    monkeypatch.setattr(Cut, "drips", drips)
    monkeypatch.setattr(gb10_pull, "_LONGEST_S", 0.5)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Cut)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(gb10_pull.UnknownError) as caught:
            gb10_pull.fetched(f"http://127.0.0.1:{server.server_port}", "titan.slice")
    finally:
        server.shutdown()
        server.server_close()
    assert ("is too slow: " if drips else "was cut off after 10 of 1000 bytes") in str(caught.value)


@pytest.mark.parametrize("name", ["ansible_collections/gb10/fleet/../../../x", "/etc/x", "x"])
def test_an_archive_writes_nowhere_else(site: Site, name: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name))
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    (site.published / f"collection-{digest}.tar.gz").write_bytes(packed.getvalue())
    site.publish(collection=digest)
    code, line = site.pull()
    assert (code, site.has_converged) == (2, False)
    assert "which is no file of a collection" in line
