# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of what hosts get is whole, and the same for the same tree."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tools import sbom

LOCKS = sorted((sbom.ROOT / "roles").glob("*/files/*.txt"))


def test_each_pin_of_each_lock_is_in_it_with_its_sums() -> None:
    assert LOCKS
    for lock in LOCKS:
        found = [*sbom.python_packages(lock)]
        text = lock.read_text("utf-8")
        assert [one["name"] for one in found] == re.findall(r"^([\w.-]+)==", text, re.MULTILINE), lock
        assert sum(len(one["hashes"]) for one in found) == text.count("--hash=sha256:"), lock


def test_each_recipes_image_is_in_it_once() -> None:
    found = [*sbom.images()]
    recipes = Counter(row["value"] for one in found for row in one["properties"])
    files = {path.stem for path in (sbom.ROOT / "recipes").glob("*.yml") if "  reference:" in path.read_text("utf-8")}
    assert recipes == dict.fromkeys(files, 1)


def test_it_has_the_form_of_cyclonedx_and_no_part_twice() -> None:
    found = sbom.document()
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    refs = [one["bom-ref"] for one in found["components"]]
    assert len(refs) == len({*refs})
    assert all(one["purl"].startswith("pkg:") and one["version"] for one in found["components"])
    assert sbom.document() == found


def test_a_release_carries_it() -> None:
    root = Path(sbom.ROOT)
    assert 'tools/sbom.py > "$directory/sbom.cdx.json"' in (root / ".ci" / "artifact").read_text("utf-8")
    assert "dist/sbom.cdx.json" in (root / ".github" / "workflows" / "release.yml").read_text("utf-8")
