# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.docker_command import (
    Bind,
    DockerCommand,
    split_docker_command,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    "text, expected",
    [
        ("docker run img a b", DockerCommand("img", ("a", "b"))),
        (
            "sudo /usr/bin/docker run --rm -it img",
            DockerCommand("img", (), options={"rm": ("",), "interactive": ("",), "tty": ("",)}),
        ),
        ("docker container run -d img", DockerCommand("img", (), options={"detach": ("",)})),
        ("podman run img", DockerCommand("img", ())),
        ("docker run -e A=1 --env B -eC=x=y img", DockerCommand("img", (), {"A": "1", "B": "", "C": "x=y"})),
        (
            "docker run -v /a:/b:ro --volume=c:/d --mount type=bind,source=/e,target=/f,readonly img",
            DockerCommand("img", (), {}, (Bind("/a", "/b", True), Bind("c", "/d"), Bind("/e", "/f", True))),
        ),
        ("docker run -p8000:8000 -p 1:2 img", DockerCommand("img", (), options={"publish": ("8000:8000", "1:2")})),
        ("docker run --entrypoint /bin/bash img -c 'a b'", DockerCommand("img", ("-c", "a b"), entrypoint="/bin/bash")),
        (
            "docker run \\\n  --gpus all \\\n  img \\\n  --x # note",
            DockerCommand("img", ("--x",), options={"gpus": ("all",)}),
        ),
        ("docker run --ipc=host -- img -d", DockerCommand("img", ("-d",), options={"ipc": ("host",)})),
    ],
)
def test_taken_apart(text: str, expected: DockerCommand) -> None:
    assert split_docker_command(text) == expected


def test_words_are_taken_as_they_are() -> None:
    taken = split_docker_command(["docker", "run", "img", "--x", '{"a": 1}'])
    assert taken.argv == ("--x", '{"a": 1}')


@pytest.mark.parametrize(
    "text, found",
    [
        ("", "nothing"),
        ("vllm serve x", "vllm serve x"),
        ("docker ps", "docker ps"),
        ("docker run -d", "options without an image"),
        ("docker run 'img", "no shell would read"),
    ],
)
def test_refused(text: str, found: str) -> None:
    with pytest.raises(FleetError) as refusal:
        split_docker_command(text)
    assert found in refusal.value.findings[0].found


@given(st.text(), st.lists(st.text()))
def test_any_text_is_taken_or_refused(text: str, words: list[str]) -> None:
    for command in (text, f"docker run {text}", ["docker", "run", *words]):
        try:
            split_docker_command(command)
        except FleetError as refusal:
            assert refusal.findings
