# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where secrets are seen: in what an owner's runs printed, in his files, and everywhere on his hosts."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence

from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.redaction import spellings
from cluster import canary

from .conftest import HOSTS, Owner

GROUP = f"{canary.HOLDS}pair.group"
# The files that are there to hold them, beside those in `canary.HOLDS`.
HELD = ("/root/.docker/config.json", "/run/gb10-fleet/pair/token")


def secrets_of(owner: Owner) -> list[str]:
    """His own, and what is made of them or for him."""
    group = owner.fleet.root("spark-2", f"cat {GROUP}").strip()
    token = hmac.new(group.encode(), b"ray", "sha256").hexdigest()
    login = base64.b64encode(f"$oauthtoken:{owner.secrets['ngc']}".encode()).decode()
    made = [file.read_text("ascii") for file in owner.private_keys]
    return [*(line for secret in (*owner.secrets.values(), *made) for line in lines(secret)), group, token, login]


def lines(secret: str) -> list[str]:
    """A secret of one line is that line. Of a key in PEM form, of the curve P-256, those that hold the private number:
    the last has the public one, which certificates show."""
    return secret.splitlines()[1:3] if "PRIVATE KEY" in secret else [secret]


def places(owner: Owner, secrets: Sequence[str], held: Sequence[str] = HELD) -> list[str]:
    """Where one is seen, in any spelling, outside of the files that are there to hold them. held: those of hosts."""
    seen = sorted({spelling for secret in secrets for spelling in spellings(secret)})
    printed = [f"run {number}" for number, text in enumerate(owner.outputs) if any(one in text for one in seen)]
    kept = {*(owner.inventory / "secrets").iterdir(), *owner.private_keys}
    written = [file for file in owner.folder.rglob("*") if file.is_file() and file not in kept]
    here = [str(file) for file in written if any(one.encode() in file.read_bytes() for one in seen)]
    found = [place for host in HOSTS for place in canary.leaks(owner.fleet, host, "$(docker ps --quiet)", seen)]
    return [*printed, *here, *(place for place in found if not place.endswith(tuple(held)))]
