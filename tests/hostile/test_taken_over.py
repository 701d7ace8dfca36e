# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""spark-2 is taken over: root on it, and its supervisor, the program for its peers and Python are somebody else's.

It is the head of a group, reads images and weights from titan, and gives them to spark-3. The others and the controller
lose nothing but that host, and the drift check names it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.fixtures import eventually

from .conftest import ADDRESSES, ROOT, Owner

TAKEN, OTHERS = "spark-2", ("titan", "spark-3")
LIBRARY = "/usr/local/lib/gb10-fleet"
IMAGE = "gb10-lab/vllm-stand-in:0.32.0"
MARK = "/var/tmp/taken-over"
# What a host may change by itself: its logs and state of running, and what its own services and stores do.
OWN = (
    *("/var/log", "/var/lib/systemd", "/var/lib/docker", "/var/lib/containerd", "/var/lib/gb10-fleet", "/var/cache"),
    *("/var/lib/apt", "/var/lib/sudo", "/var/lib/private", "/tmp", "/root/.ansible", "/home/nvidia/.ansible"),
)
# To whoever connects: a line of another kind than expected, of any size, then what an honest head would send, badly.
SUPERVISOR = textwrap.dedent("""\
    import socket, threading
    LINES = [b"[" * 100000 + b"\\n", b'{"proof": "\\xff\\xfe"}\\n', b'{"nonce": 7, "proof": null}\\n', b"x" * 3000000]
    def hostile(peer, line):
        try:
            peer.sendall(line); peer.recv(100); peer.sendall(line)
        except OSError:
            pass
        peer.close()
    listener = socket.create_server(("", 18000))
    number = 0
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=hostile, args=(peer, LINES[number % len(LINES)]), daemon=True).start()
        number += 1
    """)
# To whoever fetches: files anywhere on his host, for images and for models, under sums that its sender calculates.
PEER = textwrap.dedent("""\
    #!/usr/bin/python3.real
    import base64, json, sys
    EVIL = {"path": "/etc/cron.d/evil", "size": 20, "sha256": "a" * 64}
    OUT = {"path": "../../../../../../etc/cron.d/evil", "size": 20, "sha256": "../../../../etc/cron.d/evil"}
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if "model" in asked:
            manifest = {"repository": asked["model"], "revision": asked["revision"] or "a" * 40, "files": [EVIL, OUT]}
            answer = json.dumps({"manifest": manifest, "seal": "b" * 64}).encode()
        elif "image" in asked:
            layer = {"diff_id": "sha256:../../../../etc/cron.d/evil", "digest": "/etc/cron.d/evil", "size": 20}
            answer = json.dumps({"config": base64.b64encode(b"{}").decode(), "layers": [layer]}).encode()
        else:
            answer = b"* * * * * root touch /var/tmp/taken-over\\n"
        sys.stdout.buffer.write(json.dumps({"ok": len(answer)}).encode() + b"\\n" + answer)
        sys.stdout.buffer.flush()
    """)
# To the controller: whatever is asked, an answer that runs commands where it is trusted as a template, path or fact.
PYTHON = """\
#!/bin/sh
timeout 5 cat > /dev/null
cat <<'END'
ANSWER
END
"""
PARTS = ("files", "units", "running", "peers", "firewall", "images")
PIPE = "{{ lookup('pipe', 'touch MARK') }}"
ANSWER = {
    "changed": False,
    "ansible_facts": {"ansible_connection": "local", "ansible_become": False, "evil": PIPE},
    "state": dict.fromkeys(PARTS, PIPE),
    "content": {"all": {"hosts": {"titan": {"ansible_connection": "local", "evil": PIPE}}}},
    "boots": {"../../../evil": PIPE},
    "catalogues": {"../../evil": PIPE},
    "public_key": "ssh-ed25519 AAAA\nssh-ed25519 BBBB root@evil",
    "host_key": "* ssh-ed25519 AAAA",
    "addresses": ["0.0.0.0/0", '*",command="sh'],
    "msg": PIPE,
    "services": PIPE,
    "warnings": [PIPE, "\x1b]0;evil\x07"],
}
# Of a reader, by its own key, over its own connection: other paths than the stores'.
REQUESTS: list[dict[str, object]] = [
    {"read": "/etc/shadow", "ranges": [[0, 100]]},
    {"read": "../../../../etc/shadow", "ranges": [[0, 100]]},
    {"recipe": "/etc/cron.d/evil", "packed": "/var/tmp/evil.gz"},
    {"model": "../../../etc", "revision": "../../.."},
    {"image": "--help", "digest": None},
    {"read": "a" * 64, "ranges": [[0, 1 << 60]]},
]


# What somebody could do who made the program for peers run code of his own: all that has to do with Docker.
SERVER = r"""#!/usr/bin/python3 -IB
import glob, json, os, socket, subprocess, sys
done = []
def tries(what, act):
    try:
        found = act()
    except Exception:
        return
    done.append([what, repr(found)[:80]])
for path in ("/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock"):
    tries(path, lambda: socket.socket(socket.AF_UNIX).connect(path))
for words in ("run --rm IMAGE true", "create IMAGE", "inspect gb10-service-tiny", "logs gb10-service-tiny"):
    tries(words, lambda: subprocess.run(["docker", *words.split()], check=True, capture_output=True).stdout)
for kind in ("docker/containers/*/*", "docker/volumes/*", "docker/containerd/daemon/*bolt*", "containerd/*bolt*"):
    for path in glob.glob(f"/var/lib/{kind}"):
        tries(path, lambda: open(path, "rb").read(80))
for path in glob.glob("/proc/[0-9]*/environ"):
    tries(path, lambda: open(path, "rb").read().index(b"HF_HOME"))
for path in glob.glob("/proc/[0-9]*/root/run/secrets/*") + glob.glob("/proc/[0-9]*/root/etc/shadow"):
    tries(path, lambda: open(path, "rb").read(80))
tries("an answer of its own", lambda: open("/run/gb10-peer/answers.json", "w"))
with open("/run/gb10-peer/look", "wb", buffering=0) as look:
    look.write(b'{"Cmd": ["docker", "run", "IMAGE"]}\n' * 9000)
from time import sleep
while not os.path.exists("/run/gb10-peer/answers.json"):
    sleep(0.1)
print(json.dumps([done, sorted(json.load(open("/run/gb10-peer/answers.json")))]))
"""
SERVE = f"{LIBRARY}/peer/serve"


def test_what_serves_peers_has_nothing_of_docker_but_what_images_there_are(owner: Owner) -> None:
    """On titan, which serves tiny; afterwards it gives as before."""
    fleet = owner.fleet
    containers = "docker ps --all --quiet --no-trunc"
    before = fleet.root("titan", containers)
    fleet.root("titan", f"cp -a {SERVE} /root/serve.before")
    put(owner, SERVE, SERVER.replace("IMAGE", IMAGE), "titan")
    try:
        done, answers = json.loads(fleet.root("titan", f"su gb10-peer -c 'sudo -n {LIBRARY}/peer-serve'"))
    finally:
        fleet.root("titan", f"mv /root/serve.before {SERVE}")
    assert done == []
    assert answers == ["images", "info", "version"]
    assert fleet.root("titan", containers) == before
    assert fleet.root("titan", "ls -d /run/gb10-fleet/peer-*", check=False) == ""
    assert ask_titan(owner, [{"image": IMAGE, "digest": None}])[0].startswith('{"ok"')


def ask_titan(owner: Owner, requests: list[dict[str, object]]) -> list[str]:
    """What the program for peers answers on titan to the taken host's own key."""
    key = "-i /etc/gb10-fleet/peer/id_ed25519 -o UserKnownHostsFile=/etc/gb10-fleet/peer/known_hosts"
    asked = "\n".join(map(json.dumps, requests))
    ssh = f"ssh -F none -o BatchMode=yes -o HostKeyAlias=titan {key} gb10-peer@{ADDRESSES['titan']}"
    return owner.fleet.root(TAKEN, f"printf '%s\\n' '{asked}' | {ssh}", check=False).splitlines()


@pytest.fixture(scope="module")
def taken(owner: Owner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file that exists once code of the taken host ran on the controller."""
    mark = Path(tmp_path_factory.mktemp("controller")) / "mark"
    fleet = owner.fleet
    answer = json.dumps(ANSWER).replace("MARK", str(mark))
    fleet.root(TAKEN, "cp -L /usr/bin/python3 /usr/bin/python3.real")
    fleet.root(TAKEN, "systemctl kill --signal KILL gb10-service-pair; docker kill gb10-service-pair", check=False)
    fleet.root(TAKEN, "systemctl stop gb10-service-pair")
    supervise = fleet.root(TAKEN, f"ls {LIBRARY}/rank-*/gb10_rank/supervise.py").splitlines()[-1]
    put(owner, supervise, SUPERVISOR)
    put(owner, f"{LIBRARY}/peer-serve", PEER)
    fleet.root(TAKEN, "rm /usr/bin/python3")
    put(owner, "/usr/bin/python3", PYTHON.replace("ANSWER", answer))
    fleet.root(TAKEN, f"systemd-run --unit hostile /usr/bin/python3.real {supervise}")
    yield mark
    # whoever runs after it heals the rest by site.yml, which needs Python and the port
    fleet.root(TAKEN, "ln -sf python3.real /usr/bin/python3; systemctl stop hostile")


def put(owner: Owner, path: str, text: str, host: str = TAKEN) -> None:
    lab = [str(ROOT / "tests" / "lab" / "lab"), "-d", str(owner.fleet.directory), "exec", host, "--", "sh", "-c"]
    subprocess.run([*lab, f"cat > {path} && chmod 755 {path}"], input=text, text=True, check=True)


def files_of(owner: Owner, host: str) -> dict[str, str]:
    """Path -> kind, mode, owner, target and sum of each file and link that a host doesn't change by itself."""
    find = f"find / -xdev {' '.join(f'-path {path} -prune -o' for path in OWN)}"
    kinds = owner.fleet.root(host, f"{find} \\( -type f -o -type l \\) -printf '%p\\t%y %m %U %l\\n'").splitlines()
    sums = owner.fleet.root(host, f"{find} -type f -print0 | xargs -0 sha256sum").splitlines()
    found = dict(line.split("\t", 1) for line in kinds)
    return found | {path: f"{found.get(path)} {sum_}" for sum_, path in (line.split("  ", 1) for line in sums)}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Paths that are new, gone or other than before."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def files_here(*folders: Path) -> dict[str, str]:
    found = (file for folder in folders for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in found}


def test_nothing_of_the_others_changes_but_that_host_is_lost(owner: Owner, taken: Path) -> None:
    fleet = owner.fleet
    before = {host: files_of(owner, host) for host in OTHERS}
    here = files_here(owner.inventory, ROOT / "playbooks", ROOT / "roles", ROOT / "plugins")
    assert all(before.values())
    # it asks titan for what it should not, by the key that it has
    answers = ask_titan(owner, REQUESTS)
    assert len(answers) == len(REQUESTS)
    assert [answer for answer in answers if not answer.startswith(('{"failed"', '{"absent"'))] == []

    # spark-3 has to fetch its image and model anew, and asks spark-2 first
    fleet.root("spark-3", f"systemctl stop gb10-service-pair; docker image rm --force {IMAGE}", check=False)
    fleet.root("spark-3", "rm -rf /var/lib/gb10-fleet/hf/hub /var/lib/gb10-fleet/models /var/lib/gb10-fleet/images")
    staged = owner.play("gb10.fleet.stage", "--limit", "titan,spark-3")
    assert staged.returncode == 0, staged.stdout[-4000:]
    assert "spark-2" in staged.stdout + staged.stderr  # which is passed over, by name
    assert fleet.ok("spark-3", f"docker image inspect {IMAGE}")

    # the whole job and all that looks, with the hostile host among the others
    for playbook in ("site.yml", "gb10.fleet.stage", "status.yml", "verify.yml", "doctor.yml"):
        owner.play(playbook)
    assert not taken.exists()
    after = {host: files_of(owner, host) for host in OTHERS}
    for host in OTHERS:
        # each site.yml writes which release ran last
        other = changed(before[host], after[host]) - {"/etc/gb10-fleet/last-run.json"}
        assert [path for path in other if not path.startswith("/run/")] == [], host
        assert not fleet.ok(host, f"test -e {MARK}")
    assert fleet.root("spark-3", "systemctl is-active gb10-service-pair", check=False).strip() != "failed"
    kept = files_here(owner.inventory, ROOT / "playbooks", ROOT / "roles", ROOT / "plugins")
    of_doctor = {f"{owner.inventory}/.fleet/doctor/{host}.json" for host in OTHERS}
    # written by each run itself, and never by what a host answers
    own = {f"{owner.inventory}/.fleet/{name}" for name in ("form", "ca/.lock", "doctor/.gitignore")}
    assert {path for path in changed(here, kept) if "__pycache__" not in path} - own == of_doctor


def test_the_solo_service_of_another_host_goes_on(owner: Owner, taken: Path) -> None:
    assert not taken.exists()
    eventually(lambda: owner.answers("tiny"), "tiny answers")


def test_a_drift_check_names_the_host_and_compares_the_others(owner: Owner, taken: Path) -> None:
    owner.play("drift.yml")
    report = json.loads((owner.reports / "report.json").read_bytes())
    assert not taken.exists()
    named = {one["host"] for one in (*report["findings"], *report["unknown"])}
    assert TAKEN in named
    assert {*OTHERS} <= {one["host"] for one in report["hosts"]}
