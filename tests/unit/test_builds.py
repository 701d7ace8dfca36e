# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds: what is pinned and what is refused, the name by the inputs, who builds, and what a failure says.
`molecule/image_store` builds by the real BuildKit."""

from __future__ import annotations

import copy
import hashlib
import json
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
from ansible_collections.gb10.fleet.plugins.module_utils._facts.builds.dockerfile import instructions, problems
from ansible_collections.gb10.fleet.plugins.module_utils._facts.builds.running import failure, jobs_for, step_of, words
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
ARG CUDA={CUDA}
FROM ${{CUDA}} AS build
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


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (TEXT, []),
        ("# syntax=docker/dockerfile:1.6\n" + TEXT, ["build-syntax"]),
        ("#!/usr/bin/env docker\n\n# Syntax = docker/dockerfile@sha256:1\n" + TEXT, ["build-syntax"]),
        ("# a comment\n" + TEXT + "# syntax=no longer read\n", []),
        ("# escape=`\n" + TEXT, ["build-escape"]),
        ("FROM ubuntu:24.04\n", ["build-base"]),
        ("FROM --platform=linux/arm64 ubuntu AS a\nFROM A\nCOPY --from=0 / /\n", ["build-base"]),
        (f"FROM {CUDA} AS build\nFROM build-$TARGETARCH\n", ["build-base"]),
        ("ARG V=13.0.2\nARG NAME=nvidia/cuda:${V}-devel-ubuntu24.04\nFROM $NAME\n", []),
        ("ARG V\nFROM ${V:-scratch}\n", []),
        (f"FROM {CUDA}\nCOPY --from=ghcr.io/astral-sh/uv:latest /uv /bin/\n", ["build-base"]),
        (f"FROM {CUDA}\nRUN --mount=type=bind,from=golang:1,target=/go true\n", ["build-base"]),
        (f"FROM {CUDA}\nADD https://example.org/x.tar.gz /x\n", ["build-unchecked"]),
        (f"FROM {CUDA}\nADD --checksum=sha256:{64 * '1'} https://example.org/x.tar.gz /x\n", []),
        (f"FROM {CUDA}\nARG SUM=sha256:{64 * '1'}\nADD --checksum=$SUM https://example.org/x /x\n", []),
        (f"FROM {CUDA}\nADD --checksum=sha256:12 https://example.org/x.tar.gz /x\n", ["build-unchecked"]),
        (f'FROM {CUDA}\nADD ["https://example.org/x", "/x"]\n', ["build-unchecked"]),
        (f"FROM {CUDA}\nADD git@github.com:org/x.git#main /x\n", ["build-unchecked"]),
        (f"FROM {CUDA}\nADD $SOURCE /x\n", ["build-unchecked"]),
        (f"FROM {CUDA}\nADD local.tar /x\n", []),
        (f"FROM {CUDA}\nRUN --network=host make\n", ["build-privilege"]),
        (f"FROM {CUDA}\nRUN --security=insecure make\n", ["build-privilege"]),
        (f"FROM {CUDA}\nRUN --network=none --mount=type=tmpfs,target=/t make\n", []),
        # an instruction can't hide in what looks like the end of another
        (f"FROM {CUDA}\nRUN <<EOF\nFROM ubuntu\nEOF\n", []),
        (f"FROM {CUDA}\nRUN cat <<E && \\\n# x\n true\nADD http://a/x /\nE\nADD http://b/x /\n", ["build-unchecked"]),
        (f"FROM {CUDA}\nRUN echo \"a <<E b\"\nADD http://b/x /\n", ["build-unchecked"]),
        (f"FROM\t{CUDA}\r\nADD\thttp://b/x /\r\n", ["build-unchecked"]),
        (f"FROM {CUDA}\nRUN echo $((1<<X))\nADD https://example.org/x /x\n", ["build-unchecked"]),
        (f"FROM {CUDA}\nadd \\\n\n  # a comment\n  https://example.org/x /x\n", ["build-unchecked"]),
    ],
)  # fmt: skip
def test_what_would_be_another_thing_tomorrow_is_refused(text: str, rules: list[str]) -> None:
    found = [*problems(text, [CUDA, "llama.cpp"], {}, "Dockerfile")]
    assert [one.rule for one in found] == rules
    assert all(one.place.startswith("Dockerfile, line ") and one.remedy for one in found)


def test_an_argument_is_what_the_build_declares() -> None:
    text = "ARG BASE=scratch\nFROM $BASE\n"
    assert not [*problems(text, [], {}, "Dockerfile")]
    assert [one.rule for one in problems(text, [], {"BASE": "ubuntu"}, "Dockerfile")] == ["build-base"]


def test_a_line_of_an_instruction_is_where_it_begins() -> None:
    assert [(one.line, one.word) for one in instructions("# x\nRUN a \\\n  b\n\ncopy x y\n")] == [
        (2, "RUN"),
        (5, "COPY"),
    ]


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
    return [
        *lines,
        "------",
        f" > [2/2] {step}:",
        *lines,
        "------",
        "Dockerfile:2",
        f"ERROR: failed to solve: {end}",
    ]


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


def program(folder: Path, text: str) -> str:
    """A stand-in of the docker command."""
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
