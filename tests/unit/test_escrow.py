# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's secrets, encrypted to the admins' SSH keys: git alone brings all of them back, and shows none."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.action import escrow as action
from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import check
from ansible_collections.gb10.fleet.plugins.module_utils._operations import escrow
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import ESCROW
from test_undeclared import whole

# The program itself where it is installed; else a stand-in with its arguments, that hides nothing.
STAND_IN = r"""#!/usr/bin/python3
import sys
words, text = sys.argv[1:], sys.stdin.buffer.read()
keys = [words[at + 1] for at, word in enumerate(words) if word in ("-r", "-i")]
if words[0] == "--encrypt":
    sys.stdout.buffer.write("|".join(key.split()[1] for key in keys).encode() + b"\n" + text[::-1])
else:
    to, _, rest = text.partition(b"\n")
    own = [open(f"{key}.pub").read().split()[1] for key in keys]
    if not {*own} & {*to.decode("ascii", "replace").split("|")}:
        sys.exit("age: error: no identity matched any of the recipients")
    sys.stdout.buffer.write(rest[::-1])
"""


@pytest.fixture(params=["real", "stand-in"])
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An inventory with secrets, the key pairs of two admins, and the action on a controller of theirs."""
    if request.param == "real" and not shutil.which("age"):
        pytest.skip("no age on this machine: the stand-in is used")
    if request.param == "stand-in":
        program = tmp_path / "bin" / "age"
        program.parent.mkdir()
        program.write_text(STAND_IN)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("anna", "bob", "eve"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@laptop", "-f", str(tmp_path / name)]
        subprocess.run(command, check=True)
    folder = tmp_path / "mine"
    folder.mkdir()
    slice_ = whole(folder, "home")
    for source in sorted(escrow.secrets_of({"hosts": {"titan": slice_}})):  # type: ignore[typeddict-item]
        Path(source).parent.mkdir(parents=True, exist_ok=True)
        if not Path(source).exists():
            Path(source).write_text(f"secret of {source}\n")
    (folder / ".fleet/keys").mkdir(parents=True, exist_ok=True)
    (folder / ".fleet/keys/.gitignore").write_text("*\n")
    plan: Any = {"hosts": {"titan": slice_}}
    keys = {name: (tmp_path / f"{name}.pub").read_text().strip() for name in ("anna", "bob")}
    return SimpleNamespace(folder=folder, plan=plan, keys=keys, root=tmp_path)


def ran(site: Any, *, dry: bool = False, **options: Any) -> dict[str, Any]:
    module = action.ActionModule.__new__(action.ActionModule)
    module._task = SimpleNamespace(check_mode=dry)
    given = {"plan": site.plan, "folder": str(site.folder), "restore": False, "identity": ""}
    return module.act({**given, "recipients": [*site.keys.values()], **options}, {})


def secret_files(site: Any) -> dict[str, bytes]:
    found = (path for path in site.folder.rglob("*") if path.is_file() and "escrow." not in path.name)
    return {str(path): path.read_bytes() for path in found if path.name != ".gitignore"}


def lose(site: Any) -> None:
    """What a clone has: of `.fleet` the escrow alone."""
    for path in site.folder.rglob("*"):
        if path.is_file() and path not in (site.folder / escrow.FILE, site.folder / escrow.RECORD):
            path.unlink()
    for path in sorted(site.folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


@pytest.mark.parametrize("admin", ["anna", "bob"])
def test_git_alone_is_a_full_backup(site: Any, admin: str) -> None:
    before = secret_files(site)
    assert len(before) > 5
    made = ran(site)
    assert made["changed"]
    kept = (site.folder / escrow.RECORD).read_text() + (site.folder / escrow.FILE).read_bytes().decode("latin-1")
    assert "real" not in site.root.name or not any(text.decode().strip() in kept for text in before.values())
    lose(site)
    assert secret_files(site) == {}
    tried = ran(site, restore=True, identity=str(site.root / admin), dry=True)
    assert tried["changed"] and secret_files(site) == {}
    back = ran(site, restore=True, identity=str(site.root / admin))
    assert {*before} < {*back["files"]}
    assert secret_files(site) == before
    assert all(stat.S_IMODE(Path(path).stat().st_mode) == 0o600 for path in before)
    assert not ran(site, restore=True, identity=str(site.root / admin))["changed"]
    assert not ran(site)["changed"]  # and the second person renews nothing


def test_it_is_renewed_when_something_changed_and_only_then(site: Any) -> None:
    ran(site)
    sealed = (site.folder / escrow.FILE).read_bytes()
    assert not ran(site)["changed"]
    assert (site.folder / escrow.FILE).read_bytes() == sealed
    (site.folder / ".fleet/keys/new.key").write_text("n\n")
    assert ran(site, dry=True)["changed"]
    assert (site.folder / escrow.FILE).read_bytes() == sealed
    assert ran(site)["changed"]
    assert ran(site, recipients=[site.keys["anna"]])["changed"]
    with pytest.raises(AnsibleActionFail, match="age -d -i KEY"):
        ran(site, restore=True, identity=str(site.root / "bob"))
    (site.folder / escrow.FILE).write_bytes(sealed)  # a merge took the other's
    assert ran(site)["changed"]
    for damaged in ("", "[]", "{", '{"files": 3}'):
        (site.folder / escrow.RECORD).write_text(damaged)
        assert ran(site)["changed"]
        assert not ran(site)["changed"]


def test_a_machine_that_lacks_secrets_takes_none_away(site: Any) -> None:
    ran(site)
    sealed = (site.folder / escrow.FILE).read_bytes()
    (site.folder / ".fleet/keys/escrow.key").unlink()
    with pytest.raises(AnsibleActionFail, match=r"which this machine lacks"):
        ran(site, dry=True)
    lose(site)
    with pytest.raises(AnsibleActionFail, match=r"which this machine lacks"):
        ran(site)
    assert (site.folder / escrow.FILE).read_bytes() == sealed


def test_what_lies_there_already_stays(site: Any) -> None:
    ran(site)
    first = next(iter(secret_files(site)))
    Path(first).write_text("another\n")
    assert not ran(site, restore=True, identity=str(site.root / "anna"))["changed"]
    assert Path(first).read_text() == "another\n"


def test_without_an_escrow_nothing_is_brought(site: Any) -> None:
    assert ran(site, restore=True) == {"changed": False, "files": []}


@pytest.mark.parametrize("identity", ["eve", "none", ""])
def test_others_open_nothing(site: Any, identity: str) -> None:
    ran(site)
    lose(site)
    with pytest.raises(AnsibleActionFail, match=r"escrow\]"):
        ran(site, restore=True, identity=identity and str(site.root / identity))
    assert secret_files(site) == {}


def test_without_the_program_nothing_is_written(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(site.root / "nowhere"))
    with pytest.raises(AnsibleActionFail, match="escrow-nobody"):
        ran(site, recipients=[])
    with pytest.raises(AnsibleActionFail, match="install the package age"):
        ran(site)
    assert not (site.folder / escrow.FILE).exists()


def forged(*entries: tuple[str, bytes]) -> bytes:
    """An archive with names of any kind, as anybody can encrypt it who knows a public key."""
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, kind in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            tar.addfile(entry)
    return stream.getvalue()


def test_a_forged_escrow_brings_no_file_elsewhere() -> None:
    wrong = ("/etc/x", "../x", ".fleet/keys/../../x", "group_vars/all.yml", ".fleet/keys", "x", ".fleet/observed/x")
    names = (*wrong, ".fleet//keys/x", "./.fleet/keys/x")
    archive = forged(*((name, tarfile.REGTYPE) for name in names), (".fleet/keys/link", tarfile.SYMTYPE))
    assert escrow.unpacked(archive, {"secrets/chat"}) == {}
    good = forged((".fleet/keys/chat.key", tarfile.REGTYPE), ("secrets/chat", tarfile.REGTYPE))
    assert {*escrow.unpacked(good, {"secrets/chat"})} == {".fleet/keys/chat.key", "secrets/chat"}
    for text in (b"x" * 600, b"\x1f\x8b" + b"x" * 600):
        with pytest.raises(ValueError, match="no archive"):
            escrow.unpacked(text, set())


@pytest.mark.parametrize(
    ("written", "good"),
    [
        ([f"ssh-ed25519 {'A' * 68} anna@laptop"], True),
        ([f"age1{'q' * 58}"], True),
        ([f"ssh-rsa {'A' * 372}=="], True),
        (["ecdsa-sha2-nistp256 AAAA"], False),
        (["anna.pub"], False),
        ([f"--output=/x {'A' * 68}"], False),
        ("ssh-ed25519 AAAA", False),
    ],
)
def test_who_may_open_it_is_checked_in_the_plan(written: Any, good: bool) -> None:
    assert (not check(ESCROW, written, "fleet_escrow")[1]) is good


def test_the_record_names_its_form(site: Any) -> None:
    ran(site)
    found = json.loads((site.folder / escrow.RECORD).read_text())
    assert found["form"] == escrow.FORM and ".fleet/keys/escrow.key" in found["files"]
