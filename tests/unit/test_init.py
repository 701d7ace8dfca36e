# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gb10.fleet.init over recorded situations: what is found, what is written, and what no hostile word gets through."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import signal
import socket
import struct
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.action import init_hosts
from ansible_collections.gb10.fleet.plugins.action.init import account_of, read_hosts
from ansible_collections.gb10.fleet.plugins.module_utils._base.received import checked, one_line
from ansible_collections.gb10.fleet.plugins.module_utils._base.yaml_text import read_yaml
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Recipe, load_all
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.machine import networks
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init import find, look
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.decide import Host, Proposal, propose
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.login import GB10, Login, answer, refused
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.reading import FORM
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.running import (
    Process,
    _unit_end,
    _weights,
    beside,
    environment,
    model_of,
    processes,
    program,
    ray_heads,
    read_serving,
    without_secrets,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.trying import fitting, plan_of, taking_over
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.write import (
    CONNECTION,
    FLEET,
    HOSTS,
    fits_table,
    found_table,
    read_table,
    texts,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.hardware import RAILS
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.peers_seen import frame, read_frame
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.plan import plan_fabric
from ansible_collections.gb10.fleet.plugins.modules.init_info import _master
from ansible_collections.gb10.fleet.plugins.plugin_utils._reached import named_hosts

ROOT = Path(__file__).parents[2]
SITUATIONS: dict[str, Any] = yaml.safe_load((ROOT / "tests/data/init.yml").read_text())
LIBRARY = load_all([ROOT / "recipes"])[0]
BARE: dict[str, Any] = {
    "platform": {"ota": "7.5.0", "release": None, "bios": "5.36", "vendor": "NVIDIA", "product": "NVIDIA_DGX_Spark"},
    "memory_kib": 127535084,
    "free_bytes": 3 << 40,
    "management": ["enP7s7"],
    "networks": {"enP7s7": ["192.168.1.0/255.255.255.0"]},
}  # fmt: skip
READ = [name for name, one in SITUATIONS.items() if "hosts" in one]


def reading_of(host: str, shown: dict[str, Any]) -> dict[str, Any]:
    """The answer of `init_info`, checked as the action does."""
    ports: dict[int, list[str]] = shown.get("ports", {})
    seen: dict[int, list[str]] = shown.get("seen", {})
    found = {**BARE, **{key: shown[key] for key in ("memory_kib", "management", "networks") if key in shown}}
    found["platform"] = {**BARE["platform"], **{key: shown[key] for key in ("vendor", "product") if key in shown}}
    found["halves"] = {
        name: {
            "master": shown.get("masters", {}).get(rail.port, ""),
            "carrier": rail.port in ports,
            "mtu": shown.get("mtu", 9000) if ports.get(rail.port) else 1500,
            "addresses": ports.get(rail.port, [])[rail.half : rail.half + 1],
        }
        for name, rail in RAILS.items()
    }
    # a port's twins and both far halves receive all
    found["seen"] = [
        {"half": name, "host": far.partition(":")[0], "far": other}
        for name, rail in RAILS.items()
        for far in seen.get(rail.port, ())
        for other, far_rail in RAILS.items()
        if far_rail.port == int(far.partition(":")[2])
    ]
    found["claims"] = [
        {"path": path, "claims": [name for name, rail in RAILS.items() if rail.port == port]}
        for path, port in shown.get("claims", {}).items()
    ]
    halves = [one for addresses in ports.values() for one in addresses]
    found["addresses"] = [one.partition("/")[0] for one in halves]
    found["serving"] = serving_of(shown)
    found["ours"] = shown.get("ours", [])
    found["ray"] = [{"head": head} for head in shown.get("ray", ())]
    found["beside"] = shown.get("beside", {})
    result: dict[str, Any] = checked(FORM, {"reading": json.loads(json.dumps(found))}, host)["reading"]
    return result


def serving_of(shown: dict[str, Any]) -> list[dict[str, Any]]:
    """What `read_serving` makes of the processes and of what Docker answers, with the folders that the data names."""
    running: list[Process] = []
    docker: dict[str, Any] = {}
    images: dict[str, Any] = {}
    changed: dict[str, str] = {}
    for number, one in enumerate(shown.get("serves", ()), 1):
        container, key = one.get("container"), f"{number:064x}"
        running.append(
            Process(
                shlex.split(one["command"]),
                key if container else "",
                one.get("unit", ""),
                "/home/anna",
                by=one.get("by", "docker"),
                manager=one.get("manager", ""),
            )
        )
        if container and one.get("by", "docker") and "hidden" not in one:
            changed[container["name"]] = "\n".join(container.get("changed", ()))
            docker[key] = {
                "Id": key,
                "Name": f"/{container['name']}",
                "Image": f"sha256:{key}",
                "Config": {"Image": container["image"], "Env": container.get("env"), "Labels": container.get("labels")},
                "HostConfig": {
                    "NetworkMode": container.get("network", "host"),
                    "RestartPolicy": {"Name": container.get("restart", "no")},
                },
                "NetworkSettings": {"Ports": container.get("ports")},
                "Mounts": [{"Source": a, "Destination": b} for a, b in container.get("binds", {}).items()],
            }
            images[f"sha256:{key}"] = {
                "Id": f"sha256:{key}",
                "RepoDigests": container.get("digests"),
                "RepoTags": container.get("tags"),
                "Config": {"Env": ["PATH=/bin"]},
            }

    def run(words: list[str]) -> tuple[int, str, str]:
        if "diff" in words:
            return 0, changed[words[-1]], ""
        shown = images if "image" in words else docker
        return 0, json.dumps([shown[key] for key in words if key in {**images, **docker}]), ""

    with tempfile.TemporaryDirectory() as folder:
        for name, text in shown.get("units", {}).items():
            Path(folder, name).write_text(text)
        found = read_serving(run, running, Path(folder), lambda _at: shown.get("version", ""))
    for one, written in zip(found, shown.get("serves", ()), strict=False):
        one |= {key: written[key] for key in ("folder", "commit") if key in written}
    return found


def hosts_of(situation: dict[str, Any]) -> dict[str, Host]:
    return {
        name: Host(shown["address"], reading_of(name, shown))  # type: ignore[arg-type]
        for name, shown in situation["hosts"].items()
    }


@pytest.mark.parametrize("name", SITUATIONS)
def test_machines_are_found_without_a_typed_address(name: str) -> None:
    account = SITUATIONS[name]["account"]
    found = find.machines(
        account.get("named", []),
        find.ssh_hosts(account.get("ssh_config", "")),
        find.ssh_hosts(account.get("sync", "")),
        find.known_names(account.get("known_hosts", "")),
        find.neighbours(account.get("arp", "")),
        [((one[0], one[1], one[2]), one[3]) for one in account.get("answers", ())],
    )
    assert [one.name for one in found] == SITUATIONS[name]["found"]
    assert [one.user for one in found] == SITUATIONS[name].get("users", [""] * len(found))
    assert found_table(found)


@pytest.mark.parametrize("name", READ)
def test_what_is_written_is_what_the_machines_show(name: str) -> None:
    situation = SITUATIONS[name]
    hosts, adopt = hosts_of(situation), situation.get("adopt", False)
    proposal = propose(hosts, ["192.168.1.0/24"], LIBRARY, take_over=True)
    words = taking_over(hosts, proposal, LIBRARY)
    files = texts(hosts, proposal, "anna", (), words, take_over=adopt)
    assert read_yaml(files[FLEET]) == situation["written"]
    assert read_yaml(files[CONNECTION]) == {"ansible_user": "anna", "ansible_python_interpreter": "/usr/bin/python3"}
    declared = {host: {"ansible_host": one.address} if one.address else {} for host, one in hosts.items()}
    for host, variables in situation.get("of_hosts", {}).items():
        declared[host] |= variables
    assert read_yaml(files[HOSTS]) == {"all": {"hosts": declared}}
    for recipe, holds in situation.get("recipes", {}).items():
        written = read_yaml(files[f"recipes/{recipe}.yml"])
        assert {key: written[key] for key in holds} == holds
    screen = "\n".join([read_table(hosts), *proposal.notes, *files.values()])
    assert [note for note in situation.get("notes", ()) if note not in screen] == []
    assert [word for word in situation.get("never", ()) if word in screen] == []


@pytest.mark.parametrize("name", READ)
def test_a_plan_refuses_nothing_of_it(name: str) -> None:
    hosts = hosts_of(SITUATIONS[name])
    for take_over in (True, False):
        fabric = propose(hosts, [], LIBRARY, take_over=take_over).fabric
        _slices, findings = plan_fabric(fabric, dict.fromkeys(hosts, _Facts()))
        assert [one.sentence() for one in findings if one.severity == "error"] == []


@pytest.mark.parametrize(("name", "large_fits"), [("solo-64gb", False), ("bare-pair", True)])
def test_what_fits_is_judged_by_the_memory_that_was_seen(name: str, large_fits: bool) -> None:
    hosts = hosts_of(SITUATIONS[name])
    first = next(iter(hosts))
    fits = fitting(first, hosts[first], LIBRARY)
    assert 0 < len(fits) <= 5 and all(row["fits"] == "yes" for row in fits)
    assert ("gpt-oss-120b" in [row["recipe"] for row in fits]) is large_fits
    assert "tok/s" in fits_table(fits).splitlines()[0] and all(row["decode"] > 1 for row in fits)
    bare = propose(hosts, [], LIBRARY, take_over=True)
    text = texts(hosts, Proposal(bare.fabric, {}, []), "anna", fits, take_over=False)[FLEET]
    proposed = text.partition("the one above:\n")[2]
    services = read_yaml("\n".join(line.removeprefix("# ") for line in proposed.splitlines()))
    assert services == {"fleet_services": {"chat": {"recipe": fits[0]["recipe"], "hosts": [first], "port": 8000}}}


class _Facts:
    address = "192.168.1.40"


@pytest.mark.parametrize(
    "name", [name for name in READ if "keeper" in SITUATIONS[name]["written"].get("fleet_fabric", {})]
)
def test_what_others_keep_is_given_no_file_of_ours(name: str) -> None:
    fabric = SITUATIONS[name]["written"]["fleet_fabric"]
    slices, _findings = plan_fabric(fabric, dict.fromkeys(SITUATIONS[name]["hosts"], _Facts()))
    for mine in slices.values():
        assert mine["interfaces"] and mine["netplan"] == {} and mine["sysctl"] == {} and mine["units"] == {}
        assert [path for path, file in mine["files"].items() if file.get("content") or file.get("source")] == []
        assert "/etc/netplan/40-cx7.yaml" not in mine["files"]  # theirs may have this name


def test_what_others_keep_needs_its_addresses() -> None:
    _slices, findings = plan_fabric({"keeper": "others", "cables": [["a:1", "b:1"]]}, {"a": _Facts(), "b": _Facts()})
    assert [one.rule for one in findings] == ["fabric-keeper-addresses"]


def test_a_pool_meets_no_network_that_anybody_knows() -> None:
    shown = {"ports": {1: []}, "address": "x", "networks": {"docker0": ["10.188.0.0/255.255.0.0"]}}
    hosts = hosts_of({"hosts": {"a": {**shown, "seen": {1: ["b:1"]}}, "b": {**shown, "seen": {1: ["a:1"]}}}})
    assert propose(hosts, ["192.168.0.0/16"], LIBRARY, take_over=True).fabric["pool"] == "172.29.0.0/22"
    assert "pool" not in propose(hosts, [], LIBRARY, take_over=True).fabric


def test_a_ring_of_bare_machines_gets_a_pool_that_holds_it() -> None:
    ends = {"a": {0: ["b:1"], 1: ["c:0"]}, "b": {0: ["c:1"], 1: ["a:0"]}, "c": {0: ["a:1"], 1: ["b:0"]}}
    hosts = hosts_of(
        {"hosts": {name: {"address": name, "ports": {0: [], 1: []}, "seen": seen} for name, seen in ends.items()}}
    )
    fabric = propose(hosts, [], LIBRARY, take_over=True).fabric
    assert fabric["pool"] == "192.168.96.0/21" and [one["index"] for one in fabric["cables"]] == [0, 1, 2]


def test_a_crossed_pair_is_written_as_it_hangs() -> None:
    hosts = hosts_of(
        {
            "hosts": {
                "a": {"address": "a", "ports": {0: []}, "seen": {0: ["b:1"]}},
                "b": {"address": "b", "ports": {1: []}, "seen": {1: ["a:0"]}},
            }
        }
    )
    proposal = propose(hosts, [], LIBRARY, take_over=True)
    assert proposal.fabric == {"cables": [["a:0", "b:1"]]}


@pytest.mark.parametrize("name", SITUATIONS["locked-out"]["refused"])
def test_a_failed_login_has_a_sentence_with_its_remedy(name: str) -> None:
    case = SITUATIONS["locked-out"]["refused"][name]
    found = refused(name, "anna", case["words"], one_line)
    assert found.why.startswith(f"{name}: ") and "\n" not in found.why and found.why.isprintable()
    assert [words for words in case["sentence"] if words not in found.why] == []
    assert [words for words in case.get("never", ()) if words in found.why] == []
    assert found.unknown_key == case.get("unknown_key", False)


# What others may send ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word",
    [
        "-oProxyCommand=id",
        "a b",
        "a\nb",
        "a;id",
        "$(id)",
        "spärk",
        "a" * 300,
        "",
        "..",
        "a..b",
        "{{ x }}",
        "a/b",
        "a:1",
        "\x1b[31m",
        "fe80::1%eth0",
    ],
)
def test_what_is_no_name_is_let_in_nowhere(word: str) -> None:
    assert find.host_name(word) == "" or word == "fe80::1%eth0"
    records = [((word, 1, "1.2.3.4"), "1.2.3.4"), (("_ssh._tcp.local", 12, f"{word}._ssh._tcp.local"), "1.2.3.4")]
    assert find.machines([], find.SshHosts(), find.SshHosts(), [], {}, records) == []
    assert (
        find.ssh_hosts(f"Host {word}\n  User x\n").hosts.keys() <= {"a", "b", "a..b"[:1], "x"} or word == "fe80::1%eth0"
    )
    assert answer(f"pci=0x10de:0x2e12\nhost={word}\nend=1\n") is None or word in ("fe80::1%eth0", "a\nb")


@pytest.mark.parametrize(
    ("word", "name", "own"),
    [
        ("fe80::1%eth0", "fe80::1%eth0", ""),
        ("fe80::1%{{ 7*7 }}", "", ""),
        ("fe80::1%$(id)", "", ""),
        ("fe80::1%a b", "", ""),
        ("2001:db8::5", "2001:db8::5", ""),
        ("10.0.0.1", "10.0.0.1", ""),
        ("Titan.home.arpa", "titan.home.arpa", "titan"),
        ("fleet_chosen", "fleet_chosen", "fleet-chosen"),
    ],
)
def test_an_address_is_let_in_as_a_way_and_as_no_name(word: str, name: str, own: str) -> None:
    assert (find.host_name(word), find.own_name(word)) == (name, own)


def test_a_neighbour_that_answers_for_a_thousand_costs_no_thousand_logins() -> None:
    answers = [((f"spark-{number:04x}.local", 1, "10.0.0.9"), "10.0.0.9") for number in range(4000)]
    assert len(find.machines([], find.SshHosts(), find.SshHosts(), [], {}, answers)) == 256


def test_a_name_that_answers_is_not_trusted_to_be_a_spark() -> None:
    assert answer("pci=0x10de:0x2e12\nhost=beast\nend=1\n") == answer(
        "pci=0x8086:0x1\npci=0x10de:0x2e12\nhost=beast\nend=1"
    )
    laptop = answer("pci=0x10de:0x2e03\nhost=spark-3f1c\nsudo=none\nend=1\n")
    assert GB10 == "10de:2e12" and laptop is not None and not laptop.is_spark and not laptop.sudo_password


def test_a_machine_that_calls_itself_this_one_gets_another_name() -> None:
    logins = {
        find.Machine(f"10.0.0.{n}", ()): Login(True, name, f"mac{n}", False)
        for n, name in enumerate(["localhost", "all", "spark", "spark"])
    }
    assert [one["name"] for one in named_hosts(logins, "anna", [])] == ["localhost-2", "all-2", "spark", "spark-2"]
    same = {
        find.Machine(name, ()): Login(True, "spark", "4c:bb:47:1a:3f:1c", False) for name in ("spark.local", "10.0.0.1")
    }
    assert [one["address"] for one in named_hosts(same, "anna", [])] == ["spark.local"]


def packet(*answers: bytes, count: int | None = None) -> bytes:
    return struct.pack("!6H", 0, 0x8400, 0, len(answers) if count is None else count, 0, 0) + b"".join(answers)


def row(name: bytes, kind: int, value: bytes) -> bytes:
    return name + struct.pack("!HHIH", kind, 1, 120, len(value)) + value


SPARK = b"\x0aspark-3f1c\x05local\0"


def test_answers_are_read() -> None:
    service = b"\x04_ssh\x04_tcp\x05local\0"
    found = find.records(
        packet(
            row(SPARK, 1, b"\xc0\xa8\x01\x28"),
            row(service, 12, b"\x0aSpark-3F1C\xc0\x0c"),
            row(service, 33, bytes(6) + SPARK),
        )
    )
    assert found[0] == ("spark-3f1c.local", 1, "192.168.1.40")
    assert found[1][2] == "spark-3f1c.spark-3f1c.local" and found[2] == ("_ssh._tcp.local", 33, "spark-3f1c.local")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 11,
        packet(b"\xc0\x0c", count=1),
        packet(b"\xff" * 40, count=9),
        packet(row(SPARK, 12, b"\xc0\x0c"), count=65535),
        packet(b"\x3f" + b"a" * 9),
    ],
)
def test_rubbish_is_no_answer(data: bytes) -> None:
    assert all(isinstance(one, tuple) for one in find.records(data))


def test_questions_name_what_a_neighbour_would_be_called() -> None:
    table = find.neighbours(
        "? (192.168.1.40) at 4c:bb:47:1a:3f:1c on en0 ifscope [ethernet]\n? (192.168.1.2) at (incomplete) on en0\n"
    )
    assert table == {"192.168.1.40": "4c:bb:47:1a:3f:1c"}
    asked = b"".join(find.questions(table, []))
    assert b"\x0aspark-3f1c\x05local" in asked and b"\x0240\x011\x03168\x03192\x07in-addr" in asked


def test_frames_are_those_of_this_run() -> None:
    sent = frame("02:00:00:00:00:01", "spark-2", "enp1s0f1np1", "token")
    assert len(sent) >= 60 and read_frame(sent, "token") == ("spark-2", "enp1s0f1np1")
    assert read_frame(sent, "another") is None
    for payload in (b"", b"[", b"[" * 1400, b'["token"]', b'["token", 1, 2]', b'{"token": 1}', b"\xff\xff"):
        assert read_frame(bytes(14) + payload, "token") is None


SERVING = serving_of({"serves": [{"command": "vllm serve a/b"}]})[0]


def test_a_machine_that_sends_rubbish_is_refused_or_counts_for_nothing() -> None:
    reading = reading_of("a", {"address": "a", "ports": {1: []}, "seen": {}})
    strange = {"half": "enp1s0f1np1", "host": "nobody", "far": "enp1s0f1np1"}
    hosts = {"a": Host("a", {**reading, "seen": [strange, {**strange, "host": "a"}]})}  # type: ignore[typeddict-item]
    assert propose(hosts, [], LIBRARY, take_over=True).fabric == {}
    for wrong in (
        {"memory_kib": "all"},
        {"serving": [{**SERVING, "words": ["a\nb"]}]},
        {"serving": [{**SERVING, "ends": "docker stop $(id)"}]},
        {"serving": [{**SERVING, "ends": "sudo docker stop a; id"}]},
        {"serving": [{**SERVING, "ends": "sudo systemctl stop a; id"}]},
        {"serving": [{**SERVING, "paths": ["/a: b"]}]},
        {"serving": [{**SERVING, "release": "0.28"}]},
        {"claims": [{"path": "x\n# y", "claims": []}]},
        {"networks": {"eth0": ["0.0.0.0/0; rm"]}},
        {"seen": [{**strange, "host": "a\n  b: c"}]},
    ):
        with pytest.raises(ValueError, match=r"reading"):
            checked(FORM, {"reading": {**reading, **wrong}}, "its answer")


def test_words_of_firmware_stay_in_their_comment() -> None:
    platform = {
        **BARE["platform"],
        "vendor": "x\n    evil: {ansible_host: 6.6.6.6}",
        "product": "\x85 y \u2028 z",
        "ota": "1\n2",
    }
    hosts = {"on": Host("10.0.0.1", {**reading_of("on", {}), "platform": platform})}  # type: ignore[typeddict-item]
    written = texts(hosts, propose(hosts, [], LIBRARY, take_over=True), "", take_over=False)
    assert read_yaml(written[HOSTS]) == {"all": {"hosts": {"on": {"ansible_host": "10.0.0.1"}}}}
    assert read_yaml(written[CONNECTION]) == {"ansible_python_interpreter": "/usr/bin/python3"}


def test_a_template_of_a_hostile_host_is_not_written() -> None:
    for word in ("{{ lookup('pipe', 'id') }}", "{% raw %}"):
        shown = {"address": "a", "serves": [{"command": f'vllm serve a/b --served-model-name "{word}"'}]}
        proposal = propose(hosts_of({"hosts": {"a": shown}}), [], LIBRARY, take_over=True)
        assert proposal.services == {} and any("template" in note for note in proposal.notes)


BY_DIGEST = "vllm/vllm-openai@sha256:" + "b" * 64


@pytest.mark.parametrize(
    ("options", "container", "gives"),
    [
        ("--host localhost", {}, {"listen": "127.0.0.1", "port": 8000}),
        ("--host 192.168.1.40 --port 8001", {}, {"listen": "192.168.1.40", "port": 8001}),
        ("--host ::", {}, {"listen": None}),
        ("--host 0.0.0.0", {}, {"listen": None}),
        ("--max_model_len 8192 --max_num_seqs=4", {}, {"workload": {"max_model_len": 8192, "max_num_seqs": 4}}),
        ("", {"image": BY_DIGEST, "digests": [BY_DIGEST]}, {"digest": "sha256:" + "b" * 64, "source": "registry"}),
        ("", {"image": "sha256:" + "c" * 64, "tags": ["mine:2"]}, {"reference": "mine:2"}),
        ("", {"image": "registry.lan:5000/vllm"}, {"reference": "registry.lan:5000/vllm:latest"}),
    ],
)
def test_other_spellings_of_a_start_are_read_alike(
    options: str, container: dict[str, Any], gives: dict[str, Any]
) -> None:
    shown = {"name": "v", "image": "vllm/vllm-openai:v0.28.0", **container}
    serves = [{"command": f"vllm serve Qwen/Qwen3-8B {options}", "container": shown}]
    hosts = hosts_of({"hosts": {"a": {"address": "a", "serves": serves}}})
    [one] = propose(hosts, [], LIBRARY, take_over=True).services.values()
    image = one.recipe["image"] if one.recipe else {}
    assert {key: {**image, **one.service}.get(key) for key in gives} == gives


OWN_PODMAN = "runuser -u anna -- env XDG_RUNTIME_DIR=/run/user/1000 podman"
OWN_DOCKER = "docker -H unix:///run/user/1000/docker.sock"
FOLDERS = {"/srv/loras": "/loras", "/srv/files": "/files"}
GIVEN = {"name": "v", "image": "vllm/vllm-openai:v0.28.0", "binds": FOLDERS}
COMPOSED = {"com.docker.compose.project": "llm", "com.docker.compose.service": "vllm",
            "com.docker.compose.project.config_files": "/opt/llm/compose.yaml,/opt/llm/compose.gpu.yaml",
            "com.docker.compose.project.environment_file": "/opt/llm/prod.env"}  # fmt: skip
VLLM = "vllm serve Qwen/Qwen3-8B"
OWN_IMAGE = {**GIVEN, "image": "mine:1"}
TRTLLM = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13"
TRTLLM_DIGEST = "nvcr.io/nvidia/tensorrt-llm/release@sha256:" + "b" * 64
IN_COMPOSE = {**GIVEN, "name": "llm-vllm-1", "labels": COMPOSED}
ADAPTER_MAP = """'{"name": "a", "path": "/loras/a"}'"""
LORA = f"{VLLM} --enable-lora --lora-modules sql=/loras/sql"
# What owners type, and what a service of it has: keys of the service and of its recipe, its end, or why there is none.
OWN_SPELLINGS: dict[str, tuple[dict[str, Any], dict[str, Any] | str]] = {
    "an adapter's folder": ({"command": LORA, "container": GIVEN},
        {"flags": {"enable-lora": True, "lora-modules": "sql=/srv/loras/sql"}, "mounts": []}),
    "adapters as JSON": (
        {"command": f"{VLLM} --enable-lora --lora-modules {ADAPTER_MAP}", "container": GIVEN},
        {"flags": {"enable-lora": True, "lora-modules": {"name": "a", "path": "/srv/loras/a"}}}),
    "a template": ({"command": f"{VLLM} --chat-template /files/x.jinja", "container": GIVEN},
        {"flags": {"chat-template": "/srv/files/x.jinja"},
         "mounts": [{"source": "/srv/files/x.jinja", "target": "/srv/files/x.jinja", "read_only": True}]}),
    "a template of the image": ({"command": f"{VLLM} --chat-template=/vllm/x.jinja", "container": GIVEN},
        {"flags": {"chat-template": "/vllm/x.jinja"}, "mounts": []}),
    "a folder for downloads": ({"command": f"{VLLM} --download-dir /files/hub", "container": GIVEN},
        {"flags": {}, "mounts": []}),
    "compose with several files": ({"command": VLLM, "container": IN_COMPOSE},
        {"end": "sudo docker stop llm-vllm-1"}),
    "compose that returns": (
        {"command": VLLM, "container": {**IN_COMPOSE, "restart": "always"}},
        {"end": "sudo docker update --restart=no llm-vllm-1 && sudo docker stop llm-vllm-1"}),
    "a container of Podman": ({"command": VLLM, "container": GIVEN, "by": "podman"}, {"end": "sudo podman stop v"}),
    "an account's own Podman": ({"command": VLLM, "container": GIVEN, "by": OWN_PODMAN},
        {"end": f"sudo {OWN_PODMAN} stop v", "reference": "vllm/vllm-openai:v0.28.0"}),
    "a build of Podman's": ({"command": VLLM, "by": "podman", "container": {**GIVEN, "image": "localhost/mine:1",
        "digests": ["localhost/mine@sha256:" + "b" * 64]}},
        {"reference": "localhost/mine:1", "digest": None, "source": {"host": "a"},
         "note": "sudo podman save localhost/mine:1 | sudo docker load"}),
    "Docker's hub by Podman": ({"command": VLLM, "by": "podman", "container": {**GIVEN,
        "image": "docker.io/vllm/vllm-openai:v0.28.0", "digests": [f"docker.io/{BY_DIGEST}"]}},
        {"reference": "vllm/vllm-openai:v0.28.0", "digest": "sha256:" + "b" * 64, "never": "docker load"}),
    "an account's own Docker": ({"command": VLLM, "container": {**GIVEN, "restart": "always"}, "by": OWN_DOCKER},
        {"end": f"sudo {OWN_DOCKER} update --restart=no v && sudo {OWN_DOCKER} stop v"}),
    "a container that Docker does not show": ({"command": VLLM, "container": GIVEN, "hidden": True},
        "its image and port are not known"),
    "a pod": ({"command": VLLM, "container": GIVEN, "by": ""}, "as of Kubernetes"),
    "code of the host over the image's": (
        {"command": VLLM, "container": {**GIVEN, "changed": [
            "A /usr/local/lib/python3.12/dist-packages/vllm/worker.py"], "binds": {
            "/srv/p/worker.py": "/usr/local/lib/python3.12/dist-packages/vllm/worker.py", "/home/a/x.sh": "/serve.sh",
            "/home/a/site custom.py": "/usr/lib/python3.12/sitecustomize.py", "/home/a/.cache": "/root/.cache"}}},
        {"mounts": [{"source": "/srv/p/worker.py", "read_only": True,
                     "target": "/usr/local/lib/python3.12/dist-packages/vllm/worker.py"}],
         "note": "/srv/p/worker.py over /usr/local/lib/python3.12/dist-packages/vllm/worker.py",
         "never": "files in its container"}),
    "a name with a blank": ({"command": f"{VLLM} --served-model-name 'Qwen3 8B:FP8'"},
        {"served_name": "Qwen3 8B:FP8", "never": "further names"}),
    "a list as JSON": ({"command": f"""{VLLM} --allowed-origins '["*"]'"""}, {"flags": {"allowed-origins": '["*"]'}}),
    "a path of a proxy": ({"command": f"{VLLM} --root-path /llm"},
        {"flags": {"root-path": "/llm"}, "never": "a plan refuses"}),
    "weights of ModelScope": ({"command": VLLM, "container": {**GIVEN, "env": ["VLLM_USE_MODELSCOPE=True"]}},
        {"env": {}, "note": "of ModelScope", "never": "a plan refuses"}),
    "a size of a GGUF": ({"command": "vllm serve a/b-GGUF:Q4_K_M"}, "write model: a/b-GGUF:Q4_K_M in a service"),
    "a bucket": ({"command": "vllm serve s3://models/qwen"}, "neither of the hub nor a folder"),
    "a unit": ({"command": VLLM, "unit": "chat.service"}, {"end": "sudo systemctl disable --now chat.service"}),
    "a person's own unit": ({"command": VLLM, "unit": "chat.service", "manager": "anna"},
        {"end": "sudo systemctl --user -M anna@ disable --now chat.service"}),
    "a shell": ({"command": "/home/anna/venv/bin/python3 /home/anna/venv/bin/vllm serve Qwen/Qwen3-8B"},
        {"end": "end it where it was started", "reference": "vllm/vllm-openai:v0.28.0"}),
    "llama.cpp without a container": ({"command": "llama-server -hf a/b-GGUF -c 8192"},
        {"reference": "ghcr.io/ggml-org/llama.cpp:server-cuda13-v0.7.0", "flags": {"ctx-size": 8192}}),
    "SGLang without a container": ({"command": "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B"},
        {"reference": "lmsysorg/sglang:latest-cu130", "port": 30000}),
    "a model behind a switch": ({"command": "vllm serve --port=8002 --enforce-eager Qwen/Qwen3-8B"},
        {"port": 8002, "served_name": "Qwen/Qwen3-8B"}),
    "a number with a letter": ({"command": f"{VLLM} --max-num-batched-tokens 8k"},
        {"flags": {"max-num-batched-tokens": "8k"}}),
    "a build of one's own": ({"command": VLLM, "container": OWN_IMAGE, "version": '{"version":"0.30.1+cu130"}'},
        {"release": "0.30.1"}),
    "a build of a day": ({"command": VLLM, "container": OWN_IMAGE, "version": '{"version":"0.30.1.dev7"}'},
        {"release": None}),
    "who answers by https": ({"command": f"{VLLM} --ssl-certfile /c.pem --ssl-keyfile /k.pem"}, {"note": "tls: local"}),
    "options in variables": ({"command": "/app/llama-server", "container": {**GIVEN, "env": ["LLAMA_ARG_HF_REPO=a/b"]}},
        "stand in variables (LLAMA_ARG_HF_REPO)"),
    "a folder of models": ({"command": "llama-server --models-dir /models"}, "names no model"),
    "layers on other hosts": ({"command": "llama-server -hf a/b-GGUF --rpc 10.0.0.2:50052"}, "rpc-server"),
    "a socket": ({"command": f"{VLLM} --uds /tmp/vllm.sock"}, "clients reach it by a file"),
    "TensorRT-LLM as in NVIDIA's playbook": (
        {"command": "python3 /usr/local/bin/trtllm-serve Qwen/Qwen3-8B --max_batch_size 4 --port 8355 "
                    "--max_seq_len 8192 --extra_llm_api_options /tmp/extra-llm-api-config.yml",
         "container": {"name": "trtllm_llm_server", "image": TRTLLM, "digests": [TRTLLM_DIGEST]}},
        {"engine": "trtllm", "reference": TRTLLM, "release": "1.3.0rc13", "family": "ngc", "port": 8355, "open": True,
         "served_name": None, "flags": {},
         "workload": {"max_model_len": 8192, "max_num_seqs": 4}, "end": "sudo docker stop trtllm_llm_server",
         "note": "its options in /tmp/extra-llm-api-config.yml were not read", "never": "a plan refuses"}),
    "a port for IPv6, too": ({"command": VLLM, "container": {**GIVEN, "network": "bridge", "ports": {"8000/tcp": [
        {"HostIp": "::", "HostPort": "9001"}, {"HostIp": "0.0.0.0", "HostPort": "9001"}]}}},
        {"listen": None, "port": 9001}),
    "this host's own IPv6 address": ({"command": f"{VLLM} --host ::1"}, {"listen": "::1"}),
    "a gated model": ({"command": VLLM, "container": {**GIVEN, "env": ["HF_TOKEN=hf_0123456789", "HF_HUB_OFFLINE=1"]}},
        {"note": "HF_TOKEN may be secret: not read", "never": "hf_0123456789"}),
    "a key in a variable": ({"command": VLLM, "container": {**GIVEN, "env": ["VLLM_API_KEY=sk-0123456789"]}},
        {"note": "it asks clients for a key", "never": "sk-0123456789"}),
    "a drafter in a folder": (
        {"command": f"""{VLLM} --speculative-config '{{"method":"eagle3","model":"/files/eagle"}}'""",
         "container": GIVEN},
        {"flags": {"speculative-config": {"method": "eagle3", "model": "/srv/files/eagle"}},
         "mounts": [{"source": "/srv/files/eagle", "target": "/srv/files/eagle", "read_only": True}],
         "never": "author's machine"}),
    "SGLang with a drafter": (
        {"command": "sglang serve --model-path Qwen/Qwen3-8B --speculative-draft-model-path a/eagle",
         "container": {**GIVEN, "image": "lmsysorg/sglang:v0.5.23-cu130"}},
        {"engine": "sglang", "release": "0.5.23", "flags": {"speculative-draft-model-path": "a/eagle"}}),
    "TensorRT-LLM without a container": ({"command": "trtllm-serve serve a/b --tp_size 1"},
        {"engine": "trtllm", "port": 8000, "flags": {}, "host_counts": [1]}),
    "TensorRT-LLM whose ranks are MPI's": ({"command": "trtllm-serve a/b --tp_size 2"}, "1 of its ranks run on hosts"),
    "a half of TensorRT-LLM": ({"command": "trtllm-serve disaggregated -c x.yaml"}, "a part of a model's work alone"),
    "a folder that TensorRT-LLM serves": ({"command": "trtllm-serve /models/x"}, "/models/x is a folder"),
    "a short option with its value": ({"command": f"{VLLM} -tp=2"}, "1 of its ranks run on hosts"),
    "the beginning of an option": ({"command": f"{VLLM} --tensor-parallel 2"}, "1 of its ranks run on hosts"),
    "SGLang's own name of an option": ({"command": "sglang serve --model-path Qwen/Qwen3-8B --tp-size 2"},
        "1 of its ranks run on hosts"),
    "a data-parallel rank": ({"command": f"{VLLM} --data-parallel-size 2 --data-parallel-rank 0"}, "replicas"),
    "an option that is written otherwise": (
        {"command": f"{VLLM} --no-enable-chunked-prefill --compilation-config.mode 3", "container": GIVEN},
        {"flags": {"enable-chunked-prefill": False, "compilation-config": {"mode": 3}}, "never": "-no-enable"}),
    "a variable that is gone": ({"command": VLLM, "container": {**GIVEN, "env": ["VLLM_USE_V1=1"]}},
        {"env": {}, "note": "vLLM 0.28.0 ignores VLLM_USE_V1", "never": "a plan refuses"}),
    "Docker's hub by its name": ({"command": VLLM, "container": {**GIVEN, "image": "docker.io/vllm/vllm-openai:v0.28.0",
        "digests": [BY_DIGEST]}}, {"reference": "vllm/vllm-openai:v0.28.0", "digest": "sha256:" + "b" * 64}),
    "the beginning of an image's id": (
        {"command": VLLM, "container": {**GIVEN, "image": "000000000000", "tags": ["mine:2"]}},
        {"reference": "mine:2"}),
    "an image whose name went to another": (
        {"command": VLLM, "container": {**GIVEN, "image": "sha256:" + "0" * 63 + "1", "digests": [BY_DIGEST]}},
        {"reference": "vllm/vllm-openai", "digest": "sha256:" + "b" * 64}),
    "no published port": ({"command": VLLM, "container": {**GIVEN, "network": "llm_default"}},
        {"listen": "127.0.0.1", "note": "publishes no port 8000"}),
    "another container's network": ({"command": VLLM, "container": {**GIVEN, "network": "container:abc"}},
        {"note": "publishes no port 8000"}),
    "a port for this host alone": ({"command": VLLM, "container": {**GIVEN, "network": "bridge",
        "ports": {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "9000"}]}}}, {"listen": "127.0.0.1", "port": 9000}),
    "a swarm": ({"command": VLLM, "container": {**GIVEN, "labels": {"com.docker.swarm.service.name": "llm_vllm"}}},
        {"end": "sudo docker service scale llm_vllm=0"}),
    "a container that returns after a fault": ({"command": VLLM, "container": {**GIVEN, "restart": "on-failure"}},
        {"end": "sudo docker update --restart=no v && sudo docker stop v", "never": "nothing starts it"}),
    "a port in a variable": (
        {"command": "llama-server -hf a/b-GGUF", "container": {**GIVEN, "env": ["LLAMA_ARG_PORT=9001"]}},
        {"port": 9001, "env": {}}),
    "a file of llama.cpp": ({"command": "llama-server -m models/x.gguf"}, "models/x.gguf is a file"),
    "sizes that llama.cpp chooses": ({"command": "llama-server -hf a/b-GGUF -c 0 -np -1 --alias gpt,g"},
        {"flags": {}, "served_name": "gpt", "note": "further names g don't go over"}),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN_SPELLINGS)
def test_what_an_owner_started_is_declared_or_named(name: str) -> None:
    started, gives = OWN_SPELLINGS[name]
    shown = {"address": "a", "serves": [started], "version": started.get("version", "")}
    proposal = propose(hosts_of({"hosts": {"a": shown}}), [], LIBRARY, take_over=True)
    if isinstance(gives, str):
        assert not proposal.services and any(gives in note for note in proposal.notes), proposal.notes
        return
    [one] = proposal.services.values()
    assert one.recipe
    has = {**one.recipe["image"], **one.recipe, **one.service, "end": one.stops["a"]}
    assert gives.get("note", "") in "".join(one.notes)
    of_start = taking_over(hosts_of({"hosts": {"a": shown}}), proposal, LIBRARY)
    shown_words = [*one.notes, *(word for words in of_start.values() for word in words)]
    assert "never" not in gives or not any(gives["never"] in word for word in shown_words)
    kept = {*gives} - {"note", "never"}
    assert {key: has.get(key) for key in kept} == {key: gives[key] for key in kept}


def test_a_host_does_not_decide_what_of_others_is_mounted() -> None:
    """Its words name files of each host of the service: the owner says that they may be mounted."""
    bound = {**GIVEN, "binds": {"/root/.ssh": "/files"}}
    hosts = hosts_of({"hosts": {"a": {"address": "a", "serves": [
        {"command": f"{VLLM} --chat-template /files/x.jinja", "container": bound}]}}})  # fmt: skip
    words = taking_over(hosts, propose(hosts, [], LIBRARY, take_over=True), LIBRARY)["qwen3-8b"]
    assert any("/root/.ssh/x.jinja" in line and "trust" in line for line in words if "a plan refuses it" in line)


def test_a_run_is_refused_where_a_file_of_a_mount_is_missing() -> None:
    shown = {"address": "a", "serves": [{"command": f"{VLLM} --chat-template /files/x.jinja", "container": GIVEN}]}
    hosts = hosts_of({"hosts": {"a": shown}})
    [(name, one)] = propose(hosts, [], LIBRARY, take_over=True).services.items()
    assert one.recipe
    made = Recipe(name, one.recipe, ROOT / "x.yml")
    plan = plan_of(hosts, {name: one.service}, {}, replace(LIBRARY, recipes={**LIBRARY.recipes, name: made}))
    needed = [(row["option"], row["path"]) for row in plan["hosts"]["a"]["needs"]["files"]]
    assert ("mounts", "/srv/files/x.jinja") in needed


def test_halves_of_a_bond_get_addresses_of_their_own() -> None:
    ends = {"a": "b:1", "b": "a:1"}
    hosts = hosts_of({"hosts": {
        name: {"address": name, "ports": {1: []}, "masters": {1: "bond0"}, "seen": {1: [far]},
               "claims": {"/etc/netplan/60-bond.yaml": 1}}
        for name, far in ends.items()
    }})  # fmt: skip
    proposal = propose(hosts, [], LIBRARY, take_over=True)
    assert proposal.fabric == {"cables": [["a:1", "b:1"]]}
    words = "; ".join(proposal.notes)
    assert "a:1 is a part of bond0; a plan gives each half an address of its own" in words
    assert "fabric_foreign=move, which keeps /etc/netplan/60-bond.yaml aside" in words


@pytest.mark.parametrize("mtu", [1500, 4200, 9000])
def test_the_size_of_packets_is_declared_as_it_is(mtu: int) -> None:
    ports = {"a": {1: ["10.9.0.1/30", "10.9.0.5/30"]}, "b": {1: ["10.9.0.2/30", "10.9.0.6/30"]}}
    hosts = hosts_of({"hosts": {
        name: {"address": name, "mtu": mtu, "ports": ports[name], "seen": {1: [far]}}
        for name, far in (("a", "b:1"), ("b", "a:1"))
    }})  # fmt: skip
    fabric = propose(hosts, [], LIBRARY, take_over=True).fabric
    assert fabric["keeper"] == "others" and fabric.get("mtu", 9000) == mtu


def test_ranks_are_counted_by_short_options_too() -> None:
    serves = [
        {"command": "vllm serve Qwen/Qwen3-8B --trust-remote-code -tp 2", "container": {"name": "v", "image": "x:1"}}
    ]
    proposal = propose(hosts_of({"hosts": {"a": {"address": "a", "serves": serves}}}), [], LIBRARY, take_over=True)
    assert not proposal.services and any(
        "1 of its ranks run on hosts that were not read" in one for one in proposal.notes
    )


def test_a_server_whose_options_are_in_a_file_is_named_so() -> None:
    serves = [{"command": "vllm serve --config /etc/vllm.yaml", "unit": "vllm.service"}]
    proposal = propose(hosts_of({"hosts": {"a": {"address": "a", "serves": serves}}}), [], LIBRARY, take_over=True)
    assert any("stand in /etc/vllm.yaml; write it by hand" in one for one in proposal.notes)


def test_a_unit_without_a_file_is_ended_otherwise(tmp_path: Path) -> None:
    """Of Podman's files and of systemd-run there is nothing to disable."""
    for name in ("systemd/generator/quadlet.service", "user/1000/systemd/transient/run-u7.service"):
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.touch()
    assert _unit_end("quadlet.service", "", tmp_path) == "sudo systemctl mask --now quadlet.service"
    assert _unit_end("run-u7.service", "anna", tmp_path) == "sudo systemctl --user -M anna@ stop run-u7.service"
    assert _unit_end("chat.service", "", tmp_path) == "sudo systemctl disable --now chat.service"


def test_a_container_of_a_unit_is_ended_by_its_unit(tmp_path: Path) -> None:
    """As Podman's own units run it; Docker's containers are below no service."""
    key = "a" * 64
    for number, group in (
        (1, f"/system.slice/chat.service/libpod-payload-{key}"),
        (2, f"/system.slice/docker-{key}.scope"),
        (3, "/user.slice/user-1000.slice/user@1000.service/app.slice/mine.service"),
        (4, "/user.slice/user-1000.slice/user@1000.service/app.slice/run-p4.scope"),
        (5, f"/machine.slice/libpod-{key}.scope"),
        (6, f"/kubepods.slice/kubepods-burstable.slice/cri-containerd-{key}.scope"),
        (7, f"/system.slice/k3s.service/kubepods/burstable/cri-containerd-{key}"),
        (8, f"/user.slice/user-0.slice/user@0.service/user.slice/libpod-{key}.scope/container"),
        (9, f"/user.slice/user-0.slice/user@0.service/app.slice/docker-{key}.scope"),
        (10, f"/user.slice/user-99999.slice/user@99999.service/app.slice/docker-{key}.scope"),
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "cmdline").write_bytes(b"vllm\0serve\0a/b\0")
        (folder / "cgroup").write_text(f"0::{group}\n")
        (folder / "statm").write_text("1 1 1")
    found = {(one.by, one.unit, bool(one.manager)) for one in processes(tmp_path)}
    assert found == {
        ("podman", "chat.service", False),
        ("docker", "", False),
        (OWN_DOCKER.replace("1000", "0"), "", False),
        (OWN_PODMAN.replace("1000", "0").replace("anna", "root"), "", False),
        ("docker", "mine.service", True),
        ("podman", "", False),
        ("", "", False),
    }


@pytest.mark.parametrize(
    ("line", "engine", "model"),
    [
        ("/usr/bin/python3 /venv/bin/vllm serve a/b", "vllm", "a/b"),
        ("python3.12 -m vllm.entrypoints.openai.api_server --model a/b", "vllm", "a/b"),
        ("python -m sglang.launch_server --model-path=a/b", "sglang", "a/b"),
        ("/app/llama-server -m /models/x.gguf", "llama-cpp", "/models/x.gguf"),
        ("trtllm-serve a/b", "trtllm", "a/b"),
        ("vllm serve --port 1 --model a/b", "vllm", "a/b"),
    ],
)
def test_a_server_is_known_by_its_command(line: str, engine: str, model: str) -> None:
    found = program(line.split())
    assert found is not None and found[0] == engine and model_of(found[1]) == model


@pytest.mark.parametrize(
    "line",
    [
        "sleep infinity",
        "docker exec -it vllm_node vllm serve a/b",
        "grep vllm serve",
        "bash -c vllm",
        "sudo vllm serve a/b",
        "vllm bench serve",
        "",
    ],
)
def test_what_speaks_of_a_server_is_none(line: str) -> None:
    assert program(line.split()) is None


@pytest.mark.parametrize(
    "words",
    [
        "--api-key S3CRET",
        "--api-key=S3CRET",
        "--api-key S3CRET S3CRET-2",
        "--api_key S3CRET",
        "--api-k S3CRET",
        "--api-key 123456",
        "--hf-token S3CRET",
        "--ssl-keyfile-password S3CRET",
        "--otlp-headers authorization=S3CRET",
        "--admin-key S3CRET",
        "--middleware-auth S3CRET",
        '--kv-transfer-config {"extra":{"api_key":"S3CRET"}}',
        "--media-proxy http://me:S3CRET@proxy",
        "--x hf_S3CRETS3CRET",
        "--x sk-S3CRETS3CRET",
        "--x OF-THE-ENVIRONMENT",
        "--chat-template line\nS3CRET",
    ],
)
def test_no_secret_of_a_command_leaves_its_host(words: str) -> None:
    kept, withheld = without_secrets(["a/b", *words.split(" "), "--port", "8000"], ["OF-THE-ENVIRONMENT"])
    assert kept == ["a/b", "--port", "8000"] and len(withheld) == 1
    assert "S3CRET" not in str((kept, withheld)).replace("line", "") and "ENVIRONMENT" not in str(withheld)


def test_what_is_no_secret_goes_over() -> None:
    words = "a/b --tokenizer-mode auto --long-prefill-token-threshold 512 --enable-auto-tool-choice --max-num-seqs 8"
    words += ' --speculative-config {"num_speculative_tokens":3} --kv-cache-dtype fp8 --ssl-keyfile /etc/k.pem -1'
    assert without_secrets(words.split()) == (words.split(), [])


def test_variables_are_those_of_engines_that_hold_no_secret() -> None:
    given = [
        "VLLM_USE_V1=1",
        "VLLM_API_KEY=S3CRET",
        "PATH=/bin",
        "NCCL_DEBUG=WARN",
        "VLLM_X=hf_abcdefgh",
        "MY_TOKEN=T0KEN",
    ]
    kept, names, secrets = environment([*given, "VLLM_OF_IMAGE=1"], ["VLLM_OF_IMAGE=1"])
    assert kept == {"VLLM_USE_V1": "1", "NCCL_DEBUG": "WARN"}
    assert names == ["MY_TOKEN", "VLLM_API_KEY", "VLLM_X"] and {*secrets} == {"S3CRET", "T0KEN", "hf_abcdefgh"}


@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_link_to_a_cache_s_folder_is_that_folder(tmp_path: Path, is_absolute: bool) -> None:
    commit = "1" * 40
    (tmp_path / f"hub/models--a--b/snapshots/{commit}").mkdir(parents=True)
    (tmp_path / "now").symlink_to(f"{'/models/' if is_absolute else ''}hub/models--a--b/snapshots/{commit}")
    found = _weights(["/models/now"], [(str(tmp_path), "/models")], {}, "/root")
    assert found == (f"{tmp_path}/hub/models--a--b", commit)
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "away").symlink_to("/elsewhere/model")
    assert _weights(["/models/circle"], [(str(tmp_path), "/models")], {}, "/root") == (f"{tmp_path}/circle", "")
    assert _weights(["/models/away"], [(str(tmp_path), "/models")], {}, "/root") == ("", "")


def test_weights_are_found_in_the_cache_that_the_container_sees(tmp_path: Path) -> None:
    commit = "1d4bf0f9f2c34c7d8f0a6b5c4d3e2f1a0b9c8d7e"
    model = tmp_path / "hub/models--a--b"
    (model / "snapshots" / commit).mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs/main").write_text(commit)
    mounts = [(str(tmp_path), "/root/.cache/huggingface")]
    assert _weights(["a/b"], mounts, {}, "/root") == (str(model), commit)
    assert _weights(["a/b", "--revision", "f" * 40], mounts, {}, "/root") == ("", "")
    assert _weights(["a/b"], [(str(tmp_path), "/cache")], {"HF_HOME": "/cache"}, "/root") == (str(model), commit)
    assert _weights(["a/b"], [], {}, "/root") == ("", "") and _weights(["a/../b"], mounts, {}, "/root") == ("", "")
    inside = f"/root/.cache/huggingface/hub/models--a--b/snapshots/{commit}"
    assert _weights([inside], mounts, {}, "/root") == (str(model), commit)


@pytest.mark.parametrize(
    ("words", "env", "hub"),
    [
        (["--download-dir", "/models"], {"HF_HOME": "/x"}, "models"),
        (["--download-dir=/models"], {"HF_HUB_CACHE": "/x"}, "models"),
        ([], {"HUGGINGFACE_HUB_CACHE": "/models"}, "models"),
        ([], {"XDG_CACHE_HOME": "/cache"}, "cache/huggingface/hub"),
        ([], {"HOME": "/home/vllm"}, "home/vllm/.cache/huggingface/hub"),
    ],
)
def test_weights_are_found_where_the_engine_puts_them(
    tmp_path: Path, words: list[str], env: dict[str, str], hub: str
) -> None:
    model = tmp_path / hub / "models--a--b"
    (model / "snapshots" / ("c" * 40)).mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs/main").write_text("c" * 40)
    mounts = [(str(tmp_path / name), f"/{name}") for name in ("models", "cache", "home/vllm")]
    assert _weights(["a/b", *words], mounts, env, "/root") == (str(model), "c" * 40)


def test_networks_are_those_of_routes() -> None:
    routes = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
    routes += "eth0 00000000 0101A8C0 3 0 0 0 00000000 0 0 0\n"
    routes += "eth0 0001A8C0 00000000 1 0 0 0 00FFFFFF 0 0 0\n"
    assert networks(routes) == {"eth0": ["192.168.1.0/255.255.255.0"]}


def test_a_configuration_is_read_with_what_it_includes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    sync = tmp_path / ".config/NVIDIA/Sync/config/ssh_config"
    sync.parent.mkdir(parents=True)
    sync.write_text("Host titan\n  User anna\n")
    (tmp_path / ".ssh/config").write_text(
        f'Include "{sync}"\nInclude config\nHost *\n  User x\nHost spark-3f1c\n  HostName=10.0.0.1\n'
    )
    monkeypatch.setattr(look, "own_addresses", list)
    monkeypatch.setattr(look, "neighbours", lambda _text: {})
    found = {one.name: one for one in look.look_around([])}
    assert found["titan"].user == "anna" and found["titan"].sources == ("NVIDIA Sync",)
    assert found["spark-3f1c"].user == ""


def test_who_answers_a_question_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over this machine's own loopback: a socket in the place of the multicast group."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as box:
        box.bind(("127.0.0.1", 0))
        monkeypatch.setattr(look, "_MDNS", box.getsockname())
        monkeypatch.setattr(look, "_LISTEN_S", 0.5)
        asked = look._asked([b"question"], "127.0.0.1")
        assert asked is not None
        monkeypatch.setattr(look, "own_addresses", lambda: ["127.0.0.1"])
        monkeypatch.setattr(look, "_asked", lambda _packets, _address: asked)
        _question, sender = box.recvfrom(100)
        box.sendto(b"rubbish", sender)
        box.sendto(packet(row(SPARK, 1, b"\x7f\0\0\1")), sender)
        assert [*look._ask([b""])] == [(("spark-3f1c.local", 1, "127.0.0.1"), "127.0.0.1")]


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (["localhost"], ["localhost"]),
        (["spark-3f1c.local", "spark-a208.local"], ["localhost", "spark-a208.local"]),
        (["192.168.1.40"], ["localhost"]),
        (["spark-a208.local"], ["spark-a208.local"]),
    ],
)
def test_the_spark_itself_is_reached_without_ssh(
    named: list[str], found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init_hosts, "log_in_here", lambda: Login(True, "spark-3f1c", "4c:bb:47:1a:3f:1c", False))
    monkeypatch.setattr(init_hosts, "own_addresses", lambda: ["192.168.1.40"])
    assert [one.name for one in init_hosts._found(named)] == found


@pytest.mark.parametrize(
    ("typed", "remedy"),
    [
        ("anna@spark-3f1c.local", "write -e host=spark-3f1c.local -e user=anna"),
        ("spark.local:2222", "write -e host=spark.local; its port stands in ~/.ssh/config"),
        ("ssh://anna@192.168.1.40:22/", "write -e host=192.168.1.40 -e user=anna; its port stands in ~/.ssh/config"),
        ("[2001:db8::5]", "write -e host=2001:db8::5"),
        ("http://spark.local/", "write -e host=spark.local"),
        ("-oProxyCommand=x", "-e host=192.168.1.40,spark-3f1c.local"),
        ("spark-[1:3]", "-e host=192.168.1.40,spark-3f1c.local"),
        ("a b", "-e host=192.168.1.40,spark-3f1c.local"),
        ("x" * 5000, "-e host=192.168.1.40,spark-3f1c.local"),
    ],
)
def test_what_is_typed_for_ssh_is_refused_with_what_to_type_here(typed: str, remedy: str) -> None:
    with pytest.raises(AnsibleActionFail) as refusal:
        init_hosts._named([typed])
    assert str(refusal.value).endswith(f"is no host's name or address; {remedy}") or remedy in str(refusal.value)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--data-parallel-size 2 --data-parallel-size-local 1 --data-parallel-address 10.0.0.1", "replicas"),
        ("-dp 2 -dpl 1 --data-parallel-rpc-port 13345", "replicas"),
        ("--data-parallel-size=4 --data-parallel-size-local=2", "replicas"),
        ("--port 0", "of its own choice"),
        ("--port=0", "of its own choice"),
        ("--data-parallel-size 2", ""),
        ("--port 8003", ""),
    ],
)
def test_what_a_service_can_not_declare_is_a_sentence(words: str, why: str) -> None:
    shown = {"serves": [{"command": f"vllm serve Qwen/Qwen3-8B {words}"}]}
    proposal = propose({"a": Host("10.0.0.1", reading_of("a", shown))}, [], LIBRARY, take_over=True)
    assert bool(proposal.services) is not bool(why)
    assert not why or any(why in note for note in proposal.notes)


def proc_of(tmp_path: Path, rows: dict[int, dict[str, Any]]) -> Path:
    """A /proc. rows: {number: {words, parent, group, cwd, env}}."""
    for number, row in rows.items():
        folder = tmp_path / "proc" / str(number)
        folder.mkdir(parents=True)
        (folder / "cmdline").write_bytes("\0".join([*row["words"].split(), ""]).encode())
        (folder / "cgroup").write_text(f"0::{row.get('group', '/system.slice/init.scope')}\n")
        (folder / "statm").write_text(f"{row.get('pages', 1)} {row.get('pages', 1)} 1")
        (folder / "stat").write_text(f"{number} (a (b) c) S {row.get('parent', 1)} 1 1")
        (folder / "environ").write_bytes("\0".join(row.get("env", [])).encode())
        if "cwd" in row:
            (folder / "cwd").symlink_to(row["cwd"])
    return tmp_path / "proc"


def silent(words: list[str]) -> tuple[int, str, str]:
    return 1, "", "not there"


def read_by_hand(tmp_path: Path, rows: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    units = tmp_path / "units"
    units.mkdir()
    return read_serving(silent, processes(proc_of(tmp_path, rows)), units, lambda _at: "")


@pytest.mark.parametrize(
    "words", ["vllm serve models/qwen", "llama-server -m models/qwen", "vllm serve --model=models/qwen"]
)
def test_a_folder_beside_a_program_is_no_model_of_the_hub(tmp_path: Path, words: str) -> None:
    (tmp_path / "home/models/qwen").mkdir(parents=True)
    [found] = read_by_hand(tmp_path, {5: {"words": words, "cwd": tmp_path / "home"}})
    assert model_of(found["words"]) == str(tmp_path / "home/models/qwen")
    (tmp_path / "other").mkdir()
    [other] = read_by_hand(tmp_path / "other", {5: {"words": words, "cwd": tmp_path}})
    assert model_of(other["words"]) == "models/qwen"


@pytest.mark.parametrize(
    ("parent", "unit"),
    [
        ("/usr/sbin/cron -f", ""),
        ("SCREEN -S llm", ""),
        ("tmux: server", ""),
        ("/usr/bin/python3 /usr/bin/supervisord -n", ""),
        ("/bin/bash /opt/start.sh", "sudo systemctl disable --now llm.service"),
        ("uv run vllm serve a/b", "sudo systemctl disable --now llm.service"),
    ],
)
def test_a_unit_that_holds_other_programs_is_not_ended(tmp_path: Path, parent: str, unit: str) -> None:
    group = "/system.slice/llm.service"
    rows = {
        3: {"words": parent, "group": group},
        5: {"words": "python3 /v/bin/vllm serve a/b", "group": group, "parent": 3},
    }
    [found] = read_by_hand(tmp_path, rows)
    assert found["ends"] == unit


@pytest.mark.parametrize("parent", ["llama-server --models-dir /m", "/usr/bin/llama-swap -c /x", "ollama serve"])
def test_what_a_router_starts_is_no_server_of_its_own(tmp_path: Path, parent: str) -> None:
    rows = {3: {"words": parent}, 5: {"words": "/x/llama-server -m /m/a.gguf --port 50123", "parent": 3}}
    assert [one for one in read_by_hand(tmp_path, rows) if model_of(one["words"])] == []


@pytest.mark.parametrize(("parent", "is_left"), [("/usr/bin/llama-swap -config /app/x", True), ("bash /x.sh", False)])
def test_a_container_that_a_router_started_is_its(tmp_path: Path, parent: str, is_left: bool) -> None:
    """llama-swap starts docker run, whose container is below no process of its own."""
    (tmp_path / "units").mkdir()
    rows = {
        3: {"words": parent, "group": "/user.slice/user-0.slice/user@0.service/app.slice/swap.service"},
        4: {"words": "docker run --rm --name vllm-1 x", "parent": 3,
            "group": "/user.slice/user-0.slice/user@0.service/app.slice/swap.service"},
        5: {"words": "vllm serve a/b --port 5800", "group": f"/docker/{'a' * 64}"},
    }  # fmt: skip
    shown = [{"Id": "a" * 64, "Name": "/vllm-1", "Image": "i", "HostConfig": {"NetworkMode": "container:swap"}}]

    def run(words: list[str]) -> tuple[int, str, str]:
        return 0, json.dumps([{"Id": "i"}] if "image" in words else shown), ""

    found = read_serving(run, processes(proc_of(tmp_path, rows)), tmp_path / "units", lambda _at: "")
    assert [one["ends"] for one in found] == (
        [] if is_left else ["sudo systemctl --user -M root@ disable --now swap.service"]
    )


def test_a_server_of_an_account_that_a_container_alone_knows_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_number: int) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", unknown)
    [found] = read_by_hand(tmp_path, {5: {"words": "vllm serve a/b"}})
    assert found["engine"] == "vllm" and found["folder"] == ""


def test_variables_of_a_start_by_hand_go_over_and_its_secrets_do_not(tmp_path: Path) -> None:
    env = ["VLLM_ATTENTION_BACKEND=FLASHINFER", "HF_TOKEN=hf_0123456789abcdef", "CUDA_HOME=/usr/local/cuda", "LANG=C"]
    [found] = read_by_hand(tmp_path, {5: {"words": "vllm serve a/b", "env": env}})
    assert found["env"] == {"VLLM_ATTENTION_BACKEND": "FLASHINFER"} and found["withheld"] == ["HF_TOKEN"]


def test_weights_are_found_in_the_cache_of_a_person_s_shell(tmp_path: Path) -> None:
    (tmp_path / "hf/hub/models--a--b/snapshots" / ("c" * 40)).mkdir(parents=True)
    (tmp_path / "hf/hub/models--a--b/refs").mkdir()
    (tmp_path / "hf/hub/models--a--b/refs/main").write_text("c" * 40)
    [found] = read_by_hand(tmp_path, {5: {"words": "vllm serve a/b", "env": [f"HF_HOME={tmp_path}/hf"]}})
    assert (found["folder"], found["commit"]) == (f"{tmp_path}/hf/hub/models--a--b", "c" * 40)


def test_options_of_a_file_are_those_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        "# mine\nmodel: a/b\nport: 8009\nmax-model-len: '4096'\nenable_prefix_caching: true\ntrust-remote-code: false\n"
        "served-model-name:\n  - one\n  - two\napi-key: S3CRET\n"
    )
    words = "vllm serve --config x.yaml --max-model-len 8192"
    [found] = read_by_hand(tmp_path, {5: {"words": words, "cwd": tmp_path}})
    assert "api-key" in found["withheld"] and "S3CRET" not in json.dumps(found)
    found["words"].append("--dtype=auto")
    reading = {**reading_of("a", {}), "serving": [found]}
    [one] = propose({"a": Host("a", reading)}, [], LIBRARY, take_over=True).services.values()  # type: ignore[arg-type]
    assert (one.service["port"], one.service["served_name"]) == (8009, "one")
    assert one.service["workload"] == {"max_model_len": 8192}
    assert one.recipe and one.recipe["flags"] == {"enable-prefix-caching": True, "dtype": "auto"}


@pytest.mark.parametrize("text", ["hf-overrides:\n  a: 1\n", "a: &x 1\n", "- a\n- {b: c}\n", "", "a: |\n  b\n"])
def test_a_file_with_more_than_options_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    [found] = read_by_hand(tmp_path, {5: {"words": f"vllm serve a/b --config {tmp_path}/x.yaml"}})
    reading = {**reading_of("a", {}), "serving": [found]}
    [one] = propose({"a": Host("a", reading)}, [], LIBRARY, take_over=True).services.values()  # type: ignore[arg-type]
    assert any("were not read and don't go over" in note for note in one.notes)


@pytest.mark.parametrize(
    ("words", "heads"),
    [
        (["/ray/raylet/raylet", "--gcs-address=10.20.0.11:6379"], ["10.20.0.11"]),
        (
            ["orted", "-mca", "orte_hnp_uri", "3577806848.0;tcp://172.17.0.2,10.20.0.11:36461"],
            ["10.20.0.11", "172.17.0.2"],
        ),
        (["prted", "--prtemca", "prte_hnp_uri", "prterun-north-12@0.0;tcp4://10.20.0.11:38000"], ["10.20.0.11"]),
        (["curl", "tcp://10.20.0.11:1", "--x=--gcs-address=10.20.0.11:1"], []),
    ],
)
def test_a_member_of_a_cluster_names_its_head(words: list[str], heads: list[str]) -> None:
    assert ray_heads([Process(words)]) == heads


def test_what_holds_the_gpu_is_named_with_what_it_holds(tmp_path: Path) -> None:
    container = f"/docker/{'a' * 64}"
    rows = {
        3: {"words": "ollama serve"},
        4: {"words": "/usr/lib/ollama/runner --port 4711", "parent": 3},
        5: {"words": "python main.py --listen", "cwd": "/home/anna/ComfyUI"},
        6: {"words": "/usr/bin/python3 -m jupyterlab"},
        7: {"words": "vllm serve a/b"},
        8: {"words": "VLLM::EngineCore", "parent": 7},
        9: {"words": "ray::RayWorkerWrapper", "group": container},
        10: {"words": "/usr/bin/gnome-shell"},
        11: {"words": "/home/anna/.lmstudio/llmster/0.0.2/llmster"},
        12: {"words": "/usr/bin/python3 /opt/nim/llm/start_server.py"},
        13: {"words": "VLLM::EngineCore", "parent": 12},
    }
    gpu = "3, 300\n4, 40000\n5, 20000\n6, 2000\n8, 90000\n9, 90000\n10, 200\n13, 60000\n99, 90000\n77, [N/A]\n"
    held = beside(processes(proc_of(tmp_path, rows)), lambda _words: (0, gpu, ""))
    assert {name: kib >> 20 for name, kib in held.items()} == {
        "ollama": 39,
        "ComfyUI": 19,
        "jupyterlab": 1,
        "llmster": 0,
        "start_server": 58,
    }
    assert beside(processes(tmp_path / "proc"), silent)["ollama"] > 0


def test_one_cable_of_two_is_taken_as_it_is() -> None:
    ports = {"a": {0: ["10.9.0.1/24", "10.9.1.1/24"], 1: []}, "b": {0: ["10.9.0.2/24", "10.9.1.2/24"], 1: []}}
    hosts = hosts_of({"hosts": {
        name: {"address": name, "ports": ports[name], "seen": {0: [f"{far}:0"], 1: [f"{far}:1"]}}
        for name, far in (("a", "b"), ("b", "a"))
    }})  # fmt: skip
    proposal = propose(hosts, [], LIBRARY, take_over=True)
    assert proposal.fabric == {"keeper": "others", "cables": [{"addresses": {
        "a:0": ["10.9.0.1/24", "10.9.1.1/24"], "b:0": ["10.9.0.2/24", "10.9.1.2/24"]}}]}  # fmt: skip
    assert "a:1 and b:1 have no address and stay as they are" in proposal.notes


@pytest.mark.parametrize(
    ("hosts_know", "own", "free"),
    [
        (["10.0.0.0/255.0.0.0", "192.168.0.0/255.255.0.0", "172.29.0.0/255.255.0.0"], [], "172.16.0.0/22"),
        (["192.168.1.0/255.255.255.0"], ["0.0.0.0/1", "128.0.0.0/1"], None),
        (["192.168.0.0/255.255.0.0"], ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"], "10.188.0.0/22"),
    ],
)
def test_a_pool_is_found_beside_a_vpn(hosts_know: list[str], own: list[str], free: str | None) -> None:
    hosts = hosts_of({"hosts": {
        name: {"address": name, "ports": {0: []}, "seen": {0: [far]}, "networks": {"enP7s7": hosts_know}}
        for name, far in (("a", "b:0"), ("b", "a:0"))
    }})  # fmt: skip
    assert propose(hosts, own, LIBRARY, take_over=True).fabric.get("pool") == free


def test_a_vlan_over_a_half_is_seen(tmp_path: Path) -> None:
    half = tmp_path / "enp1s0f0np0"
    half.mkdir()
    (half / "upper_storage.100").symlink_to("../storage.100")
    assert _master("enp1s0f0np0", {"addresses": []}, tmp_path) == "storage.100"
    assert _master("enp1s0f0np0", {"addresses": ["10.9.0.1/24"]}, tmp_path) == ""
    (tmp_path / "bond0").mkdir()
    (half / "master").symlink_to("../bond0")
    assert _master("enp1s0f0np0", {"addresses": ["10.9.0.1/24"]}, tmp_path) == "bond0"


@pytest.mark.parametrize(
    ("typed", "why"),
    [(b"\x03", "you ended it; no inventory was written"), (b"7 x\r", "expected numbers of the list, like 1 2")],
)
def test_a_choice_that_is_cut_off_leaves_nothing(tmp_path: Path, typed: bytes, why: str) -> None:
    """At a terminal, by Ansible itself: two machines of ssh's files, and what a person types at the question."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host spark-3f1c spark-a208\n  HostName 127.0.0.1\n")
    (tmp_path / "here").mkdir()
    environment = {**os.environ, "HOME": str(tmp_path), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")}
    words = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "gb10.fleet.init"]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path / "here")
        os.execve(words[0], words, environment)
    screen, end, is_typed = b"", time.monotonic() + 180, False
    while time.monotonic() < end:
        if select.select([terminal], [], [], 1.5)[0]:
            try:
                screen += os.read(terminal, 4096)
            except OSError:
                break
        elif b"for all:" in screen and not is_typed:
            is_typed = os.write(terminal, typed) > 0
    else:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    assert status == 2 and why in screen.decode(), screen.decode()
    assert [*(tmp_path / "here").iterdir()] == [] and not (tmp_path / ".ssh/known_hosts").exists()


@pytest.mark.parametrize(
    ("asked", "files", "named"),
    [
        ("a/b-GGUF:Q4_K_M", ["b-Q4_K_M.gguf", "b-Q8_0.gguf", "mmproj-Q4_K_M.gguf"], "b-Q4_K_M.gguf"),
        ("a/b-GGUF", ["b-mxfp4-00001-of-00003.gguf", "b-mxfp4-00002-of-00003.gguf"], "b-mxfp4-00001-of-00003.gguf"),
        ("a/b-GGUF", ["b-Q4_0.gguf", "b-Q8_0.gguf"], ""),
        ("a/b-GGUF:Q8_0", ["Q8_0/b.gguf"], "Q8_0/b.gguf"),
    ],
)
def test_the_file_that_llama_cpp_took_is_named(tmp_path: Path, asked: str, files: list[str], named: str) -> None:
    repository = tmp_path / "hf/hub/models--a--b-GGUF"
    for file in files:
        (repository / "snapshots" / ("c" * 40) / file).parent.mkdir(parents=True, exist_ok=True)
        (repository / "snapshots" / ("c" * 40) / file).touch()
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text("c" * 40)
    [found] = read_by_hand(tmp_path, {5: {"words": f"llama-server -hf {asked}", "env": [f"HF_HOME={tmp_path}/hf"]}})
    reading = {**reading_of("a", {}), "serving": [found]}
    [one] = propose({"a": Host("a", reading)}, [], LIBRARY, take_over=True).services.values()  # type: ignore[arg-type]
    assert one.recipe and one.recipe["model"].get("file") == (named or None)
    assert one.service["model"]["source"] == {"path": str(repository)}


@pytest.mark.parametrize(
    ("users", "all_have", "own"),
    [
        (["anna", "anna"], "anna", [None, None]),
        (["", "anna"], "", [None, "anna"]),
        (["", ""], "", [None, None]),
        (["bob", "anna"], "", ["bob", "anna"]),
    ],
)
def test_an_account_of_one_machine_is_not_that_of_another(
    users: list[str], all_have: str, own: list[str | None]
) -> None:
    """One of ssh's own files beside one that they don't name: a group's variable would go before ssh's."""
    found = [{"name": name, "address": f"{name}.local", "user": user} for name, user in zip("ab", users, strict=True)]
    variables = {"hostvars": {name: {"init_reading": {"reading": reading_of(name, {})}} for name in "ab"}}
    assert account_of(found) == all_have
    files = texts(read_hosts(found, variables), Proposal({}, {}), account_of(found), take_over=False)
    hosts = read_yaml(files[HOSTS])["all"]["hosts"]
    assert [hosts[name].get("ansible_user") for name in "ab"] == own
    assert read_yaml(files[CONNECTION]).get("ansible_user", "") == all_have


@pytest.mark.parametrize(
    "words",
    [
        "--" + ".".join("a" * 1900) + " 1",
        "--hf-overrides." + ".".join("a" * 1900) + " 1",
        "--x " + '{"a":' * 300 + "1" + "}" * 300,
    ],
)
def test_options_that_lie_deep_in_each_other_end_no_run(words: str) -> None:
    serves = [{"command": "vllm serve Qwen/Qwen3-8B", "container": GIVEN}]
    reading = reading_of("a", {"serves": serves})
    reading["serving"][0]["words"] += words.split(" ")
    hosts = {"a": Host("a", checked(FORM, {"reading": reading}, "a")["reading"])}
    proposal = propose(hosts, [], LIBRARY, take_over=True)
    assert not proposal.services and any("deeper in each other" in note for note in proposal.notes)
