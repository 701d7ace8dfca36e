# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""spark-2 may start one program on titan and nothing else; on spark-2, which nobody reads from, there is no account."""

from __future__ import annotations

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://titan", "ssh://spark-2"]

SSH = (
    "ssh -T -F none -o BatchMode=yes -o HostKeyAlias=titan -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
    " -o UserKnownHostsFile=/etc/gb10-fleet/peer/known_hosts -i /etc/gb10-fleet/peer/id_ed25519"
)

OWN = "10.77.0.12"


def on(host: Host, name: str) -> None:
    if host.backend.hostname != name:
        pytest.skip(f"{name} alone")


def test_the_key_starts_one_program(host: Host) -> None:
    on(host, "titan")
    lines = host.file("/var/lib/gb10-fleet/peer/.ssh/authorized_keys").content_string.splitlines()
    assert [line.partition(" ssh-")[0] for line in lines] == [
        'restrict,from="10.77.0.12",command="sudo -n /usr/local/lib/gb10-fleet/peer-serve"'
    ]
    allowed = host.check_output("sudo -l -U gb10-peer").partition("may run the following")[2].splitlines()[1:]
    assert [line.strip() for line in allowed] == ['(root) NOPASSWD: /usr/local/lib/gb10-fleet/peer-serve ""']
    assert host.run("visudo -c").rc == 0


def test_modules_of_an_earlier_release_are_gone(host: Host) -> None:
    on(host, "titan")
    utils = "/usr/local/lib/gb10-fleet/peer/ansible_collections/gb10/fleet/plugins/module_utils"
    assert not host.file(f"{utils}/_former").exists
    assert host.file(f"{utils}/_stores/peers/server.py").exists


@pytest.mark.parametrize("words", ["id", "'sh -c id'", "'/usr/local/lib/gb10-fleet/peer-serve; id'"])
def test_no_command_of_a_readers_own_runs(host: Host, words: str) -> None:
    on(host, "spark-2")
    reply = host.run(f"{SSH} gb10-peer@10.77.0.11 {words} </dev/null; echo status $?")
    assert "uid=" not in reply.stdout
    assert "Permission denied" not in reply.stderr


def test_the_key_is_of_no_use_from_another_address(host: Host) -> None:
    on(host, "spark-2")
    host.check_output("ip address replace 10.77.0.99/24 dev enP7s7")
    login = [host.run(f"{SSH} -b {own} gb10-peer@10.77.0.11 </dev/null; echo status $?") for own in ("10.77.0.99", OWN)]
    host.check_output("ip address del 10.77.0.99/24 dev enP7s7")
    assert [one.stdout for one in login] == ["status 255\n", "status 0\n"]
    assert "Permission denied" in login[0].stderr


def test_a_forwarded_port_is_refused(host: Host) -> None:
    on(host, "spark-2")
    # testinfra takes a status of 255 for its own connection's
    reply = host.run(f"{SSH} -W 127.0.0.1:22 gb10-peer@10.77.0.11 </dev/null; echo status $?")
    assert reply.stdout == "status 255\n"
    assert "administratively prohibited" in reply.stderr


# What somebody could do who made the program run code of his own.
TAKEN_OVER = r"""
import os, pathlib, signal, socket, subprocess, sys
done = []
def tries(what, act):
    try:
        act()
    except (OSError, ValueError, subprocess.SubprocessError):
        return
    done.append(what)
for path in PATHS:
    tries(f"read {path}", lambda: pathlib.Path(path).read_bytes())
for folder in ("/", "/etc", "/usr/local/lib", "/root", "/home", "/run", "/var/lib", "/boot"):
    tries(f"write {folder}", lambda: pathlib.Path(folder, "taken-over").write_text("x"))
tries("connect", lambda: socket.create_connection(("10.77.0.12", 22), 5))
tries("systemd", lambda: subprocess.run(["systemctl", "list-units"], check=True, capture_output=True))
tries("mount", lambda: subprocess.run(["mount", "-o", "remount,rw", "/"], check=True, capture_output=True))
for folder in ("", "/peer", "/peer/.ssh", "/images", "/overlays", "/evidence", "/recipes"):
    tries(f"write{folder}", lambda: pathlib.Path(f"/var/lib/gb10-fleet{folder}/taken-over").touch())
tries("setuid", lambda: os.setuid(1000))
tries("setgid", lambda: os.setgid(0))
tries("a socket of this host", lambda: socket.socket(socket.AF_UNIX).connect("/run/docker.sock"))
# A process that may as little as this one, as a container's may.
for part in ("environ", "root/etc/shadow", "root/etc/gb10-fleet/secrets/x"):
    for path in pathlib.Path("/proc").glob(f"[0-9]*/{part}"):
        tries(f"read {path}", lambda: path.read_bytes().index(b"of-another-process" if part == "environ" else b""))
# What a handle opens is found without a path, so that what hides paths doesn't hide it: who tries that is killed.
BY_HANDLE = "import ctypes; ctypes.CDLL(None).open_by_handle_at(0, ctypes.create_string_buffer(136), 0)"
if subprocess.run([sys.executable, "-c", BY_HANDLE]).returncode != -signal.SIGSYS:
    done.append("open by handle")
print(done)
"""
PATHS = [
    *("/etc/shadow", "/etc/ssh/ssh_host_ed25519_key", "/etc/gb10-fleet/secrets/x", "/etc/gb10-fleet/peer/id_ed25519"),
    *("/var/lib/docker/containers/x/config.v2.json", "/var/lib/docker/volumes/x"),
    *("/var/log/dpkg.log", "/home/nvidia/.bashrc", "/root/.bashrc", "/proc/1/environ", "/run/secret"),
]


def test_the_program_may_write_the_stores_and_nothing_else(host: Host) -> None:
    on(host, "titan")
    folder, names = "/usr/local/lib/gb10-fleet/peer", " ".join(PATHS)
    host.check_output("mkdir -p /etc/gb10-fleet/secrets /var/lib/gb10-fleet/evidence")
    host.check_output("mkdir -p /var/lib/docker/containers/x /var/lib/docker/volumes")
    host.check_output(f"for f in {names}; do test -e $f || echo x > $f; done")
    listens = "import socket, time; socket.socket(socket.AF_UNIX).bind('/run/docker.sock'); time.sleep(60)"
    bare = "systemd-run --collect --unit bare -p CapabilityBoundingSet= -E SECRET=of-another-process"
    host.check_output(f'{bare} python3 -c "{listens}"')
    host.check_output(f"cp -a {folder}/serve /root/serve.before")
    host.check_output(
        f"printf %%s %s > {folder}/serve", "#!/usr/bin/python3\n" + TAKEN_OVER.replace("PATHS", repr(PATHS))
    )
    seen = host.run("su gb10-peer -c 'sudo -n /usr/local/lib/gb10-fleet/peer-serve'")
    host.check_output(f"mv /root/serve.before {folder}/serve; rm -f /var/lib/gb10-fleet/recipes/taken-over")
    host.check_output("systemctl stop bare; rm -rf /run/docker.sock /var/lib/docker/containers /var/lib/docker/volumes")
    assert (seen.stdout, seen.stderr) == ("['write/recipes']\n", "")


def test_it_answers_a_reader(host: Host) -> None:
    on(host, "spark-2")
    ask = f'echo \'{{"image": "no:1", "digest": null}}\' | {SSH} gb10-peer@10.77.0.11'
    assert '"failed"' in host.check_output(ask)  # there is no Docker on titan
    answer = host.check_output(f"echo nonsense | {SSH} gb10-peer@10.77.0.11")
    assert answer == '{"failed": "the request is no JSON text"}'


def test_where_nobody_reads_there_is_no_account(host: Host) -> None:
    on(host, "spark-2")
    assert not host.user("gb10-peer").exists
    assert not host.file("/etc/sudoers.d/gb10-peer").exists
