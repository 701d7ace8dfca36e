# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SECURITY.md, "A host of the fleet": what serves others has no Docker, but its answers to three questions."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.docker import Docker
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.answers import FILE, LOOK, Answers, ask, keep
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.start import docker_root, limited, served
from hypothesis import given
from hypothesis import strategies as st

ID = "sha256:" + "a" * 64
IMAGE: dict[str, Any] = {
    "Id": ID,
    "RepoTags": ["demo:1", "registry.lan:5000/demo:1"],
    "RepoDigests": [f"demo@{ID}"],
    "Size": 7,
    "Os": "linux",
    "Architecture": "arm64",
    "Config": {"Env": ["A=b"]},
    "RootFS": {"Layers": [ID]},
    "GraphDriver": {"Data": {"UpperDir": "/x"}},
}
INFO = {
    "DockerRootDir": "/srv/docker",
    "Driver": "overlay2",
    "DriverStatus": [["Backing Filesystem", "extfs"]],
    "HttpProxy": "http://owner:proxy-password@proxy:3128",
    "Labels": ["secret=label"],
}


class Host:
    """A host's Docker: what it was asked, and what it has."""

    def __init__(self, *images: dict[str, Any]) -> None:
        self.images, self.asked = [*images], list[list[str]]()
        self.answers = {"version": (0, "29.0.0", ""), "info": (0, json.dumps(INFO), "")}

    def run(self, arguments: list[str]) -> tuple[int, str, str]:
        self.asked.append(arguments)
        if arguments[1] != "image":
            return self.answers[arguments[1]]
        if arguments[2] == "ls":
            return 0, "".join(f"{image['Id']}\n" for image in self.images), ""
        return 0, json.dumps(self.images), ""


def kept(folder: Path, host: Host) -> Answers:
    os.mkfifo(folder / LOOK, 0o600)
    threading.Thread(target=keep, args=(folder, host.run, lambda _seconds: None), daemon=True).start()
    while True:  # until it reads
        try:
            os.close(os.open(folder / LOOK, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            continue
        return Answers(folder)


def test_an_image_is_known_as_docker_knows_it_also_a_new_one(tmp_path: Path) -> None:
    host = Host(IMAGE)
    docker = Docker(kept(tmp_path, host).run)
    assert docker.is_there()
    assert docker.engine() == Docker(host.run).engine()
    for name in IMAGE["RepoTags"]:
        assert docker.image(name) == Docker(host.run).image(name)
    assert docker.image("other:1") is None
    host.images.append(IMAGE | {"Id": "sha256:" + "b" * 64, "RepoTags": ["other:1"]})
    assert getattr(docker.image("other:1"), "tags", None) == ("other:1",)
    host.images.clear()
    assert docker.image("demo:1") is None


# What somebody may write who made the server run code of his own.
HOSTILE = [b"\n", b"", b"\0", b"x" * 70_000, b"\xff" * 9, b'{"Cmd": ["sh"]}\n', b"docker run x\n", b"../../x"]
QUESTIONS = [
    ["docker", "version", "--format", "{{.Server.Version}}"],
    ["docker", "info", "--format", "{{json .}}"],
    ["docker", "image", "ls", "--all", "--quiet", "--no-trunc"],
    ["docker", "image", "inspect", ID],
]


@pytest.mark.parametrize("written", HOSTILE)
def test_whatever_is_written_docker_is_asked_the_same_questions(tmp_path: Path, written: bytes) -> None:
    host = Host(IMAGE)
    answers = kept(tmp_path, host)
    with (tmp_path / LOOK).open("wb", buffering=0) as look:
        look.write(written)
    assert Docker(answers.run).is_there()
    assert Docker(answers.run).image("demo:1")
    assert all(asked in QUESTIONS for asked in host.asked)
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, LOOK]


def test_it_is_shown_what_it_needs_and_no_more() -> None:
    found = ask(Host(IMAGE).run)
    assert found["info"][1] == {key: INFO[key] for key in ("Driver", "DriverStatus", "DockerRootDir")}
    assert found["images"][1] == [{key: value for key, value in IMAGE.items() if key != "GraphDriver"}]
    assert "password" not in json.dumps(found)


@pytest.mark.parametrize(
    "words",
    [
        "run --privileged x", "exec gb10-service-tiny env", "inspect gb10-service-tiny", "logs x", "cp x:/ y", "ps",
        "image rm demo:1", "image pull x", "image save x", "image load", "image ls", "build .", "volume ls", "",
    ],
)  # fmt: skip
def test_it_answers_nothing_else(tmp_path: Path, words: str) -> None:
    status, out, why = Answers(tmp_path).run(["docker", *words.split(" ")])
    assert (status, out) == (126, "")
    assert "nothing that a host does for another" in why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((127, "", "there is no program docker"), "there is no program docker"),
        ((0, "no JSON", ""), "can't be read"),
        ((0, "[1]", ""), "can't be read"),
    ],
)
def test_a_docker_that_gives_no_answer_is_named(tmp_path: Path, answer: tuple[int, str, str], why: str) -> None:
    host = Host()
    host.run = lambda _arguments: answer  # type: ignore[method-assign]
    docker = Docker(kept(tmp_path, host).run)
    assert not docker.is_there()
    for question in (docker.engine, lambda: docker.image("demo:1")):
        with pytest.raises(FleetError, match=why):
            question()


def test_where_docker_can_not_be_started_a_moment_the_next_answer_is_as_ever(tmp_path: Path) -> None:
    """As where a host has no memory or process left: it would keep who asks waiting for a minute each."""
    host, starts = Host(IMAGE), [BlockingIOError("no process is left")]
    run = host.run

    def at_first_not(arguments: list[str]) -> tuple[int, str, str]:
        if starts:
            raise starts.pop()
        return run(arguments)

    host.run = at_first_not  # type: ignore[method-assign]
    answers = kept(tmp_path, host)
    assert "no process is left" in answers.run(["docker", "image", "inspect", "demo:1"])[2]
    assert answers.run(["docker", "image", "inspect", "demo:1"])[0] == 0


def test_one_that_nobody_answers_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    assert Answers(tmp_path).run(["docker", "version"])[0] == 127  # started without what asks Docker for it
    os.mkfifo(tmp_path / LOOK)
    with pytest.raises(OSError, match="No such device"):
        Answers(tmp_path).run(["docker", "info"])
    held = os.open(tmp_path / LOOK, os.O_RDWR)
    with pytest.raises(TimeoutError, match="Docker has not answered for 0 s"):
        Answers(tmp_path, seconds=0).run(["docker", "info"])
    os.close(held)


def test_the_server_runs_to_its_end_beside_it(tmp_path: Path) -> None:
    client = (
        "import sys; from pathlib import Path\n"
        "from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.answers import Answers\n"
        "sys.exit(7 + Answers(Path(sys.argv[1])).run(['docker', 'image', 'inspect', 'demo:1'])[0])"
    )
    collections = f"import sys; sys.path.insert(0, {sys.path[0]!r}); sys.path[1:1] = {sys.path[1:]!r}\n"
    assert served([sys.executable, "-c", collections + client, str(tmp_path)], tmp_path, Host(IMAGE).run) == 7


@pytest.mark.parametrize(
    ("answer", "root"),
    [
        ((0, '"/srv/docker"', ""), "/srv/docker"),
        ((0, '"/mnt/big-disk/docker.d"', ""), "/mnt/big-disk/docker.d"),
        ((127, "", "there is no program docker"), "/var/lib/docker"),
        *(
            ((0, json.dumps(odd), ""), "/var/lib/docker")
            for odd in ("", "/", "/a b", "/x:rw", "/x\n/y", "/../etc", "/srv/%h", "relative", None, 7, ["/srv"], {})
        ),
    ],
)
def test_dockers_folder_is_a_plain_path(answer: tuple[int, str, str], root: str) -> None:
    assert docker_root(lambda _arguments: answer) == root


@given(st.text())
def test_no_answer_of_docker_adds_a_limit_of_its_own(text: str) -> None:
    root = docker_root(lambda _arguments: (0, text, ""))
    assert not set(root) & set(" :,=%\n\t\"'\\") and "/." not in root


def test_it_sees_images_and_neither_dockers_socket_nor_containers() -> None:
    words = limited(Path("/run/gb10-fleet/peer-x"), ["/srv/docker", "/var/lib/containerd"])
    properties = dict(word.split("=", 2)[1:] for word in words if word.startswith("--property="))
    assert properties["TemporaryFileSystem"] == "/etc:ro /run:ro /srv/docker:ro /var/lib/containerd:ro"
    seen = [word.lstrip("-").partition(":")[0] for word in properties["BindReadOnlyPaths"].split()]
    assert [path for path in seen if "docker" in path or "containerd" in path] == [
        "/srv/docker/image",
        "/srv/docker/overlay2",
        "/srv/docker/containerd/daemon/io.containerd.content.v1.content",
        "/var/lib/containerd/io.containerd.content.v1.content",
    ]
    assert "sock" not in " ".join(words)
    shown = {"User": "root", "Group": "gb10-peer", "RestrictAddressFamilies": "AF_UNIX"}
    assert shown.items() <= properties.items()
    assert properties["CapabilityBoundingSet"] == "CAP_DAC_READ_SEARCH"
