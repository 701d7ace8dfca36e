# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what hosts get of a release, as CycloneDX 1.6: Python packages of the locks, and images of recipes and tools.

python tools/sbom.py > sbom.cdx.json

A host gets a part of it: the packages of the roles that it has, and the images of its services. Packages of Ubuntu have
no pinned version: `apt` brings the newest of its signed archive.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

ROOT = Path(__file__).resolve().parents[1]
_PIN = re.compile(
    r"^([A-Za-z0-9._-]+)==([^\s;]+)(?: ?;[^\n\\]*)?((?: \\\n +--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE
)


def python_packages(lock: Path) -> Iterator[dict[str, Any]]:
    """Of a lock that pip installs by hashes."""
    role = lock.parts[-3]
    for name, version, hashes in _PIN.findall(lock.read_text("utf-8")):
        sums = re.findall("[0-9a-f]{64}", hashes)
        yield {
            "type": "library",
            "bom-ref": f"{role}/{name}@{version}",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{version}",
            "hashes": [{"alg": "SHA-256", "content": one} for one in sums],
            "properties": [{"name": "gb10:role", "value": role}],
        }


def images() -> Iterator[dict[str, Any]]:
    """Of the shipped recipes, each once."""
    seen: dict[str, dict[str, Any]] = {}
    for path in sorted((ROOT / "recipes").glob("*.yml")):
        image = yaml.safe_load(path.read_text("utf-8")).get("image") or {}
        if not image.get("reference"):
            continue
        name, _, tag = image["reference"].partition("@")[0].rpartition(":")
        digest = image.get("digest") or ""
        place = f"pkg:oci/{name.rpartition('/')[2]}{'@' + quote(digest, safe='') if digest else ''}"
        row = seen.setdefault(
            f"{image['reference']} {digest}",
            {
                "type": "container",
                "bom-ref": f"{image['reference']}{'@' + digest if digest else ''}",
                "name": name,
                "version": tag,
                "purl": f"{place}?repository_url={quote(name, safe='')}&tag={quote(tag, safe='')}",
                "hashes": [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}] if digest else [],
                "properties": [],
            },
        )
        row["properties"].append({"name": "gb10:recipe", "value": path.stem})
    yield from seen.values()


def document() -> dict[str, Any]:
    """The same input gives the same bytes: no time, no random number."""
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))
    locks = sorted((ROOT / "roles").glob("*/files/*.txt"))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "gb10.fleet",
                "name": "gb10.fleet",
                "version": galaxy["version"],
                "licenses": [{"license": {"id": "GPL-3.0-or-later"}}],
            }
        },
        "components": [*(one for lock in locks for one in python_packages(lock)), *images()],
    }


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=1)
    sys.stdout.write("\n")
