# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Endpoints with TLS by `site.yml`, of one host and a group, with Ray and without; renewed, taken off, back again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.plugin_utils._certificates import Pair, described, issued
from lab.fixtures import eventually

from .conftest import ADDRESSES, HEADS, Owner

ENDS_IN_DAYS = 20
SECRETS = "/etc/gb10-fleet/secrets"


@pytest.fixture(scope="module", autouse=True)
def as_declared(owner: Owner) -> Iterator[None]:
    """Later tests find the services as the inventory has them."""
    yield
    owner.declare()


def shown(owner: Owner, service: str) -> str:
    """The certificate that clients are shown, PEM; empty where it is spoken to in clear."""
    ask = ["openssl", "s_client", "-connect", f"{ADDRESSES[HEADS[service]]}:8000"]
    text = owner.fleet.lab("net", "--", "sh", "-c", f"{' '.join(ask)} < /dev/null 2> /dev/null", check=False).stdout
    return text[text.index("-----BEGIN CERT") : text.index("-----END CERT") + 25] if "-----BEGIN CERT" in text else ""


def days_left(certificate: str) -> float:
    return float(described(certificate, datetime.now(UTC))["days_left"])


def drift_rules(owner: Owner, service: str) -> set[str]:
    """What the drift check finds of a service's certificate, and what it can't read."""
    owner.play("drift.yml")  # of the whole fleet: a limited one writes no report
    report = json.loads((owner.reports / "report.json").read_bytes())
    assert [one for one in report["unknown"] if one["host"] == HEADS[service]] == []
    found = [one for one in report["findings"] if one["host"] == HEADS[service]]
    return {one["rule"] for one in found if one["rule"].startswith("certificate")}


@pytest.mark.parametrize("service", HEADS)
def test_it_answers_by_its_certificate_alone(owner: Owner, service: str) -> None:
    """`pair` is a group over Ray."""
    assert owner.answers(service)
    assert not owner.answers(service, "http")
    made = owner.inventory / ".fleet" / "certificates" / f"{service}.crt"
    assert shown(owner, service).strip() == made.read_text("ascii").strip()
    assert drift_rules(owner, service) == set()


def test_status_and_verify_ask_by_https(owner: Owner) -> None:
    for playbook in ("status.yml", "verify.yml"):
        done = owner.play(playbook)
        assert done.returncode == 0, done.stdout[-4000:]
        assert all(service in done.stdout for service in HEADS)


def test_one_that_ends_soon_is_reported_and_renewed_once(owner: Owner, tmp_path: Path) -> None:
    """As it would be after ten months without a run: the controller and the host have it."""
    here = owner.inventory / ".fleet" / "certificates" / "tiny"
    ca = Pair(owner.authority.read_bytes(), owner.authority.with_suffix(".key").read_bytes())
    names = described(here.with_suffix(".crt").read_text("ascii"), datetime.now(UTC))["names"]
    ending = issued(ca, names, datetime.now(UTC), ENDS_IN_DAYS)
    for kind, content in (("crt", ending.certificate), ("key", ending.key)):
        here.with_suffix(f".{kind}").write_bytes(content)
        write(owner, "titan", f"{SECRETS}/tiny.tls.{kind}", content.decode())
    owner.fleet.root("titan", "systemctl restart gb10-service-tiny")
    eventually(lambda: owner.answers("tiny"), "tiny answers with the one that ends")
    assert days_left(shown(owner, "tiny")) < ENDS_IN_DAYS
    assert drift_rules(owner, "tiny") == {"certificate-ending"}

    owner.converge("-l", "titan")
    assert owner.answers("tiny")
    assert days_left(shown(owner, "tiny")) > 300
    assert drift_rules(owner, "tiny") == set()
    owner.unchanged("-l", "titan")


def write(owner: Owner, host: str, path: str, text: str) -> None:
    owner.fleet.lab("exec", host, "--", "sh", "-c", f"cat > {path} <<'END'\n{text}END")


def test_a_group_without_ray_has_it_too_and_one_that_is_taken_off_leaves_nothing(owner: Owner) -> None:
    owner.declare(tiny={"tls": "none"}, pair={"flags": {}})
    owner.converge()
    assert "ray" not in owner.fleet.root("spark-2", "docker inspect gb10-service-pair --format '{{.Args}}'")
    assert owner.answers("pair") and not owner.answers("pair", "http")
    assert owner.answers("tiny", "http") and not owner.answers("tiny")
    assert shown(owner, "tiny") == ""
    assert owner.fleet.root("titan", f"ls -d {SECRETS}/*.tls.*", check=False) == ""

    owner.declare(pair={"tls": "none", "flags": {}})
    owner.converge()
    assert owner.answers("tiny") and not owner.answers("tiny", "http")
    assert owner.answers("pair", "http") and not owner.answers("pair")
    for host in ("spark-2", "spark-3"):
        assert owner.fleet.root(host, f"ls -d {SECRETS}/*.tls.*", check=False) == ""

    owner.declare()
    owner.converge()
    for service in HEADS:
        assert owner.answers(service) and not owner.answers(service, "http")
