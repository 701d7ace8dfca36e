# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people and disks do to a host that serves: it serves again by itself, or with one run of site.yml; where the
owner's own is in the way, site.yml names it, and one run after the owner took it away does.

Numbers in brackets are of the review that found the harm first. `-k` takes a part of them; `-s` shows the seconds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from .conftest import Owner

UNIT = "gb10-service-tiny"
FILE = f"/etc/systemd/system/{UNIT}.service"
LIBRARY = "/usr/local/lib/gb10-fleet"
STATE = "/var/lib/gb10-fleet"
RULES = "/etc/gb10-fleet/firewall.nft"
RANK = "/etc/gb10-fleet/services/tiny.json"
KEY = "/etc/gb10-fleet/secrets/tiny.key"
SYSCTL = "/etc/sysctl.d/99-zz-gb10-fleet.conf"
DAEMON = "/etc/docker/daemon.json"
WEIGHTS = f"$(readlink -f {STATE}/hf/hub/models--gb10-lab--tiny/main/model.safetensors)"
WHOLE = "test $(stat -c %s /srv/lab/tiny/model.safetensors) = $(stat -L -c %s " + WEIGHTS + ")"
SERVES = f"systemctl is-active {UNIT} | grep -qx active && curl -sf -m 5 -o /dev/null http://127.0.0.1:8000/health"
KILL = f"docker rm -f {UNIT}"
IMAGE = f"$(docker inspect --format '{{{{.Config.Image}}}}' {UNIT})"


@dataclass(frozen=True)
class Harm:
    """make: shell on the host. right: what of the host is right again, beside that it serves. itself_s: by itself in
    that time; 0: by site.yml. named: what site.yml says of the owner's own that is in the way, which `typed` takes
    away. power: it loses its power, too."""

    name: str
    make: str
    right: str = "true"
    itself_s: float = 0
    named: str = ""
    typed: str = ""
    power: bool = False


HARMS = [
    # Docker
    Harm("docker-removed-but-for-its-client (W5)", "apt-get remove -y -q docker.io; rm -f /usr/sbin/dockerd",
         right="test -e /usr/bin/docker"),
    Harm("docker-removed (G16)", "apt-get remove -y -q docker.io docker-cli"),
    Harm("docker-disabled", "systemctl disable --now docker.service docker.socket",
         right="systemctl is-enabled docker"),
    Harm("docker-disabled-and-the-power-lost", "systemctl disable docker.service docker.socket",
         right="systemctl is-enabled docker", power=True),
    Harm("docker-masked", "systemctl stop docker.service docker.socket; systemctl mask docker.service",
         named="sudo systemctl unmask docker.service", typed="systemctl unmask docker.service"),
    Harm("docker-killed", "systemctl kill -s KILL docker", itself_s=60),
    Harm("daemon-json-half (Z8)", f"head -c 40 {DAEMON} > /root/half; cp /root/half {DAEMON}",
         named=f"{DAEMON}: line", typed=f"rm {DAEMON}"),
    Harm("daemon-json-a-folder", f"rm -f {DAEMON}; mkdir {DAEMON}", named=DAEMON, typed=f"rmdir {DAEMON}"),
    Harm("image-removed", f"docker image ls -q | xargs docker rmi -f; {KILL}"),
    Harm("image-untagged (Z12)", f"docker rmi -f {IMAGE}; {KILL}"),
    Harm("another-image-of-the-same-name (S6)", f"docker commit --change 'LABEL a=b' {UNIT} {IMAGE}",
         right=f"test $(docker inspect --format '{{{{.Image}}}}' {UNIT}) = "
               f"$(docker image inspect --format '{{{{.Id}}}}' {IMAGE})"),
    # The container and its supervisor
    Harm("container-paused (S2)", f"docker pause {UNIT}", itself_s=200),
    Harm("container-renamed", f"docker rename {UNIT} somebody",
         right=f"docker inspect {UNIT} && ! docker inspect somebody",
         named="docker stop somebody", typed="docker stop somebody"),
    Harm("container-removed-until-the-budget-is-used-up (S3)",
         f"for i in 1 2 3 4 5 6; do {KILL}; sleep 6; done"),
    Harm("folder-in-run-removed-and-all-killed (S1)",
         f"rm -rf /run/gb10-fleet; systemctl kill -s KILL {UNIT}; {KILL}", itself_s=60),
    Harm("journal-full (S7)",
         "mount -t tmpfs -o size=4m full /var/log/journal; systemctl restart systemd-journald; "
         f"cat /dev/zero > /var/log/journal/full; {KILL}", itself_s=60),
    Harm("programs-removed", f"rm -rf {LIBRARY}; systemctl kill -s KILL {UNIT}; {KILL}"),
    Harm("all-own-files-empty (Z6)",
         f"for f in {LIBRARY}/gb10_rank/*.py {LIBRARY}/*.py {RANK} {RULES} {KEY}; do : > $f; done; "
         f"systemctl restart {UNIT}"),
    Harm("rank-file-a-folder", f"rm {RANK}; mkdir {RANK}; touch {RANK}/x; systemctl restart {UNIT}"),
    Harm("key-removed (S5)", f"rm {KEY}; {KILL}; sleep 20; {KILL}"),
    Harm("key-of-another-owner", f"chown nobody {KEY}; chmod 644 {KEY}", right=f"test $(stat -c %U%a {KEY}) = root600"),
    # The unit
    Harm("unit-empty (Z7)", f": > {FILE}; systemctl daemon-reload; systemctl restart {UNIT}"),
    Harm("unit-masked (Z7)", f"systemctl stop {UNIT}; systemctl mask {UNIT}; ln -sf /dev/null {FILE}"),
    Harm("unit-a-link-to-nowhere", f"ln -sf /nowhere {FILE}; systemctl daemon-reload; systemctl restart {UNIT}"),
    Harm("unit-with-a-failing-drop-in",
         f"mkdir -p {FILE}.d; printf '[Service]\\nExecStartPre=/bin/false\\n' > {FILE}.d/mine.conf; "
         f"systemctl daemon-reload; systemctl restart {UNIT}",
         named=f"{FILE}.d/mine.conf", typed=f"rm -r {FILE}.d; systemctl daemon-reload"),
    Harm("port-taken-by-another-container",
         f"systemctl stop {UNIT}; docker run -d --name squatter -p 8000:8000 --entrypoint sleep "
         f"$(docker image ls -q | head -1) 3600; systemctl start {UNIT}",
         named="container squatter", typed="docker rm -f squatter"),
    # Folders and files of ours
    Harm("config-and-units-removed", f"rm -rf /etc/gb10-fleet {FILE} /etc/systemd/system/*/{UNIT}.service"),
    Harm("state-removed", f"rm -rf {STATE}"),
    Harm("records-empty (Z1, Z3)", f"for f in $(find {STATE}/images {STATE}/models -name '*.json'); do : > $f; done",
         right=f"! find {STATE}/images {STATE}/models -name '*.json' -size 0 | grep -q ."),
    Harm("snapshot-links-removed", f"rm -rf {STATE}/hf/hub/*/snapshots; systemctl restart {UNIT}",
         right=f"test -e {WEIGHTS}"),
    Harm("weights-cut-and-started-from (S6, T5)", f"truncate -s 1000 {WEIGHTS}; systemctl restart {UNIT}; sleep 10",
         right=f"{WHOLE} && test /run/gb10-fleet/tiny/started -nt {WEIGHTS}"),
    Harm("weights-another-byte-and-time (T5)",
         f"printf X | dd of={WEIGHTS} bs=1 seek=3000 conv=notrunc; systemctl restart {UNIT}",
         right=f"cmp {WEIGHTS} /srv/lab/tiny/model.safetensors && test /run/gb10-fleet/tiny/started -nt {WEIGHTS}"),
    Harm("rules-not-utf-8 (Z9)", f"printf '\\377' >> {RULES}", right=f"iconv -f utf-8 {RULES}"),
    Harm("sysctl-file-a-link-to-null", f"rm {SYSCTL}; ln -s /dev/null {SYSCTL}; sysctl -w vm.swappiness=60",
         right=f"test $(sysctl -n vm.swappiness) != 60 -a -f {SYSCTL} -a ! -L {SYSCTL}"),
]  # fmt: skip


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.name.replace(" ", "-"))
def test_it_serves_again(owner: Owner, harm: Harm) -> None:
    if not owner.fleet.ok("titan", SERVES):
        owner.converge()
    right = f"{{ {SERVES} && {harm.right}; }} >/dev/null 2>&1"
    assert owner.seconds_until(right) is not None
    try:
        harm_and_mend(owner, harm, right)
    finally:
        owner.root(harm.typed or "true")


def harm_and_mend(owner: Owner, harm: Harm, right: str) -> None:
    owner.root(harm.make)
    if harm.power:
        owner.fleet.lab("power", "cycle", "titan")
    began = time.monotonic()
    if harm.itself_s:
        seconds = owner.seconds_until(right, harm.itself_s)
        assert seconds is not None, f"not by itself in {harm.itself_s} s"
        print(f"\n{harm.name}: right again by itself after {seconds:.0f} s")
        return
    assert not owner.fleet.ok("titan", right), "this harms nothing"
    if harm.named:
        done = owner.play()
        text = done.stdout + done.stderr
        assert done.returncode and harm.named in text, text[-6000:]
        owner.root(harm.typed)
    text = owner.converge()
    ran = time.monotonic() - began
    seconds = owner.seconds_until(right)
    assert seconds is not None, text[-6000:]
    print(f"\n{harm.name}: right again with one site.yml, {ran + seconds:.0f} s after the harm")
