# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts are closed, what stays open, and that the owner is never locked out. The kernel's part: tests/cluster."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.action import firewall_apply
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import check
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.firewall import host
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.firewall.plan import (
    HOST,
    plan_firewall,
    wrong_sources,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.firewall.ruleset import (
    Network,
    closes,
    container_networks,
    ruleset,
)
from hypothesis import given
from hypothesis import strategies as st

FABRIC = {
    "interfaces": [
        {"name": "enp1s0f1np1", "peers": [{"host": "spark-3", "address": "192.168.100.11"}]},
        {"name": "enP2p1s0f1np1", "peers": [{"host": "spark-3", "address": "192.168.101.11"}]},
    ]
}
API = {"port": 8000, "from": [], "reason": "the API of pair"}
PEER = "192.168.100.11"


def planned(
    settings: Mapping[str, Any] | None = None, peers: tuple[str, ...] = (PEER,), allow: Any = (), meetings: Any = ()
) -> dict[str, Any]:
    return plan_firewall(
        {"allow": [], "shut": [], **(settings or {})}, {"allow": [*allow]}, [API], peers, FABRIC, meetings
    )


def rules(plan: Mapping[str, Any], *ports: int, networks: Sequence[Network] = ()) -> list[str]:
    return [line.strip() for line in ruleset(plan, ports or (22,), networks).splitlines()]


def chain(lines: Sequence[str], name: str) -> list[str]:
    start = lines.index(f"chain {name} {{")
    return [*lines[start + 1 : lines.index("}", start)]]


LIMITED = {"port": 8000, "from": ["10.0.0.1", "fd00::1"], "reason": "the API of pair"}


def test_of_an_open_host_the_apis_alone_are_filtered() -> None:
    """Where a gateway is declared: by the host itself, and where Docker publishes them."""
    allow = [{**LIMITED, "protocol": "tcp", "from": []} | {"port": 9}]
    plan = plan_firewall({"allow": allow, "shut": []}, {}, [LIMITED], (), FABRIC)
    lines = rules(plan)
    accepted = [
        'ip saddr { 10.0.0.1 } %s accept comment "the API of pair"',
        'ip6 saddr { fd00::1 } %s accept comment "the API of pair"',
    ]
    refused = "%s counter reject with tcp reset"
    assert chain(lines, "input")[3:] == [
        *(line % "tcp dport 8000" for line in accepted),
        refused % "tcp dport { 8000 }",
    ]
    original = "meta l4proto tcp ct original proto-dst"
    assert chain(lines, "to_containers") == [
        *(line % f"{original} 8000" for line in accepted),
        refused % f"{original} {{ 8000 }}",
    ]
    assert not any("drop" in line for line in lines)
    assert [closes(ruleset(one, (22,))) for one in (plan, planned(), planned(peers=()))] == [False, True, False]


@pytest.mark.parametrize(
    ("settings", "peers", "state"),
    [
        ({}, (PEER,), "closed"),  # its ranks listen on random ports of every address
        ({}, (), "open"),  # nothing of ours is open but what Docker publishes
        ({"state": "closed"}, (), "closed"),
        ({"state": "open"}, (PEER,), "open"),
    ],
)
def test_hosts_of_groups_are_closed_and_others_left_alone(
    settings: dict[str, Any], peers: tuple[str, ...], state: str
) -> None:
    assert planned(settings, peers)["state"] == state


def test_an_open_host_has_no_rules() -> None:
    assert ruleset(planned(peers=()), (22,)) == ""


def test_ssh_apis_and_neighbours_come_in_and_the_rest_is_dropped() -> None:
    lines = rules(planned(), 22, 2222)
    closed = lines[: lines.index("meta l4proto tcp counter reject with tcp reset")]
    for rule in (
        'tcp dport 22 accept comment "SSH"',
        'tcp dport 2222 accept comment "SSH"',
        'tcp dport 8000 accept comment "the API of pair"',
        'iifname { "enP2p1s0f1np1", "enp1s0f1np1" } ip saddr 192.168.100.11 accept',
        'iifname { "enP2p1s0f1np1", "enp1s0f1np1" } ip saddr 192.168.101.11 accept',
        "ct state established,related accept",
    ):
        assert rule in closed


def test_ranks_that_meet_over_the_management_network_are_let_in_too() -> None:
    assert "ip saddr 10.0.0.3 accept" in rules(planned(peers=("10.0.0.3",)))


def test_what_the_owner_allows_comes_in_from_the_sources_that_he_lists() -> None:
    own = {"port": 9100, "protocol": "tcp", "from": ["10.0.0.0/8", "fd00::/8"], "reason": 'metrics "of" the host'}
    shared = {"port": 60001, "protocol": "udp", "from": [], "reason": ""}
    lines = rules(planned({"allow": [own]}, allow=[shared]))
    assert 'ip saddr { 10.0.0.0/8 } tcp dport 9100 accept comment "metrics of the host"' in lines
    assert 'ip6 saddr { fd00::/8 } tcp dport 9100 accept comment "metrics of the host"' in lines
    assert "udp dport 60001 accept" in lines


DOCKER0 = Network("docker0", ("172.17.0.0/16", "fd00:17::/64"))


def test_docker_publishes_the_apis_and_nothing_else_to_the_outside() -> None:
    published = chain(rules(planned(), networks=[DOCKER0]), "to_containers")
    assert published == [
        'meta l4proto tcp ct original proto-dst 8000 accept comment "the API of pair"',
        'iifname "docker0" ip saddr 172.17.0.0/16 accept',
        'iifname "docker0" ip6 saddr fd00:17::/64 accept',
        "meta l4proto tcp counter reject with tcp reset",
        "counter drop",
    ]


def test_containers_reach_names_and_what_is_open_and_neither_ssh_nor_ranks() -> None:
    lines = rules(planned({"allow": [{"port": 9100, "protocol": "tcp", "from": [], "reason": ""}]}), networks=[DOCKER0])
    assert chain(lines, "from_containers") == [
        "meta l4proto { tcp, udp } th dport 53 accept",
        'tcp dport 8000 accept comment "the API of pair"',
        "tcp dport 9100 accept",
        "meta l4proto tcp counter reject with tcp reset",
        "counter drop",
    ]
    incoming = chain(lines, "input")
    of_docker = [line for line in incoming if "docker0" in line]
    assert of_docker == [
        'iifname "docker0" ip saddr 172.17.0.0/16 jump from_containers',
        'iifname "docker0" ip6 saddr fd00:17::/64 jump from_containers',
        'iifname "docker0" counter drop',
    ]
    assert incoming.index(of_docker[-1]) < incoming.index('tcp dport 22 accept comment "SSH"')
    assert not [line for line in rules(planned()) if "br-" in line or "docker" in line]


def network(driver: str = "bridge", name: str | None = None, subnets: Sequence[str] = ("172.18.0.0/16",)) -> Any:
    options = {} if name is None else {"com.docker.network.bridge.name": name}
    config = [{"Subnet": subnet, "Gateway": "x"} for subnet in subnets]
    return {"Id": "0123456789abcdef" * 4, "Driver": driver, "Options": options, "IPAM": {"Config": config}}


OWN = Network("br-0123456789ab", ("172.18.0.0/16",))


@pytest.mark.parametrize(
    ("inspected", "found"),
    [
        (network(), [OWN]),
        (network(name="docker0"), [Network("docker0", OWN.subnets)]),
        (network(subnets=("172.18.0.0/16", "fd00:1::/64")), [Network(OWN.interface, ("172.18.0.0/16", "fd00:1::/64"))]),
        (network(name="br-lan"), []),  # the owner's bridge, which leads to the LAN
        (network(name="br0"), []),
        (network(name="br-0123456789ab; drop"), []),
        (network(name="br-0123456789abc"), []),
        (network(name="docker0\n"), []),
        (network(driver="host", subnets=()), []),
        (network(driver="macvlan"), []),
        (network(subnets=()), []),
        (network() | {"Options": None}, [OWN]),
        (network() | {"IPAM": {"Config": None}}, []),
    ],
)
def test_dockers_own_bridges_are_known_by_docker(inspected: Any, found: list[Network]) -> None:
    assert container_networks([inspected]) == found


def test_dockers_networks_are_asked_for_where_docker_is(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = {"ls": (0, "a\nb\n", ""), "inspect": (1, json.dumps([network()]), "no such network: b")}
    monkeypatch.setattr(host.shutil, "which", lambda _name: "/usr/bin/docker")
    assert host.networks(lambda words: outputs[words[2]], "") == [OWN]
    for harm in ((1, "", "denied"), (0, "[{}]", "")):
        with pytest.raises(host.FirewallError, match="Docker's networks can't be read"):
            host.networks(lambda words, harm=harm: (outputs | {"inspect": harm})[words[2]], "")
    monkeypatch.setattr(host.shutil, "which", lambda _name: None)
    assert host.networks(lambda _words: (1, "", "asked"), "") == []


@pytest.mark.parametrize("networks", [[], [DOCKER0], [OWN, DOCKER0]])
def test_while_docker_does_not_answer_the_rules_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch, networks: list[Network]
) -> None:
    monkeypatch.setattr(host.shutil, "which", lambda _name: "/usr/bin/docker")
    before = ruleset(planned(), (22,), networks)
    assert host.networks(lambda _words: (1, "", "Cannot connect"), before) == sorted(networks)


def test_accounts_of_a_host_do_not_reach_its_ranks() -> None:
    """Ranks of torch and llama.cpp believe whoever comes, and what a host sends to itself comes by lo (security 15)."""
    lines = rules(planned(meetings=[("192.168.100.10", 8001), ("192.168.100.10", 9001)]))
    assert 'oifname "lo" meta skuid != 0 ct state new jump from_accounts' in chain(lines, "output")
    assert chain(lines, "from_accounts") == [
        "tcp dport { 22, 8000 } accept",
        "ip daddr { 192.168.100.10 } meta l4proto tcp counter reject with tcp reset",
        "ip daddr { 192.168.100.10 } counter reject",
        "tcp dport { 8001, 9001 } counter reject with tcp reset",
    ]
    over_lan = rules(planned(peers=("10.0.0.7",), meetings=[("10.0.0.1", 8001)]))
    assert chain(over_lan, "from_accounts") == [
        "tcp dport { 22, 8000 } accept",
        "tcp dport { 8001 } counter reject with tcp reset",
    ]
    assert chain(rules(planned()), "from_accounts") == [""]


def test_without_a_port_of_ssh_no_host_is_closed() -> None:
    with pytest.raises(ValueError, match="would lock its owner out"):
        ruleset(planned(), ())
    assert ruleset(planned(peers=()), ()) == ""


@given(st.lists(st.integers(1, 65535), min_size=1), st.text(max_size=200))
def test_no_word_of_the_owner_shuts_ssh_out(ports: list[int], reason: str) -> None:
    entry = {"port": 1, "protocol": "tcp", "from": [], "reason": reason}
    lines = rules(planned({"allow": [entry]}), *ports)
    for port in ports:
        assert lines.index(f'tcp dport {port} accept comment "SSH"') < lines.index(
            "meta l4proto tcp counter reject with tcp reset"
        )


@pytest.mark.parametrize(
    ("source", "right"), [("10.0.0.0/8", True), ("fd00::1", True), ("10.0.0.1/8", False), ("lan", False)]
)
def test_sources_are_addresses(source: str, right: bool) -> None:
    found = [*wrong_sources([{"from": [source]}], Place(host="titan", variable="fleet_host", option="firewall"))]
    assert (found == []) is right
    assert right or found[0].place == "titan: fleet_host.firewall.allow[0].from"


# On the host ------------------------------------------------------------------------------------------------------


SSHD = (
    "port 22\naddressfamily any\nlistenaddress [::]:2022 rdomain lab\n"
    "listenaddress 0.0.0.0:2023\nlistenaddress 127.0.0.1:2201\n"
)
SOCKET = "ActiveState={}\nListen=0.0.0.0:2222 (Stream)\nListen=[::]:2222 (Stream)\n"


@pytest.mark.parametrize(
    ("state", "ports"), [("inactive", [443, 2022, 2023]), ("active", [443, 2222])], ids=["sshd", "socket"]
)
def test_ssh_is_found_where_it_listens_and_nowhere_else(state: str, ports: list[int]) -> None:
    """A socket that nobody started, and settings that a socket overrides, open nothing."""
    outputs = {"/usr/sbin/sshd": SSHD, "systemctl": SOCKET.format(state)}
    assert host.ssh_ports(lambda words: (0, outputs[words[0]], ""), 443) == ports


def test_a_host_without_openssh_keeps_the_port_of_this_session() -> None:
    assert host.ssh_ports(lambda words: (1, "", "no such unit"), 2200) == [2200]
    assert host.ssh_ports(lambda words: (1, "", "no such unit"), None) == []


class Kernel:
    """nft as far as `in_kernel` asks it: the tables that are there, ours as it is listed, and what a text becomes."""

    def __init__(self, live: str | None, becomes: str = "") -> None:
        self.live, self.becomes = live, becomes
        self.tried: list[str] = []

    def __call__(self, words: list[str]) -> tuple[int, str, str]:
        if words[0] == "unshare":
            self.tried.append(words[-1])
            return (0, self.becomes, "") if self.becomes else (1, "", "unshare failed: Operation not permitted")
        if words == ["nft", "list", "tables"]:
            return 0, "table ip nat\n" + ("table inet gb10_fleet\n" if self.live is not None else ""), ""
        return 0, str(self.live), ""


def test_what_the_kernel_holds_is_compared_as_the_kernel_writes_it() -> None:
    kernel = Kernel("tcp dport 22 accept", becomes="tcp dport ssh accept")
    assert host.in_kernel(kernel, "the text") == ("tcp dport 22 accept", "tcp dport ssh accept")
    assert kernel.tried == ["the text"]


@pytest.mark.parametrize("text", ["", "the text"])
def test_a_table_that_is_not_there_needs_no_comparison(text: str) -> None:
    kernel = Kernel(None)
    assert host.in_kernel(kernel, text) == ("", text)
    assert kernel.tried == []


def test_a_table_on_an_open_host_is_reported() -> None:
    assert host.in_kernel(Kernel("rules"), "") == ("rules", "")


def test_without_a_network_to_try_them_in_the_rules_are_not_equal_but_unknown() -> None:
    with pytest.raises(host.FirewallError, match=r"unshare can't list the rules.*Operation not permitted"):
        host.in_kernel(Kernel("rules"), "the text")


class Nft:
    """systemd and nftables as far as `load` and `confirm` ask them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuse = ""

    def __call__(self, words: list[str]) -> tuple[int, str, str]:
        self.asked.append(" ".join(words))
        return (1, "", "no") if self.refuse and self.refuse in self.asked[-1] else (0, "", "")

    def position(self, word: str) -> int:
        return next(index for index, command in enumerate(self.asked) if word in command)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host, "FILE", tmp_path / "firewall.nft")
    monkeypatch.setattr(host, "_STAGED", tmp_path / "firewall.staged")
    monkeypatch.setattr(host, "_LOCK", tmp_path / "firewall.lock")
    return tmp_path


def test_the_way_back_is_armed_before_the_rules_hold(folder: Path) -> None:
    nft = Nft()
    host.load(nft, "table x")
    assert nft.position("systemd-run") < nft.position("nft -f")
    assert "nft delete table inet gb10_fleet" in nft.asked[nft.position("systemd-run")]
    assert not (folder / "firewall.nft").exists()  # a reboot comes up without the rules


def test_the_way_back_is_to_the_rules_before(folder: Path) -> None:
    (folder / "firewall.nft").write_text("table old")
    nft = Nft()
    host.load(nft, "table x")
    assert f"nft -f {folder / 'firewall.nft'}" in nft.asked[nft.position("systemd-run")]


def test_a_folder_in_the_place_of_our_rules_is_set_aside(folder: Path) -> None:
    (folder / "firewall.nft" / "x").mkdir(parents=True)
    nft = Nft()
    host.load(nft, "table x")
    host.confirm(nft)
    assert (folder / "firewall.nft").read_text() == "table x"
    assert (folder / "firewall.nft.damaged" / "x").is_dir()
    (folder / "firewall.nft").unlink()
    (folder / "firewall.nft").mkdir()
    (folder / "firewall.nft.damaged" / "x").rmdir()
    host.remove(nft)
    assert not (folder / "firewall.nft").exists()


def test_rules_are_kept_only_when_they_are_confirmed_in_time(folder: Path) -> None:
    nft = Nft()
    host.load(nft, "table x")
    host.confirm(nft)
    assert (folder / "firewall.nft").read_text() == "table x"
    host.load(nft, "table y")
    nft.refuse = "is-active"
    with pytest.raises(host.FirewallError, match="took the new rules back"):
        host.confirm(nft)
    assert (folder / "firewall.nft").read_text() == "table x"


STOP = "systemctl stop gb10-firewall-rollback.timer gb10-firewall-rollback.service"


def test_no_way_back_outlives_the_rules_that_it_is_of(folder: Path) -> None:
    """It would open the host, or bring older rules, after a minute."""
    nft = Nft()
    host.load(nft, "table x")
    assert nft.asked.index(STOP) < nft.position("systemd-run")
    nft.asked.clear()
    host.confirm(nft)
    assert nft.asked.index(STOP) < nft.position("systemctl restart gb10-firewall.service")
    nft.asked.clear()
    host.remove(nft)
    assert nft.asked[0] == STOP
    assert nft.asked[2:] == [
        "systemctl disable --quiet --now gb10-firewall.service",
        "nft delete table inet gb10_fleet",
    ]
    assert not (folder / "firewall.nft").exists()
    nft.asked.clear()
    nft.refuse = "nft -f"
    with pytest.raises(host.FirewallError, match="nftables refuses the rules"):
        host.load(nft, "table y")
    assert nft.asked.count(STOP) == 2 and nft.asked[-2] == STOP
    assert not (folder / "firewall.staged").exists()


def test_rules_are_loaded_and_kept_for_everybody_to_read(folder: Path) -> None:
    host.write(folder / "new" / "x.nft", "table x")
    assert (folder / "new" / "x.nft").stat().st_mode & 0o777 == 0o644
    assert (folder / "new").stat().st_mode & 0o777 == 0o755
    host.write(folder / "new" / "x.nft", "y")
    assert (folder / "new" / "x.nft").read_text() == "y"


@pytest.mark.parametrize("reason", ['a "b" c', "a\nb", "a\x1b[2Jb", "x" * 300])
def test_a_reason_ends_no_comment(reason: str) -> None:
    entry = {"port": 9100, "protocol": "tcp", "from": [], "reason": reason}
    line, *_ = [line for line in rules(planned({"allow": [entry]})) if "9100 accept" in line]
    words = line.partition(' comment "')[2]
    assert words.endswith('"') and words.count('"') == 1 and words.isprintable() and len(words) <= 61


@pytest.mark.parametrize(("port", "is_right"), [(0, False), (1, True), (65535, True), (65536, False)])
def test_a_port_that_is_shut_is_one(port: int, is_right: bool) -> None:
    assert bool(check(HOST, {"shut": [port]}, Place(variable="x"))[1]) is not is_right


def test_rules_of_another_run_are_unsettled_until_they_are_confirmed_or_taken_back(folder: Path) -> None:
    """Two site.yml in two terminals: the second one's timer had the first one's name."""
    nft = Nft()
    assert host.is_unsettled(nft)
    assert nft.asked == ["systemctl is-active --quiet gb10-firewall-rollback.timer gb10-firewall-rollback.service"]
    nft.refuse = "is-active"
    assert not host.is_unsettled(nft)


def test_of_two_runs_one_looks_after_the_other_has_begun(folder: Path) -> None:
    with host.alone(), (folder / "firewall.lock").open("w") as second, pytest.raises(BlockingIOError):
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    ("unsettled", "is_refused"),  # unsettled: how many answers in a row
    [(0, False), (3, False), (1000, True)],
)
def test_rules_of_another_run_are_waited_for(monkeypatch: pytest.MonkeyPatch, unsettled: int, is_refused: bool) -> None:
    answers = [{"unsettled": True}] * unsettled + [{"changed": False, "unsettled": False}]
    now, shown = [0.0], list[str]()
    action = firewall_apply.ActionModule.__new__(firewall_apply.ActionModule)
    monkeypatch.setattr(ActionBase, "run", lambda *_given, **_named: {})
    monkeypatch.setattr(action, "_task", SimpleNamespace(args={}), raising=False)
    monkeypatch.setattr(action, "_execute_module", lambda **_given: dict(answers.pop(0)))
    monkeypatch.setattr(firewall_apply.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(firewall_apply.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(firewall_apply, "show", shown.append)
    if is_refused:
        with pytest.raises(AnsibleActionFail, match="run again when it has ended"):
            action.run(task_vars={"inventory_hostname": "titan"})
    else:
        assert action.run(task_vars={"inventory_hostname": "titan"}) == {"changed": False}
        assert answers == []
    assert [line.startswith("titan: another run has loaded new rules: waiting") for line in shown] == (
        [True] * bool(unsettled)
    )


@pytest.mark.parametrize("refused", ["systemd-run", "nft -f"])
def test_what_can_not_be_taken_back_or_loaded_changes_nothing(folder: Path, refused: str) -> None:
    nft = Nft()
    nft.refuse = refused
    with pytest.raises(host.FirewallError, match="nothing was changed"):
        host.load(nft, "table x")
    assert not (folder / "firewall.nft").exists()
