# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image that a host builds by the real BuildKit: of what is declared alone, once, handed on; why, when it can't be.
converge has built and handed it on, and its second run has built nothing."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import testinfra
from testinfra.host import Host

Playbook = Callable[..., "subprocess.CompletedProcess[str]"]
testinfra_hosts = ["ssh://titan"]
pytestmark = pytest.mark.story

DOCKERFILE = Path(__file__).parents[1].joinpath("build", "Dockerfile").read_text()
DOWNLOAD, SUM, OTHER = (
    "http://10.77.0.11:5000/v2/",
    DOCKERFILE.partition("checksum=")[2].split()[0],
    f"sha256:{64 * '1'}",
)
IMAGES = "docker image ls --format '{{.Repository}}:{{.Tag}} {{.ID}}' --filter reference='localhost/*'"


def build(playbook: Playbook, change: Mapping[str, Any], order: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """change: what ``build.yml`` says otherwise. order: what the plan gives the host otherwise."""
    variables = {"of_prepare": os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "change": change, "order": order}
    return playbook("extensions/molecule/image_store/build.yml", "--diff", "--extra-vars", json.dumps(variables))


def inspected(host: Host, words: str) -> dict[str, Any]:
    """The newest of the images that such a build has made."""
    (newest, *_) = host.check_output(IMAGES).split()
    found: dict[str, Any] = json.loads(host.check_output(f"docker image inspect {newest}"))[0]
    assert host.check_output(f"docker run --rm --network none {newest}") == words
    return found


def test_it_is_of_what_was_declared_and_its_labels_show_it(host: Host) -> None:
    labels = inspected(host, "hello one")["Config"]["Labels"]
    inputs = {name.removeprefix("gb10.fleet.build."): value for name, value in labels.items()}
    commit = inputs["repository.source"].partition("#")[2]
    assert len(commit) == 40
    assert inputs["base.10.77.0.11:5000/base:1"].startswith("sha256:")
    assert (inputs["argument.WORD"], inputs["network"]) == ("hello", "none")


def test_its_steps_had_no_network(host: Host) -> None:
    (image, *_) = host.check_output(IMAGES).split()
    read = "while read -r line; do echo $line; done < /net"
    lines = host.check_output(f"docker run --rm --network none {image} /bin/sh -c '{read}'").splitlines()
    assert [line.split(":")[0] for line in lines if ":" in line] == ["lo"]


def test_the_other_host_has_the_same_one(host: Host) -> None:
    other = testinfra.get_host("ssh://spark-2", ssh_config=host.backend.ssh_config, sudo=True)
    assert inspected(other, "hello one")["RootFS"] == inspected(host, "hello one")["RootFS"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arguments": {"WORD": "goodbye"}}, "goodbye one"),
        ({"repositories": {"source": {"commit": "{{ commits[1] }}"}}}, "hello two"),
    ],
)
def test_another_input_is_another_image_with_one_new_layer(
    host: Host, playbook: Playbook, change: dict[str, Any], words: str
) -> None:
    images = host.check_output("docker image ls --quiet --filter reference='localhost/*'").split()
    before = json.loads(host.check_output(f"docker image inspect {' '.join(images)}"))
    run = build(playbook, change, {})
    assert run.returncode == 0, run.stdout[-3000:]
    layers = inspected(host, words)["RootFS"]["Layers"]
    assert len({*layers} - {layer for image in before for layer in image["RootFS"]["Layers"]}) == 1


@pytest.mark.parametrize(
    ("change", "order", "rule"),
    [
        # a step that the kernel ends for its memory, which a lab host can't bound, ends with this status
        ({"arguments": {"STATUS": "137"}}, {}, "build-memory"),
        ({"arguments": {"WORD": "other"}}, {"job_gib": 4096}, "build-memory"),
        pytest.param({"arguments": {"WORD": "other"}}, {"disk_gib": 1 << 20}, "disk-full", marks=pytest.mark.whole),
        ({"repositories": {"source": {"commit": 40 * "1"}}}, {}, "build-source"),
        (
            {"arguments": {"WORD": "other"}},
            {"files": {"Dockerfile": DOCKERFILE.replace(SUM, OTHER)}, "downloads": {DOWNLOAD: OTHER}},
            "build-differs",
        ),
        # what the plan would have refused: BuildKit fetches none of it by itself
        *(
            ({"arguments": {"WORD": "other"}}, {"files": {"Dockerfile": text}}, "build-source-denied")
            for text in (
                "FROM 10.77.0.11:5000/base\n",
                "# syntax=10.77.0.11:5000/other:1\n" + DOCKERFILE,
                '{"syntax": "10.77.0.11:5000/other:1"}',
                DOCKERFILE + 'ADD "http://10.77.0.11:5000/v2/_catalog" /x\n',
                DOCKERFILE + "ADD git://10.77.0.11/source.git#HEAD /x\n",
                DOCKERFILE + "RUN --mount=type=bind,FROM=10.77.0.11:5000/other,target=/x true\n",
            )
        ),
        pytest.param({"arguments": {"STATUS": "3"}}, {}, "build-failed", marks=pytest.mark.whole),
    ],
)
def test_what_can_not_be_built_reports_why_and_leaves_nothing(
    host: Host, playbook: Playbook, change: dict[str, Any], order: dict[str, Any], rule: str
) -> None:
    before = host.check_output("docker image ls --all --quiet --no-trunc")
    run = build(playbook, change, order)
    assert run.returncode == 2
    assert f"[{rule}]" in " ".join(run.stdout.split()), run.stdout[-3000:]
    assert host.check_output("docker image ls --all --quiet --no-trunc") == before
    assert host.run("ls -d /var/lib/gb10-fleet/build-*").rc != 0
