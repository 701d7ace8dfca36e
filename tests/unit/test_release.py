# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release promises: versions that agree, an artifact with what people look for, subjects that a log can show."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle.signature import new_key, require_signed

ROOT = Path(__file__).resolve().parents[2]
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))
CHANGELOG = yaml.safe_load((ROOT / "changelogs" / "changelog.yaml").read_text("utf-8"))


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def added() -> Iterator[tuple[str, str]]:
    """Each file with a version_added, of a plugin, a role or an option, and that version."""
    for path in sorted([*(ROOT / "plugins").rglob("*.py"), *(ROOT / "roles").rglob("*.yml")]):
        for version in re.findall(r"^\s*version_added: [\"']?([\d.]+)", path.read_text("utf-8"), re.MULTILINE):
            yield str(path.relative_to(ROOT)), version


def test_nothing_was_added_in_a_version_that_is_still_to_come() -> None:
    newest = number(GALAXY["version"])
    assert [f"{path}: {version}" for path, version in added() if number(version) > newest] == []


def test_everything_was_added_in_a_version_that_was_or_is_made() -> None:
    known = {GALAXY["version"], *CHANGELOG["releases"]}
    assert [f"{path}: {version}" for path, version in added() if version not in known] == []


def test_the_version_is_that_of_the_next_release_where_changes_wait_for_it() -> None:
    last = max(CHANGELOG["releases"], key=number)
    waiting = sorted(path.name for path in (ROOT / "changelogs" / "fragments").glob("*.yml"))
    if waiting:
        assert number(GALAXY["version"]) > number(last), f"{last} is released: galaxy.yml names the next one"
    else:
        assert number(GALAXY["version"]) >= number(last)


def test_the_execution_environment_takes_the_artifact_of_this_version() -> None:
    text = (ROOT / "execution-environment.yml").read_text("utf-8")
    assert {*re.findall(r"gb10-fleet-([\d.]+)\.tar\.gz", text)} == {GALAXY["version"]}


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_what_people_look_for_ships(name: str) -> None:
    (first,) = [line for line in GALAXY["manifest"]["directives"] if line.startswith("include README.md")]
    assert name in first.split() and (ROOT / name).is_file()


def test_the_revisions_that_blame_passes_over_are_whole() -> None:
    lines = (ROOT / ".git-blame-ignore-revs").read_text("ascii").splitlines()
    assert all(re.fullmatch(r"[0-9a-f]{40}", line) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("Read a host's boots", ""),
        ("A" * 60, ""),
        ("A" * 61, "61 characters; expected at most 60"),
        ("Read a host's boots.", "a full stop at its end"),
        ("fixup! Read a host's boots", "a small letter at its beginning"),
    ],
)
def test_a_subject_is_short_and_begins_with_what_the_change_does(tmp_path: Path, subject: str, problem: str) -> None:
    done = subjects(tmp_path, subject, "HEAD~1")
    assert (done.returncode, problem in done.stderr) == (int(bool(problem)), True)
    assert not problem or subject in done.stderr


def test_a_base_that_is_not_there_passes_nothing(tmp_path: Path) -> None:
    assert subjects(tmp_path, "Read a host's boots", "0" * 40).returncode == 2


def subjects(folder: Path, subject: str, base: str) -> subprocess.CompletedProcess[str]:
    """What the check says of a repository whose second commit has this subject."""
    program = folder / ".ci" / "subjects"
    program.parent.mkdir()
    program.write_bytes((ROOT / ".ci" / "subjects").read_bytes())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    git = ("git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.invalid")
    for command in (("init", "-q"), *(("commit", "-q", "--allow-empty", "-m", text) for text in ("Begin", subject))):
        subprocess.run((*git, *command), check=True, env=environment)
    return subprocess.run(("sh", str(program), base), capture_output=True, text=True, check=False, env=environment)


@pytest.mark.skipif(not shutil.which("gpg") or not shutil.which("gpgv"), reason="needs GnuPG")
def test_a_signature_is_of_the_artifacts_manifest(tmp_path: Path) -> None:
    """`ansible-galaxy collection verify --signature` takes it; FILES.json and so each file hang on that manifest."""
    manifest = tmp_path / "MANIFEST.json"
    manifest.write_text('{"format": 1}')
    with tarfile.open(tmp_path / "gb10-fleet-0.0.1.tar.gz", "w:gz") as artifact:
        artifact.add(manifest, "MANIFEST.json")
    manifest.unlink()
    secret, public = new_key("release")
    with tempfile.TemporaryDirectory(prefix="gb10-") as home:  # a socket's path must be short
        environment = {**os.environ, "GNUPGHOME": home}
        subprocess.run(["gpg", "--batch", "--quiet", "--import"], input=secret, env=environment, check=True)
        subprocess.run([ROOT / ".ci" / "sign", tmp_path], env=environment, check=True)
    signature = (tmp_path / "MANIFEST.json.asc").read_bytes()
    require_signed(manifest, b'{"format": 1}', signature, public)
    with pytest.raises(FleetError, match="bundle-signature"):
        require_signed(manifest, b'{"format": 2}', signature, public)
    assert not manifest.exists()
