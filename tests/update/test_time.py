# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site over time: its control machine is lost, a release of ours comes, and two people change it. A replica, a group
of two and a gateway serve meanwhile, and every answer is counted.

Real: git, age, Ansible, Docker, HAProxy, the supervisors, the requests. Imitated: vLLM (the stand-in). Needs age.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from lab.fixtures import eventually
from lab.vllm import images
from shell import copy_collection

from .owner import HOSTS, ROOT, Owner, owner_of
from .test_flow import DECLARED
from .test_services import CLIENT, KEY, load, served

ESCROW = "escrow.key"


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=anna", "-c", "user.email=anna@example.com", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    share = images.default_directory()
    images.ensure_model("tiny", share)
    images.ensure_image(images.STAND_IN, share)
    place = Path(tmp_path_factory.mktemp("time"))
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / ESCROW)], check=True)
    declared = {**DECLARED, "fleet_name": "home", "fleet_escrow": [(place / f"{ESCROW}.pub").read_text().strip()]}
    with owner_of(place, declared, f"{share}:/srv/lab", docker=True) as made:
        (made.folder / "secrets").mkdir()
        for name, text in (("services", f"{KEY}\n"), ("clients.yml", f"anna: {CLIENT}\n"), (".gitignore", "*\n")):
            (made.folder / "secrets" / name).write_text(text)
            (made.folder / "secrets" / name).chmod(0o600)
        assert made.play("playbooks/site.yml").returncode == 0
        git(made.folder, "init", "-q")
        git(made.folder, "add", "-A")
        git(made.folder, "commit", "-q", "-m", "converged")
        yield made


def clone(owner: Owner, name: str) -> None:
    """A new control machine, with what git has. The old one is gone."""
    place = owner.folder.parent / name
    git(owner.folder.parent, "clone", "-q", str(owner.folder), str(place))
    shutil.rmtree(owner.folder)
    owner.folder = place


def test_git_alone_brings_everything_back(owner: Owner) -> None:
    kept = git(owner.folder, "ls-files").split()
    print("git has", kept)
    assert ".fleet/escrow.age" in kept and not [name for name in kept if "secrets/" in name or "/keys/" in name]
    identity = f"identity={owner.folder.parent / ESCROW}"
    with load(owner, "tiny") as tiny, load(owner, "pair") as pair:
        clone(owner, "second")
        assert owner.play("playbooks/site.yml", "--check").returncode != 0
        assert owner.play("playbooks/recover.yml", "-e", identity).returncode == 0
        done = owner.play("playbooks/site.yml")
        assert done.returncode == 0 and not re.search(r"changed=[1-9]", done.stdout)
        assert (owner.folder / "secrets" / "clients.yml").read_text() == f"anna: {CLIENT}\n"
    served(tiny)
    served(pair)
    with load(owner, "tiny") as answers:
        eventually(lambda: len(answers) > 2, "the first old client asks, and is answered")
    served(answers)
    assert owner.play("playbooks/escrow.yml").returncode == 0
    assert git(owner.folder, "status", "--porcelain", ".fleet/escrow.age") == ""


def test_who_asks_why_is_answered(owner: Owner) -> None:
    with load(owner, "tiny") as tiny:
        eventually(lambda: len(tiny) > 2, "tiny answers")
        done = owner.play("playbooks/why.yml", "-e", "service=chat-a")
    assert done.returncode == 0 and re.search(r"(?m)^\w.*\[[a-z-]+\]$", done.stdout)
    served(tiny)


def test_hosts_bring_back_what_clients_need(owner: Owner) -> None:
    with load(owner, "tiny") as tiny:
        clone(owner, "third")
        for name in ("escrow.age", "escrow.json"):
            (owner.folder / ".fleet" / name).unlink()
        assert owner.play("playbooks/recover.yml").returncode == 0
        assert "anna: sha256:" in (owner.folder / "secrets" / "clients.yml").read_text().replace('"', "")
        assert owner.play("playbooks/site.yml").returncode == 0
    served(tiny)
    with load(owner, "tiny") as answers:
        eventually(lambda: len(answers) > 2, "the old client's key still opens the gateway")
    served(answers)


STARTED = "docker inspect --format '{{.Name}} {{.State.StartedAt}}' $(docker ps -q)"


def release(owner: Owner, folder: Path, number: str, *changed: str) -> None:
    """A later release of ours, in which these files have another comment."""
    copy_collection(folder)
    galaxy = folder / "galaxy.yml"
    galaxy.write_text(re.sub(r"(?m)^version: .*", f"version: {number}", galaxy.read_text()))
    for path in changed:
        file = folder / path
        file.write_text(f"{file.read_text().rstrip()}\n# of release {number}\n")
    owner.root = folder


def started(owner: Owner) -> dict[str, str]:
    return {host: owner.fleet.root(host, STARTED) for host in HOSTS}


def test_a_release_of_ours_is_a_rollout(owner: Owner, tmp_path: Path) -> None:
    before, rank = started(owner), "plugins/module_utils/_on_host/rank"
    release(owner, tmp_path / "first", "9.1.0", f"{rank}/judge.py")
    with load(owner, "tiny") as tiny, load(owner, "pair") as pair:
        shown = owner.play("playbooks/upgrade.yml", "--check")
        assert shown.returncode == 0 and "no service restarts" in shown.stdout
        assert owner.play("playbooks/site.yml").returncode == 0
    served(tiny)
    served(pair)
    assert started(owner) == before, "a changed supervisor alone restarts nothing"

    release(owner, tmp_path / "second", "9.2.0", f"{rank}/wire.py", "data/texts/rank.service")
    with load(owner, "tiny") as tiny, load(owner, "pair") as pair:
        shown = owner.play("playbooks/upgrade.yml", "--check")
        checked = owner.play("playbooks/site.yml", "--check")
        for text in (shown.stdout, checked.stdout):
            assert all(f"gb10.fleet.rollout -e service={name}" in text for name in ("chat-a", "chat-b", "pair"))
        for name in ("chat-a", "chat-b", "pair"):
            moved = owner.play("playbooks/rollout.yml", "-e", f"service={name}")
            assert moved.returncode == 0 and f"-e service={name} has requests wait" not in moved.stdout
        after = started(owner)
        assert owner.play("playbooks/site.yml").returncode == 0
    assert not {*after.values()} & {*before.values()}
    assert started(owner) == after, "what was rolled out does not restart again"
    served(tiny)
    served(pair)

    owner.root = ROOT
    refused = owner.play("playbooks/site.yml")
    assert refused.returncode != 0 and "run-older" in refused.stdout and "9.2.0" in refused.stdout
    assert owner.play("playbooks/site.yml", "-e", "go_back=true").returncode == 0


def test_two_people_at_once(owner: Owner) -> None:
    """The second waits, names the first, and brings its own definition over a whole one."""
    declared = owner.folder / "group_vars" / "all" / "z.yml"
    before = declared.read_text()
    with load(owner, "pair") as pair:
        runs = []
        for slots in (2, 3):
            found = yaml.safe_load(before)
            chat = found["fleet_services"]["chat-a"]  # of which YAML's aliases share parts with others
            found["fleet_services"]["chat-a"] = {**chat, "workload": {**chat["workload"], "max_num_seqs": slots}}
            declared.write_text(yaml.safe_dump(found))
            runs.append(owner.begin("playbooks/site.yml"))
            eventually(lambda: owner.fleet.ok("titan", "test -s /run/gb10-fleet/lease.json"), "the first has begun")
        texts = [run.communicate()[0] for run in runs]
    print("\n".join(text[-3000:] for text in texts))
    assert [run.returncode for run in runs] == [0, 0]
    assert "waits" in texts[1] or "is at work" in texts[1] or "changes" in texts[1]
    rank = owner.fleet.root("titan", "cat /etc/gb10-fleet/services/chat-a.json")
    assert '"3"' in rank or "3" in rank
    served(pair)
    declared.write_text(before)
    assert owner.play("playbooks/site.yml").returncode == 0
