# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A secret of every kind is in its own files and nowhere else, after all that an owner does, with -vvv and --diff."""

from __future__ import annotations

import base64
import hmac

from ansible_collections.gb10.fleet.plugins.module_utils._rank.redaction import spellings
from cluster import canary
from lab.fixtures import eventually

from .conftest import HEADS, HOSTS, VERBOSE, Owner

GROUP = f"{canary.HOLDS}pair.group"
# The files that are there to hold them, beside those in `canary.HOLDS`.
HELD = ("/root/.docker/config.json", "/run/gb10-fleet/pair/token")


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
        refused = owner.play("site.yml")
        assert refused.returncode != 0
        assert odd not in refused.stdout + refused.stderr
        assert "changed: [" not in refused.stdout
    file.write_text(before, encoding="utf-8")


def test_no_secret_is_seen_outside_of_its_files(owner: Owner) -> None:
    fleet = owner.fleet
    fleet.root("spark-3", "docker kill gb10-service-pair")
    for host in ("spark-2", "spark-3"):
        kept = "ls -d /var/lib/gb10-fleet/evidence/pair/2*"
        eventually(lambda host=host, kept=kept: fleet.ok(host, kept), f"{host} keeps evidence")  # type: ignore[misc]
    eventually(lambda: owner.answers("pair"), "pair answers again")
    for playbook in ("verify.yml", "drift.yml", "status.yml", "doctor.yml", "plan.yml"):
        owner.play(playbook, *VERBOSE)
    owner.play("site.yml", "--check", *VERBOSE)
    assert [*owner.reports.rglob("*.json")]

    group = fleet.root("spark-2", f"cat {GROUP}").strip()
    token = hmac.new(group.encode(), b"ray", "sha256").hexdigest()
    login = base64.b64encode(f"$oauthtoken:{owner.secrets['ngc']}".encode()).decode()
    tls = [*(owner.inventory / ".fleet").rglob("*.key")]
    of_tls = [file.read_text("ascii").splitlines()[1] for file in tls]
    assert {file.stem for file in tls} == {"ca", *HEADS}
    secrets = [*owner.secrets.values(), group, token, login, *of_tls]
    seen = sorted({spelling for secret in secrets for spelling in spellings(secret)})
    assert [number for number, text in enumerate(owner.outputs) if any(one in text for one in seen)] == []
    kept = {*(owner.inventory / "secrets").iterdir(), *tls}
    written = [file for file in owner.folder.rglob("*") if file.is_file() and file not in kept]
    assert [file for file in written if any(one.encode() in file.read_bytes() for one in seen)] == []
    for host in HOSTS:
        found = canary.leaks(fleet, host, "$(docker ps --quiet)", seen)
        assert [place for place in found if not place.endswith(HELD)] == []
    modes = fleet.root("spark-2", f"stat -c %a:%U {GROUP} {' '.join(HELD)}").split()
    assert modes == ["600:root"] * 3
