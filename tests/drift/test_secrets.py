# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check compares the API key and tells it to nobody: not the terminal, not a report, not the host's journal."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import pytest

from .conftest import INVENTORY, Check, Site
from .seeds import API_KEY

CANARY = (INVENTORY / "secrets" / "tiny").read_text(encoding="utf-8").strip()
CONTENT = f'api-key: "{CANARY}"\n'
DIGESTS = [
    hashlib.new(name, text.encode()).hexdigest() for name in ("sha256", "sha1", "md5") for text in (CANARY, CONTENT)
]


@pytest.fixture
def check(site: Site) -> Iterator[Check]:
    """Of a host that has another key, as talkative as it gets."""
    assert site.fleet.root("titan", f"cat {API_KEY}") == CONTENT
    site.fleet.root("titan", f"sed -i s/{CANARY}/{CANARY}x/ {API_KEY}")
    yield site.check("-vvvv")
    site.fleet.root("titan", f"sed -i s/{CANARY}x/{CANARY}/ {API_KEY}")


def test_another_key_is_found_and_none_is_reported(site: Site, check: Check) -> None:
    assert [(one["resource"], one["rule"]) for one in check.report["findings"]] == [(f"file {API_KEY}", "file-content")]
    journal = site.fleet.root("titan", "journalctl -o cat --no-pager")
    written = {path.name: path.read_text(encoding="utf-8") for path in site.reports.iterdir()}
    for where, text in {"terminal": check.output, "journal": journal, **written}.items():
        assert [word for word in (CANARY, *DIGESTS) if word in text] == [], where


def test_what_the_digest_was_made_with_is_shown_to_nobody(check: Check) -> None:
    """-vvvv shows the host's answer with the digest, which is worth nothing without the salt."""
    assert re.search(r'"salted": "[0-9a-f]{64}"', check.output)
    assert re.findall(r'"salt": "([^"]*)"', check.output) == ["VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"] * 3
