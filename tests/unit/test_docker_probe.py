# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.parts import UnreadableError
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.container_engine import reading
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.reading import read_containers


def _read(mounts: Sequence[dict[str, Any]] = (), **host_config: Any) -> dict[str, Any]:
    """What is read of the one container that runs, with these mounts and this HostConfig."""
    container = {
        "Id": "c1", "Image": "sha256:i1", "Name": "/gb10-service-nano", "Mounts": [*mounts], "HostConfig": host_config,
        "Config": {"Image": "vllm:1", "Env": ["PATH=/bin", "VLLM_X=1", "HF_TOKEN=secret"]},
    }  # fmt: skip
    image = {"Id": "sha256:i1", "Config": {"Env": ["PATH=/bin"]}}

    def run(command: Sequence[str]) -> tuple[int, str, str]:
        answers = {"ps": "c1\n", "inspect": json.dumps([container]), "image": json.dumps([image])}
        return 0, answers[command[1]], ""

    return read_containers(run, {"gb10-service-nano": ["VLLM_X"]})["gb10-service-nano"]


def test_of_other_variables_than_the_plans_only_the_names_are_read() -> None:
    found = _read()
    assert (found["env"], found["other_env"]) == ({"VLLM_X": "1"}, ["HF_TOKEN"])
    assert "secret" not in json.dumps(found)


@pytest.mark.parametrize(
    ("ipc", "options", "read"),
    [
        ("private", ["no-new-privileges"], ["no-new-privileges"]),
        ("private", ["label=disable"], ["label=disable"]),
        ("host", ["no-new-privileges", "label=disable"], ["no-new-privileges"]),
        ("host", None, []),
    ],
)
def test_what_docker_adds_for_the_hosts_ipc_is_not_read_as_an_option(
    ipc: str, options: list[str] | None, read: list[str]
) -> None:
    assert _read(IpcMode=ipc, SecurityOpt=options)["security"] == read


def test_a_docker_that_hangs_is_no_docker_that_could_not_be_read() -> None:
    def run(_words: list[str]) -> tuple[int, str, str]:
        raise UnreadableError("docker did not end within 30 s")

    found = reading.read_engine(run)
    assert found == {"installed": True, "running": False, "hangs": "docker did not end within 30 s"}


CHAIN = "the chain DOCKER of iptables' table "
TABLE = "nftables' table ip docker-bridges"
NFT = {"FirewallBackend": {"Driver": "nftables"}}
NO_CHAIN = (1, "", "iptables: No chain/target/match by that name.\n")
NO_TABLE = (1, "", "Error: No such file or directory\nlist table ip docker-bridges\n")
BUSY = (4, "", "Another app is currently holding the xtables lock.\n")


@pytest.mark.parametrize(
    ("info", "settings", "unit", "kernel", "missing"),
    [
        ({}, {}, "", {}, []),
        ({}, {}, "", {"nat": NO_CHAIN, "filter": NO_CHAIN}, [CHAIN + "nat", CHAIN + "filter"]),
        ({"FirewallBackend": {"Driver": "iptables"}}, {}, "", {"filter": NO_CHAIN}, [CHAIN + "filter"]),
        ({"FirewallBackend": {"Driver": "iptables+firewalld"}}, {}, "", {"nat": NO_CHAIN}, [CHAIN + "nat"]),
        (NFT, {}, "", {"nat": NO_CHAIN, "ip": NO_TABLE}, [TABLE]),
        (NFT, {}, "", {"nat": NO_CHAIN}, []),
        # not known
        ({}, {}, "", {"nat": BUSY}, []),
        ({"FirewallBackend": {"Driver": "another"}}, {}, "", {"nat": NO_CHAIN, "ip": NO_TABLE}, []),
        ({}, {}, "", {"nat": None, "filter": None}, []),
        # its owner makes the rules
        ({}, {"iptables": False}, "", {"nat": NO_CHAIN}, []),
        ({}, {"iptables": True}, "", {"nat": NO_CHAIN}, [CHAIN + "nat"]),
        ({}, {}, "--iptables=false", {"nat": NO_CHAIN}, []),
        ({}, {}, "--config-file=/etc/mine.json", {"nat": NO_CHAIN}, []),
    ],
)
def test_rules_of_docker_that_somebody_flushed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    info: dict[str, Any],
    settings: dict[str, Any],
    unit: str,
    kernel: dict[str, tuple[int, str, str] | None],
    missing: list[str],
) -> None:
    """By what iptables and nft say. kernel: by the table that is asked for; None: there is no such program."""
    monkeypatch.setattr(reading, "_DAEMON", tmp_path / "daemon.json")
    (tmp_path / "daemon.json").write_text(json.dumps(settings))

    def run(words: list[str]) -> tuple[int, str, str]:
        if words[0] == "docker":
            return 0, json.dumps({"ServerVersion": "29.0.0", "Driver": "overlay2"} | info), ""
        if words[0] == "systemctl":
            return (
                0,
                f"LoadState=loaded\nExecStart={{ path=/usr/bin/dockerd ; argv[]=/usr/bin/dockerd {unit} ; }}\n",
                "",
            )
        answer = next((kernel[table] for table in kernel if table in words), (0, "-N DOCKER\n", ""))
        if answer is None:
            raise FileNotFoundError
        return answer

    assert reading.needed_rules(reading.read_engine(run), reading.read_daemon(run)) == missing


def test_docker_s_configuration_is_read_once_a_reading() -> None:
    asked: list[str] = []

    def run(words: list[str]) -> tuple[int, str, str]:
        asked.append(words[0])
        return 0, json.dumps({"ServerVersion": "29.0.0", "Driver": "overlay2"}), ""

    reading.READS["engine"](run, {})
    assert "systemctl" not in asked


def test_a_cache_is_read_as_the_folder_of_the_host_that_it_is() -> None:
    """As Docker 28 shows a volume over a folder of the host, one of the image's own, and a bind mount."""
    options = {"type": "none", "o": "bind", "device": "/var/cache/a"}
    asked = [
        {"Type": "bind", "Source": "/models", "Target": "/hf", "ReadOnly": True},
        {"Type": "volume", "Target": "/c", "VolumeOptions": {"DriverConfig": {"Name": "local", "Options": options}}},
    ]
    there = [
        {"Type": "bind", "Source": "/models", "Destination": "/hf", "RW": False},
        {"Type": "volume", "Source": "/var/lib/docker/volumes/1/_data", "Destination": "/c", "RW": True},
        {"Type": "volume", "Source": "/var/lib/docker/volumes/2/_data", "Destination": "/own", "RW": True},
    ]
    found = _read(there, Mounts=asked)["mounts"]
    assert found == [["/models", "/hf", True], ["/var/cache/a", "/c", False]]
