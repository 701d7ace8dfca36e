# SPDX-License-Identifier: GPL-3.0-or-later
"""A build as its owner declares it: the form of ``builds/NAME/build.yml``, and the image's name by all that goes in.

Everything that goes in is named by its hash: files of the folder by sha256, images by digest, repositories by commit.
What BuildKit fetches by itself it compares with those; steps have no network unless the build says why.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, error
from ..._base.forms import forms
from ..._base.gb10 import fact
from ..._base.place import Place
from ..._base.schema import check
from ..._base.slice import BuildOrder
from .dockerfile import read_dockerfile

DOCKERFILE = "Dockerfile"
# Never a registry's name: nobody pulls, under the name of a build of ours, what somebody else has put there.
_REPOSITORY = "localhost"
_LABEL = "gb10.fleet.build"
_TAG_DIGITS = 16

BUILD = forms(
    "build",
    job_gib={"type": "number", "default": fact("build", "job_gib")},
    disk_gib={"type": "number", "default": fact("build", "disk_gib")},
)["build"]


@dataclass(frozen=True)
class Build:
    """A build without a fault. data: of form `BUILD`. files: the content of the Dockerfile and of
    ``files``, by name. downloads: the sums of what ADD downloads, by address."""

    name: str
    data: Mapping[str, Any]
    files: Mapping[str, str]
    downloads: Mapping[str, str]

    @property
    def inputs(self) -> dict[str, str]:
        """All that decides what comes out, each by its hash or its words; the image's labels."""
        data = self.data
        network = data.get("network")
        found = {
            "dockerfile": data["dockerfile"],
            "target": data["target"] or "",
            **{f"file.{name}": value for name, value in data["files"].items()},
            **{f"base.{name}": value for name, value in data["bases"].items()},
            **{f"repository.{name}": f"{one['url']}#{one['commit']}" for name, one in data["repositories"].items()},
            **{f"argument.{name}": value for name, value in data["arguments"].items()},
            "network": " ".join(network["fetched"]) if network else "none",
        }
        return {f"{_LABEL}.{key}": value for key, value in sorted(found.items())}

    @property
    def reference(self) -> str:
        """The image's name: another input is another name, so that a build that is here is never made again."""
        digest = hashlib.sha256(json.dumps(self.inputs, sort_keys=True).encode()).hexdigest()
        return f"{_REPOSITORY}/{self.name}:{digest[:_TAG_DIGITS]}"

    @property
    def order(self) -> BuildOrder:
        """What the host is given that builds it."""
        data = self.data
        pinned = {name: f"docker-image://{name}@{digest}" for name, digest in data["bases"].items()}
        commits = {name: f"{one['url']}#{one['commit']}" for name, one in data["repositories"].items()}
        jobs = data.get("jobs")
        return {
            "files": dict(self.files),
            "target": data["target"],
            "contexts": {**pinned, **commits},
            "downloads": dict(self.downloads),
            "arguments": dict(data["arguments"]),
            "labels": self.inputs,
            "network": "default" if data.get("network") else "none",
            "jobs": {"argument": jobs["argument"] if jobs else None, "most": fact("build", "most_jobs")},
            "job_gib": jobs["gib"] if jobs else fact("build", "job_gib"),
            "floor_gib": fact("memory", "floor_gib"),
            "disk_gib": data["disk_gib"],
        }


def read(name: str, data: object, files: Mapping[str, str], folder: str) -> tuple[Build | None, list[Finding]]:
    """A build, or why it can't be used.

    data: what its ``build.yml`` holds. files: the texts of its folder by name, as far as they are there. folder: where
    it lies, for the findings.
    """
    where = Place(thing=f"{folder}/build.yml")
    checked, findings = check(BUILD, data, where)
    if findings:
        return None, findings
    wanted = {DOCKERFILE: checked["dockerfile"], **checked["files"]}
    findings = [
        *(item for path, digest in wanted.items() for item in _file(path, digest, files, folder)),
        *_unknown(checked, where),
        *_arguments(checked, where),
    ]
    downloads: dict[str, str] = {}
    if not findings:
        contexts = [*checked["bases"], *checked["repositories"]]
        downloads, findings = read_dockerfile(files[DOCKERFILE], contexts, f"{folder}/{DOCKERFILE}")
        findings += _network(checked, files, where)
    if any(finding.severity == "error" for finding in findings):
        return None, findings
    return Build(name, checked, {path: files[path] for path in wanted}, downloads), findings


def _file(path: str, digest: str, files: Mapping[str, str], folder: str) -> Iterator[Finding]:
    where = f"{folder}/{path}"
    if path not in files:
        yield error("build-file", where, found="no such text", expected="a file of the build", remedy="put it there")
        return
    found = hashlib.sha256(files[path].encode()).hexdigest()
    if found != digest:
        yield worded.error("build-file-changed", where, found=found, digest=digest)


def _unknown(data: Mapping[str, Any], place: Place) -> Iterator[Finding]:
    for name, digest in data["bases"].items():
        if digest is None:
            yield worded.error("build-unpinned", place.below("bases", name), name=name)


def _arguments(data: Mapping[str, Any], place: Place) -> Iterator[Finding]:
    jobs = data.get("jobs", {}).get("argument")
    for name in data["arguments"]:
        if name == jobs:
            found, expected = "set by hand", "left to the memory that is free on the host"
        elif name.startswith("BUILDKIT_"):
            found, expected = "a word to BuildKit itself", "an ARG of the Dockerfile"
        else:
            continue
        yield error("build-argument", place.below("arguments", name), found=found, expected=expected, remedy=_OUT)


_OUT = "take it out"


def _network(data: Mapping[str, Any], files: Mapping[str, str], place: Place) -> Iterator[Finding]:
    """With a network, every entry of the lists that it fetches by has its sum; what that means, the owner is told."""
    network = data.get("network")
    if not network:
        return
    for index, name in enumerate(network["fetched"]):
        where = place.below("network", "fetched", index)
        if name not in data["files"]:
            expected = "a file of files, which lists what is fetched, each with its sha256"
            yield error("build-fetched", where, found=f'"{name}"', expected=expected, remedy="name it there")
            continue
        entries = re.sub(r"\\\n", " ", files[name]).splitlines()
        for entry in (line.strip() for line in entries):
            if entry and not entry.startswith(("#", "-")) and not re.search(r"\b[0-9a-f]{64}\b", entry):
                yield worded.error("build-fetched", where, entry=entry[:80])
    yield worded.warning(
        "build-network", place.below("network"), reason=network["reason"], fetched=", ".join(network["fetched"])
    )
