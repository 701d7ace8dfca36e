# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._services.reading import read_containers


def _read(**host_config: Any) -> dict[str, Any]:
    """What is read of the one container that runs, with this HostConfig."""
    container = {
        "Id": "c1", "Image": "sha256:i1", "Name": "/gb10-service-nano", "Mounts": [], "HostConfig": host_config,
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
