# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group of two whose adapters leave with the cable, as on DGX OS with hot-plug: what its owner reads and does.

With stand-ins for vLLM and for perftest, which sends what the lab's hot-plug leaves of a link.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fabric.fleet import FabricFleet
from lab.fixtures import need_lab
from lab.vllm import images

from .bare import HOSTS
from .pair import Pair, declared

pytestmark = pytest.mark.whole
CABLE_OUT_S = 60
PATIENCE_S = 400
DEVICES = ["rocep1s0f1", "roceP2p1s0f1"]
RAIL = "enp1s0f1np1"
BOTH = ("--limit", ",".join(HOSTS))
GONE = "the adapter is switched off, since hot-plug sees no cable"
REMEDY = "restart the machines at both ends at the same time"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    need_lab()
    folder = images.default_directory()
    images.ensure_model("tiny", folder)
    images.ensure_image(images.STAND_IN, folder)
    fleet = FabricFleet(Path(tmp_path_factory.mktemp("pair")) / "lab")
    fleet.up(HOSTS, ["spark-2:1=spark-3:1"], "--hotplug", "--share", f"{folder}:/srv/lab")
    try:
        made = Pair(fleet, declared())
        assert made.playbook("cluster-tp2.yml").returncode == 0, made.outputs[-1][-3000:]
        give_verbs(made)
        yield made
    finally:
        fleet.lab("down")


def until(true: object, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"not after {PATIENCE_S} s: {what}"
        time.sleep(1)


def give_verbs(pair: Pair) -> None:
    for host in HOSTS:
        pair.fleet.stand_in_for_verbs(host, DEVICES)  # type: ignore[attr-defined]


def has_rail(pair: Pair, host: str) -> bool:
    return pair.fleet.ok(host, f"test -e /sys/class/net/{RAIL} -a -e /sys/class/infiniband/{DEVICES[0]}")


def error(pair: Pair, host: str) -> str:
    return str(pair.status(host)["error"])


def verify(pair: Pair, bandwidth: str = "changed") -> subprocess.CompletedProcess[str]:
    how = (f"fabric_verify_bandwidth={bandwidth}", "fabric_verify_seconds=1")
    return pair.playbook("verify.yml", *BOTH, *(word for one in how for word in ("--extra-vars", one)))


def slow(text: str) -> set[str]:
    """The hosts that are called slow, as `fabric-degraded`."""
    lines = [line for line in text.splitlines() if "[fabric-degraded]" in line and "13." in line]
    return {host for host in HOSTS if any(re.search(rf"\b{host}: ", line) for line in lines)}


def drifted(pair: Pair, rule: str) -> set[str]:
    """The hosts that a drift check names under a rule."""
    text = pair.playbook("drift.yml", *BOTH, "--extra-vars", "drift_format=json").stdout
    report = json.JSONDecoder().raw_decode(text, text.index("{\n"))[0]
    return {one["host"] for one in report["findings"] if one["rule"] == rule}


def serves(pair: Pair) -> bool:
    return pair.ask(pair.key)[0] == 200


def restart_both(pair: Pair) -> None:
    """The remedy as it is documented."""
    for action in ("off", "on"):
        for host in HOSTS:
            pair.fleet.lab("power", action, host)
    until(lambda: all(has_rail(pair, host) for host in HOSTS), "both adapters are there")
    give_verbs(pair)


def is_good_again(pair: Pair) -> None:
    until(lambda: serves(pair), "the group is back after the remedy")
    done = verify(pair, "always")
    assert done.returncode == 0, done.stdout[-3000:]
    assert drifted(pair, "fabric-degraded") == drifted(pair, "fabric-replugged") == set()


def test_before_it_all_is_good(pair: Pair) -> None:
    assert serves(pair)
    is_good_again(pair)


def test_while_the_cable_is_out_each_host_names_cause_and_remedy(pair: Pair) -> None:
    out = time.monotonic()
    pair.fleet.lab("cable", "pull", "spark-2:1")
    for host in HOSTS:
        until(lambda host=host: GONE in error(pair, host) and REMEDY in error(pair, host), f"{host} names its adapter")
    print(f"\ncable out: both hosts name it after {time.monotonic() - out:.0f} s:", error(pair, HOSTS[0]))
    shown = pair.playbook("status.yml", *BOTH).stdout
    assert GONE in shown and REMEDY in shown
    time.sleep(max(0.0, out + CABLE_OUT_S - time.monotonic()))


def test_the_cable_is_back_and_13_gbps_are_never_called_good(pair: Pair) -> None:
    pair.fleet.lab("cable", "plug", "spark-2:1")
    until(lambda: all(has_rail(pair, host) for host in HOSTS), "both adapters are back")
    give_verbs(pair)
    until(lambda: serves(pair), "the group serves over the slow link")
    assert drifted(pair, "fabric-replugged") == set(HOSTS)
    measured = verify(pair)
    assert (measured.returncode != 0, slow(measured.stdout)) == (True, set(HOSTS))
    assert (verify(pair, "never").returncode != 0, slow(pair.outputs[-1])) == (True, set(HOSTS))
    assert drifted(pair, "fabric-degraded") == set(HOSTS)


def test_after_both_were_restarted_the_group_serves_and_the_link_is_good(pair: Pair) -> None:
    restart_both(pair)
    is_good_again(pair)


def test_a_peer_without_power_takes_the_survivors_adapter_with_it(pair: Pair) -> None:
    pair.fleet.lab("power", "off", "spark-3")
    until(lambda: not has_rail(pair, "spark-2"), "the survivor's adapter is gone")
    until(lambda: GONE in error(pair, "spark-2"), "the survivor names it")
    assert REMEDY in error(pair, "spark-2")
    pair.fleet.lab("power", "on", "spark-3")
    until(lambda: all(has_rail(pair, host) for host in HOSTS), "both adapters are back")
    give_verbs(pair)
    assert slow(verify(pair).stdout) >= {"spark-2"}
    restart_both(pair)
    is_good_again(pair)
