# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings of the real tools' output: ip and ping of a lab host, ibv_devices there and on a machine with Soft-RoCE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric import reading

IP = """[{"ifindex":5,"link_index":7,"ifname":"enp1s0f1np1","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],
"mtu":9000,"qdisc":"noqueue","operstate":"UP","group":"default","txqlen":1000,"link_type":"ether","address":"02:c7:00:01:00:00",
"broadcast":"ff:ff:ff:ff:ff:ff","link_netnsid":0,"addr_info":[{"family":"inet","local":"192.168.100.10","prefixlen":24,
"broadcast":"192.168.100.255","scope":"global","label":"enp1s0f1np1","valid_life_time":4294967295,
"preferred_life_time":4294967295},{"family":"inet6","local":"fe80::c7:ff:fe01:0","prefixlen":64,"scope":"link"}]}]"""

LOST = """PING 192.168.100.11 (192.168.100.11) from 192.168.100.10 enp1s0f1np1: 8972(9000) bytes of data.

--- 192.168.100.11 ping statistics ---
3 packets transmitted, 0 received, 100% packet loss, time 408ms
"""
TOO_LARGE = "ping: local error: message too long, mtu=1500\n"
DEVICES = """    device          \t   node GUID
    ------          \t----------------
    rocep1s0f1      \t28658ffffe6db77f
"""


def answering(code: int, out: str = "", err: str = "") -> Callable[[list[str]], tuple[int, str, str]]:
    return lambda _command: (code, out, err)


def test_a_link_is_read() -> None:
    links = reading.read_links(answering(0, IP), ["enp1s0f1np1", "enP2p1s0f1np1"])
    assert set(links) == {"enp1s0f1np1"}
    link = links["enp1s0f1np1"]
    assert (link["mac"], link["mtu"], link["up"], link["carrier"]) == ("02:c7:00:01:00:00", 9000, True, True)
    assert link["addresses"] == ["192.168.100.10/24"]


def test_a_port_that_no_plan_names_is_read_and_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its MAC address the host is known to which a cable was moved."""
    monkeypatch.setattr(reading, "ask", lambda *_words: {})
    found = reading._asked(answering(0, IP), {"fabric": {"peers": {}, "candidates": ["10.0.0.1"], "devices": []}})
    assert [*found["links"]] == ["enp1s0f1np1"] and found["asked"] == {}


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (answering(0, "3 packets transmitted, 3 received"), ""),
        (answering(1, LOST), "3 packets transmitted, 0 received, 100% packet loss, time 408ms"),
        (answering(1, "", TOO_LARGE), "ping: local error: message too long, mtu=1500"),
        (answering(2), "no answer"),
    ],
)
def test_a_ping_is_read(outcome: Callable[[list[str]], tuple[int, str, str]], message: str) -> None:
    assert reading._ping(outcome, "enp1s0f1np1", "192.168.100.11", 9000) == message


def test_the_packet_fills_the_mtu() -> None:
    asked: list[list[str]] = []

    def ping(command: list[str]) -> tuple[int, str, str]:
        asked.append(command)
        return 0, "", ""

    reading._ping(ping, "enp1s0f1np1", "192.168.100.11", 9000)
    words = " ".join(asked[0])
    assert "-M do" in words
    assert "-s 8972" in words
    assert "-I enp1s0f1np1" in words


def test_whether_rdma_can_be_used_is_read() -> None:
    assert reading.verbs(answering(0, DEVICES)) == (True, "")
    lab = "Failed to get IB devices list: Function not implemented"
    assert reading.verbs(answering(1, "", f"{lab}\n")) == (False, lab)
    assert reading.verbs(answering(0, "".join(DEVICES.splitlines(keepends=True)[:2])))[0] is False

    def missing(_command: list[str]) -> tuple[int, str, str]:
        raise FileNotFoundError

    assert reading.verbs(missing) == (False, "ibv_devices is not installed")


def test_a_device_is_read_with_its_counters_in_bytes(tmp_path: Path) -> None:
    port = tmp_path / "rocep1s0f1/ports/1"
    for name, text in (("state", "4: ACTIVE"), ("link_layer", "Ethernet"), ("rate", "200 Gb/sec (4X HDR)")):
        (port / name).parent.mkdir(parents=True, exist_ok=True)
        (port / name).write_text(f"{text}\n")
    assert reading.counters("rocep1s0f1", tmp_path) == {"xmit": None, "rcv": None}
    (port / "counters").mkdir()
    for way, words in (("xmit", 250), ("rcv", 3)):
        (port / f"counters/port_{way}_data").write_text(f"{words}\n")
    (device,) = reading.read_rdma(["rocep1s0f1", "roceP2p1s0f1"], tmp_path).items()
    assert device == (
        "rocep1s0f1",
        {
            "state": "ACTIVE",
            "link_layer": "Ethernet",
            "rate": "200 Gb/sec (4X HDR)",
            "gids": [],
            "bytes": {"xmit": 1000, "rcv": 12},
        },
    )


@pytest.mark.parametrize(
    ("own", "address", "source"),
    [
        (["192.168.177.11/24"], "192.168.177.12", "192.168.177.11"),
        (["10.0.0.1/8", "192.168.177.11/24"], "192.168.177.12", "192.168.177.11"),
        (["10.9.0.0/31"], "10.9.0.1", "10.9.0.0"),
        (["169.254.3.1/16"], "169.254.9.9", "enp1s0f1np1"),  # of both halves: no route says which
        (["192.168.178.11/24"], "192.168.177.12", "enp1s0f1np1"),
        ([], "192.168.177.12", "enp1s0f1np1"),
    ],
)
def test_a_ping_counts_by_whichever_half_its_answer_comes(
    own: list[str], address: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without arp_ignore the far end may answer to the twin's MAC address: all was lost that was bound to one half."""
    monkeypatch.setattr(reading, "ask", lambda *_: {})
    asked: list[list[str]] = []

    def run(words: list[str]) -> tuple[int, str, str]:
        asked.append(words)
        return 0, "", ""

    link = {"carrier": True, "mac": "02:00:00:00:00:01", "mtu": 9000, "addresses": own}
    reading.ask_neighbours(run, {"enp1s0f1np1": link}, {"enp1s0f1np1": [address]}, [address])
    assert [words[-3:] for words in asked] == [["-I", source, address]]
