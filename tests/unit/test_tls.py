# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS of endpoints (security 10): what is declared, made, planned, trusted and noticed."""

from __future__ import annotations

import contextlib
import http.server
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.interface import EngineSpec
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.engine import Vllm
from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.services import changed_services, service_starts
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import client, endpoint
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import compare
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.tables import end_table
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import read_declaration
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_text
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.tls import clients_view
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.tls.clients_view import refused, refused_at
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.tls.declared import decide
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.tls.reading import read_certificates
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.tls.subject import of_owner, problems
from ansible_collections.gb10.fleet.plugins.plugin_utils._certificates import (
    Pair,
    authority,
    described,
    is_issued,
    issued,
    new_key,
)
from ansible_collections.gb10.fleet.plugins.plugin_utils._made_certificates import Made, ca_problems
from cryptography.hazmat.primitives import serialization as form
from drift_fleet import LIBRARY, OF_RECIPES, changed, planned, readings
from planned import ranks_of

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
NANO = {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000}
CA_KEY = new_key()
CA = Pair(authority(CA_KEY, "home", NOW, 3650), CA_KEY)


# What is declared --------------------------------------------------------------------------------------------------


def read(folder: Path, service: dict[str, Any], **of_fleet: Any) -> tuple[Any, list[Any]]:
    variables = {"fleet_services": {"nano": NANO | service}, **of_fleet}
    hosts = {"titan": {"address": "192.0.2.7", "variables": variables}}
    declared, findings = read_declaration({"hosts": hosts, "folder": str(folder)})
    return declared, findings


OWN = {"certificate": "own.crt", "key": "own.key"}


@pytest.mark.parametrize(
    ("service", "fleet", "ca", "names", "main"),
    [
        ({}, None, None, None, ""),
        ({"tls": "local"}, None, True, ["titan", "192.0.2.7", "localhost", "127.0.0.1", "::1"], ""),
        ({}, "local", True, ["titan", "192.0.2.7", "localhost", "127.0.0.1", "::1"], ""),
        ({"tls": "none"}, "local", None, None, ""),
        ({"tls": {"names": ["llm.lan"]}}, None, True, ["llm.lan", "titan", "192.0.2.7", "localhost"], "llm.lan"),
        ({"tls": "local", "listen": "10.0.0.7"}, None, True, ["10.0.0.7", "titan", "192.0.2.7"], ""),
        ({"tls": OWN}, None, False, ["192.0.2.7"], ""),
        ({"tls": OWN}, "local", False, ["192.0.2.7"], ""),
        ({"tls": {**OWN, "names": ["llm.example.org"]}}, None, False, ["llm.example.org"], "llm.example.org"),
        ({}, OWN, False, ["192.0.2.7"], ""),
    ],
)
def test_a_service_or_its_fleet_declares_encryption(
    tmp_path: Path, service: dict[str, Any], fleet: Any, ca: bool | None, names: list[str] | None, main: str
) -> None:
    for name in OWN.values():
        (tmp_path / name).touch(0o600)
    declared, findings = read(tmp_path, service, **({"fleet_tls": fleet} if fleet else {}))
    assert findings == []
    tls = declared.services["nano"]["tls"]
    assert (tls is not None) == (ca is not None)
    assert declared.ca == (str(tmp_path / ".fleet/ca/ca.crt") if ca else None)
    if tls is not None:
        assert tls["names"][: len(names or ())] == names and tls["main"] == main
        where = ".fleet/certificates/nano.crt" if ca else "own.crt"
        assert (tls["certificate"], bool(tls["ca"])) == (str(tmp_path / where), ca)


@pytest.mark.parametrize(
    ("tls", "place", "remedy"),
    [
        ("self-signed", "fleet_services.nano.tls", "local"),
        (True, "fleet_services.nano.tls", ""),
        ({"certificate": "own.crt"}, "fleet_services.nano.tls", "write both"),
        ({"key": "own.key"}, "fleet_services.nano.tls", "write both"),
        ({"certificate": "none.crt", "key": "own.key"}, "fleet_services.nano.tls.certificate", "tls: local"),
        ({"certificate": "own.crt", "key": "."}, "fleet_services.nano.tls.key", "tls: local"),
        ({"certificat": "own.crt"}, "fleet_services.nano.tls.certificat", "certificate"),
        ({"names": ["a b"]}, "fleet_services.nano.tls.names[0]", ""),
        ({"names": ["*.lan"]}, "fleet_services.nano.tls.names[0]", ""),
        ({"names": ["a\nb"]}, "fleet_services.nano.tls.names[0]", ""),
        ({"names": []}, "fleet_services.nano.tls.names", ""),
    ],
)
def test_what_can_not_be_is_refused_at_its_place(tmp_path: Path, tls: Any, place: str, remedy: str) -> None:
    for name in OWN.values():
        (tmp_path / name).touch(0o600)
    declared, (finding,) = read(tmp_path, {"tls": tls})
    assert (finding.severity, finding.place) == ("error", place)
    assert remedy in finding.remedy and "nano" not in declared.services


def test_a_key_that_others_can_read_is_named(tmp_path: Path) -> None:
    for name in OWN.values():
        (tmp_path / name).touch(0o644)
    (tmp_path / "own.key").chmod(0o644)
    (finding,) = read(tmp_path, {"tls": OWN})[1]
    assert (finding.severity, finding.remedy) == ("warning", f"chmod 600 {tmp_path}/own.key")


# What is made ------------------------------------------------------------------------------------------------------


def tls_of(folder: Path, names: tuple[str, ...] = ("titan", "192.0.2.7")) -> dict[str, Any]:
    files = {"certificate": {"source": f"{folder}/s/nano.crt"}, "key": {"source": f"{folder}/s/nano.key"}}
    return {**files, "ca": f"{folder}/ca/ca.crt", "names": [*names]}


def made(folder: Path, now: datetime = NOW) -> Made:
    return Made(folder / "ca" / "ca.crt", now, ca_days=3650, certificate_days=365, renewed_days=60)


def test_a_ca_and_a_certificate_are_made_once_for_their_owner_alone(tmp_path: Path) -> None:
    tls = tls_of(tmp_path)
    both = [tls["ca"], tls["certificate"]["source"]]
    assert made(tmp_path).bring("home", [tls], dry=True) == both and not any(tmp_path.iterdir())
    assert made(tmp_path).bring("home", [tls], dry=False) == both
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.suffix in (".crt", ".key")}
    assert made(tmp_path, NOW + timedelta(days=300)).bring("home", [tls], dry=False) == []
    assert {path: path.read_bytes() for path in kept} == kept and len(kept) == 4
    for path in kept:
        assert path.stat().st_mode & 0o777 == (0o600 if path.suffix == ".key" else 0o644)
        assert path.parent.stat().st_mode & 0o777 == 0o700 and (path.parent / ".gitignore").exists()
    texts = [Path(tls[kind]["source"]).read_text() for kind in ("certificate", "key")]
    found = described(texts[0], NOW, texts[1])
    assert (found["names"], round(found["days_left"]), found["of_key"]) == (["titan", "192.0.2.7"], 365, True)
    assert is_issued(texts[0], Path(tls["ca"]).read_text())


HARMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "the certificate is gone": lambda tls: Path(tls["certificate"]["source"]).unlink(),
    "the key is gone": lambda tls: Path(tls["key"]["source"]).unlink(),
    "the certificate is damaged": lambda tls: Path(tls["certificate"]["source"]).write_text("x"),
    "the key is another one's": lambda tls: Path(tls["key"]["source"]).write_bytes(new_key()),
    "another CA made it": lambda tls: Path(tls["certificate"]["source"]).write_bytes(
        issued(Pair(authority(CA_KEY, "x", NOW, 3650), CA_KEY), tls["names"], NOW, 365).certificate
    ),
    "the host has another address": lambda tls: tls["names"].append("10.0.0.1"),
    "a name is no longer its": lambda tls: tls["names"].pop(),
}


@pytest.mark.parametrize("harm", HARMS)
def test_one_that_no_longer_fits_is_made_anew(tmp_path: Path, harm: str) -> None:
    tls = tls_of(tmp_path)
    made(tmp_path).bring("home", [tls], dry=False)
    HARMS[harm](tls)
    assert made(tmp_path).bring("home", [tls], dry=False) == [tls["certificate"]["source"]]
    assert made(tmp_path).bring("home", [tls], dry=False) == []


@pytest.mark.parametrize(("days", "renewed"), [(304, []), (306, ["s/nano.crt"]), (3230, ["ca/ca.crt", "s/nano.crt"])])
def test_a_run_renews_what_ends_soon(tmp_path: Path, days: int, renewed: list[str]) -> None:
    tls = tls_of(tmp_path)
    made(tmp_path).bring("home", [tls], dry=False)
    first = Path(tls["certificate"]["source"]).read_text()
    later = made(tmp_path, NOW + timedelta(days=days))
    assert later.bring("home", [tls], dry=False) == [f"{tmp_path}/{name}" for name in renewed]
    assert later.bring("home", [tls], dry=False) == []
    # who trusts the CA of before trusts what the next one signs, and the other way round: it has the same key
    assert is_issued(first, Path(tls["ca"]).read_text())


@pytest.mark.parametrize(
    "harm",
    [
        lambda ca: ca.write_text("x"),
        lambda ca: ca.with_suffix(".key").write_text("x"),
        lambda ca: ca.with_suffix(".key").write_bytes(new_key()),
    ],
)
def test_a_damaged_ca_is_not_silently_replaced(tmp_path: Path, harm: Callable[[Path], Any]) -> None:
    tls = tls_of(tmp_path)
    made(tmp_path).bring("home", [tls], dry=False)
    ca = Path(tls["ca"])
    harm(ca)
    (finding,) = ca_problems(ca, NOW)
    assert finding.severity == "error" and "damaged" in finding.remedy
    with pytest.raises(FleetError, match="input-tls-ca"):
        made(tmp_path).bring("home", [tls], dry=False)


@pytest.mark.parametrize("ahead", [2, 330, 3600])
def test_what_a_clock_of_the_future_made_is_made_anew(tmp_path: Path, ahead: int) -> None:
    """Harm 1: else the next run brings it to each client, for as long as the clock was ahead."""
    tls = tls_of(tmp_path)
    made(tmp_path, NOW + timedelta(days=ahead)).bring("home", [tls], dry=False)
    both = [tls["ca"], tls["certificate"]["source"]]
    assert made(tmp_path).bring("home", [tls], dry=True) == both
    assert made(tmp_path).bring("home", [tls], dry=False) == both
    assert made(tmp_path).bring("home", [tls], dry=False) == []
    texts = [Path(path).read_text() for path in both]
    assert all(described(text, NOW)["days_until"] <= 0 for text in texts) and is_issued(texts[1], texts[0])
    # its end was too far away, too, but the CA of a clock that is right holds as before
    renewed = made(tmp_path, NOW + timedelta(days=330))
    assert renewed.bring("home", [tls], dry=False) == both[1:]
    assert made(tmp_path).bring("home", [tls], dry=False) == both[1:]


def shown(begins: int = -1, days: int = 30, names: tuple[str, ...] = ("titan", "192.0.2.7"), ca: Pair = CA) -> Pair:
    return issued(ca, names, datetime.now(UTC) + timedelta(days=begins + 1), days)


def ca_now(begins: int = -1) -> Pair:
    return Pair(authority(CA_KEY, "x", datetime.now(UTC) + timedelta(days=begins + 1), 3650), CA_KEY)


OTHER_KEY = new_key()


@pytest.mark.parametrize(
    ("pair", "ca", "why"),
    [
        (shown(ca=ca_now()), ca_now(), ""),
        (shown(3, ca=ca_now()), ca_now(), "titan refuse its certificate: certificate is not yet valid"),
        (shown(-90, ca=ca_now()), ca_now(), "certificate has expired"),
        (shown(names=("spark-2", "192.0.2.7"), ca=ca_now()), ca_now(), "Hostname mismatch"),
        (shown(names=("titan", "192.0.2.9"), ca=ca_now()), ca_now(), "IP address mismatch"),
        (shown(ca=ca_now()), ca_now(3), "certificate is not yet valid"),
        (shown(ca=ca_now()), Pair(authority(OTHER_KEY, "x", datetime.now(UTC), 30), OTHER_KEY), "certificate"),
        # one of the owner's counts by itself
        (shown(ca=ca_now()), None, ""),
        (shown(names=("elsewhere",), ca=ca_now()), None, ""),
        (shown(3, ca=ca_now()), None, "certificate is not yet valid"),
        (shown(-90, ca=ca_now()), None, "certificate has expired"),
        (Pair(shown(ca=ca_now()).certificate, OTHER_KEY), None, "the certificate can't be used"),
    ],
)
def test_a_certificate_is_judged_as_clients_do(tmp_path: Path, pair: Pair, ca: Pair | None, why: str) -> None:
    """Before it is brought, and of what a server shows; by the clock of where that happens."""
    proved = ca.certificate.decode() if ca else None
    found = refused(pair.certificate.decode(), pair.key.decode(), proved, ["titan", "192.0.2.7"])
    assert (why in found) and bool(found) == bool(why)
    if "can't be used" in why:
        return
    files = {name: tmp_path / name for name in ("crt", "key", "ca")}
    for name, content in (("crt", pair.certificate), ("key", pair.key), ("ca", ca.certificate if ca else b"")):
        files[name].write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["crt"], files["key"])
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(_shake, server, context)
        here = refused_at(
            "127.0.0.1",
            server.getsockname()[1],
            str(files["crt"]),
            str(files["ca"]) if ca else None,
            ["titan", "192.0.2.7"],
        )
        server.shutdown(socket.SHUT_RDWR)
    assert (why in here) and bool(here) == bool(why)


def _shake(server: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as one:
            one.recv(1)


def test_hosts_at_once_agree_on_one_ca(tmp_path: Path) -> None:
    tls = tls_of(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _number: made(tmp_path).bring("home", [tls], dry=False), range(16)))
    assert sorted(map(len, done)) == [0] * 15 + [2]


# What is wrong with one --------------------------------------------------------------------------------------------


def own(names: tuple[str, ...], begins: int, days: int) -> dict[str, Any]:
    pair = issued(CA, names, NOW + timedelta(days=begins + 1), days)
    return described(pair.certificate.decode(), NOW, pair.key.decode())


@pytest.mark.parametrize(
    ("name", "is_covered"), [("a.lan", True), ("A.Lan", True), ("a.b.lan", False), ("lan", False), ("a.lan.org", False)]
)
def test_a_star_is_one_whole_label(name: str, is_covered: bool) -> None:
    """RFC 6125, 6.4.3."""
    assert bool([*problems(own(("*.lan",), -100, 365), [name])]) is not is_covered


@pytest.mark.parametrize(
    ("found", "rules"),
    [
        (own(("a.lan",), -100, 365), []),
        (own(("*.lan",), -100, 365), []),
        (own(("A.LAN",), -100, 365), []),
        (own(("*.a.lan",), -100, 365), ["warning certificate-names"]),
        (own(("*",), -100, 365), ["warning certificate-names"]),
        (own(("an",), -100, 365), ["warning certificate-names"]),
        (own(("lan",), -100, 365), ["warning certificate-names"]),
        (own(("a.lan",), -100, 119), ["warning certificate-ending"]),
        (own(("a.lan",), -100, 90), ["error certificate-ended"]),
        (own(("b.lan",), -100, 90), ["error certificate-ended", "warning certificate-names"]),
        (own(("a.lan",), 3, 365), ["error certificate-early"]),
        (described(CA.certificate.decode(), NOW, new_key().decode()), ["error certificate-key"]),
        (described("x", NOW), ["error certificate-unreadable"]),
        (described("", NOW), ["error certificate-unreadable"]),
        (described("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", NOW), ["error"]),
        (described(CA.certificate.decode(), NOW, "x"), ["error certificate-unreadable"]),
    ],
)
def test_each_fault_is_named_with_a_remedy(found: dict[str, Any], rules: list[str]) -> None:
    seen = [f"{one.severity} {one.rule}" for one in problems(found, ["a.lan"])]
    assert len(seen) >= len(rules) and all(rule in " ".join(seen) for rule in rules) and bool(seen) == bool(rules)
    tls = {"certificate": {"source": "/own.crt"}, "key": {"source": "/own.key"}, "names": ["a.lan"]}
    named = [*of_owner(Place(service="nano"), tls, found)]
    assert [finding.rule for finding in named] == [word.split()[1] for word in seen]
    for finding in named:
        assert finding.found.startswith("/own.crt: ") and "/own.key" in finding.remedy


def test_a_certificate_that_ends_or_begins_now_still_holds() -> None:
    read = {"names": ["b.lan", "c.lan"], "days_left": 0.0, "days_until": 0.0}
    assert [one.rule for one in problems(read, ["b.lan"])] == ["certificate-ending"]
    (_, missing) = problems(read, ["a.lan"])
    assert missing.found == "it names b.lan, c.lan"
    (_, nothing) = problems(read | {"names": []}, ["a.lan"])
    assert nothing.found == "it names no name at all"


@pytest.mark.parametrize("writable", [True, False])
def test_a_key_that_is_proved_lies_in_memory_where_it_can(monkeypatch: pytest.MonkeyPatch, writable: bool) -> None:
    asked: list[str | None] = []

    def folder(dir: str | None) -> TemporaryDirectory[str]:
        asked.append(dir)
        return TemporaryDirectory()

    monkeypatch.setattr(clients_view.os, "access", lambda path, _mode: writable and path == "/run")
    monkeypatch.setattr(clients_view.tempfile, "TemporaryDirectory", folder)
    own = shown(names=("titan",))
    assert refused(own.certificate.decode(), own.key.decode(), None, []) == ""
    assert asked == ["/run" if writable else None]


def test_nothing_is_wrong_where_nobody_answers(tmp_path: Path) -> None:
    """Whether it has to answer is another check's question."""
    (tmp_path / "crt").write_bytes(shown().certificate)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert refused_at("127.0.0.1", port, str(tmp_path / "crt"), None, []) == ""


def test_a_certificate_is_read_as_its_text(tmp_path: Path) -> None:
    (tmp_path / "crt").write_bytes(b"PEM\xff")
    both = [str(tmp_path / name) for name in ("crt", "none")]
    assert read_certificates(both) == {both[0]: "PEM\ufffd", both[1]: None}


def test_an_address_is_named_by_a_certificate_and_what_is_neither_is_not(tmp_path: Path) -> None:
    deciding = decide("tiny", Place(), "local", ["titan", "fd00::7", "not a name"], tmp_path)
    with pytest.raises(StopIteration) as end:
        next(deciding)
    assert end.value.value["names"][:2] == ["titan", "fd00::7"] and "not a name" not in end.value.value["names"]


def test_a_key_with_a_passphrase_is_refused_with_the_reason() -> None:
    key = form.load_pem_private_key(CA_KEY, None)
    locked = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"word"))
    assert "passphrase" in described(CA.certificate.decode(), NOW, locked.decode())["why"]


# The plan ----------------------------------------------------------------------------------------------------------

LOCAL = planned(fleet_tls="local")
PAIR = {"fleet_services": {"pair": {"recipe": "lab-tiny", "hosts": ["spark-2", "spark-3"], "port": 8000}}}


def test_the_head_gets_the_files_and_its_options_name_them() -> None:
    (rank,) = ranks_of(LOCAL, "tiny")
    words = rank["command"]
    assert [words[words.index(f"--ssl-{name}") + 1] for name in ("certfile", "keyfile")] == [
        "/run/secrets/tls.crt",
        "/run/secrets/tls.key",
    ]
    mounts = {one["target"]: one for one in rank["container"]["mounts"]}
    assert all(mounts[f"/run/secrets/tls.{end}"]["read_only"] for end in ("crt", "key"))
    assert rank["supervisor"]["endpoint"]["certificate"] == "/etc/gb10-fleet/secrets/tiny.tls.crt"
    assert rank["supervisor"]["endpoint"]["url"] == rank["proof"]["url"] == "https://127.0.0.1:8000"
    assert LOCAL["services"]["tiny"]["endpoint"] == "https://titan.lan:8000/v1"
    assert "over TLS" in next(row["who"] for row in LOCAL["hosts"]["titan"]["listens"] if row["service"] == "tiny")
    assert {*service_starts([rank])[0]["files"]} >= {
        f"/etc/gb10-fleet/secrets/tiny.tls.{end}" for end in ("crt", "key")
    }


def test_of_a_group_the_head_alone_has_them() -> None:
    head, worker = ranks_of(planned(fleet_tls="local", **PAIR), "pair")
    assert "--ssl-keyfile" in head["command"] and not any("ssl" in word for word in worker["command"])
    assert not any("tls" in mount["target"] for mount in worker["container"]["mounts"])
    assert worker["tls"] is None and worker["supervisor"]["endpoint"] is None


def _going(service: dict[str, Any]) -> set[str]:
    """Endings of the files that are taken away."""
    return {path.split(".", 1)[1] for path, file in service["files"].items() if file["content"] is None}


def test_what_a_service_has_no_more_goes_from_its_hosts() -> None:
    """Encryption that was withdrawn, a group that became one rank, a key that another rank has as the head now."""
    assert [_going(one) - {"key", "trace-headers"} for one in ranks_of(LOCAL, "tiny")] == [{"group"}]
    assert [_going(one) - {"key", "trace-headers"} for one in ranks_of(planned(), "tiny")] == [
        {"group", "tls.crt", "tls.key"}
    ]
    head, worker = ranks_of(planned(fleet_tls="local", **PAIR), "pair")
    assert _going(head) <= {"key", "trace-headers"} and _going(worker) == {"key", "trace-headers", "tls.crt", "tls.key"}


def test_every_host_trusts_the_ca_and_none_does_without_one() -> None:
    for plan, source in ((LOCAL, "/inventory/.fleet/ca/ca.crt"), (planned(), None)):
        for host in plan["hosts"].values():
            path = "/usr/local/share/ca-certificates/gb10-fleet-inventory.crt"
            assert host["tls"] == {"path": path, "source": source, "inventory": "inventory"}


def test_a_changed_certificate_starts_its_service_anew_and_no_other() -> None:
    results = [{"results": [{"item": ["a", "certificate"], "changed": True}, {"item": ["b", "key"], "changed": False}]}]
    services = [{"name": name, "models": []} for name in ("a", "b")]
    read = {name: {"newer": [], "other_image": False} for name in ("a", "b")}
    assert changed_services(services, results, read) == ["a"]


def test_the_page_and_the_end_table_show_what_clients_trust() -> None:
    assert "local CA, which clients trust: /inventory/.fleet/ca/ca.crt" in as_text(LOCAL, ["titan"])
    proof = {"state": "serving", "answer": "", "comparison": "", "problems": []}
    shown = end_table(LOCAL, ["tiny"], ["titan"], {("titan", "tiny"): proof}, {}, {})
    assert "https://titan.lan:8000/v1" in shown and "trust the CA in /inventory/.fleet/ca/ca.crt" in shown


def test_an_engine_without_tls_is_refused() -> None:
    hosts = {"titan": {"address": "a", "variables": {"fleet_services": {"x": {**NANO, "tls": "local"}}}}}
    plan = plan_fleet({"hosts": hosts, "folder": "/i"}, LIBRARY, OF_RECIPES, engines={"vllm": WithoutTls()})
    [finding] = [one for one in plan["findings"] if one["rule"] == "service-tls-engine"]
    assert finding["remedy"].startswith("write it, listen: 127.0.0.1")
    hosts["titan"]["variables"]["fleet_services"]["x"] |= {"tls": "none", "listen": "127.0.0.1"}
    after = plan_fleet({"hosts": hosts, "folder": "/i"}, LIBRARY, OF_RECIPES, engines={"vllm": WithoutTls()})
    assert "service-tls-engine" not in {one["rule"] for one in after["findings"]}


class WithoutTls(Vllm):
    @property
    def spec(self) -> EngineSpec:
        return replace(super().spec, tls=None)


@pytest.mark.parametrize("flag", ["ssl-keyfile", "ssl-certfile", "ssl-ca-certs", "ssl-cert-reqs"])
def test_nobody_sets_them_by_hand(tmp_path: Path, flag: str) -> None:
    hosts = {"titan": {"address": "a", "variables": {"fleet_services": {"x": {**NANO, "flags": {flag: "/x"}}}}}}
    plan = plan_fleet({"hosts": hosts, "folder": str(tmp_path)}, LIBRARY, OF_RECIPES)
    assert any(flag in one["place"] and one["severity"] == "error" for one in plan["findings"])


# Drift -------------------------------------------------------------------------------------------------------------

CRT = "/etc/gb10-fleet/secrets/tiny.tls.crt"


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (lambda state: None, []),
        (lambda state: state["certificates"][CRT].update(days_left=12.0), ["certificate-ending"]),
        (lambda state: state["certificates"][CRT].update(days_left=-2.0), ["certificate-ended"]),
        (lambda state: state["certificates"][CRT].update(names=["titan"]), ["certificate-names"]),
        (lambda state: state["certificates"].update({CRT: {"why": "it is none"}}), ["certificate-unreadable"]),
        (lambda state: state["files"][CRT].update(same=False), ["file-content"]),
        (lambda state: state["files"][CRT.replace("crt", "key")].update(mode="0644"), ["file-access"]),
        (
            lambda state: state["files"].update({LOCAL["hosts"]["titan"]["tls"]["path"]: {"kind": "absent"}}),
            ["file-kind"],
        ),
    ],
)
def test_drift_names_a_certificate(change: Callable[[dict[str, Any]], None], rules: list[str]) -> None:
    result = compare(LOCAL, changed(LOCAL, "titan", change), "2026-11-22")
    assert [one.rule for one in result.differences] == rules
    assert all("site.yml -l titan" in one.remedy for one in result.differences)
    assert not any("renew" in one.remedy for one in result.differences), "a run does, of one that it made"


def test_a_host_that_trusts_a_ca_of_ours_without_need_is_named() -> None:
    plan = planned()
    path = plan["hosts"]["titan"]["tls"]["path"]
    found = changed(plan, "titan", lambda state: state["files"].update({path: {"kind": "file", "mode": "0644"}}))
    assert [one.place for one in compare(plan, found, "2026-11-22").differences] == [f"file {path}"]
    assert compare(plan, readings(plan), "2026-11-22").verdict == "clean"


# The supervisor ----------------------------------------------------------------------------------------------------


class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_words: Any) -> None:
        pass


@contextmanager
def serving(folder: Path, pair: Pair) -> Iterator[str]:
    """An https server that shows this certificate."""
    files = {"certificate": folder / "shown.crt", "key": folder / "shown.key"}
    for kind, path in files.items():
        path.write_bytes(getattr(pair, kind))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Healthy)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["certificate"], files["key"])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


SHOWN = issued(CA, ("elsewhere",), datetime.now(UTC), 30)
ENDED = issued(CA, ("elsewhere",), datetime.now(UTC) - timedelta(days=9), 3)


@pytest.mark.parametrize(
    ("shown", "trusted", "status"),
    [
        (SHOWN, SHOWN.certificate, 200),
        (SHOWN, SHOWN.certificate + CA.certificate, 200),  # a chain
        (SHOWN, b"a comment\n" + SHOWN.certificate, 200),
        (ENDED, ENDED.certificate, 200),  # noticed by plan and drift; to stop the service helps nobody
        (SHOWN, issued(CA, ("elsewhere",), datetime.now(UTC), 30).certificate, 0),
        (SHOWN, ENDED.certificate + CA.certificate, 0),  # a CA in the file is nobody to be believed
    ],
)
def test_the_supervisor_trusts_exactly_its_own_certificate(
    tmp_path: Path, shown: Pair, trusted: bytes, status: int
) -> None:
    file = tmp_path / "trusted.crt"
    file.write_bytes(trusted)
    with serving(tmp_path, shown) as url:
        access = endpoint.Access(url, "", client.trusting(str(file)))
        assert client.fetch(f"{url}/health", "", 5, tls=access.tls).status == status
        assert endpoint.is_healthy(access, "/health", 5) is (status == 200)
        assert client.fetch(f"{url}/health", "", 5).status == 0  # the system's CAs do not know it
        assert client.fetch(url.replace("https", "http"), "", 5).status == 0


def test_a_file_without_a_certificate_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.crt").write_bytes(CA_KEY)
    with pytest.raises(ValueError, match="no certificate in PEM form"):
        client.trusting(str(tmp_path / "x.crt"))
    assert client.trusting(None) is None
