# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people and disks do to a host that serves: it serves again by itself, or with one run of site.yml; where the
owner's own is in the way, site.yml names it, and one run after the owner took it away does. Harms that lie apart are
made together.

`-k` takes a part of them; `-s` shows the seconds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .conftest import Owner

UNIT = "gb10-service-tiny"
FILE = f"/etc/systemd/system/{UNIT}.service"
LIBRARY = "/usr/local/lib/gb10-fleet"
STATE = "/var/lib/gb10-fleet"
RUN = "/run/gb10-fleet"
RULES = "/etc/gb10-fleet/firewall.nft"
RANK = "/etc/gb10-fleet/services/tiny.json"
KEY = "/etc/gb10-fleet/secrets/tiny.key"
SYSCTL = "/etc/sysctl.d/99-zz-gb10-fleet.conf"
DAEMON = "/etc/docker/daemon.json"
LINK = f"{STATE}/hf/hub/models--gb10-lab--tiny/main/model.safetensors"
WEIGHTS = f"$(readlink -f {LINK})"
WHOLE = "test $(stat -c %s /srv/lab/tiny/model.safetensors) = $(stat -L -c %s " + WEIGHTS + ")"
HEALTH = "curl -sf -m 5 -o /dev/null http://127.0.0.1:8000/health"
SERVES = f"systemctl is-active {UNIT} | grep -qx active && {HEALTH}"
KILL = f"docker rm -f {UNIT}"
NAME = "gb10-lab/vllm-stand-in:0.32.0"
IMAGE = f"$(docker inspect --format '{{{{.Config.Image}}}}' {UNIT})"
STOP_DOCKER = "systemctl stop docker.service docker.socket"
PROXY_ENDS = "pkill -KILL -f 'docker-prox[y] .*-host-port 8000 '"
# Of every container and image, Docker's own files too.
EMPTY_DOCKER = f"{STOP_DOCKER}; umount -l $(grep -o '/var/lib/docker/[^ ]*' /proc/mounts); rm -rf /var/lib/docker/*"


@dataclass(frozen=True)
class Harm:
    """make: shell on the host. right: what of the host is right again, beside that it serves. harmed: holds as soon as
    it was made; empty: that is not right, or without it, that it does not serve. itself_s: right again by itself in
    that time; 0: by site.yml. named: what site.yml says of the owner's own that is in the way, which `typed` takes
    away. undo: what else is left of it at the end. power: it loses its power, too. group: harms of one name are made
    together, and one site.yml mends them all."""

    name: str
    make: str
    right: str = "true"
    harmed: str = ""
    itself_s: float = 0
    named: str = ""
    typed: str = ""
    undo: str = "true"
    power: bool = False
    group: str = ""

    @property
    def is_made(self) -> str:
        return self.harmed or (f"! {{ {SERVES}; }}" if self.right == "true" else f"! {{ {self.right}; }}")


HARMS = [
    # Docker
    Harm("docker-removed-but-for-its-client", "apt-get remove -y -q docker.io; rm -f /usr/sbin/dockerd",
         right="test -e /usr/sbin/dockerd"),
    Harm("docker-removed", "apt-get remove -y -q docker.io docker-cli"),
    Harm("docker-disabled", "systemctl disable --now docker.service docker.socket",
         right="systemctl is-enabled docker"),
    Harm("docker-disabled-and-the-power-lost", "systemctl disable docker.service docker.socket",
         right="systemctl is-enabled docker", power=True),
    Harm("docker-masked", f"{STOP_DOCKER}; systemctl mask docker.service",
         named="sudo systemctl unmask docker.service", typed="systemctl unmask docker.service"),
    Harm("docker-killed", "pidof dockerd > /root/was; systemctl kill -s KILL docker",
         # a process ends some time after its signal
         harmed="timeout 20 sh -c 'while kill -0 $(cat /root/was); do sleep 0.1; done'",
         right="timeout 5 docker version", itself_s=60),
    Harm("docker-frozen", "systemctl kill --kill-whom=main -s STOP docker", harmed="! timeout 5 docker version",
         right="timeout 5 docker version", named="systemctl restart docker", typed="systemctl restart docker"),
    Harm("docker-proxy-left-behind", "pkill -STOP docker-proxy; systemctl restart docker; docker rm -f $(docker ps -q)",
         harmed="pgrep docker-proxy", named=PROXY_ENDS, typed=PROXY_ENDS),
    Harm("docker-pruned", f"systemctl stop {UNIT}; docker system prune --all --force --volumes",
         right=f"docker image inspect {NAME}", group="d"),
    Harm("docker-emptied", EMPTY_DOCKER),
    Harm("docker-held-by-a-broken-package", f"{STOP_DOCKER}; apt-get remove -y -q docker.io; "
         "printf '#!/bin/sh\\nexit 1\\n' > /var/lib/dpkg/info/netplan.io.postinst; "
         "sed -i '/^Package: netplan.io$/,/^$/s/install ok installed/install ok unpacked/' /var/lib/dpkg/status",
         named="dpkg --configure -a",
         typed="printf '#!/bin/sh\\n' > /var/lib/dpkg/info/netplan.io.postinst; dpkg --configure -a"),
    Harm("docker-removed-while-apt-works", "apt-get remove -y -q docker.io; systemd-run --unit apt-works "
         "flock --fcntl /var/lib/dpkg/lock-frontend sleep 20", undo="systemctl stop apt-works"),
    Harm("daemon-json-half", f"head -c 40 {DAEMON} > /root/half; cp /root/half {DAEMON}",
         harmed=f"! python3 -m json.tool {DAEMON}", named=f"{DAEMON}: line", typed=f"rm {DAEMON}"),
    Harm("daemon-json-a-folder", f"rm -f {DAEMON}; mkdir {DAEMON}", harmed=f"test -d {DAEMON}",
         named=DAEMON, typed=f"rmdir {DAEMON}"),
    Harm("daemon-json-with-an-unknown-key", f"echo '{{\"lgo-level\": \"info\"}}' > {DAEMON}; systemctl restart docker",
         named="lgo-level", typed=f"rm {DAEMON}"),
    Harm("image-removed", f"{KILL}; docker image ls -q | xargs docker rmi -f; {KILL}",
         right=f"docker image inspect {NAME}", group="e"),
    Harm("image-untagged", f"docker rmi -f {IMAGE}; {KILL}", right=f"docker image inspect {NAME}", group="b"),
    Harm("another-image-of-the-same-name", f"docker commit --change 'LABEL a=b' {UNIT} {IMAGE}",
         right=f"test $(docker inspect --format '{{{{.Image}}}}' {UNIT}) = "
               f"$(docker image inspect --format '{{{{.Id}}}}' {NAME})"),
    # The container and its supervisor
    Harm("container-paused", f"docker pause {UNIT}", itself_s=200),
    Harm("container-stopped", f"docker stop {UNIT}", itself_s=60),
    Harm("container-renamed", f"docker rename {UNIT} somebody",
         right=f"docker inspect {UNIT} && ! docker inspect somebody",
         named="docker stop somebody", typed="docker stop somebody"),
    Harm("container-removed-until-the-budget-is-used-up",
         f"for i in 1 2 3 4 5 6 7 8; do {KILL}; sleep 6; done", harmed=f"systemctl is-failed {UNIT}"),
    Harm("supervisor-and-container-killed", f"systemctl kill -s KILL {UNIT}; {KILL}", itself_s=60),
    Harm("supervisor-killed-with-a-full-budget-and-restarted-by-its-owner",
         f"for i in 1 2; do {KILL}; timeout 60 sh -c 'until {HEALTH}; do sleep 1; done'; sleep 3; done; "
         # it may serve again before anybody looks
         f"systemctl kill -s KILL {UNIT}; sleep 1; systemctl restart {UNIT}", harmed="true", itself_s=60),
    Harm("folder-in-run-removed-and-all-killed",
         f"rm -rf {RUN}; systemctl kill -s KILL {UNIT}; {KILL}", right=f"test -e {RUN}/tiny/status.json", itself_s=60),
    Harm("no-room-in-run", f"mount -t tmpfs -o size=64k full {RUN}; cat /dev/zero > {RUN}/full; {KILL}",
         itself_s=60, undo=f"umount {RUN}"),
    Harm("evidence-a-file", f"rm -rf {STATE}/evidence; touch {STATE}/evidence; {KILL}", itself_s=60,
         undo=f"rm -rf {STATE}/evidence"),
    Harm("journal-full",
         "mount -t tmpfs -o size=4m full /var/log/journal; systemctl restart systemd-journald; "
         f"cat /dev/zero > /var/log/journal/full; {KILL}", itself_s=60,
         undo="umount /var/log/journal; systemctl restart systemd-journald"),
    Harm("programs-removed", f"rm -rf {LIBRARY}; systemctl kill -s KILL {UNIT}; {KILL}",
         right=f"test -e {LIBRARY}/rank-*/gb10_rank/supervise.py", group="c"),
    Harm("all-own-files-empty",
         f"for f in {LIBRARY}/rank-*/gb10_rank/*.py {LIBRARY}/*.py {RANK} {RULES} {KEY}; do : > $f; done; "
         f"systemctl restart {UNIT}", group="a"),
    Harm("rank-file-a-folder", f"rm {RANK}; mkdir {RANK}; touch {RANK}/x; systemctl restart {UNIT}",
         right=f"test -f {RANK}", group="b"),
    Harm("key-removed", f"rm {KEY}; {KILL}; sleep 20; {KILL}", right=f"test -s {KEY}", group="c"),
    Harm("key-of-another-owner", f"chown nobody {KEY}; chmod 644 {KEY}", right=f"test $(stat -c %U%a {KEY}) = root600",
         group="a"),
    # The unit
    Harm("unit-stopped-by-its-owner", f"systemctl stop {UNIT}", group="f"),
    Harm("unit-disabled-and-the-power-lost", f"systemctl disable {UNIT}", right=f"systemctl is-enabled {UNIT}",
         power=True),
    Harm("unit-empty", f": > {FILE}; systemctl daemon-reload; systemctl restart {UNIT}",
         right=f"test -s {FILE}", group="c"),
    Harm("unit-masked", f"systemctl stop {UNIT}; systemctl mask {UNIT}; ln -sf /dev/null {FILE}; "
         "systemctl daemon-reload", right=f"test -f {FILE} -a ! -L {FILE}", group="b"),
    Harm("unit-a-link-to-nowhere", f"ln -sf /nowhere {FILE}; systemctl daemon-reload; systemctl restart {UNIT}",
         right=f"test -f {FILE} -a ! -L {FILE}", group="e"),
    Harm("unit-with-a-failing-drop-in",
         f"mkdir -p {FILE}.d; printf '[Service]\\nExecStartPre=/bin/false\\n' > {FILE}.d/mine.conf; "
         f"systemctl daemon-reload; systemctl restart {UNIT}",
         named=f"{FILE}.d/mine.conf", typed=f"rm -r {FILE}.d; systemctl daemon-reload"),
    Harm("port-taken-by-another-container",
         f"systemctl stop {UNIT}; docker run -d --name squatter -p 8000:8000 --entrypoint sleep "
         f"$(docker image ls -q | head -1) 3600; systemctl start {UNIT}",
         named="container squatter", typed="docker rm -f squatter"),
    # Folders and files of ours
    Harm("config-and-units-removed", f"rm -rf /etc/gb10-fleet {FILE} /etc/systemd/system/*/{UNIT}.service; "
         f"systemctl daemon-reload; {KILL}", right=f"test -e {RULES} -a -e {FILE}", group="d"),
    Harm("state-removed", f"rm -rf {STATE}", right=f"test -e {LINK}", group="d"),
    Harm("state-moved-to-another-disk", f"systemctl stop {UNIT}; mv {STATE} /srv/state; ln -s /srv/state {STATE}",
         right=f"test -e {LINK}", harmed=f"test -L {STATE}",
         undo=f"systemctl stop {UNIT}; rm {STATE} && mv /srv/state {STATE}"),
    Harm("etc-read-only", f"rm {RULES}; mount --bind /etc /etc; mount -o remount,ro,bind /etc",
         right=f"test -e {RULES}", named="Read-only file system", typed="umount /etc"),
    Harm("home-full", f"rm {RULES}; mount -t tmpfs -o size=64k,mode=777 full /home/nvidia/.ansible "
         "|| { mkdir /home/nvidia/.ansible; mount -t tmpfs -o size=64k,mode=777 full /home/nvidia/.ansible; }; "
         "cat /dev/zero > /home/nvidia/.ansible/full", right=f"test -e {RULES}",
         undo="umount /home/nvidia/.ansible"),
    Harm("records-empty", f"for f in $(find {STATE}/images {STATE}/models -name '*.json'); do : > $f; done",
         right=f"! find {STATE}/images {STATE}/models -name '*.json' -size 0 | grep -q .", group="a"),
    Harm("snapshot-links-removed", f"rm -rf {STATE}/hf/hub/*/snapshots; systemctl restart {UNIT}",
         right=f"test -e {LINK}", group="b"),
    Harm("main-link-removed", f"rm {STATE}/hf/hub/*/main", right=f"test -e {LINK}", group="e"),
    Harm("weights-cut-and-started-from", f"truncate -s 1000 {WEIGHTS}; systemctl restart {UNIT}; sleep 10",
         right=f"{WHOLE} && test {RUN}/tiny/started -nt {WEIGHTS}", group="c"),
    Harm("weights-another-byte-and-time",
         f"printf X | dd of={WEIGHTS} bs=1 seek=3000 conv=notrunc; systemctl restart {UNIT}",
         right=f"cmp {WEIGHTS} /srv/lab/tiny/model.safetensors && test {RUN}/tiny/started -nt {WEIGHTS}",
         group="a"),
    Harm("rules-not-utf-8", f"printf '\\377' >> {RULES}", right=f"iconv -f utf-8 {RULES}", group="b"),
    Harm("rules-flushed", f"nft flush ruleset; {KILL}",
         right="nft list table inet gb10_fleet && iptables -t nat -S DOCKER"),
    Harm("sysctl-file-a-link-to-null", f"rm {SYSCTL}; ln -s /dev/null {SYSCTL}; sysctl -w vm.swappiness=60",
         right=f"test $(sysctl -n vm.swappiness) != 60 -a -f {SYSCTL} -a ! -L {SYSCTL}",
         group="a"),
]  # fmt: skip


GROUPS = {
    harm.group or harm.name.replace(" ", "-"): [one for one in HARMS if one is harm or (harm.group == one.group != "")]
    for harm in HARMS
}


@pytest.mark.parametrize("harms", GROUPS.values(), ids=GROUPS)
def test_it_serves_again(owner: Owner, harms: list[Harm]) -> None:
    right = f"{{ {SERVES} && {' && '.join(f'{{ {harm.right}; }}' for harm in harms)}; }} >/dev/null 2>&1"
    try:
        begin_right(owner, right)
        harm_and_mend(owner, harms, right)
    except AssertionError:
        print(f"wrong: {[*wrong(owner, harms)]}")
        print(owner.fleet.root("titan", f"journalctl --no-pager -n 60 -u docker -u docker.socket -u {UNIT}"))
        raise
    finally:
        owner.root("; ".join(part for harm in harms for part in (harm.typed, harm.undo) if part))


def wrong(owner: Owner, harms: list[Harm]) -> Iterator[str]:
    """What of it is not right now."""
    for name, right in (("serving", SERVES), *((harm.name, harm.right) for harm in harms)):
        if not owner.fleet.ok("titan", f"{{ {right}; }} >/dev/null 2>&1"):
            yield name


def begin_right(owner: Owner, right: str) -> None:
    """Also with every start of its budget: those that other harms used up count for half an hour."""
    owner.root(f"systemctl restart {UNIT}")
    if not owner.becomes(right, 20):
        owner.converge()
    # not while it loads, which may take much longer to be found dead
    assert owner.becomes(f'{{ {right} && grep -q \'"state": "serving"\' {RUN}/tiny/status.json; }}')


def harm_and_mend(owner: Owner, harms: list[Harm], right: str) -> None:
    began = time.monotonic()
    names = ", ".join(harm.name for harm in harms)
    for harm in harms:
        owner.root(harm.make)
        if harm.power:
            owner.fleet.lab("power", "cycle", "titan")
        assert owner.fleet.ok("titan", f"{{ {harm.is_made}; }} >/dev/null 2>&1"), f"{harm.name} harms nothing"
    [first, *_] = harms
    if first.itself_s:
        assert owner.becomes(right, first.itself_s), f"not by itself in {first.itself_s} s"
        print(f"\n{names}: right again by itself {time.monotonic() - began:.0f} s after the harm began")
        return
    if first.named:
        done = owner.play()
        assert done.returncode and first.named in done.stdout, done.stdout[-6000:]
        owner.root(first.typed)
    run_began = time.monotonic()
    text = owner.converge()
    ran = time.monotonic() - run_began
    assert owner.becomes(right), text[-6000:]
    changes = re.search(r"changed=(\d+)", text)
    print(
        f"\n{names}: right again with one site.yml of {ran:.0f} s, {time.monotonic() - began:.0f} s after the harm "
        f"began, changed={changes[1] if changes else '?'}"
    )
