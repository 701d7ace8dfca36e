"""What the documents point at is there: relative links, headings, and the commands that README.md names."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._plan.drift import DRIFT
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fleet.subject import FleetSubject
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.registry import FLEET_SUBJECTS
from drift_fleet import planned

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = (".", "collections")
# Not even looked into: what lies in a lab's folder comes and goes while it runs.
PLACES = [path for path in ROOT.iterdir() if not path.name.startswith(SKIPPED)]
DOCUMENTS = sorted(path for place in PLACES for path in (place, *place.rglob("*.md")) if path.suffix == ".md")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def prose(document: Path) -> str:
    """Without code, in which brackets are no links."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text("utf-8"), flags=re.DOTALL)


def anchors(document: Path) -> set[str]:
    """The headings as they are linked to."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken(document: Path) -> list[str]:
    found = []
    for link in LINK.findall(prose(document)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    assert broken(document) == []


def test_the_contents_name_each_page_once() -> None:
    """docs/README.md, which is also the menu of the site."""
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")} - {"README.md", "style.md"}
    links = [link for link in LINK.findall((ROOT / "docs" / "README.md").read_text("utf-8")) if "/" in link]
    assert sorted(link for link in links if not link.startswith("../")) == sorted(pages)
    assert {page.partition("/")[0] for page in pages} == {"tutorial", "how-to", "reference", "explanation"}


def misplaced(text: str) -> list[str]:
    """Our own pages that a text names at a place where they are not."""
    pages = {path.name: path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")}
    named = re.findall(r"(?<![\w/])docs/(?:(?:tutorial|how-to|reference|explanation)/)?[a-z-]+\.md", text)
    return [name for name in named if not (ROOT / name).exists() and (name.count("/") == 2 or Path(name).name in pages)]


def test_a_page_of_another_project_may_have_its_own_place() -> None:
    assert misplaced("docs/memory.md docs/how-to/memory.md docs/tutorial/gone.md") == [
        *("docs/memory.md", "docs/how-to/memory.md", "docs/tutorial/gone.md")
    ]
    assert misplaced("docs/explanation/memory.md, docs/style.md, docs/gguf.md, website/docs/memory.md") == []


def test_a_page_that_code_or_data_names_is_there() -> None:
    kinds = (".py", ".yml", ".j2", ".in", ".toml", ".sh")
    history = ROOT / "changelogs" / "changelog.yaml"
    files = [ROOT / name for name in ("galaxy.yml", "pyproject.toml", "execution-environment.yml", "demo", "test")]
    for folder in (
        "plugins",
        "data",
        "recipes",
        "roles",
        "playbooks",
        "cli",
        "tools",
        "tests",
        "requirements",
        ".github",
    ):
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in kinds and path.is_file()]
    wrong = {str(path.relative_to(ROOT)): misplaced(path.read_text("utf-8")) for path in files if path != history}
    wrong.pop("tests/unit/test_documents.py")
    assert {name: pages for name, pages in wrong.items() if pages} == {}


def commands() -> list[list[str]]:
    """The commands in README.md's blocks, as words; comments and what a command prints are left out."""
    blocks = re.findall(r"^```\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    starts = ("./", "tests/", "ansible-playbook ")
    return [shlex.split(line, comments=True) for line in lines if line.startswith(starts)]


def test_the_readme_names_commands() -> None:
    assert {"./demo", "./test", "ansible-playbook"} <= {words[0] for words in commands()}


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_of_the_readme_exists(words: list[str]) -> None:
    if words[0] != "ansible-playbook":
        program = ROOT / words[0]
        assert program.exists()
        assert program.stat().st_mode & 0o111
        return
    name = next(word for word in words[1:] if word.endswith(".yml") or word.startswith("gb10.fleet."))
    playbook = ROOT / name if name.endswith(".yml") else ROOT / "playbooks" / f"{name.rpartition('.')[2]}.yml"
    assert playbook.exists()


def test_the_architecture_names_the_keys_of_a_plan() -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"\w+", text.partition("\n## The plan\n")[2].partition("\n## ")[0]))
    plan = planned()
    slices = {key for host in plan["hosts"].values() for key in host}
    services = {key for service in plan["services"].values() for key in service}
    assert set(plan) | slices | services | {key for one in plan["findings"] for key in one} <= named


@pytest.mark.parametrize("subject", [one for one in FLEET_SUBJECTS if one.spec is not None], ids=lambda one: one.name)
def test_each_key_of_a_fleet_subject_has_a_row(subject: FleetSubject) -> None:
    """In the table with the head ``| key of `fleet_NAME` | what |``; several keys may share a row."""
    spec = subject.spec or {}
    options = (spec.get("values") or spec)["options"]
    head = re.compile(rf"^\| key of [^|]*`fleet_{subject.name}` \| what \|\n\|---\|---\|\n((?:\|.*\n)+)", re.MULTILINE)
    (table,) = (found for path in (ROOT / "docs").rglob("*.md") for found in head.findall(path.read_text("utf-8")))
    rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines()]
    named = {key for row in rows for key in row}
    assert named == {*options}, f"the table with the head: key of `fleet_{subject.name}`: {named ^ {*options}}"


def entries(path: Path) -> list[str]:
    """What a fragment says, or all releases of the changelog."""
    read = yaml.safe_load(path.read_text("utf-8"))
    parts = [release["changes"] for release in read["releases"].values()] if "releases" in read else [read]
    return [line for part in parts for kind, lines in part.items() if kind != "release_summary" for line in lines]


@pytest.mark.parametrize("name", ["changelog.yaml", "fragments"])
def test_an_entry_of_the_changelog_begins_with_what_it_is_about(name: str) -> None:
    path = ROOT / "changelogs" / name
    lines = [line for file in (sorted(path.glob("*.yml")) if path.is_dir() else [path]) for line in entries(file)]
    assert [line for line in lines if not re.match(r"[a-z0-9_, ]+ - \S", line)] == [], "write: role or module - text"


def test_the_changelog_is_plain_text() -> None:
    files = [ROOT / "changelogs" / "changelog.yaml", *(ROOT / "changelogs" / "fragments").glob("*.yml")]
    markup = re.compile(r"`|\b[CELMOPUV]\(")
    assert [f"{file.name}: {line}" for file in files for line in entries(file) if markup.search(line)] == []


def test_the_lists_in_documents_are_those_of_today() -> None:
    """Plugins and roles in docs/reference/contents.md, recipes in docs/reference/models.md."""
    command = [sys.executable, ROOT / "tools" / "contents.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_pictures_show_todays_figures() -> None:
    """Addresses, sizes, states and floors."""
    command = [sys.executable, ROOT / "tools" / "pictures.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_picture_is_on_a_page() -> None:
    shown = "".join(path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md"))
    missing = [path.name for path in (ROOT / "docs" / "pictures").iterdir() if f"pictures/{path.name})" not in shown]
    assert missing == []


def test_each_key_of_fleet_drift_is_on_its_page() -> None:
    page = (ROOT / "docs" / "how-to" / "drift.md").read_text("utf-8")
    missing = [key for key in DRIFT["options"] if not re.search(rf"\b{key}\b", page)]
    assert missing == [], "docs/how-to/drift.md has what is checked, and each key of `fleet_drift`"
