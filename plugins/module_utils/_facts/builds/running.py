# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of a build on its host, as far as it needs no host: the words, how many jobs, and why it failed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base.sizes import GIB

_LAST_LINES = 12


def words(order: Mapping[str, Any], reference: str, folder: str, jobs: int, anew: bool) -> Iterator[str]:
    """The command's words. order: of `_facts.builds.build.Build.order`. folder: with its files. anew: from nothing,
    though the host has its earlier layers.

    The builder is Docker's own, whatever builder root has chosen: what another one makes is not in Docker's store.
    """
    yield from ("docker", "buildx", "build", "--builder=default", "--load", "--progress=plain")
    # attestations are another image beside it, whose dates differ
    yield from ("--provenance=false", "--sbom=false", f"--network={order['network']}", f"--tag={reference}")
    if anew:
        yield "--no-cache"
    if order["target"]:
        yield f"--target={order['target']}"
    yield from (f"--label={name}={value}" for name, value in order["labels"].items())
    yield from (f"--build-context={name}={value}" for name, value in order["contexts"].items())
    yield from (f"--build-arg={name}={value}" for name, value in order["arguments"].items())
    if order["jobs"]["argument"]:
        yield f"--build-arg={order['jobs']['argument']}={jobs}"
    # `RUN --mount=type=cache` finds what this build left there, and nothing that another one did
    yield from (f"--build-arg=BUILDKIT_CACHE_MOUNT_NS={reference}", folder)


def policy(order: Mapping[str, Any]) -> dict[str, Any]:
    """What BuildKit itself allows a build to fetch, as a source policy: of several rules the last that matches holds.

    An image is known by its digest and a repository by its commit, whatever they are called.
    """
    images = [value.rpartition("@")[2] for value in order["contexts"].values() if value.startswith("docker-image://")]
    commits = [value.rpartition("#")[2] for value in order["contexts"].values() if needs_git({"contexts": {"": value}})]
    names = ["local://*", *(f"docker-image://*@{digest}" for digest in images), *(f"git://*#{one}" for one in commits)]
    allowed: list[dict[str, Any]] = [{"identifier": name} for name in names]
    for address, digest in order["downloads"].items():
        same = [{"key": "http.checksum", "value": digest, "condition": "EQUAL"}]
        allowed.append({"identifier": address, "constraints": same})
    rules = [{"action": "ALLOW", "selector": one} for one in allowed]
    return {"rules": [{"action": "DENY", "selector": {"identifier": "*"}}, *rules]}


def jobs_for(order: Mapping[str, Any], available: int) -> int:
    """How many compilers fit into the memory that is available, in bytes, below what the host needs itself."""
    free = available / GIB - order["floor_gib"]
    return max(0, min(int(order["jobs"]["most"]), int(free / order["job_gib"])))


def needs_git(order: Mapping[str, Any]) -> bool:
    """Whether BuildKit fetches a repository, for which it runs the host's own git."""
    return any(not value.startswith("docker-image://") for value in order["contexts"].values())


@dataclass(frozen=True)
class Failure:
    """Why a build ended: as of `_base.findings.error`."""

    rule: str
    found: str
    expected: str
    remedy: str


# (rule, what BuildKit or a step says then, what was expected, what to do), the first that is found.
_CAUSES = (
    (
        "build-source-denied",
        r"denied by policy",
        "only what build.yml and the sums of ADD name",
        "see what asks for it: the Dockerfile, or an ONBUILD of a base image (docker image inspect shows it); "
        "pin it in build.yml, or take it out",
    ),
    (
        "build-memory",
        r"exit code: 137\b|signal: killed|out of memory|virtual memory exhausted|annot allocate memory|\bKilled\b",
        "memory for {jobs} jobs",
        "write a larger jobs.gib in build.yml (fewer jobs at once), or stop a service of that host for that time",
    ),
    (
        "disk-full",
        r"no space left on device|disk quota exceeded",
        "room for the build where Docker keeps its images",
        "free some: docker buildx du shows what earlier builds hold, docker builder prune removes it; then write a "
        "larger disk_gib in build.yml",
    ),
    (
        "build-network",
        r"Temporary failure (in name resolution|resolving)|Could not resolve host|Name or service not known|"
        r"Network is unreachable",
        "steps that need no network",
        "bring what it fetches by ADD --checksum or repositories, or say in build.yml why it needs a network (network)",
    ),
    (
        "build-differs",
        r"digest mismatch|checksum mismatch|digest .* does not match",
        "what the sum in the Dockerfile says",
        "see what changed at its source, and write the new sum only if you trust it",
    ),
    (
        "build-source",
        r"failed to resolve source metadata|failed to load cache key|failed to do request|dial tcp|"
        r"repository does not contain ref|failed to (fetch|checkout) remote|reference is not a tree|unable to access|"
        r"manifest unknown|not our ref|git error: exit status",
        "a source that gives what build.yml names",
        "see that its address, digest or commit is right, and that this host reaches it",
    ),
)


def failure(output: Sequence[str], jobs: int) -> Failure:
    """What the last lines of ``docker buildx build`` say. output: its lines."""
    text = "\n".join(output)
    report = _report(output)
    for rule, marks, expected, remedy in _CAUSES:
        if re.search(marks, text):
            return Failure(rule, report, expected.format(jobs=jobs), remedy)
    return Failure(
        "build-failed", report, "steps that end well", "mend the Dockerfile or what it builds; nothing is left of it"
    )


def _report(output: Sequence[str]) -> str:
    """The step that failed, the end of what it printed, and BuildKit's own sentence."""
    lines = [line.rstrip() for line in output if line.strip()]
    last = next((line for line in reversed(lines) if line.startswith("ERROR: ")), "")
    fences = [index for index, line in enumerate(lines) if line.strip("-") == "" and len(line) > 2]
    step = lines[fences[-2] + 1 : fences[-1]] if len(fences) >= 2 else [line for line in lines if line != last]
    return " | ".join([*(line.strip() for line in step[:1] + step[1:][-_LAST_LINES:]), last.strip()]).strip(" |")


def step_of(line: str) -> str:
    """The words of a line that begins a step, ``#7 [build 3/5] RUN cmake ...``; empty for any other."""
    found = re.match(r"#\d+ (\[(?!internal)[^\]]+\].*)", line)
    return found[1][:120] if found else ""
