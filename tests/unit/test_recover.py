# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A control machine is lost: a clone of the inventory gets back what hosts keep, and no client loses its access."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.managed import Managed, keyed
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.tracing.declared import headers_text
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.managed import managed_files
from ansible_collections.gb10.fleet.plugins.module_utils._operations.recover import (
    copies,
    recovered,
    source_text,
    with_keys,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.clients import (
    client_problems,
    clients_file,
    clients_map,
    first_key,
    key_of,
    names_of,
)
from ansible_collections.gb10.fleet.plugins.plugin_utils._certificates import authority, new_key
from ansible_collections.gb10.fleet.plugins.plugin_utils._made_certificates import Made, ca_problems
from test_undeclared import whole

NOW = datetime.now(UTC)
ANNA, BOB = "anna-anna-anna-anna", "bob-bob-bob-bob-bob"
CLIENTS = f'anna: {ANNA}\n"7": {BOB}\n'


def test_clients_keep_the_keys_that_they_have() -> None:
    there = clients_map(CLIENTS)
    back = clients_file(there)
    assert ANNA not in back
    assert clients_map(back) == there
    assert names_of(back) == {"anna", "7"}
    assert not [*client_problems(Place(), "x", back)]
    with pytest.raises(ValueError, match="one client"):
        first_key(back)
    with pytest.raises(ValueError, match="no key"):
        key_of(back, "anna")
    text, without = with_keys(back, ["recovered"], "r" * 32)
    assert without == ["7", "anna"]
    assert first_key(text) == "r" * 32 + "-0"
    assert {*there.splitlines()} < {*clients_map(text).splitlines()}


def test_a_program_of_the_fleet_gets_a_new_key() -> None:
    text, without = with_keys(clients_file(clients_map(CLIENTS)), ["anna"], "n" * 32)
    assert without == ["7"]
    assert key_of(text, "anna") == "n" * 32 + "-0"


@pytest.mark.parametrize("text", ["", "x", f"{'A' * 64} a b\n", f"{'A' * 63} a\n", f"{'A' * 64} a\nx\n"])
def test_any_other_file_is_no_list_of_clients(text: str) -> None:
    assert clients_file(text) == ""


def test_a_digest_is_taken_as_it_is_and_nothing_else() -> None:
    for wrong in ("sha256:" + "a" * 63, "sha256:" + "A" * 64, "sha1:" + "a" * 64):
        assert [*client_problems(Place(), "x", f"anna: {wrong}\n")]


@pytest.mark.parametrize("form", ["api-key: %s\n", "KEY=%t\n", "default Bearer\\ %t\n", "%t"])
def test_a_key_is_found_in_whatever_its_engine_reads(form: str) -> None:
    file = Managed("/x", "file", source="/y", rendered=keyed(form))
    assert source_text(file, file.rendered(f"{ANNA}\n")).strip() == ANNA
    assert source_text(file, "nothing of it") == "" or form == "%t"


@pytest.mark.parametrize("sent", ["Authorization: Bearer ey.J=h%b, c", "authorization: Bearer x\nx-team: a b"])
def test_the_key_for_spans_comes_back_from_its_headers(sent: str) -> None:
    file = Managed("/x", "file", source="/y.spans", rendered=headers_text)
    back = source_text(file, headers_text(sent))
    assert back
    assert headers_text(back) == headers_text(sent)
    assert source_text(file, "no headers") == ""


def test_no_folder_of_the_owner_is_hidden_from_git() -> None:
    """A key may lie beside the inventory itself: a .gitignore there would hide all of it."""
    playbook = (Path(__file__).parents[2] / "playbooks" / "recover.yml").read_text("utf-8")
    tasks = {task["name"]: task for task in yaml.safe_load(playbook)[0]["tasks"][-1]["block"]}
    assert "reject('exists')" in tasks["Make the folders"]["loop"]
    assert tasks["Keep them out of git"]["loop"] == "{{ __recover_made.results }}"


@pytest.fixture
def lost(tmp_path: Path) -> Any:
    """A host's slice, what the host keeps, and the files that its controller lost."""
    slice_ = whole(tmp_path / "site" if (tmp_path / "site").mkdir() is None else tmp_path, "home")
    ca = Path(slice_["tls"]["source"])
    ca.parent.mkdir(parents=True, exist_ok=True)
    key = new_key()
    ca.write_bytes(authority(key, "home", NOW, 3650))
    files = [file for file in managed_files(slice_) if file.source]
    for file in files:
        if not Path(file.source).exists():
            Path(file.source).parent.mkdir(parents=True, exist_ok=True)
            Path(file.source).write_text("-----BEGIN\nx\n")
    had = {file.source: Path(file.source).read_text() for file in files}
    host = {file.path: file.rendered(had[file.source]) for file in files}
    for source in had:
        Path(source).unlink()
    return SimpleNamespace(slice=slice_, had=had, host=host, clients=slice_["gateway"]["clients"]["source"])


def recovered_from(lost: Any, *hosts: dict[str, str]) -> dict[str, Any]:
    """What a controller without any file makes of these hosts, which are given the same slice."""
    names = ("titan", "spark-2", "spark-3")[: len(hosts)]
    read = {}
    for name, host in zip(names, hosts, strict=True):
        texts = {path: base64.b64encode(text.encode()).decode() for path, text in host.items()}
        read[name] = [{"item": one, "content": texts.get(one["path"])} for one in copies(lost.slice)]
    plan: Any = {"hosts": dict.fromkeys(names, lost.slice), "gateway": {"clients": lost.clients}, "clients": []}
    return recovered(plan, read, "r" * 32)


def test_what_hosts_keep_comes_back(lost: Any) -> None:
    found = recovered_from(lost, lost.host)
    assert found["files"].keys() == lost.had.keys()
    for source, text in lost.had.items():
        if source != lost.clients:
            assert found["files"][source] == text.strip() + "\n"
    before = {*lost.host["/etc/gb10-fleet/gateway/clients.map"].splitlines()}
    assert before < {*clients_map(found["files"][lost.clients]).splitlines()}
    assert sorted(one.rpartition("[")[2] for one in found["warnings"]) == ["recover-ca]", "recover-clients]"]


def test_a_plan_without_the_owners_files_names_what_hosts_keep(tmp_path: Path) -> None:
    slice_ = whole(tmp_path, "home")
    assert copies(whole(tmp_path, "home", lost=("key", "clients.yml", "phoenix.key"))) == copies(slice_)


def test_what_no_host_keeps_is_named(lost: Any) -> None:
    found = recovered_from(lost, {}, {path: "damaged" for path in lost.host if "secrets" not in path})
    named = [one for one in found["warnings"] if "recover-lost" in one]
    assert not found["files"].keys() & {lost.clients, *(s for s in lost.had if s.endswith("phoenix.key"))}
    assert all(any(source in one for one in named) for source in lost.had.keys() - found["files"].keys())


def test_of_hosts_that_differ_none_counts(lost: Any) -> None:
    path = lost.slice["tls"]["path"]
    found = recovered_from(lost, lost.host, lost.host, lost.host | {path: "another\n"})
    assert found["files"].keys() == lost.had.keys() - {lost.slice["tls"]["source"]}
    assert any("titan, spark-2, spark-3 keep different texts" in one for one in found["warnings"])


def test_a_ca_without_its_key_is_good_until_it_must_issue(tmp_path: Path) -> None:
    ca = tmp_path / "ca" / "ca.crt"
    names = {"certificate": "x.crt", "key": "x.key"}
    tls = {"names": ["titan"], **{kind: {"source": str(tmp_path / "c" / name)} for kind, name in names.items()}}
    made = Made(ca, NOW, 3650, 397, 30)
    made.bring("home", [tls], dry=False)
    text = ca.read_text()
    ca.with_suffix(".key").unlink()
    assert not [*ca_problems(ca, NOW)]
    assert made.bring("home", [tls], dry=False) == []
    for dry in (True, False):
        with pytest.raises(FleetError, match=r"ca\.key is lost"):
            made.bring("home", [{**tls, "names": ["titan", "more"]}], dry=dry)
    assert ca.read_text() == text
