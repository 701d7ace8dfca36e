# SPDX-License-Identifier: GPL-3.0-or-later
"""What the image store asks of Docker, as data; every error has Docker's message."""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._base.received import Foreign, Unread, harmless
from ..._base.staging import refusal
from .identity import Identity, Reference, identity_from_inspect
from .pull import events

Run = Callable[[list[str]], tuple[int, str, str]]


def run_command(arguments: list[str]) -> tuple[int, str, str]:
    """Run a program to its end: status, stdout, stderr. A program that is not there has status 127, as in a shell."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return 127, "", f"there is no program {arguments[0]}"
    return done.returncode, done.stdout, done.stderr


@dataclass(frozen=True)
class LocalImage:
    """An image that Docker lists. id: what ``docker image rm`` takes. digests: what it was pulled by. pulled: the same
    as ``repository@digest``."""

    id: str
    tags: tuple[str, ...]
    digests: frozenset[str]
    size: int
    identity: Identity
    pulled: tuple[str, ...] = ()

    def digest_in(self, repository: str) -> str | None:
        """By what a registry's repository has it."""
        return next((name.partition("@")[2] for name in self.pulled if name.startswith(f"{repository}@")), None)


@dataclass(frozen=True)
class Engine:
    """Docker's answers about itself. containerd_store: images lie with containerd, not with a graph driver."""

    root: Path
    driver: str
    containerd_store: bool


class Docker:
    """The docker command. run: executes an argument list and returns status, stdout, stderr."""

    def __init__(self, run: Run = run_command) -> None:
        self._run = run

    def is_there(self) -> bool:
        """Whether a daemon answers: on a virgin host in check mode there is none yet."""
        status, _, _ = self._run(["docker", "version", "--format", "{{.Server.Version}}"])
        return status == 0

    def engine(self) -> Engine:
        info = json.loads(self._ask(["info", "--format", "{{json .}}"]))
        if info.get("ServerErrors"):
            raise refusal(
                "docker-unreachable",
                "docker info",
                found="; ".join(info["ServerErrors"]),
                expected="a running Docker daemon",
                remedy="systemctl status docker on that host; the role container_engine installs it",
            )
        driver_type = dict(info.get("DriverStatus") or ()).get("driver-type", "")
        return Engine(Path(info["DockerRootDir"]), info["Driver"], driver_type.startswith("io.containerd.snapshotter"))

    def image(self, name: str) -> LocalImage | None:
        status, out, err = self._run(["docker", "image", "inspect", name])
        if status == 0:
            return _local_image(json.loads(out)[0])
        if "No such image" in err:
            return None
        raise _failed(["image", "inspect", name], err)

    def images(self) -> list[LocalImage]:
        """Every image, also those without a name, which Docker lists with --all alone since 29.0."""
        ids = sorted(set(self._ask(["image", "ls", "--all", "--quiet", "--no-trunc"]).split()))
        return [_local_image(image) for image in json.loads(self._ask(["image", "inspect", *ids]))] if ids else []

    def tag(self, name: str, reference: Reference) -> None:
        self._ask(["image", "tag", name, str(reference)])

    def remove(self, name: str) -> bool:
        """Remove a name, and the image with its last one; whether Docker did, or a container still needs the image."""
        status, _, err = self._run(["docker", "image", "rm", name])
        if status == 0 or "No such image" in err:
            return True
        if "conflict" in err:
            return False
        raise _failed(["image", "rm", name], err)

    def pull(self, name: str) -> Iterator[Unread]:
        """Pull from the registry, event by event, see `_stores.images.pull`."""
        return events(name)

    def load(self, chunks: Iterator[bytes]) -> None:
        """Feed ``docker load``; nothing is kept by Docker unless the whole stream was good."""
        arguments = ["image", "load", "--quiet"]
        with subprocess.Popen(
            ["docker", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdin and process.stdout
            try:
                for chunk in chunks:
                    process.stdin.write(chunk)
                process.stdin.close()
            except BrokenPipeError:
                pass  # Docker gave up; its output shows why
            except BaseException:
                process.kill()
                raise
            output = process.stdout.read().decode(errors="replace")
        if process.returncode:
            raise _failed(arguments, output)

    def _ask(self, arguments: Sequence[str]) -> str:
        status, out, err = self._run(["docker", *arguments])
        if status:
            raise _failed(arguments, err)
        return out


def _local_image(image: dict[str, Any]) -> LocalImage:
    return LocalImage(
        id=image["Id"],
        tags=tuple(image.get("RepoTags") or ()),
        digests=frozenset({image["Id"], *(name.partition("@")[2] for name in image.get("RepoDigests") or ())}),
        size=image["Size"],
        identity=identity_from_inspect(image),
        pulled=tuple(sorted(image.get("RepoDigests") or ())),
    )


def _failed(arguments: Sequence[str], output: Foreign | str) -> Exception:
    return refusal(
        "docker-failed",
        f"docker {' '.join(arguments)}",
        found=harmless(output).strip() or "failed without a word",
        expected="success",
        remedy="run it on that host by hand to see more; journalctl -u docker has the daemon's side",
    )
