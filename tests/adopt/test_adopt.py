# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pair that somebody else's script set up is declared while it serves: read, declared, and planned."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cluster.bare import HOSTS, two_hosts
from lab.fixtures import Fleet, eventually
from lab.test_init import THEIRS, play
from lab.vllm import images

PASSWORD = ("--become-password-file", "password")
COMMIT = "1d4bf0f9f2c34c7d8f0a6b5c4d3e2f1a0b9c8d7e"
MODEL = f"hub/models--lab--tiny/snapshots/{COMMIT}"
IMAGE = f"gb10-lab/{images.STAND_IN.name}:{images.STAND_IN.version}"
KEY, TOKEN = "sk-canary-of-theirs-71aa", "hf_canaryOfTheirs52bb"
# As such scripts do: a container that sleeps, and the server by exec, with addresses and a token of their own.
SCRIPT = """\
mkdir -p /home/nvidia/hf/%(model)s /home/nvidia/hf/hub/models--lab--tiny/refs
cp -r /srv/lab/tiny/. /home/nvidia/hf/%(model)s/
echo -n %(commit)s > /home/nvidia/hf/hub/models--lab--tiny/refs/main
docker load --quiet --input /srv/lab/%(archive)s
"""
START = """\
docker run --detach --rm --name vllm_node --network host --ipc host --ulimit memlock=-1 --entrypoint sleep \\
  --env HF_TOKEN=%(token)s --env VLLM_HOST_IP=192.168.177.%(own)d --env NCCL_SOCKET_IFNAME=enp1s0f1np1 \\
  --volume /home/nvidia/hf:/root/.cache/huggingface %(image)s infinity
docker exec --detach vllm_node vllm serve /root/.cache/huggingface/%(model)s \\
  --served-model-name tiny --max-model-len 2048 \\
  --tensor-parallel-size 2 --nnodes 2 --node-rank %(rank)d --master-addr 192.168.177.11 --master-port 29501 %(more)s
"""
LOOK = "find /etc /home/nvidia -newer /root/before -type f ! -name .sudo_as_admin_successful; "  # sudo's own
LOOK += "docker ps -q --no-trunc; ip -4 -o address; ls /etc/systemd/system"

# What is the cables' and the host's; Docker has a bridge of its own, which comes and goes with its containers.
NETWORK = "ls -l --time-style=full-iso /etc/netplan; cksum /run/systemd/network/*; ip -4 -o address; ip -o link; "
NETWORK += "sysctl -a 2>/dev/null | grep -E 'arp_(ignore|announce)|rp_filter'"
PATIENCE_S = 900


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two hosts with a network and a server that others made."""
    with two_hosts(images.STAND_IN, Path(tmp_path_factory.mktemp("adopt"))) as (fleet, image):
        assert image == IMAGE
        words = {"model": MODEL, "commit": COMMIT, "archive": f"{images.STAND_IN.name}-{images.STAND_IN.version}.tar"}
        for rank, host in enumerate(HOSTS):
            file = "/etc/netplan/50-theirs.yaml"
            fleet.root(host, f"umask 77; cat > {file} <<'E'\n{THEIRS % {'n': 11 + rank}}E\nnetplan apply")
            fleet.root(host, SCRIPT % words)
        start(fleet)
        eventually(lambda: answers(fleet, KEY), "theirs serves")
        yield fleet


def start(fleet: Fleet) -> None:
    """As their script does, on each host."""
    for rank, host in enumerate(HOSTS):
        of_rank = f"--api-key {KEY} --port 8000" if rank == 0 else "--headless"
        words = {"model": MODEL, "token": TOKEN, "image": IMAGE, "own": 11 + rank, "rank": rank, "more": of_rank}
        fleet.root(host, START % words)


def answers(fleet: Fleet, key: str) -> bool:
    asked = f"curl -sf -m 5 -H 'Authorization: Bearer {key}' http://127.0.0.1:8000/v1/models"
    return '"tiny"' in fleet.root(HOSTS[0], asked, check=False)


@pytest.fixture(scope="module")
def mine(theirs: Fleet, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which init was called, and its screen."""
    folder = tmp_path_factory.mktemp("owner")
    for host in HOSTS:
        theirs.root(host, "touch /root/before")
    before = {host: theirs.root(host, LOOK) for host in HOSTS}
    words = ("-i", "localhost,", "gb10.fleet.init", "-e", f"host={','.join(HOSTS)}", "-e", "adopt=true")
    screen = play(theirs, folder, *words, *PASSWORD)
    assert {host: theirs.root(host, LOOK) for host in HOSTS} == before
    assert answers(theirs, KEY)
    return folder, screen


def test_what_serves_is_declared_and_no_secret_left_its_host(mine: tuple[Path, str]) -> None:
    folder, screen = mine
    declared = yaml.safe_load((folder / "mine/group_vars/all/fleet.yml").read_text())
    assert declared["fleet_fabric"]["keeper"] == "others"
    service = declared["fleet_services"]["tiny"]
    source = "/home/nvidia/hf/hub/models--lab--tiny"
    assert service["hosts"] == [*HOSTS] and service["port"] == 8000 and service["served_name"] == "tiny"
    assert service["model"] == {"revision": COMMIT, "source": {"path": source}}
    assert service["workload"] == {"max_model_len": 2048}
    assert "sudo docker stop vllm_node" in screen
    recipe = yaml.safe_load((folder / "mine/recipes/tiny.yml").read_text())
    assert recipe["image"]["release"] == images.STAND_IN.version  # as the server says
    texts = [screen, *(file.read_text() for file in (folder / "mine").rglob("*.yml"))]
    assert [text for text in texts if KEY in text or TOKEN in text] == []


def test_a_check_shows_the_whole_change_while_theirs_serves(theirs: Fleet, mine: tuple[Path, str]) -> None:
    folder, _screen = mine
    plan = play(theirs, folder, "-i", "mine/hosts.yml", "gb10.fleet.plan", *PASSWORD)
    assert "tiny" in plan
    check = play(theirs, folder, "-i", "mine/hosts.yml", "gb10.fleet.site", "--check", "--diff", *PASSWORD, status=2)
    print(check)
    assert "port 8000 is taken by the container vllm_node" in " ".join(check.split())
    changed = "".join(re.findall(r"^[+-].*$", check, re.MULTILINE))
    assert "gb10-service-tiny" in changed
    assert not re.search(r"netplan|40-cx7|arp_ignore", changed), check
    assert answers(theirs, KEY)


def network(fleet: Fleet) -> set[str]:
    rows = {f"{host}: {row}" for host in HOSTS for row in fleet.root(host, NETWORK).splitlines()}
    return {row for row in rows if "docker" not in row}


def responses(fleet: Fleet, ended: threading.Event, times: list[float]) -> None:
    """When something on the port has answered, whoever it is."""
    deadline = time.monotonic() + PATIENCE_S
    while not ended.wait(0.5) and time.monotonic() < deadline:
        if fleet.ok(HOSTS[0], "curl -s -o /dev/null -m 5 http://127.0.0.1:8000/health"):
            times.append(time.monotonic())


def test_the_pair_goes_over_and_its_network_stays(theirs: Fleet, mine: tuple[Path, str]) -> None:
    folder, _screen = mine
    on_mine = ("-i", "mine/hosts.yml")
    before = network(theirs)
    print(play(theirs, folder, *on_mine, "gb10.fleet.stage", *PASSWORD))
    assert answers(theirs, KEY)
    ended, times = threading.Event(), list[float]()
    watch = threading.Thread(target=responses, args=(theirs, ended, times), daemon=True)
    watch.start()
    try:
        for host in HOSTS:
            theirs.root(host, "docker stop vllm_node")
        print(play(theirs, folder, *on_mine, "gb10.fleet.site", *PASSWORD))
    finally:
        ended.set()
        watch.join(timeout=30)
    assert answers(theirs, (folder / "mine/.fleet/keys/tiny.key").read_text().strip())
    print(f"no answer for {max(later - one for one, later in itertools.pairwise(times)):.0f} s")
    assert sorted(network(theirs) ^ before) == []


def test_what_went_over_is_ours_and_can_go_back(theirs: Fleet, mine: tuple[Path, str]) -> None:
    folder, _screen = mine
    on_mine, before = ("-i", "mine/hosts.yml"), network(theirs)
    print(play(theirs, folder, *on_mine, "gb10.fleet.drift", *PASSWORD))
    again = play(theirs, folder, *on_mine, "gb10.fleet.site", *PASSWORD)
    assert [*map(int, re.findall(r"changed=(\d+)", again))] == [0, 0], again
    file = folder / "mine/group_vars/all/fleet.yml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "fleet_services": {}}))
    play(theirs, folder, *on_mine, "gb10.fleet.site", "-e", "retire=tiny", *PASSWORD)
    for host in HOSTS:
        assert "gb10-service" not in theirs.root(host, "docker ps --format '{{.Names}}'")
    assert sorted(network(theirs) ^ before) == []
    start(theirs)
    eventually(lambda: answers(theirs, KEY), "theirs serves again")
