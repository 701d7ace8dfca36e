# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A secret of every kind is in its own files and nowhere else, after all that an owner does, with -vvv and --diff."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab.fixtures import eventually

from .conftest import HEADS, VERBOSE, Owner
from .search import GROUP, HELD, places, secrets_of

PLAYBOOKS = ("verify.yml", "drift.yml", "status.yml", "doctor.yml", "plan.yml", "gb10.fleet.publish")


@pytest.fixture(scope="module", autouse=True)
def with_a_certificate_of_his_own(owner: Owner) -> Iterator[None]:
    """Of tiny, its key encrypted by ansible-vault; pair's is of the local CA. Later tests find both as at first."""
    owner.declare(tiny={"tls": owner.certify("tiny")})
    owner.converge("-l", "titan", *VERBOSE)
    yield
    owner.declare()
    owner.converge("-l", "titan")


def test_a_key_that_could_be_shown_or_read_otherwise_is_refused_before_anything_changes(owner: Owner) -> None:
    file = owner.inventory / "secrets" / "tiny"
    before = file.read_text(encoding="utf-8")
    for odd in (
        "canary\"quoted'0123456789",
        "canary-ümläut-0123456789",
        "canary 0123456789abcdef",
        "-canary-0123456789",
    ):
        file.write_text(odd, encoding="utf-8")
        assert odd not in owner.refused()
    file.write_text(before, encoding="utf-8")


def test_no_secret_is_seen_outside_of_its_files(owner: Owner) -> None:
    fleet = owner.fleet
    eventually(lambda: owner.answers("tiny"), "tiny answers by its owner's certificate")
    for host, service in (("titan", "tiny"), ("spark-3", "pair")):
        fleet.root(host, f"docker kill gb10-service-{service}")
    for host, service in (("titan", "tiny"), ("spark-2", "pair"), ("spark-3", "pair")):
        kept = f"ls -d /var/lib/gb10-fleet/evidence/{service}/2*"
        eventually(lambda host=host, kept=kept: fleet.ok(host, kept), f"{host} keeps evidence")  # type: ignore[misc]
    for service in HEADS:
        eventually(lambda service=service: owner.answers(service), f"{service} answers again")  # type: ignore[misc]
    for playbook in PLAYBOOKS:
        owner.play(playbook, *VERBOSE)
    owner.play("site.yml", "--check", *VERBOSE)
    assert [*owner.reports.rglob("*.json")]

    # hosts whose secrets lie here are not published
    assert "pull-secrets" in owner.outputs[-2] and not (owner.inventory / ".fleet" / "published").exists()
    assert {file.stem for file in owner.private_keys} == {"ca", *HEADS}
    assert places(owner, secrets_of(owner)) == []
    modes = fleet.root("spark-2", f"stat -c %a:%U {GROUP} {' '.join(HELD)}").split()
    assert modes == ["600:root"] * 3
