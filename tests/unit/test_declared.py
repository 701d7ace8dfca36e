"""What an owner writes wrong is named with its place and what to write instead."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Finding
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import Declared, read_declaration
from ansible_collections.gb10.fleet.plugins.module_utils._plan.inventory_files import not_inventories
from hypothesis import given
from hypothesis import strategies as st

NANO: dict[str, Any] = {"recipe": "nano", "hosts": ["titan"], "port": 8003}


def read(services: Any, **titan: Any) -> tuple[Declared, list[Finding]]:
    titan_variables = {"fleet_services": services, **titan}
    hosts = {
        "titan": {"address": "10.0.0.1", "port": 2222, "variables": titan_variables},
        "beast": {"address": "10.0.0.2", "variables": {"fleet_services": services}},
    }
    return read_declaration({"hosts": hosts, "folder": "/inventory"})


def test_a_right_declaration_has_no_findings_and_gets_its_defaults() -> None:
    declared, findings = read({"nano": NANO})
    assert findings == []
    assert declared.services["nano"]["listen"] == "0.0.0.0"
    assert declared.hosts["titan"].address == "10.0.0.1"


@pytest.mark.parametrize(
    ("services", "rule", "place", "remedy"),
    [
        ({"nano": NANO | {"prot": 1}}, "schema-unknown-key", "fleet_services.nano.prot", 'write "port"'),
        # one slip, one error: what the misspelt key is meant for isn't missing as well
        (
            {"nano": {"recpie": "nano", "hosts": ["titan"], "port": 8003}},
            "schema-unknown-key",
            "fleet_services.nano.recpie",
            'write "recipe"',
        ),
        ({"nano": NANO | {"hosts": ["titn"]}}, "input-unknown-host", "fleet_services.nano.hosts", 'write "titan"'),
        ({"nano": NANO | {"port": "8003"}}, "schema-type", "fleet_services.nano.port", "write it without quotes"),
        ({"nano": NANO | {"port": 70000}}, "schema-range", "fleet_services.nano.port", ""),
        ({"nano": {"hosts": ["titan"], "port": 1}}, "input-no-model", "fleet_services.nano", "write recipe: NAME"),
        (
            {"nano": {"hosts": ["titan"], "port": 1, "model": {"revision": "0" * 40}}},
            "input-no-model",
            "fleet_services.nano",
            "model: ORGANISATION/NAME",
        ),
        ({"nano": NANO | {"model": "a b"}}, "schema-pattern", "fleet_services.nano.model", ""),
        ({"nano": NANO | {"hosts": ["titan", "titan"]}}, "input-host-twice", "fleet_services.nano.hosts", "remove one"),
        (
            {"nano": NANO | {"api_key_file": "none"}},
            "input-key-file",
            "fleet_services.nano.api_key_file",
            "ansible-vault",
        ),
        ({"a": NANO, "b": NANO}, "input-port-twice", "fleet_services.b.port", "another port"),
        ({"nano": NANO | {"port": 22}}, "input-port-of-the-host", "fleet_services.nano.port", "another port"),
        ({"nano": NANO | {"port": 2222}}, "input-port-of-the-host", "fleet_services.nano.port", "another port"),
        ({"nano": NANO | {"port": 53}}, "input-port-of-the-host", "fleet_services.nano.port", "another port"),
        ({"nano": NANO | {"port": 11000}}, "input-port-of-the-host", "fleet_services.nano.port", "another port"),
        (  # of a group, where its supervisors meet
            {"nano": NANO | {"hosts": ["titan", "beast"], "port": 1000}},
            "input-port-of-the-host",
            "fleet_services.nano.port",
            "another port",
        ),
        (["nano"], "schema-type", "fleet_services", ""),
        ([], "schema-type", "fleet_services", ""),  # an empty list isn't an empty map
        ("", "schema-type", "fleet_services", ""),
        ({"nano": NANO | {"listen": ""}}, "schema-pattern", "fleet_services.nano.listen", ""),
        ({"nano": NANO | {"listen": "titan"}}, "schema-pattern", "fleet_services.nano.listen", ""),
        ({"nano": NANO | {"served_name": ""}}, "schema-range", "fleet_services.nano.served_name", ""),
        (
            {"nano": NANO | {"workload": {"max_model_len": 32768}, "flags": {"max-model-len": 65536}}},
            "input-declared-twice",
            "fleet_services.nano.flags.max-model-len",
            "remove one",
        ),
        (
            {"nano": NANO | {"workload": {"max_num_seqs": 4}, "flags": {"max-num-seqs": 8}}},
            "input-declared-twice",
            "fleet_services.nano.flags.max-num-seqs",
            "remove one",
        ),
    ],
)
def test_a_wrong_service_is_named(services: Any, rule: str, place: str, remedy: str) -> None:
    findings = read(services)[1]
    assert [(finding.rule, finding.place) for finding in findings] == [(rule, place)]
    assert remedy in findings[0].remedy


def test_a_port_of_this_host_alone_is_free_at_its_other_addresses() -> None:
    assert read({"nano": NANO | {"port": 11000, "listen": "10.0.0.1"}})[1] == []


def test_the_other_services_can_still_be_looked_at() -> None:
    declared, _findings = read({"nano": NANO, "bad": NANO | {"port": 0}})
    assert list(declared.services) == ["nano"]


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("fleet_servcies", "fleet_services"),
        ("flet_host", "fleet_host"),
        ("Fleet_host", "fleet_host"),
        ("fleets_fabric", "fleet_fabric"),
        ("feet_firewal", "fleet_firewall"),
        ("file_name", None),
        ("feet_size", None),
        ("ansible_host", None),
    ],
)
def test_a_misspelt_variable_is_found_at_its_place(slip: str, meant: str | None) -> None:
    found = [(one.place, one.remedy) for one in read({"nano": NANO}, **{slip: {}})[1]]
    assert found == ([(f"titan: {slip}", f'write "{meant}"')] if meant else [])


@pytest.mark.parametrize(
    ("settings", "place", "remedy"),
    [
        ({"memory_kb": 1 << 27}, "beast and 1 more: fleet_host.memory_kb", 'write "memory_kib"'),
        ({"services": {"nanno": {}}}, "beast and 1 more: fleet_host.services.nanno", 'write "nano"'),
    ],
)
def test_a_mistake_in_what_all_hosts_share_is_one(settings: dict[str, Any], place: str, remedy: str) -> None:
    hosts = {
        name: {"address": name, "variables": {"fleet_services": {"nano": NANO}, "fleet_host": settings}}
        for name in ("titan", "beast")
    }
    findings = read_declaration({"hosts": hosts, "folder": "/inventory"})[1]
    assert [(one.place, one.remedy) for one in findings] == [(place, remedy)]


def test_options_of_the_role_are_no_unknown_variables() -> None:
    """As of `-e fleet_plan_show=true`."""
    assert read({"nano": NANO}, fleet_plan_show=True, fleet_plan_format="json")[1] == []


def test_sizes_declared_alike_in_both_places_are_one_declaration() -> None:
    alike = {"workload": {"max_model_len": 32768}, "flags": {"max-model-len": 32768}}
    assert read({"nano": NANO | alike})[1] == []


def test_no_declaration_is_not_an_empty_one() -> None:
    hosts = {"titan": {"address": "a", "variables": {}}}
    (finding,) = read_declaration({"hosts": hosts, "folder": "/site"})[1]
    assert (finding.rule, finding.severity) == ("input-no-services", "error")
    assert "/site" in finding.expected
    assert read({})[1] == []


def test_two_names_of_one_machine_are_refused() -> None:
    hosts: dict[str, Any] = {name: {"address": "10.0.0.1", "variables": {"fleet_services": {}}} for name in "ab"}
    (finding,) = read_declaration({"hosts": hosts, "folder": "/site"})[1]
    assert (finding.rule, finding.place) == ("input-same-address", "b: ansible_host")
    hosts["b"]["port"] = 2222  # two machines behind one address
    assert read_declaration({"hosts": hosts, "folder": "/site"})[1] == []


KEY = "0123456789abcdef-0123456789abcdef"


@pytest.mark.parametrize(
    ("content", "mode", "severity", "remedy"),
    [
        ("", 0o600, "error", "openssl rand"),
        ("0123456789abcde", 0o600, "error", "openssl rand"),  # short enough to be tried out
        (" \n\t\n", 0o600, "error", "openssl rand"),
        (f"{KEY}\n{KEY}\n", 0o600, "error", "openssl rand"),
        (f"two words {KEY}", 0o600, "error", "openssl rand"),
        ('p"ass\\wörd', 0o600, "error", "openssl rand"),
        ("\x1b[2J" + KEY, 0o600, "error", "openssl rand"),
        (f"-{KEY}", 0o600, "error", "openssl rand"),  # vLLM takes it for an option: "expected at least one argument"
        (KEY * 4096, 0o600, None, ""),
        (KEY, 0o644, "warning", "chmod 600"),
        (KEY, 0o640, "warning", "chmod 600"),
        (f"{KEY}\n", 0o600, None, ""),
        ("$ANSIBLE_VAULT;1.1;AES256\n6162\n6364\n", 0o644, None, ""),
    ],
)
def test_a_key_that_cannot_work_is_refused_and_never_repeated(
    tmp_path: Path, content: str, mode: int, severity: str | None, remedy: str
) -> None:
    path = tmp_path / "nano.key"
    path.write_text(content, encoding="utf-8")
    path.chmod(mode)
    declared, findings = read({"nano": NANO | {"api_key_file": str(path)}})
    assert [finding.severity for finding in findings] == ([severity] if severity else [])
    assert ("nano" in declared.services) == (severity != "error")
    for finding in findings:
        assert remedy in finding.remedy
        assert KEY not in finding.sentence()
        assert "wörd" not in finding.sentence()


@pytest.mark.parametrize(
    ("written", "made", "is_open"),
    [
        ({}, True, False),
        ({"open": True}, False, True),
        ({"open": False}, True, False),
        ({"api_key_file": "nano.key"}, False, False),
    ],
)
def test_clients_need_a_key_unless_the_owner_declares_otherwise(
    tmp_path: Path, written: dict[str, Any], made: bool, is_open: bool
) -> None:
    """security 10: no key on all addresses was the default, and drew no finding."""
    (tmp_path / "nano.key").write_text(KEY)
    (tmp_path / "nano.key").chmod(0o600)
    hosts = {"titan": {"address": "a", "variables": {"fleet_services": {"nano": NANO | written}}}}
    declared, findings = read_declaration({"hosts": hosts, "folder": str(tmp_path)})
    assert findings == []
    expected = None if is_open else str(tmp_path / (".fleet/keys/nano.key" if made else "nano.key"))
    assert (declared.services["nano"]["api_key_file"], declared.services["nano"]["key_made"]) == (expected, made)


def test_a_key_and_none_is_a_contradiction(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    (finding,) = read({"nano": NANO | {"api_key_file": str(tmp_path / "key"), "open": True}})[1]
    assert (finding.place, finding.severity) == ("fleet_services.nano.open", "error")


def test_a_made_key_that_was_damaged_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".fleet" / "keys").mkdir(parents=True)
    (tmp_path / ".fleet" / "keys" / "nano.key").write_text("")
    (tmp_path / ".fleet" / "keys" / "nano.key").chmod(0o600)
    hosts = {"titan": {"address": "a", "variables": {"fleet_services": {"nano": NANO}}}}
    first, *_others = read_declaration({"hosts": hosts, "folder": str(tmp_path)})[1]
    assert (first.rule, first.severity) == ("input-key-file", "error")


@pytest.mark.parametrize(
    "harm",
    [
        lambda key: key.mkdir(parents=True),
        lambda key: (key.parent.mkdir(parents=True), key.symlink_to("/nowhere/at/all")),
        lambda key: key.parent.parent.write_text(""),
        lambda key: (key.parent.parent.mkdir(), key.parent.symlink_to("/nowhere/at/all")),
    ],
)
def test_what_is_in_the_way_of_a_made_key_is_refused_before_a_host_is_changed(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    hosts = {"titan": {"address": "a", "variables": {"fleet_services": {"nano": NANO}}}}
    harm(tmp_path / ".fleet" / "keys" / "nano.key")
    [finding] = read_declaration({"hosts": hosts, "folder": str(tmp_path)})[1]
    assert (finding.rule, finding.severity) == ("input-key-file", "error")
    subprocess.run(["sh", "-c", finding.remedy], check=True)
    assert read_declaration({"hosts": hosts, "folder": str(tmp_path)})[1] == []


@pytest.mark.parametrize(
    ("sources", "given", "count"),
    [
        ({"titan": "/site/hosts.yml", "localhost": None}, ["/site"], 0),
        ({"titan": "/srv/secrets/drift/hosts.yml"}, ["/srv/secrets/drift"], 0),
        ({"titan": "/srv/secrets/hosts.yml"}, ["/srv/secrets/hosts.yml"], 0),
        ({"titan": "/site/secrets-of-mine/hosts.yml"}, ["/site"], 0),
        ({"titan": "/site/hosts.yml", "sk-very-secret": "/site/secrets/nano.key"}, ["/tmp/more", "/site"], 1),
        (
            {"<?xml": "/site/drift/junit.xml", "sk-very-secret": "/site/secrets/a/b.key", "x": "/site/recipes/x.yml"},
            ["/site"],
            3,
        ),
    ],
)
def test_hosts_that_come_from_keys_or_reports_are_refused_without_their_names(
    sources: dict[str, str | None], given: list[str], count: int
) -> None:
    findings = not_inventories(sources, given)
    assert len(findings) == bool(count)
    for finding in findings:
        assert f"{count} files" in finding.found
        assert "sk-very-secret" not in finding.sentence()
        assert "hosts.yml" in finding.remedy


def test_services_that_differ_between_hosts_are_refused() -> None:
    hosts = {
        "titan": {"address": "a", "variables": {"fleet_services": {"nano": NANO}}},
        "beast": {"address": "b", "variables": {"fleet_services": {}}},
    }
    (finding,) = read_declaration({"hosts": hosts, "folder": "/inventory"})[1]
    assert finding.rule == "input-fleet-differs"
    assert finding.place == "fleet_services"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)


@given(anything, anything)
def test_any_input_ends_in_findings_never_in_a_traceback(services: Any, host: Any) -> None:
    read(services, fleet_host=host)
    read({"nano": NANO | {"hosts": services}}, fleet_fabric=host)


def _with_registry(folder: Path, file: str) -> dict[str, Any]:
    settings = {"container_engine": {"registries": [{"name": "nvcr.io", "username": "me", "password_file": file}]}}
    hosts = {"titan": {"address": "10.0.0.1", "port": 22, "variables": {"fleet_services": {}, "fleet_host": settings}}}
    return {"hosts": hosts, "folder": str(folder)}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"nvapi-word", None),
        (b"two words, as some passwords have\n", None),
        (b"$ANSIBLE_VAULT;1.1;AES256\n3132\n3334\n", None),
        (None, "no file "),
        (b"", " is empty"),
        (b" \n", " is empty"),
        (b"nvapi-secret\nmore\n", " holds more than one line"),
        (b"nvapi-secret\x1b[0m", " holds more than one line"),
        (b"s" * 5000, " has more than 4096 bytes"),
        ("folder", " is no file"),
        ("link", " is no file"),
    ],
)
def test_a_password_that_can_not_be_read_is_refused_by_the_plan(
    tmp_path: Path, content: Any, found: str | None
) -> None:
    """It was found on the hosts, after packages were installed there. Relative paths count from the inventory."""
    path = tmp_path / "secrets" / "ngc"
    path.parent.mkdir()
    if isinstance(content, bytes):
        path.write_bytes(content)
        path.chmod(0o600)
    elif content == "folder":
        path.mkdir()
    elif content == "link":
        path.symlink_to(tmp_path / "nowhere")
    declared, findings = read_declaration(_with_registry(tmp_path, "secrets/ngc"))
    if found is None:
        assert findings == []
        assert declared.hosts["titan"].settings["container_engine"]["registries"][0]["password_file"] == str(path)
        return
    [finding] = findings
    assert (finding.rule, finding.severity) == ("input-secret-file", "error")
    assert finding.place == "titan: fleet_host.container_engine.registries.nvcr.io.password_file"
    assert found in finding.found and "secret" not in finding.found.replace(str(path), "")


def test_a_hook_that_is_no_program_is_named() -> None:
    hosts = {"titan": {"address": "10.0.0.1", "port": 22, "variables": {"fleet_services": {}}}}
    for hook, rules in ((["/nowhere/tell", "x"], ["input-hook"]), (["sh", "-c", "cat"], []), ([], [])):
        hosts["titan"]["variables"] = {"fleet_services": {}, "fleet_drift": {"hook": hook}}
        assert [one.rule for one in read_declaration({"hosts": hosts, "folder": "/inventory"})[1]] == rules
