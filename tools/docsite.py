# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the documentation as a site, without a network: README.md, docs/, and a page a role, module and filter.

python tools/docsite.py            into .cache/docsite/html
python tools/docsite.py DIR        into DIR
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "docsite"
REPOSITORY = "https://github.com/gb10-fleet/gb10.fleet/blob/main/"
CONTENT = ("docs", "meta", "playbooks", "plugins", "roles", "galaxy.yml")
PICTURES = Path("docs", "pictures")
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")
LAST = ("collection/index", "SECURITY", "CONTRIBUTING", "docs/style", "CODE_OF_CONDUCT", "CHANGELOG")


def main(arguments: list[str]) -> int:
    target = Path(arguments[0]) if arguments else CACHE / "html"
    shutil.rmtree(CACHE, ignore_errors=True)
    source, collections = CACHE / "source", CACHE / "collections"
    (source / "collection").mkdir(mode=0o700, parents=True)
    link_collection(collections / "ansible_collections" / "gb10" / "fleet")
    of_root = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
    for page in (*(ROOT / name for name in of_root), *(ROOT / "docs").rglob("*.md")):
        copy_page(page, source)
    shutil.copytree(ROOT / PICTURES, source / PICTURES)
    environment = os.environ | {"ANSIBLE_COLLECTIONS_PATH": str(collections)}
    reference = ("antsibull-docs", "collection", "--use-current", "--squash-hierarchy", "--fail-on-error")
    site = ("sphinx-build", "-q", "-W", "--keep-going", "-c", ROOT / "docs" / "docsite")
    for command in (
        (*reference, "--dest-dir", source / "collection", "gb10.fleet"),
        (*site, "-d", CACHE / "doctrees", source, target),
    ):
        code = subprocess.run(command, env=environment, check=False).returncode
        if code:
            return code
    print(f"{target / 'index.html'}")
    return 0


def link_collection(place: Path) -> None:
    """The collection with its docs, which the links below collections/ don't have."""
    place.mkdir(parents=True)
    for name in CONTENT:
        (place / name).symlink_to(ROOT / name)


def copy_page(page: Path, source: Path) -> None:
    """A Markdown file at its place in the site; what isn't in the site is linked to in the repository."""
    name = page.relative_to(ROOT)
    target = source / ("index.md" if name == Path("README.md") else name)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = LINK.sub(lambda link: in_site(page, link[1]), page.read_text("utf-8"))
    target.write_text(text + (tree() if target.name == "index.md" else ""), "utf-8")


def tree() -> str:
    """The site's menu: the chapters and pages of docs/README.md, in its order."""
    text = (ROOT / "docs" / "README.md").read_text("utf-8")
    chapters = {
        title: [f"docs/{page}" for page in re.findall(r"\]\(([a-z0-9/-]+)\.md\)", body)]
        for title, body in re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", text, re.MULTILINE)
    }
    return "".join(
        "\n".join(["", "", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])
        for title, pages in ({"Overview": ["docs/README"]} | chapters | {"Project": [*LAST]}).items()
    )


def in_site(page: Path, link: str) -> str:
    linked = (page.parent / link).resolve().relative_to(ROOT)
    if linked == Path("README.md"):
        return os.path.relpath("index.md", page.relative_to(ROOT).parent)
    is_page = linked.suffix == ".md" and linked.parts[0] in ("docs", linked.name)
    return link if is_page or linked.parent == PICTURES else REPOSITORY + str(linked)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
