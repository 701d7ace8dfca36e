# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds: what is pinned and what is refused, the name by the inputs, who builds, and what a failure says.
`molecule/image_store` builds by the real BuildKit."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.staging import Progress
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._facts.builds.build import DOCKERFILE, Build, read
from ansible_collections.gb10.fleet.plugins.module_utils._facts.builds.dockerfile import read_dockerfile
from ansible_collections.gb10.fleet.plugins.module_utils._facts.builds.running import (
    failure,
    jobs_for,
    policy,
    step_of,
    words,
)
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images import build as builder
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.identity import parse_reference
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.step import Wanted
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.store import ImageStore
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock.lock import EMPTY, Lock
from test_images import FakeDocker, config_of, docker, local_image, store  # noqa: F401  # fixtures

ROOT = Path(__file__).resolve().parents[2]
CUDA, DIGEST, COMMIT = "nvidia/cuda:13.0.2-devel-ubuntu24.04", f"sha256:{64 * 'a'}", 40 * "b"
TEXT = f"""\
# from sources
FROM {CUDA} AS build
ARG JOBS
COPY --from=llama.cpp . /src
RUN --mount=type=cache,target=/cache make -j$JOBS
FROM scratch
COPY --from=build /src/out /
"""
DATA: dict[str, Any] = {
    "summary": "a build",
    "dockerfile": hashlib.sha256(TEXT.encode()).hexdigest(),
    "bases": {CUDA: DIGEST},
    "repositories": {"llama.cpp": {"url": "https://github.com/ggml-org/llama.cpp.git", "commit": COMMIT}},
    "arguments": {"ARCH": "121a"},
    "jobs": {"argument": "JOBS"},
    "sources": ["eugr"],
}


def built(**change: Any) -> Build:
    build, findings = read("demo", DATA | change, {DOCKERFILE: TEXT}, "builds/demo")
    assert build, findings
    return build


def refused(data: Any, files: dict[str, str] | None = None) -> list[str]:
    build, findings = read("demo", data, {DOCKERFILE: TEXT} | (files or {}), "builds/demo")
    assert build is None
    assert all(one.place.startswith("builds/demo/") and one.remedy for one in findings)
    return sorted({one.rule for one in findings if one.severity == "error"})


# What is pinned ------------------------------------------------------------------------------------------------------


SUM, DOWNLOAD = f"sha256:{64 * '1'}", "https://example.org/x.tar.gz"
# (what comes behind FROM, or the whole text if it begins otherwise; what is refused of it)
PLAIN = [
    "COPY --from=llama.cpp . /src",
    "COPY --from=0 --chown=1:1 /x /y",
    "COPY --link a b /c/",
    'COPY ["a b", "/c"]',
    "FROM scratch",
    "FROM --platform=linux/arm64 build AS last",
    "RUN --mount=type=cache,id=x,target=/c --mount=type=bind,from=llama.cpp,target=/s,ro --network=none make",
    "RUN make \\\n  # a comment, and then some \\\n  && make install",
    'RUN printf "a\\n" && sed "s/\\./x/" a',
    f"ADD --checksum={SUM} {DOWNLOAD} /x",
    'ENV A=1 B="two words"\nARG C=$A\nCMD ["x"]\nHEALTHCHECK --interval=5s CMD true',
    "# x=1 is no directive here",
]
REFUSED = [
    # another frontend, or other rules of reading
    ("# syntax=docker/dockerfile:1.6\n" + TEXT, "build-form"),
    ("#!/usr/bin/env docker\n\n# Syntax = docker/dockerfile@sha256:1\n" + TEXT, "build-form"),
    (" \t# syntax=x\n" + TEXT, "build-form"),
    ("\ufeff# syntax=x\n" + TEXT, "build-form"),
    ("// syntax=evil.example/f\n" + TEXT, "build-form"),
    ('{"syntax": "evil.example:5000/frontend"}', "build-form"),
    ("# escape=`\n" + TEXT, "build-form"),
    ("# check=skip=all\n" + TEXT, "build-form"),
    # images that nobody pins
    ("FROM ubuntu:24.04", "build-base"),
    ("FROM 0", "build-base"),
    ("FROM $TARGET", "build-base"),
    ("FROM ${X:-scratch}", "build-base"),
    ("FROM buil\\d", "build-base"),
    ('FROM "build"', "build-base"),
    (f"FROM {CUDA} AS $NAME", "build-form"),
    (f"FROM {CUDA} AS Build", "build-form"),
    ("COPY --from=ghcr.io/astral-sh/uv:latest /uv /bin/", "build-base"),
    ("COPY --from=1 / /", "build-base"),
    (f"COPY --from={9000 * '1'} / /", "build-base"),
    ("COPY --from= / /", "build-form"),
    ('COPY "--from=x" / /\nCOPY --from="ubuntu" / /', "build-form"),
    ("COPY --fr\\om=ubuntu / /", "build-form"),
    ("COPY --from=$X / /", "build-form"),
    ("COPY --FROM=ubuntu / /", "build-form"),
    ("COPY --chown=1 --from=ubuntu / /", "build-base"),
    ("RUN --mount=type=bind,from=golang:1,target=/go true", "build-base"),
    ("RUN --mount=type=bind,FROM=evil.example/i,target=/x true", "build-form"),
    ('RUN --mount=type=bind,"from=evil.example/i",target=/x true', "build-form"),
    ('RUN "--mount=from=x" true\nRUN --mount="type=bind,from=evil.example/i" true', "build-form"),
    ("RUN --mount=from=scratch,from=evil.example/i,target=/x true", "build-base"),
    ("RUN --mount=type=bind,from=${X},target=/x true", "build-form"),
    ("RUN --mount type=bind true", "build-form"),
    ("RUN \\\n--mount=from=evil.example/i,target=/x true", "build-base"),
    # out of the container
    ("RUN --network=host make", "build-form"),
    ('RUN --network="host" make', "build-form"),
    ("RUN --security=insecure make", "build-form"),
    ("RUN --device=nvidia.com/gpu=all make", "build-form"),
    ("RUN -- --network=host make", "build-form"),
    # fetched by the builder itself
    (f"ADD {DOWNLOAD} /x", "build-unchecked"),
    (f'ADD "{DOWNLOAD}" /x', "build-unchecked"),
    (f'ADD ["{DOWNLOAD}", "/x"]', "build-unchecked"),
    (f"ADD --checksum=sha256:12 {DOWNLOAD} /x", "build-unchecked"),
    (f"ADD --checksum={SUM} {DOWNLOAD} https://example.org/other /x", "build-unchecked"),
    (f"ADD --checksum={SUM} https://example.org/x.git#main /x", "build-unchecked"),
    (f"ADD --checksum={SUM} https://example.org/x.git /x", "build-unchecked"),
    (f"ADD --checksum=$SUM {DOWNLOAD} /x", "build-form"),
    ("ADD git@github.com:org/x.git#main /x", "build-unchecked"),
    ("ADD $SOURCE /x", "build-unchecked"),
    ("ADD local.tar /x", "build-unchecked"),
    ("ADD --keep-git-dir=true https://example.org/x.git /x", "build-form"),
    ("ADD " + 9000 * "[" + " /x", "build-unchecked"),
    # instructions that are not seen as such
    ("RUN <<EOF\nFROM ubuntu\nEOF", "build-form"),
    ("COPY <<E /x\nE\nADD http://b/x /", "build-form"),
    ("ONBUILD ADD http://b/x /", "build-form"),
    ("onbuild copy --from=x / /", "build-form"),
    ("add http://b/x /", "build-form"),
    (" ADD http://b/x /", "build-form"),
    ("A\\\nDD http://b/x /", "build-form"),
    ("RUN true \\ \nADD http://b/x /", "build-form"),
    ("RUN true \\\\\nADD http://b/x /", "build-form"),
    ("RUN true \\\n\nADD http://b/x /", "build-form"),
    ("RUN true\rADD http://b/x /", "build-form"),
    ("ADD\u00a0http://b/x /", "build-form"),
    ("COPY \u00e0--from=ubuntu / /", "build-form"),
    ("COPY \x0b--from=ubuntu / /", "build-form"),
    ("INCLUDE other", "build-form"),
    ("RUN", "build-form"),
]  # fmt: skip


@pytest.mark.parametrize("text", [TEXT, *(f"FROM {CUDA} AS build\n{more}\n" for more in PLAIN)])
def test_a_plain_form_is_taken_as_it_is(text: str) -> None:
    assert read_dockerfile(text, [CUDA, "llama.cpp"], "Dockerfile")[1] == []


@pytest.mark.parametrize(("text", "rule"), REFUSED)
def test_what_is_not_of_the_plain_form_or_not_pinned_is_refused(text: str, rule: str) -> None:
    whole = text if text.lstrip(" \t\ufeff")[0] in "#/{" else f"FROM {CUDA} AS build\n{text}\n"
    _downloads, found = read_dockerfile(whole, [CUDA, "llama.cpp"], "Dockerfile")
    assert found
    assert {one.rule for one in found} >= {rule}
    assert all(one.place.startswith("Dockerfile, line ") and one.remedy and len(one.found) < 200 for one in found)


def test_a_line_of_an_instruction_is_where_it_begins() -> None:
    _downloads, found = read_dockerfile("# x\nFROM scratch\nRUN a \\\n  b\n\nADD x \\\n y\n", [], "Dockerfile")
    assert [one.place for one in found] == ["Dockerfile, line 6"]


def is_denied(order: dict[str, Any], source: str, checksum: str = "") -> bool:
    """As BuildKit judges (sourcepolicy/engine.go): by all that is said of a source, the last word."""
    verdict = "ALLOW"
    for rule in policy(order)["rules"]:
        selector = rule["selector"]
        pattern = ".*".join(map(re.escape, selector["identifier"].split("*")))
        same = all(checksum == one["value"] for one in selector.get("constraints", ()))
        if same and re.fullmatch(pattern, source):
            verdict = rule["action"]
    return verdict == "DENY"


def test_buildkit_itself_fetches_nothing_but_what_is_pinned() -> None:
    text = TEXT + f"ADD --checksum={SUM} {DOWNLOAD} /x\n"
    data = DATA | {"dockerfile": hashlib.sha256(text.encode()).hexdigest()}
    build, _findings = read("demo", data, {DOCKERFILE: text}, "builds/demo")
    assert build
    order = build.order
    for source in (
        "local://context",
        f"docker-image://docker.io/{CUDA}@{DIGEST}",
        f"git://github.com/ggml-org/llama.cpp.git#{COMMIT}",
    ):
        assert not is_denied(order, source)
    assert not is_denied(order, DOWNLOAD, SUM)
    for source in (
        f"docker-image://docker.io/{CUDA}",
        f"docker-image://docker.io/{CUDA}@sha256:{64 * 'c'}",
        "docker-image://docker.io/docker/dockerfile:1",
        f"docker-image://evil.example/x:{DIGEST.replace(':', '-')}",
        f"git://github.com/ggml-org/llama.cpp.git#x{COMMIT}",
        "git://github.com/ggml-org/llama.cpp.git",
        "oci-layout://x@" + DIGEST,
        "http://169.254.169.254/latest",
        DOWNLOAD,
        f"{DOWNLOAD}x",
    ):
        assert is_denied(order, source), source
        assert is_denied(order, source, f"sha256:{64 * '2'}"), source


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        ({"repositories": {"llama.cpp": {"url": "https://github.com/x/y.git", "commit": "main"}}}, ["schema-pattern"]),
        ({"repositories": {"llama.cpp": {"url": "file:///srv/x.git", "commit": COMMIT}}}, ["schema-pattern"]),
        ({"bases": {CUDA: "13.0.2"}}, ["schema-pattern"]),
        ({"bases": {CUDA: None}}, ["build-unpinned"]),
        ({"bases": {}}, ["build-base"]),
        ({"dockerfile": 64 * "0"}, ["build-file-changed"]),
        ({"files": {"../Dockerfile": 64 * "0"}}, ["schema-pattern"]),
        ({"files": {"patch": 64 * "0"}}, ["build-file"]),
        ({"arguments": {"JOBS": "16"}}, ["build-argument"]),
        ({"arguments": {"BUILDKIT_SYNTAX": "docker/dockerfile:1"}}, ["build-argument"]),
        ({"arguments": {"BUILDKIT_CONTEXT_KEEP_GIT_DIR": "1"}}, ["build-argument"]),
        ({"jobs": {"argument": "BUILDKIT_CACHE_MOUNT_NS", "gib": 4}}, ["schema-pattern"]),
        ({"arguments": {"ARCH": 121}}, ["schema-type"]),
        ({"network": {"reason": "pip", "fetched": ["requirements.txt"]}}, ["build-fetched"]),
        ({"network": {"reason": "pip", "fetched": []}}, ["schema-range"]),
        ({"network": {"reason": "pip"}}, ["schema-required"]),
        ({"workers": 4}, ["schema-unknown-key"]),
    ],
)
def test_what_is_declared_of_a_build_is_checked(change: dict[str, Any], rules: list[str]) -> None:
    assert refused(DATA | change) == rules


def test_what_is_fetched_over_a_network_is_listed_with_its_sums() -> None:
    listed = f"# by uv\n--index-url https://pypi.org/simple\ntorch==2.13.0 \\\n    --hash=sha256:{64 * '1'}\n"
    network = {"reason": "pip fetches wheels", "fetched": ["requirements.txt"]}
    for text, good in ((listed, True), (listed + "numpy==2.4.0\n", False)):
        files = {"requirements.txt": hashlib.sha256(text.encode()).hexdigest()}
        data = DATA | {"files": files, "network": network}
        build, findings = read("demo", data, {DOCKERFILE: TEXT, "requirements.txt": text}, "builds/demo")
        assert (build is not None) == good
        assert [one.rule for one in findings] == [*([] if good else ["build-fetched"]), "build-network"]


# Its name ------------------------------------------------------------------------------------------------------------


def test_the_name_is_of_all_that_goes_in_and_of_nothing_else() -> None:
    other = DATA["repositories"]["llama.cpp"] | {"commit": 40 * "c"}
    references = [
        one.reference
        for one in (
            built(),
            built(bases={CUDA: f"sha256:{64 * 'c'}"}),
            built(repositories={"llama.cpp": other}),
            built(arguments={"ARCH": "120"}),
            built(target="build"),
        )
    ]
    assert len({*references}) == len(references)
    same = built(summary="said otherwise", jobs={"argument": "JOBS", "gib": 8}, disk_gib=1, sources=["x"])
    assert same.reference == references[0]
    assert all(one.startswith("localhost/demo:") and len(one) == len("localhost/demo:") + 16 for one in references)


def test_labels_show_all_that_went_in() -> None:
    labels = "\n".join(f"{name}={value}" for name, value in built().order["labels"].items())
    for part in (DATA["dockerfile"], DIGEST, COMMIT, "argument.ARCH=121a", "network=none"):
        assert part in labels


# How it runs ---------------------------------------------------------------------------------------------------------


def test_the_command_is_of_hashes_alone() -> None:
    found = [*words(built().order, "localhost/demo:1", "/folder", 5, anew=False)]
    assert found[:4] == ["docker", "buildx", "build", "--builder=default"]
    assert found[-1] == "/folder"
    # a compiler's cache of another author's build is nothing that this one runs; the last of two counts
    assert [word for word in found if word.startswith("--build-arg=")][-1:] == [
        "--build-arg=BUILDKIT_CACHE_MOUNT_NS=localhost/demo:1"
    ]
    for word in (
        "--network=none",
        "--build-arg=ARCH=121a",
        "--build-arg=JOBS=5",
        f"--build-context={CUDA}=docker-image://{CUDA}@{DIGEST}",
        f"--build-context=llama.cpp=https://github.com/ggml-org/llama.cpp.git#{COMMIT}",
    ):
        assert word in found
    assert "--no-cache" not in found
    assert "--no-cache" in [*words(built().order, "localhost/demo:1", "/folder", 5, anew=True)]


@pytest.mark.parametrize(("available_gib", "jobs"), [(121, 16), (70, 16), (46, 10), (10, 1), (9.9, 0), (2, 0)])
def test_jobs_follow_the_memory_that_is_free(available_gib: float, jobs: int) -> None:
    """4 GiB each, beside 6 that stay free."""
    assert jobs_for(built().order, int(available_gib * (1 << 30))) == jobs


def printed(step: str, *lines: str, end: str) -> list[str]:
    """The end of what BuildKit 0.12 prints."""
    return [*lines, "------", f" > [2/2] {step}:", *lines, "------", "Dockerfile:2", f"ERROR: failed to solve: {end}"]


ENDED = 'process "/bin/sh -c make" did not complete successfully: exit code: '


@pytest.mark.parametrize(
    ("output", "rule"),
    [
        (printed("RUN make", "0.1 cc1plus", end=f"{ENDED}137"), "build-memory"),
        (printed("RUN make", "0.1 g++: fatal error: Killed signal", end=f"{ENDED}1"), "build-memory"),
        (printed("RUN make", "0.1 virtual memory exhausted: Cannot allocate memory", end=f"{ENDED}1"), "build-memory"),
        (printed("RUN make", "0.1 write /x: no space left on device", end=f"{ENDED}1"), "disk-full"),
        (printed("RUN apt", "0.1 Temporary failure resolving 'ubuntu.com'", end=f"{ENDED}100"), "build-network"),
        (printed("RUN make", "0.1 error: no such file", end=f"{ENDED}2"), "build-failed"),
        (["ERROR: failed to solve: base: failed to resolve source metadata for x/base"], "build-source"),
        (["ERROR: failed to solve: git error: exit status 128"], "build-source"),
        (['ERROR: failed to solve: source "docker-image://x" denied by policy: source denied by policy'],
         "build-source-denied"),
        (["ERROR: failed to solve: digest mismatch sha256:1: sha256:2"], "build-differs"),
        ([], "build-failed"),
    ],
)  # fmt: skip
def test_a_failure_reports_why(output: list[str], rule: str) -> None:
    why = failure(output, 4)
    assert why.rule == rule
    assert why.remedy
    if len(output) > 1:
        assert why.found.startswith("> [2/2] RUN ")
        assert "ERROR: failed to solve" in why.found


def test_steps_are_shown() -> None:
    assert step_of("#7 [build 3/5] RUN make") == "[build 3/5] RUN make"
    assert step_of("#1 [internal] load build definition") == step_of("#7 1.2 [3/5] compiling") == ""


# On the host ---------------------------------------------------------------------------------------------------------


def wanted(**change: Any) -> Wanted:
    entry = {"reference": built().reference, "source": {"kind": "build", "host": "titan"}, "build": built().order}
    return Wanted.from_plan(entry | change)


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "_runs", lambda command: True)
    monkeypatch.setattr(builder, "available_memory", lambda: 100 << 30)
    monkeypatch.setattr(builder, "require_space", lambda *_: None)


@pytest.mark.usefixtures("able")
def test_it_is_built_once_and_a_tag_alone_is_not_believed(store: ImageStore, docker: FakeDocker) -> None:  # noqa: F811
    reference = built().reference
    assert [step.action for step in store.examine([wanted()])] == ["build"]
    docker.known[reference] = local_image(reference, config_of(b"x", Labels={"gb10.fleet.build.network": "none"}))
    assert [step.action for step in store.examine([wanted()])] == ["build"]
    docker.known[reference] = local_image(reference, config_of(b"x", Labels=built().order["labels"]))
    assert [step.action for step in store.examine([wanted()])] == ["nothing"]
    assert [step.action for step in store.examine([wanted(renew=True)])] == ["build"]


@pytest.mark.usefixtures("able")
def test_what_the_fleet_has_already_is_not_built_again(store: ImageStore) -> None:  # noqa: F811
    with pytest.raises(FleetError, match=r"image.source \{host: \.\.\.\}.*build-locked"):
        store.examine([wanted(lock={"identity": DIGEST, "digest": None})])


def test_a_host_that_can_not_build_reports_all_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
    store: ImageStore,  # noqa: F811
) -> None:
    monkeypatch.setattr(builder, "_runs", lambda command: False)
    monkeypatch.setattr(builder, "available_memory", lambda: 9 << 30)
    order = built().order | {"disk_gib": 1 << 30}
    with pytest.raises(FleetError) as caught:
        store.examine([wanted(build=order)])
    assert [one.rule for one in caught.value.findings] == [
        "build-program",
        "build-program",
        "build-memory",
        "disk-full",
    ]


def program(folder: Path, text: str, *, obeys: bool = True) -> str:
    """A stand-in of the docker command. obeys: whether it knows source policies."""
    text = f'for word; do :; done; if [ "$word" = - ]; then echo {"denied by policy" * obeys} >&2; exit 1; fi\n{text}'
    file = folder / "bin" / "docker"
    file.parent.mkdir()
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file.parent)


def test_the_files_are_there_while_it_runs_and_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv(
        "PATH", program(tmp_path, f'for word; do :; done; cat "$word/Dockerfile" > {seen}; exit $STATUS'), prepend=":"
    )
    for status in ("0", "1"):
        monkeypatch.setenv("STATUS", status)
        home = tmp_path / "home"
        try:
            builder.build_image(built().order, parse_reference("localhost/demo:1"), home, Progress(), anew=False)
        except FleetError as error:
            assert "[build-failed]" in str(error)
        assert seen.read_text() == TEXT
        assert [*home.iterdir()] == []


def test_a_docker_that_knows_no_policy_builds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = tmp_path / "ran"
    monkeypatch.setenv("PATH", program(tmp_path, f"touch {ran}", obeys=False), prepend=":")
    with pytest.raises(FleetError, match=r"\[build-policy\]"):
        builder.build_image(built().order, parse_reference("localhost/demo:1"), tmp_path, Progress(), anew=False)
    assert not ran.exists()


def test_a_build_ends_with_its_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Progress):
        def report(self, words: str) -> None:
            raise KeyboardInterrupt

    ended = tmp_path / "ended"
    text = f"trap 'touch {ended}; exit 1' TERM; echo '#1 [1/2] FROM base'; while :; do sleep 0.05; done"
    monkeypatch.setenv("PATH", program(tmp_path, text), prepend=":")
    with pytest.raises(KeyboardInterrupt):
        builder.build_image(built().order, parse_reference("localhost/demo:1"), tmp_path, Gone(), anew=False)
    assert ended.exists()


# In the plan ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    """An owner's folder with one build, and the lab's recipe with that as its image."""
    folder = tmp_path / "recipes"
    shutil.copytree(ROOT / "inventories" / "lab" / "recipes", folder)
    recipe = yaml.safe_load((folder / "lab-tiny.yml").read_text())
    recipe |= {
        "name": "own",
        "image": {"build": "demo", "family": "custom", "entrypoint": "vllm serve", "release": "0.32.0"},
    }
    (folder / "own.yml").write_text(yaml.safe_dump(recipe))
    (folder / "builds" / "demo").mkdir(parents=True)
    (folder / "builds" / "demo" / "Dockerfile").write_text(TEXT)
    (folder / "builds" / "demo" / "build.yml").write_text(yaml.safe_dump(DATA))
    return folder


def planned(folder: Path, services: dict[str, Any], lock: Lock = EMPTY) -> dict[str, Any]:
    library, of_recipes = load_all([folder, SHIPPED_RECIPES])
    variables = {"fleet_services": services}
    hosts = {
        name: {"address": f"10.0.0.{at}", "port": 22, "variables": variables}
        for at, name in enumerate(("a", "b", "c"), 1)
    }
    return plan_fleet({"hosts": hosts, "folder": str(folder.parent)}, library, of_recipes, lock=lock)


def service(host: str, port: int = 8000, **more: Any) -> dict[str, Any]:
    return {"recipe": "own", "hosts": [host], "port": port} | more


def images(plan: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {name: slice_["images"] for name, slice_ in plan["hosts"].items()}


def faults(plan: dict[str, Any]) -> list[str]:
    return [one["rule"] for one in plan["findings"] if one["severity"] == "error"]


def test_the_first_host_builds_and_the_others_fetch_it_from_there(recipes: Path) -> None:
    plan = planned(recipes, {"one": service("b"), "two": service("c"), "three": service("b", 8001)})
    assert faults(plan) == []
    of = images(plan)
    [built_here], [fetched] = of["b"], of["c"]
    assert of["a"] == []
    assert built_here["reference"] == fetched["reference"] == built().reference
    assert built_here["build"] == built().order
    assert (built_here["peers"], "build" in fetched) == ([], False)
    assert [peer["host"] for peer in fetched["peers"]] == ["b"]
    run = json.loads(json.dumps(plan["hosts"]["b"]["services"][0]["container"]))
    assert run["image"] == built().reference


def test_an_owner_names_the_host_that_builds(recipes: Path) -> None:
    """One that runs nothing, and has the memory for it."""
    named = {"image": {"source": {"host": "a"}}}
    plan = planned(recipes, {"one": service("b", **named), "two": service("c")})
    assert faults(plan) == []
    of = images(plan)
    assert ["build" in of[name][0] for name in ("a", "b", "c")] == [True, False, False]
    assert [peer["host"] for peer in of["b"][0]["peers"]] == ["a"]
    both = planned(recipes, {"one": service("b", **named), "two": service("c", image={"source": {"host": "c"}})})
    assert faults(both) == ["build-two-hosts"]
    unknown = planned(recipes, {"one": service("b", image={"source": {"host": "x"}})})
    assert faults(unknown) == ["source-host-unknown"]


def test_a_service_may_have_a_build_of_its_own_or_none(recipes: Path) -> None:
    own = {"recipe": "lab-tiny", "image": {"build": "demo", "family": "custom", "entrypoint": "vllm serve"}}
    assert images(planned(recipes, {"one": service("a", **own)}))["a"][0]["reference"] == built().reference
    other = {"image": {"reference": "x/y:1", "family": "custom", "release": None}}
    plan = planned(recipes, {"one": service("a", **other)})
    assert images(plan)["a"][0]["source"] == {"kind": "registry"}
    archive = planned(recipes, {"one": service("a", image={"source": {"archive": "/srv/own.tar"}})})
    assert images(archive)["a"][0]["source"] == {"kind": "archive", "path": "/srv/own.tar"}
    assert images(archive)["a"][0]["reference"] == built().reference


@pytest.mark.parametrize(
    ("image", "rules"),
    [
        ({"build": "dem"}, ["schema-required"]),
        ({"build": "dem", "family": "custom"}, ["build-unknown"]),
        ({"build": "../recipes", "family": "custom"}, ["schema-pattern"]),
        ({"build": "demo", "reference": "x/y:1", "family": "custom", "release": None}, ["recipe-image"]),
        ({"digest": DIGEST}, ["recipe-image"]),
    ],
)
def test_an_image_is_named_or_built(recipes: Path, image: dict[str, Any], rules: list[str]) -> None:
    assert faults(planned(recipes, {"one": service("a", image=image)})) == rules


def test_a_secret_among_the_arguments_is_refused_and_not_repeated(recipes: Path) -> None:
    (recipes / "builds" / "demo" / "build.yml").write_text(yaml.safe_dump(DATA | {"arguments": {"HF_TOKEN": "hf_abc"}}))
    plan = planned(recipes, {"one": service("a")})
    assert faults(plan) == ["recipe-secret"]
    assert "hf_abc" not in json.dumps(plan)


def test_a_build_is_locked_as_an_image_is(recipes: Path) -> None:
    known = {"digest": None, "identity": DIGEST}
    plan = planned(recipes, {"one": service("a")}, {"images": {built().reference: known}, "models": {}})
    assert images(plan)["a"][0]["lock"] == known


def test_drift_sees_another_image_behind_its_name(recipes: Path) -> None:
    """The name is of the inputs: other inputs are an image that is missing."""
    before = images(planned(recipes, {"one": service("a")}))["a"][0]["reference"]
    (recipes / "builds" / "demo" / "build.yml").write_text(yaml.safe_dump(DATA | {"arguments": {"ARCH": "120"}}))
    assert images(planned(recipes, {"one": service("a")}))["a"][0]["reference"] != before


# What is shipped -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", sorted((SHIPPED_RECIPES / "builds").iterdir()), ids=lambda folder: folder.name)
def test_a_shipped_build_lacks_nothing_but_what_only_an_owner_can_look_up(folder: Path) -> None:
    data = yaml.safe_load((folder / "build.yml").read_text())
    files = {path.name: path.read_text() for path in folder.iterdir()}
    assert {*files} == {"build.yml", DOCKERFILE, *data.get("files", {})}
    _, findings = read(folder.name, data, files, folder.name)
    assert {one.rule for one in findings} <= {"build-unpinned", "build-network"}
    pinned = copy.deepcopy(data) | {"bases": dict.fromkeys(data["bases"], DIGEST)}
    build, findings = read(folder.name, pinned, files, folder.name)
    assert build, findings
    assert "not run" in data["note"]
