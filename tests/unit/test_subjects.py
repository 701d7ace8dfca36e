# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One subject a package, listed once: the plan, the host's readings, drift and the roles agree on it."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.managed import Managed
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe import files
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import compare
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.managed import managed_files
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.subject import MODULES, program_files, with_files
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.access import (
    ACCOUNT,
    AUTHORIZED_KEYS,
    KNOWN_HOSTS,
    options,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.registry import SUBJECTS
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.supervisors import program
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.state import READS
from drift_fleet import OVER_MANAGEMENT, changed, planned

ROOT = Path(__file__).resolve().parents[2]
UTILITIES = "ansible_collections.gb10.fleet.plugins.module_utils."
PROGRAM, SUDOERS = "/usr/local/lib/gb10-fleet/peer-serve", "/etc/sudoers.d/gb10-peer"
SERVE = "/usr/local/lib/gb10-fleet/peer/serve"
SERVER = "/usr/local/lib/gb10-fleet/peer/ansible_collections/gb10/fleet/plugins/module_utils/_stores/peers/server.py"


def peers() -> dict[str, Any]:
    """A fleet in which spark-2 and titan read from each other."""
    plan = planned()
    for host, other in (("titan", "spark-2"), ("spark-2", "titan")):
        ends = {"reads": {other: ["10.0.0.9"]}, "readers": {other: ["192.168.100.9"]}}
        plan["hosts"][host]["peer_access"] = with_files(ends, plan["inventory"])
    return plan


PEERS = peers()


# The list ---------------------------------------------------------------------------------------------------------


def test_a_host_reads_what_the_subjects_read() -> None:
    """The host's list stands apart, since Ansible packs what a module imports by name; it is the same list."""
    assert {**files.READS, **{name: part for subject in SUBJECTS for name, part in subject.read.items()}} == READS


def test_each_subject_has_its_part_of_every_hosts_slice() -> None:
    names = [subject.name for subject in SUBJECTS]
    assert len({*names}) == len(names)
    assert [host for host in PEERS["hosts"].values() if {*names} - host.keys()] == []


@pytest.mark.parametrize("module", ["_subjects.state", "_stores.peers.server"])
def test_a_host_needs_nothing_but_python(module: str) -> None:
    """Without site-packages there is no Ansible and no YAML, as on a host."""
    loaded = imported(module)
    assert module in loaded and "_base.gb10" not in loaded


def imported(module: str) -> list[str]:
    """Which of our utilities it loads, in a Python of its own."""
    show = f"import json, sys, {UTILITIES}{module}; print(json.dumps(sorted(sys.modules)))"
    environment = {"PYTHONPATH": str(ROOT / "collections")}
    done = subprocess.run([sys.executable, "-S", "-c", show], env=environment, capture_output=True, check=True)
    return [name.removeprefix(UTILITIES) for name in json.loads(done.stdout) if name.startswith(UTILITIES)]


# Files ------------------------------------------------------------------------------------------------------------


def test_the_peers_program_is_all_that_the_server_loads() -> None:
    assert sorted(name.replace("/__init__", "").replace("/", ".") for name in MODULES) == sorted(
        {*imported("_stores.peers.server"), *imported("_stores.peers.start")}
    )


def test_the_peers_program_runs_as_it_lies_on_a_host(tmp_path: Path) -> None:
    """Without the host's own packages: as files below another root, with that root in the program."""
    host = {
        one.path: one.content or "" for one in managed_files(PEERS["hosts"]["titan"]) if one.path in program_files()
    }
    for path, content in host.items():
        target = tmp_path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content.replace('"/usr/local', f'"{tmp_path}/usr/local'))
    places = tmp_path / "places.json"
    places.write_text(json.dumps({"folder": str(tmp_path), "models": str(tmp_path), "caches": []}))
    command = [sys.executable, "-IBS", str(tmp_path / SERVE.lstrip("/")), str(places)]
    served = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert (served.returncode, served.stdout, served.stderr) == (0, "", "")


def tasks(part: Any) -> Iterator[dict[str, Any]]:
    for task in part or ():
        yield task
        for block in ("block", "rescue", "always"):
            yield from tasks(task.get(block))


TASKS = [
    (path.parts[-3], task)
    for path in sorted((ROOT / "roles").glob("*/tasks/*.yml"))
    for task in tasks(yaml.safe_load(path.read_text()))
]
WRITERS = {
    "assemble",
    "blockinfile",
    "copy",
    "get_url",
    "lineinfile",
    "template",
    "unarchive",
    "json_settings",
    "group_secret",
}
# (role, path as its task writes it): why no `host_files` writes it, and what drift knows it by.
OTHERWISE = {
    ("container_engine", "/etc/docker/daemon.json"): "_subjects.container_engine.subject, a file of others",
    ("container_engine", "/root/.docker/config.json"): "_subjects.container_engine.subject, a secret",
    ("services", "{{ item.secret.path }}"): "_subjects.services.subject, a secret",
    ("services", "{{ item.1.path }}"): "_subjects.services.subject, overlays",
    ("phoenix", "{{ phoenix_plan.spans }}"): "of the controller; the action unconverged looks for it",
    ("model_store", "{{ __token }}"): "in memory, and taken back by the same tasks",
}


@pytest.mark.parametrize("role", sorted({role for role, _task in TASKS}))
def test_a_role_writes_the_files_of_its_slice_and_no_others(role: str) -> None:
    mine = [(name.rpartition(".")[2], words) for of, task in TASKS if of == role for name, words in task.items()]
    written = {words.get("dest") or words["path"] for name, words in mine if name in WRITERS}
    assert written == {path for of, path in OTHERWISE if of == role}
    given = [words["files"] for name, words in mine if name == "host_files" and "files" in words]
    sources = ("_plan.files", f"__{role}_files", "services_supervisor.files", "| first).files")
    # the record of what a rollout has taken back, which no plan knows
    sources += ("services_taken_back[", "internal('forgotten')")
    assert all(any(source in text for source in sources) for text in given)


@pytest.mark.parametrize(
    ("host", "path", "kind", "mode"),
    [
        ("titan", PROGRAM, "file", "0755"),
        ("titan", SUDOERS, "file", "0440"),
        ("titan", SERVER, "file", "0644"),
        ("titan", AUTHORIZED_KEYS, "file", "0644"),
        ("titan", KNOWN_HOSTS, "file", "0644"),
        ("spark-2", "/usr/local/lib/gb10-fleet/netplan/__main__.py", "file", "0644"),
        ("spark-2", "/etc/systemd/system/gb10-netplan-recover.service", "file", "0644"),
        ("titan", next(path for path in program() if path.endswith("/supervise.py")), "file", "0644"),
        ("titan", "/etc/gb10-fleet/secrets", "folder", "0700"),
        ("titan", "/etc/docker/daemon.json", "file", "0644"),
    ],
)
def test_drift_knows_it(host: str, path: str, kind: str, mode: str) -> None:
    (one,) = [one for one in managed_files(PEERS["hosts"][host]) if one.path == path]
    assert (one.kind, one.mode) == (kind, mode)


def test_no_file_of_the_guard_where_nothing_is_cabled() -> None:
    assert [one.path for one in managed_files(PEERS["hosts"]["titan"]) if "netplan" in one.path] == []


# What differs -----------------------------------------------------------------------------------------------------


def line(state: dict[str, Any], text: str, name: str = "spark-2") -> None:
    state["peers"]["authorized"][name] = text


OURS = options(["192.168.100.9", OVER_MANAGEMENT])
WIDER = f"{options(['192.168.100.9', OVER_MANAGEMENT, '10.9.9.9'])} ssh-ed25519 spark/2"
ANYWHERE = f"{OURS.replace(OVER_MANAGEMENT, '*')} ssh-ed25519 spark/2"


@pytest.mark.parametrize(
    ("change", "place", "rule"),
    [
        (lambda state: state["files"][PROGRAM].update(sha256="0" * 64), f"file {PROGRAM}", "file-content"),
        (lambda state: state["files"][SERVER].update(sha256="0" * 64), f"file {SERVER}", "file-content"),
        (lambda state: state["files"][SUDOERS].update(sha256="0" * 64), f"file {SUDOERS}", "file-content"),
        (lambda state: state["files"][SUDOERS].update(mode="0666"), f"file {SUDOERS}", "file-access"),
        (lambda state: state["files"][AUTHORIZED_KEYS].update(owner=ACCOUNT), f"file {AUTHORIZED_KEYS}", "file-access"),
        (lambda state: line(state, "ssh-ed25519 AAAA me", "me"), f"file {AUTHORIZED_KEYS}", "peer-key-undeclared"),
        (lambda state: line(state, "x ssh-ed25519 A"), f"file {AUTHORIZED_KEYS}, spark-2", "peer-key-options"),
        (lambda state: line(state, "ssh-ed25519 A"), f"file {AUTHORIZED_KEYS}, spark-2", "peer-key-options"),
        (lambda state: line(state, f"{OURS} ssh-ed25519 B c"), f"file {AUTHORIZED_KEYS}, spark-2", "peer-key-other"),
        (lambda state: line(state, WIDER), f"file {AUTHORIZED_KEYS}, spark-2", "peer-key-options"),
        (lambda state: line(state, ANYWHERE), f"file {AUTHORIZED_KEYS}, spark-2", "peer-key-options"),
        (lambda state: state["peers"]["authorized"].clear(), f"file {AUTHORIZED_KEYS}, spark-2", "peer-key-missing"),
        (lambda state: state["peers"]["known"].clear(), f"file {KNOWN_HOSTS}, spark-2", "peer-host-missing"),
        (
            lambda state: state["peers"]["known"].update({"spark-2": "ssh-ed25519 B"}),
            f"file {KNOWN_HOSTS}, spark-2",
            "peer-host-other",
        ),
    ],
)
def test_what_lets_others_in_is_compared(change: Callable[[dict[str, Any]], Any], place: str, rule: str) -> None:
    found = changed(PEERS, "titan", change)
    other = copy.deepcopy(dict(found["spark-2"].state or {}))
    other["peers"] |= {"public_key": "ssh-ed25519 spark/2", "host_key": "ssh-ed25519 of/spark/2"}
    found["spark-2"] = type(found["spark-2"])(other, {})
    (one,) = compare(PEERS, found, "2026-11-22").differences
    assert (one.host, one.place, one.rule) == ("titan", place, rule)


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        (None, []),
        ("", ["file-kind", "file-kind", "peer-key-undeclared"]),
        ("inventory", ["file-kind", "file-kind", "peer-key-undeclared"]),
        ("another", []),
    ],
)
def test_what_lets_others_in_where_nobody_reads_is_drift_unless_another_inventory_wrote_it(
    given: str | None, rules: list[str]
) -> None:
    assert PEERS["inventory"] == "inventory"
    assert PEERS["hosts"]["spark-3"]["peer_access"]["files"] == {}

    def change(state: dict[str, Any]) -> None:
        state["peers_inventory"] = given
        if given is not None:
            state["peers_entries"] = [PROGRAM, SUDOERS]
            line(state, f"{OURS} ssh-ed25519 B", "spark-9")

    found = compare(PEERS, changed(PEERS, "spark-3", change), "2026-11-22").differences
    assert sorted(one.rule for one in found) == rules


def test_managed_files_have_one_owner() -> None:
    """Two subjects that managed one path would undo each other."""
    host = PEERS["hosts"]["titan"]
    paths = [one.path for subject in SUBJECTS for one in subject.files(host[subject.name]) if isinstance(one, Managed)]
    assert sorted({*paths}) == sorted(paths)
