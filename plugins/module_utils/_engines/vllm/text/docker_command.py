# SPDX-License-Identifier: GPL-3.0-or-later
"""A `docker run` command line, taken apart: image, environment, mounts, and what runs in the container."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...._base import worded
from ...._base.findings import FleetError
from ...._base.gb10 import data_table

# Options of `docker run` without a value (docker/cli, cli/command/container/opts.go); all others have one.
_SWITCHES = (
    *("detach", "interactive", "tty", "rm", "privileged", "init", "read-only", "quiet", "help", "publish-all"),
    *("no-healthcheck", "oom-kill-disable", "sig-proxy", "disable-content-trust", "use-api-socket"),
)
_SHORT: Mapping[str, str] = data_table("docker_short_options")
_CLIENTS = ("docker", "podman", "nerdctl")

_MOST = 1 << 16  # shlex takes a second for 100,000 letters of one word


@dataclass(frozen=True)
class Bind:
    """A host path or a volume seen in the container."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class DockerCommand:
    """argv: what follows the image. options: every other option by its long name, in order."""

    image: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[Bind, ...] = ()
    entrypoint: str | None = None
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)


def words_of(text: str) -> list[str]:
    """A shell command's words: lines ending in a backslash joined, comments dropped, variables left as they are.

    ValueError where no shell would read it, or no person wrote it.
    """
    if len(text) > _MOST:
        raise ValueError(f"it has more than {_MOST} letters")
    return shlex.split(text.replace("\\\n", " "), comments=True)


def split_docker_command(command: str | Sequence[str]) -> DockerCommand:
    """Take a `docker run` (text or words) apart; FleetError if it isn't one."""
    try:
        words = words_of(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise _refused(found=f"a text that no shell would read ({error})", remedy="close the quotes") from error
    start = next((i + 2 for i in range(len(words) - 1) if _is_run(words, i)), None)
    if start is None and len(words) > 2 and _name(words[0]) in _CLIENTS and words[1:3] == ["container", "run"]:
        start = 3
    if start is None:
        raise _refused(found=" ".join(words[:4])[:80] or "nothing", remedy="begin with `docker run`")
    options, rest = _options(words[start:])
    if not rest:
        raise _refused(found="options without an image", remedy="write the image after the options")
    return _command(options, rest)


def _is_run(words: Sequence[str], index: int) -> bool:
    return _name(words[index]) in _CLIENTS and words[index + 1] == "run"


def _name(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _refused(*, found: str, remedy: str) -> FleetError:
    return worded.refusal("docker-command", "command", found=found, remedy=remedy)


def _options(words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The options as (long name, value), and the words from the image on."""
    options: list[tuple[str, str]] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        word = rest.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name not in _SWITCHES:
                value = rest.pop(0) if rest else ""
            options.append((name, value))
        else:
            options += _short_options(word[1:], rest)
    return options, rest[1:] if rest[:1] == ["--"] else rest


def _short_options(cluster: str, rest: list[str]) -> list[tuple[str, str]]:
    """``-it``, ``-p8000:8000``, ``-e NAME=x``: switches, then at most one option with its value."""
    options = []
    while cluster:
        name, cluster = _SHORT.get(cluster[0], cluster[0]), cluster[1:]
        if name in _SWITCHES:
            options.append((name, ""))
        else:
            options.append((name, cluster.removeprefix("=") or (rest.pop(0) if rest else "")))
            cluster = ""
    return options


def _command(options: Sequence[tuple[str, str]], rest: Sequence[str]) -> DockerCommand:
    env: dict[str, str] = {}
    mounts: list[Bind] = []
    others: dict[str, tuple[str, ...]] = {}
    for name, value in options:
        if name == "env":
            variable, _, text = value.partition("=")
            env[variable] = text
        elif name == "volume":
            mounts.append(_volume(value))
        elif name == "mount":
            mounts.append(_mount(value))
        else:
            others[name] = (*others.get(name, ()), value)
    entrypoint = others.pop("entrypoint", (None,))[-1]
    return DockerCommand(rest[0], tuple(rest[1:]), env, tuple(mounts), entrypoint, others)


def _volume(value: str) -> Bind:
    """``source:target[:options]``; a target alone is an anonymous volume."""
    parts = value.split(":")
    if len(parts) == 1:
        return Bind("", value)
    return Bind(parts[0], parts[1], "ro" in ",".join(parts[2:]).split(","))


def _mount(value: str) -> Bind:
    fields = dict(part.partition("=")[::2] for part in value.split(","))
    source = fields.get("source") or fields.get("src") or ""
    target = fields.get("target") or fields.get("destination") or fields.get("dst") or ""
    read_only = fields.get("readonly", fields.get("ro", "false")) in ("", "true", "1")
    return Bind(source, target, read_only)
