# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle: what a plan needs of it, what it may hold, and how its files are written, read and refused."""

from __future__ import annotations

import copy
import fcntl
import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.action import bundle as bundle_action
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError, error
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle import build, locks, wheels
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle import manifest as form
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle.check import plan_from
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle.folder import (
    Bundle,
    Target,
    earlier,
    write_whole,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle.images import image_problems
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle.manifest import parts_of
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle.needs import ALWAYS, Needs, lacking, needs
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle.signature import new_key, signed
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle.sources import (
    apt_files,
    deliveries,
    environment,
    from_bundle,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.questions import RDMA_PACKAGES
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.identity import (
    identity_from_config,
    parse_reference,
)
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.layout import read_layout
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.manifest import File, Manifest
from ansible_collections.gb10.fleet.plugins.modules import bundle_files
from ansible_collections.gb10.fleet.plugins.plugin_utils._bundle_key import kept_key, note_used, trusted_key, used
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
REVISION = "0123456789abcdef0123456789abcdef01234567"
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
OCI = "application/vnd.oci.image.manifest.v1+json"


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def digest(content: bytes) -> str:
    return f"sha256:{sha(content)}"


def text(value: Any) -> bytes:
    return json.dumps(value).encode()


# A bundle with one image (a list of two architectures, the one of Docker's form), one model, one package, one wheel.
LAYER = b"a layer, not unpacked here"
CONFIG = text(
    {
        "os": "linux",
        "architecture": "arm64",
        "config": {"Cmd": ["vllm"], "Healthcheck": {"Test": ["NONE"]}},
        "rootfs": {"type": "layers", "diff_ids": [digest(b"tar")]},
    }
)
DESCRIBED = {"config": {"digest": digest(CONFIG)}, "layers": [{"digest": digest(LAYER), "mediaType": "x"}]}
INSTANCE = text({"mediaType": DOCKER, **DESCRIBED})
INDEX = text(
    {
        "manifests": [
            {"digest": digest(b"another"), "platform": {"os": "linux", "architecture": "amd64"}},
            {"digest": digest(INSTANCE), "platform": {"os": "linux", "architecture": "arm64"}},
        ]
    }
)
OURS = text({"mediaType": OCI, **DESCRIBED})
IMAGE = {
    "reference": "vllm/vllm-openai:v1",
    "digest": digest(INDEX),
    "identity": identity_from_config(json.loads(CONFIG)).digest,
    "manifest": digest(OURS),
    "documents": [digest(INDEX), digest(INSTANCE), digest(CONFIG)],
    "layers": [digest(LAYER)],
    "licence": "Apache-2.0",
    "origin": "vllm/vllm-openai@" + digest(INDEX),
}
WEIGHTS = bytes(range(256)) * 16384  # 4 MiB
MODEL_FILES = (File("config.json", 2, sha(b"{}")), File("model.safetensors", len(WEIGHTS), sha(WEIGHTS)))
MODEL = {
    "repository": "org/name",
    "revision": REVISION,
    "seal": Manifest("org/name", REVISION, MODEL_FILES).seal,
    "files": [{"path": one.path, "size": one.size, "sha256": one.sha256} for one in MODEL_FILES],
    "licence": None,
    "origin": "https://hub/org/name",
}
CONTENT = {
    **{form.blob(digest(one)): one for one in (LAYER, CONFIG, INSTANCE, INDEX, OURS)},
    **{form.weight(sha(one)): one for one in (b"{}", WEIGHTS)},
    "debs/docker.io_1%3a2_arm64.deb": b"a package",
    "debs/Packages": b"Package: docker.io\n",
    "debs/InRelease": b"signed",
    "wheels/runner-1-py3-none-any.whl": b"a wheel",
    "collection/gb10-fleet-0.2.0.tar.gz": b"an artifact",
    "images/oci-layout": b"{}",
    "images/index.json": b"{}",
    "key.gpg": b"",
}
ORIGIN = {"licence": None, "origin": "there"}


def manifest_of(content: Mapping[str, bytes], **other: Any) -> dict[str, Any]:
    return {
        "form": 1,
        "serial": 7,
        "plan": "0" * 64,
        "architecture": "arm64",
        "part_bytes": None,
        "files": {path: {"bytes": len(one), "sha256": sha(one)} for path, one in content.items()},
        "images": [IMAGE],
        "models": [MODEL],
        "asked": ["docker.io", "python3-venv"],
        "packages": [{"name": "docker.io", "version": "1:2", "file": "debs/docker.io_1%3a2_arm64.deb", **ORIGIN}],
        "wheels": [{"name": "runner", "version": "1", "file": "wheels/runner-1-py3-none-any.whl", **ORIGIN}],
        "tools": {},
        "wheels_by": "",
        "collection": {"version": "0.2.0", "file": "collection/gb10-fleet-0.2.0.tar.gz"},
        **other,
    }


@pytest.fixture(scope="session")
def key() -> tuple[bytes, bytes]:
    if not shutil.which("gpg") or not shutil.which("gpgv"):
        pytest.skip("needs GnuPG")
    return new_key("a test")


def written(folder: Path, key: tuple[bytes, bytes], part_bytes: int | None = None, **other: Any) -> Path:
    """The bundle as it lies on a medium."""
    content = {**CONTENT, "key.gpg": key[1]}
    for path, one in content.items():
        for part in parts_of(path, len(one), part_bytes):
            write_whole(folder, part.path, one[part.offset : part.offset + part.size])
    again = form.dump(manifest_of(content, part_bytes=part_bytes, **other))
    write_whole(folder, form.FILE, again)
    write_whole(folder, form.SIGNATURE, signed(key[0], again, clear=False))
    return folder


def host(**parts: Any) -> dict[str, Any]:
    return {
        "images": [],
        "models": [],
        "fabric": {"sysctl": {}},
        "firewall": {"state": "open"},
        "gateway": {},
        "clients": [],
        "memory_guard": {},
        "monitoring": {"packages": []},
        "phoenix": {"packages": [], "tool": ""},
        **parts,
    }


def entry(kind: str, **other: Any) -> dict[str, Any]:
    of = {
        "images": {"reference": IMAGE["reference"], "digest": None, "source": {"kind": "registry"}},
        "models": {"repository": "org/name", "revision": REVISION, "bytes": None, "source": {"kind": "hub"}},
    }
    return {**of[kind], "lock": None, "renew": False, "peers": [], **other}


def peer(name: str) -> dict[str, Any]:
    return {"host": name, "address": f"10.0.0.{len(name)}", "port": 22}


def plan(**hosts: Any) -> dict[str, Any]:
    return {"hosts": hosts, "services": {}}


# The form ---------------------------------------------------------------------------------------------------------


def test_what_we_write_is_what_we_take() -> None:
    manifest = manifest_of(CONTENT)
    assert form.parse(form.dump(manifest), "m") == manifest


def put(*keys: Any) -> Callable[[Any], Callable[[dict[str, Any]], None]]:
    """Set the value at a place of a manifest."""

    def to(value: Any) -> Callable[[dict[str, Any]], None]:
        def change(manifest: dict[str, Any]) -> None:
            for one in keys[:-1]:
                manifest = manifest[one]
            manifest[keys[-1]] = value

        return change

    return to


def rename(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        manifest["files"][new] = manifest["files"].pop(old)
        for one in (*manifest["packages"], *manifest["wheels"], manifest["collection"]):
            one["file"] = new if one["file"] == old else one["file"]

    return change


DEB = "debs/docker.io_1%3a2_arm64.deb"
HOSTILE: dict[str, Callable[[dict[str, Any]], None]] = {
    "another form": put("form")(2),
    "no serial": lambda one: one.pop("serial"),
    "a serial that is no number": put("serial")("9"),
    "a serial without end": put("serial")(1 << 80),
    "an unknown key": put("run")("sh"),
    "a size below nothing": put("files", DEB, "bytes")(-1),
    "a size beyond all": put("files", DEB, "bytes")(1 << 60),
    "a sum that is none": put("files", DEB, "sha256")("zz"),
    "a path that leads out": rename(DEB, "debs/../../etc/cron.d/x"),
    "an absolute path": rename(DEB, "/etc/cron.d/x"),
    "a hidden file": rename(DEB, "debs/.hidden"),
    "a path with a line break": rename(DEB, "debs/a\nb.deb"),
    "a folder of no kind": rename(DEB, "bin/sh"),
    "a package in a folder below": rename(DEB, "debs/x/y.deb"),
    "a file that is a folder as well": put("files", f"{DEB}/x")({"bytes": 1, "sha256": "0" * 64}),
    "parts without end": put("part_bytes")(1),
    "a package that no file is": put("packages", 0, "file")("debs/none.deb"),
    "a blob of another sum": put("files", form.blob(digest(LAYER)), "sha256")("1" * 64),
    "weights of another size": put("files", form.weight(sha(WEIGHTS)), "bytes")(5),
    "a model's file that leads out": put("models", 0, "files", 0, "path")("../../x"),
    "a model's file of a folder": put("models", 0, "files", 0, "path")("model.safetensors/x"),
    "a model that is another": put("models", 0, "seal")("2" * 64),
    "a model by no name": put("models", 0, "repository")("../../etc"),
    "an image by no digest": put("images", 0, "digest")("latest"),
    "an image whose digest nobody has": put("images", 0, "digest")(digest(b"unseen")),
    "an image with a name for a shell": put("images", 0, "reference")("a; rm -rf /"),
    "an image twice": lambda one: one["images"].append(one["images"][0]),
    "a licence of another type": put("images", 0, "licence")(["MIT"]),
    "no collection": lambda one: one.pop("collection"),
    "files as a list": put("files")([]),
    "a package's name for apt's options": put("asked")(["-oDpkg::Pre-Invoke::=sh"]),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_manifest_is_refused_by_one_sentence(what: str) -> None:
    manifest = copy.deepcopy(manifest_of(CONTENT))
    HOSTILE[what](manifest)
    with pytest.raises(FleetError) as caught:
        form.parse(json.dumps(manifest).encode(), "/media/x/manifest.json")
    (found,) = caught.value.findings
    assert found.rule == "bundle-manifest" and found.place == "/media/x/manifest.json"
    assert "\n" not in found.found and len(found.found) < 400


@given(st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(text))
def test_anything_else_is_refused_likewise(content: bytes) -> None:
    with pytest.raises(FleetError):
        form.parse(content, "m")


def test_a_deep_or_a_long_one_is_refused() -> None:
    for content in (b"[" * 100_000, b" " * (form.MOST_BYTES + 1)):
        with pytest.raises(FleetError):
            form.parse(content, "m")


@given(st.integers(0, 10**7), st.integers(1, 10**6) | st.none())
def test_parts_are_the_file_and_none_is_too_large(size: int, part_bytes: int | None) -> None:
    parts = parts_of("debs/x", size, part_bytes and max(part_bytes, size // 5000 + 1))
    assert sum(part.size for part in parts) == size
    assert [part.offset for part in parts] == [sum(one.size for one in parts[:index]) for index in range(len(parts))]
    assert len({part.path for part in parts}) == len(parts)
    assert sorted(part.path for part in parts) == [part.path for part in parts]
    if part_bytes is None:
        assert [part.path for part in parts] == ["debs/x"]


# What a plan needs ------------------------------------------------------------------------------------------------


def test_what_comes_from_outside_is_needed_once() -> None:
    archive = entry("images", reference="own:1", source={"kind": "archive", "path": "/srv/x.tar"})
    folder = entry("models", repository="own/model", source={"kind": "path", "path": "/srv/m"})
    near = entry("images", reference="near:1", source={"kind": "host", "host": "a"})
    one = host(images=[entry("images"), archive, near], models=[entry("models"), folder])
    needed = needs(plan(a=one, b=one), ["a", "b"], ["htop"])
    assert [image["reference"] for image in needed.images] == [IMAGE["reference"]]
    assert [model["repository"] for model in needed.models] == ["org/name"]
    assert [*needed.packages] == ["docker.io", "htop", "python3-venv"]


def test_packages_are_those_of_all_parts_of_a_host() -> None:
    one = host(
        fabric={"sysctl": {"x": 1}},
        firewall={"state": "closed"},
        gateway={"packages": ["haproxy"]},
        monitoring={"packages": ["prometheus"]},
    )
    packages = {*needs(plan(a=one), ["a"]).packages}
    assert packages == {*ALWAYS, *RDMA_PACKAGES, "nftables", "haproxy", "prometheus"}


def test_every_package_that_a_role_installs_by_name_is_known() -> None:
    """What stands in a role and not in a slice of the plan: another name there, and the bundle would lack it."""
    # NVIDIA's toolkit comes with DGX OS, from NVIDIA's own repository
    known = {*ALWAYS, *RDMA_PACKAGES, "nftables", "nvidia-container-toolkit"}
    named: set[str] = set()
    for file in ROOT.glob("roles/*/tasks/*.yml"):
        for block in re.findall(r"gb10\.fleet\.host_packages:\n\s+name: (\[.*\])", file.read_text()):
            named |= {name for name in yaml.safe_load(block) if "{{" not in name}
    assert named and named <= known
    defaults = yaml.safe_load((ROOT / "roles/fabric/defaults/main.yml").read_text())
    assert {*defaults["fabric_packages"]} == {*RDMA_PACKAGES}


def test_every_lock_of_wheels_is_in_a_bundle() -> None:
    """Of each role that installs by one, but for Phoenix's where the plan has none."""
    using = {path.parents[1].name for path in ROOT.glob("roles/*/tasks/*.yml") if "python_tool:" in path.read_text()}
    assert {path.parents[1].name for path in wheels.locks([])} == using - {"phoenix"}
    assert {path.parents[1].name for path in wheels.locks(["phoenix"])} == using
    assert all("--hash=sha256:" in path.read_text() for path in wheels.locks(["phoenix"]))


WITH_PHOENIX = host(phoenix={"packages": [], "tool": "/x"})
OTHER = {"digest": digest(b"other"), "identity": digest(b"other")}
BUILT = entry("images", reference="localhost/demo:1", source={"kind": "build", "host": "a"})


@pytest.mark.parametrize(
    ("needed", "found"),
    [
        (Needs([entry("images")], [entry("models")], ["docker.io"]), []),
        (Needs([entry("images", digest=IMAGE["digest"])], [entry("models", revision=None)], []), []),
        (Needs([entry("images", digest=digest(b"pin"))], [], []), ["bundle-lacks"]),
        (Needs([entry("images", reference="vllm:2")], [entry("models", revision="f" * 40)], []), ["bundle-lacks"] * 2),
        (Needs([entry("images", lock=OTHER)], [], []), ["bundle-differs"]),
        (Needs([], [entry("models", lock={"revision": REVISION, "seal": "0" * 64})], []), ["bundle-differs"]),
        (Needs([], [], ["haproxy", "docker.io"]), ["bundle-lacks"]),
        (needs(plan(a=WITH_PHOENIX), ["a"]), ["bundle-lacks"]),
        (
            needs(plan(a=host(images=[BUILT | {"build": {"files": {}}}]), b=host(images=[BUILT])), ["a", "b"]),
            ["bundle-lacks"],
        ),
    ],
)
def test_what_a_bundle_lacks_or_has_otherwise_than_locked(needed: Needs, found: list[str]) -> None:
    assert [one.rule for one in lacking(needed, manifest_of(CONTENT), "m")] == found


def test_a_bundle_has_the_wheels_of_the_lock_that_the_plan_installs_by() -> None:
    """Those of another release of Phoenix are not; whole or not at all."""
    needed = needs(plan(a=WITH_PHOENIX, b=host()), ["a", "b"])
    assert [*needed.tools] == ["phoenix"]
    assert [*lacking(needed, manifest_of(CONTENT, tools={**needed.tools}), "m")] == []
    (finding,) = lacking(needed, manifest_of(CONTENT, tools={"phoenix": "0" * 64}), "m")
    assert "wheels of phoenix" in finding.place and "gb10.fleet.bundle" in finding.remedy
    old = manifest_of(CONTENT)
    del old["tools"], old["wheels_by"]
    assert form.parse(form.dump(old), "m")["tools"] == {}, "a bundle of before can be read"


def test_wheels_that_are_held_are_not_asked_for_again(tmp_path: Path) -> None:
    """Of 150 it takes pip minutes to find that they are the same."""
    chosen = wheels.chosen_by("arm64", "3.12", ["phoenix"])
    others = [wheels.chosen_by(*by) for by in (("amd64", "3.12", ["phoenix"]), ("arm64", "3.13", ["phoenix"]))]
    assert len({chosen, *others, wheels.chosen_by("arm64", "3.12", [])}) == 4
    (path,) = [path for path in CONTENT if path.startswith("wheels/")]
    write_whole(tmp_path, path, CONTENT[path])
    known = manifest_of(CONTENT, wheels_by=chosen)
    target = Target(tmp_path, known, None, None)
    assert wheels.held(chosen, known, target) == known["wheels"]
    assert [*target.files] == [path]
    assert wheels.held(others[0], known, target) is None
    write_whole(tmp_path, path, b"damaged")
    assert wheels.held(chosen, known, Target(tmp_path, known, None, None)) is None


def test_a_host_is_given_the_wheels_that_it_installs_and_no_others() -> None:
    name, version = sorted(locks.pins(locks.text_of("phoenix")))[0]
    paths = [f"wheels/{name.title()}-{version}-py3-none-any.whl", "wheels/runner-1-py3-none-any.whl"]
    entries = [
        {"name": name.title(), "version": version, "file": paths[0], **ORIGIN},
        {"name": "runner", "version": "1", "file": paths[1], **ORIGIN},
    ]
    nothing = {"images": [], "models": []}
    given = deliveries(
        plan(a=WITH_PHOENIX, b=host()), manifest_of(CONTENT, wheels=entries), {"a": nothing, "b": nothing}
    )
    assert {path for path in given["a"] if path.startswith("wheels/")} == {paths[0]}
    assert not [path for path in given["b"] if path.startswith("wheels/")]


def test_pip_on_a_host_asks_the_bundle_alone() -> None:
    variables = environment()
    assert variables["PIP_NO_INDEX"] == "1"
    assert variables["PIP_FIND_LINKS"] == "/var/lib/gb10-fleet/bundle/wheels"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("debs/docker.io_1:2_arm64.deb", "FAT takes no"),
        ("debs/a?.deb", "FAT takes no"),
        ("debs/ends.", "FAT takes no"),
        (DEB.replace("docker", "Docker"), "to FAT"),
    ],
)
def test_names_that_fat_has_not_are_refused_in_parts_alone(path: str, why: str) -> None:
    content = {**CONTENT, path: b"x"}
    for part_bytes in (None, 2 << 20):
        document = form.dump(manifest_of(content, part_bytes=part_bytes))
        if part_bytes is None:
            assert form.parse(document, "m")
        else:
            with pytest.raises(FleetError, match=why):
                form.parse(document, "m")


def test_a_wheel_is_kept_however_it_spells_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``huggingface_hub`` by its own metadata is ``huggingface-hub`` in the lock, and was left out."""

    def download(arguments: list[str], *_: Any) -> bytes:
        lock = Path(arguments[-1]).read_text()
        for name, version in [*re.findall(r"(?m)^([\w.-]+)==([\w.!+-]+)", lock), ("left-of-before", "1")]:
            file = f"{name.replace('-', '_')}-{version}"
            with zipfile.ZipFile(tmp_path / "work" / f"{file}-py3-none-any.whl", "w") as wheel:
                metadata = f"Name: {name.replace('-', '_').title()}\nVersion: {version}\nLicense: MIT\n"
                wheel.writestr(f"{file}.dist-info/METADATA", metadata)
        return b""

    monkeypatch.setattr(wheels, "run", download)
    target = Target(tmp_path / "x", earlier(tmp_path / "x", None), None, None)
    names = {str(entry["name"]) for entry in wheels.fetch("arm64", "3.12", [], target, tmp_path / "work")}
    assert {"Huggingface_Hub", "Ansible_Runner"} <= names and "Left_Of_Before" not in names
    assert [*(tmp_path / "work").iterdir()] == []


# The plan with the bundle as source -------------------------------------------------------------------------------


def test_the_first_host_of_a_run_gets_it_and_the_others_from_there() -> None:
    of = {"a": [], "b": [peer("a")], "c": [peer("b"), peer("a")]}
    hosts = {
        name: host(images=[entry("images", peers=peers)], models=[entry("models", peers=peers)])
        for name, peers in of.items()
    }
    whole = from_bundle(plan(**hosts), manifest_of(CONTENT), ["a", "b", "c"])
    kinds = {
        name: [one["source"]["kind"] for kind in ("images", "models") for one in whole["hosts"][name][kind]]
        for name in of
    }
    assert kinds == {"a": ["bundle"] * 2, "b": ["host"] * 2, "c": ["host"] * 2}
    assert whole["hosts"]["c"]["images"][0]["source"] == {"kind": "host", "host": "a"}
    # of a run without the first one, the next is the first
    part = from_bundle(plan(**hosts), manifest_of(CONTENT), ["b", "c"])
    assert part["hosts"]["a"] == hosts["a"]
    assert part["hosts"]["b"]["images"][0]["source"]["kind"] == "bundle"
    assert part["hosts"]["c"]["images"][0]["source"] == {"kind": "host", "host": "b"}
    assert [one["host"] for one in part["hosts"]["c"]["images"][0]["peers"]] == ["b"]


def test_what_it_is_known_by_is_the_bundles_where_nothing_is_locked() -> None:
    whole = from_bundle(plan(a=host(images=[entry("images")], models=[entry("models")])), manifest_of(CONTENT), ["a"])
    (image,), (model,) = whole["hosts"]["a"]["images"], whole["hosts"]["a"]["models"]
    assert image["lock"] == {"digest": IMAGE["digest"], "identity": IMAGE["identity"]}
    assert model["lock"] == {"revision": REVISION, "seal": MODEL["seal"]}
    assert image["source"]["manifest"] == IMAGE["manifest"]


def test_an_owners_own_files_stay_his() -> None:
    own = entry("images", reference="own:1", source={"kind": "archive", "path": "/srv/x.tar"})
    whole = from_bundle(plan(a=host(images=[own])), manifest_of(CONTENT), ["a"])
    assert whole["hosts"]["a"]["images"] == [own]


def test_a_host_is_given_what_it_lacks() -> None:
    whole = from_bundle(plan(a=host(images=[entry("images")], models=[entry("models")])), manifest_of(CONTENT), ["a"])
    debs = {"key.gpg", "debs/Packages", "debs/InRelease", DEB}
    nothing = deliveries(whole, manifest_of(CONTENT), {"a": {"images": [], "models": []}})
    assert set(nothing["a"]) == debs
    staged = deliveries(whole, manifest_of(CONTENT), {"a": {"images": [], "models": None}}, installing=False)["a"]
    assert len(staged) == len(MODEL_FILES) and all(path.startswith("models/") for path in staged)
    everything = deliveries(whole, manifest_of(CONTENT), {"a": {"images": None, "models": ["org/name"]}})["a"]
    snapshot = f"models/models--org--name/snapshots/{REVISION}"
    assert everything[f"{snapshot}/model.safetensors"] == form.weight(sha(WEIGHTS))
    assert form.blob(digest(LAYER)) in everything and form.blob(digest(OURS)) in everything
    assert "wheels/runner-1-py3-none-any.whl" not in everything


def test_apt_on_a_host_believes_the_bundles_key_alone() -> None:
    (source,) = [one for name, one in apt_files().items() if name.endswith(".list")]
    assert "trusted" not in source and "[signed-by=/var/lib/gb10-fleet/bundle/key.gpg]" in source
    assert len(source.splitlines()) == 1


# An image's documents ---------------------------------------------------------------------------------------------


def documents(**changed: bytes) -> Callable[[str], bytes]:
    found = {digest(one): one for one in (LAYER, CONFIG, INSTANCE, INDEX, OURS)}
    return {**found, **changed}.__getitem__


def test_a_pinned_digest_is_followed_to_the_layers() -> None:
    assert image_problems(IMAGE, "arm64", documents(), "m") == []


@pytest.mark.parametrize(
    ("image", "architecture", "changed"),
    [
        (IMAGE, "amd64", {}),
        (IMAGE, "arm64", {digest(INDEX): INDEX + b" "}),
        (IMAGE, "arm64", {digest(OURS): b"[]"}),
        (IMAGE, "arm64", {digest(CONFIG): b"{}"}),
        ({**IMAGE, "layers": [digest(b"another")]}, "arm64", {}),
        ({**IMAGE, "identity": digest(b"another")}, "arm64", {}),
        ({**IMAGE, "digest": digest(CONFIG)}, "arm64", {}),
        ({**IMAGE, "digest": digest(OURS), "manifest": digest(INDEX)}, "arm64", {}),
        ({**IMAGE, "documents": [digest(INDEX), digest(CONFIG)]}, "arm64", {}),
    ],
)
def test_an_image_that_its_digest_does_not_name_is_refused(
    image: Mapping[str, Any], architecture: str, changed: Mapping[str, bytes]
) -> None:
    (found,) = image_problems(image, architecture, documents(**changed), "m")
    assert found.rule == "bundle-image"


def test_a_layers_media_type_is_no_difference_of_the_image(tmp_path: Path) -> None:
    """What the host reads: the layout, with the configuration as the registry has it."""
    for one in (OURS, CONFIG, LAYER):
        write_whole(tmp_path / "blobs", digest(one).replace(":", "/"), one)
    image = read_layout(tmp_path, digest(OURS), parse_reference(str(IMAGE["reference"])))
    assert image.identity.digest == IMAGE["identity"]
    assert b"".join(image.chunks(image.layers[0])) == LAYER
    (tmp_path / "blobs" / digest(LAYER).replace(":", "/")).unlink()
    with pytest.raises(FleetError, match="image-layout"):
        read_layout(tmp_path, digest(OURS), parse_reference("a:1"))


# Files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part_bytes", [None, MIB])
def test_a_whole_bundle_is_let_in(tmp_path: Path, key: tuple[bytes, bytes], part_bytes: int | None) -> None:
    folder = written(tmp_path / "x", key, part_bytes)
    wanted = plan(a=host(images=[entry("images")], models=[entry("models")]))
    found, problems = plan_from(wanted, [folder], ["a"], None, 7, tmp_path / "used")
    assert problems == []
    assert found["hosts"]["a"]["images"][0]["source"]["kind"] == "bundle"
    bundle = Bundle.of([folder], None)
    assert bundle.damaged(bundle.manifest["files"]) == []
    assert b"".join(bundle.chunks(form.weight(sha(WEIGHTS)))) == WEIGHTS


PATHS = [form.blob(digest(LAYER)), form.weight(sha(WEIGHTS)), DEB, "debs/Packages"]


@pytest.mark.parametrize("path", PATHS)
def test_a_missing_file_and_a_short_one_are_named(tmp_path: Path, key: tuple[bytes, bytes], path: str) -> None:
    folder = written(tmp_path / "x", key)
    wanted = plan(a=host(images=[entry("images")], models=[entry("models")]))
    content = (folder / path).read_bytes()
    for change in (lambda one: one.unlink(), lambda one: one.write_bytes(content[:-1])):
        change(folder / path)
        _, (found,) = plan_from(wanted, [folder], ["a"], None, 0, tmp_path / "used")
        assert (found.rule, found.place) == ("bundle-file", str(folder / path))


@pytest.mark.parametrize("path", PATHS)
def test_a_flipped_bit_is_named(tmp_path: Path, key: tuple[bytes, bytes], path: str) -> None:
    folder = written(tmp_path / "x", key)
    content = bytearray((folder / path).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / path).write_bytes(content)
    bundle = Bundle.of([folder], None)
    (found,) = bundle.damaged(bundle.manifest["files"])
    assert found.place == str(folder / path)


def test_a_link_out_of_the_bundle_is_not_followed(tmp_path: Path, key: tuple[bytes, bytes]) -> None:
    folder = written(tmp_path / "x", key)
    (tmp_path / "away").write_bytes(LAYER)
    (folder / form.blob(digest(LAYER))).unlink()
    (folder / form.blob(digest(LAYER))).symlink_to(tmp_path / "away")
    assert len(Bundle.of([folder], None).lacking([form.blob(digest(LAYER))])) == 1


def test_a_fifo_holds_up_nobody(tmp_path: Path, key: tuple[bytes, bytes]) -> None:
    folder = written(tmp_path / "x", key)
    (folder / DEB).unlink()
    os.mkfifo(folder / DEB)
    assert len(Bundle.of([folder], None).damaged([DEB])) == 1


def test_a_changed_manifest_and_another_key_are_refused(tmp_path: Path, key: tuple[bytes, bytes]) -> None:
    folder = written(tmp_path / "x", key)
    content = (folder / form.FILE).read_bytes()
    (folder / form.FILE).write_bytes(content.replace(b'"serial": 7', b'"serial": 8'))
    with pytest.raises(FleetError, match="bundle-signature"):
        Bundle.of([folder], None)
    (folder / form.FILE).write_bytes(content)
    (tmp_path / "site.gpg").write_bytes(new_key("another")[1])
    with pytest.raises(FleetError, match="bundle-key"):
        Bundle.of([folder], tmp_path / "site.gpg")
    with pytest.raises(FleetError, match="bundle-file"):
        Bundle.of([tmp_path / "none"], None)


def test_an_older_bundle_is_refused_by_its_name(tmp_path: Path, key: tuple[bytes, bytes]) -> None:
    folder, site = written(tmp_path / "x", key), tmp_path / "site"
    note_used(site, Bundle.of([folder], trusted_key(site)))
    assert used(site) == (7, site / ".fleet" / "bundle.json")
    trusted = trusted_key(site)
    assert trusted and trusted.read_bytes() == key[1]
    old = written(tmp_path / "old", key, serial=6)
    _, (found,) = plan_from(plan(a=host()), [old], ["a"], trusted, *used(site))
    assert found.place == str(old / form.FILE) and "6" in found.found and "7" in found.expected
    used(site)[1].write_text("{}")
    with pytest.raises(FleetError, match="bundle-record"):
        used(site)


def test_a_key_is_made_once_and_never_anew_without_its_secret(tmp_path: Path, key: tuple[bytes, bytes]) -> None:
    made = kept_key(tmp_path)
    assert kept_key(tmp_path) == made
    secret = tmp_path / ".fleet" / "keys" / "bundle.key"
    assert secret.stat().st_mode & 0o777 == 0o600
    secret.unlink()
    with pytest.raises(FleetError, match="bundle-key"):
        kept_key(tmp_path)


# Writing ----------------------------------------------------------------------------------------------------------


def test_only_what_is_new_is_written(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "x"
    source.write_bytes(WEIGHTS)
    path = form.weight(sha(WEIGHTS))
    first = Target(folder, earlier(folder, None), None, None)
    first.put(path, source)
    assert first.new_bytes == len(WEIGHTS)
    before = manifest_of({path: WEIGHTS})
    again = Target(folder, before, None, None)
    again.put(path, source)
    assert again.new_bytes == 0 and again.known(path)
    # a bundle on top of it has none of its bytes
    on_top = Target(tmp_path / "y", earlier(tmp_path / "y", None), before, None)
    on_top.put(path, source)
    assert on_top.new_bytes == 0 and not (tmp_path / "y").exists()


def test_a_half_file_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "x"
    source.write_bytes(WEIGHTS)
    path = form.weight(sha(WEIGHTS))
    for left in (WEIGHTS[:-1], bytes(len(WEIGHTS)), b""):
        write_whole(folder, path, left)
        (folder / f"{path}.partial").write_bytes(WEIGHTS[:5])
        target = Target(folder, manifest_of({path: WEIGHTS}), None, None)
        assert target.known(path) is None
        target.put(path, source)
        assert (folder / path).read_bytes() == WEIGHTS
        assert not (folder / f"{path}.partial").exists()


def test_another_size_of_parts_writes_the_file_anew_and_drops_the_old_ones(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "x"
    source.write_bytes(WEIGHTS)
    path = form.weight(sha(WEIGHTS))
    Target(folder, earlier(folder, None), None, None).put(path, source)
    parts = Target(folder, manifest_of({path: WEIGHTS}), None, MIB + 1)
    parts.put(path, source)
    assert parts.drop_unnamed() == [path]
    assert sorted(file.name for file in (folder / "models").iterdir()) == [
        f"{sha(WEIGHTS)}.part{n:04}" for n in range(1, 5)
    ]


def test_what_a_plan_no_longer_needs_goes_and_a_strangers_file_stays(tmp_path: Path) -> None:
    write_whole(tmp_path, DEB, b"a package")
    write_whole(tmp_path, "notes.txt", b"mine")
    target = Target(tmp_path, manifest_of({DEB: b"a package", "debs/gone": b""}), None, None)
    assert target.drop_unnamed() == [DEB]
    assert (tmp_path / "notes.txt").exists()


# A whole run ------------------------------------------------------------------------------------------------------


class Outside:
    """IMITATION of what `_operations.bundle.build` fetches by other programs. down: the packages can't be reached."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.fetched, self.down = folder, [], False  # type: ignore[var-annotated]
        folder.mkdir()
        monkeypatch.setattr(build.models, "fetch", self.model)
        monkeypatch.setattr(build.debs, "fetch", self.packages)
        monkeypatch.setattr(build.wheels, "fetch", lambda *_: [])
        monkeypatch.setattr(build.wheels, "collection", self.collection)

    def model(self, wanted: Mapping[str, Any], _hf: str, _token: Any, target: Target, *_: Any) -> dict[str, Any]:
        self.fetched.append(wanted["repository"])
        for content in (b"{}", WEIGHTS):
            (self.folder / "file").write_bytes(content)
            target.put(form.weight(sha(content)), self.folder / "file")
        return copy.deepcopy(MODEL)

    def packages(self, _names: Any, _architecture: str, _sources: str, target: Target, *_: Any) -> list[Any]:
        if self.down:
            raise FleetError(error("bundle-fetch", "packages", found="no route"))
        return []

    def collection(self, target: Target, _work: Path) -> dict[str, str]:
        (self.folder / "file").write_bytes(b"an artifact")
        target.put("collection/gb10-fleet-0.2.0.tar.gz", self.folder / "file")
        return {"version": "0.2.0", "file": "collection/gb10-fleet-0.2.0.tar.gz"}


def order(tmp_path: Path, key: tuple[bytes, bytes], **other: Any) -> build.Order:
    of: dict[str, Any] = {
        "needs": Needs([], [entry("models")], []),
        "plan": "0" * 64,
        "architecture": "arm64",
        "python": "3.12",
        "sources": "",
        "work": tmp_path / "work",
        "hf": "hf",
        "token_file": None,
        "key": key,
        "part_bytes": None,
    }
    return build.Order(**of | other)


def test_a_run_that_was_cut_off_is_gone_on_with(
    tmp_path: Path, key: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, folder, shown = Outside(tmp_path / "outside", monkeypatch), tmp_path / "x", []  # type: ignore[var-annotated]

    def run(**other: Any) -> build.Made:
        return build.build(order(tmp_path, key, **other), folder, earlier(folder, key[1]), None, shown.append)

    outside.down = True
    with pytest.raises(FleetError, match="no route"):
        run()
    assert not (folder / form.FILE).exists(), "what is half a bundle is none"
    outside.down = False
    first = run()
    assert outside.fetched == ["org/name"], "a model that was whole by then is not fetched again"
    assert first.changed and not (tmp_path / "work").exists()
    assert Bundle.of([folder], None).damaged(first.manifest["files"]) == []
    again = run()
    assert not again.changed and again.new_bytes == 0
    assert again.manifest == first.manifest
    # the model's largest file is damaged on the medium: fetched anew, and named by the next manifest
    (folder / form.weight(sha(WEIGHTS))).write_bytes(bytes(len(WEIGHTS)))
    mended = run()
    assert outside.fetched == ["org/name"] * 2
    assert mended.changed and mended.new_bytes == len(WEIGHTS) and mended.manifest == first.manifest
    none = run(needs=Needs([], [], []))
    assert none.changed and none.manifest["serial"] > first.manifest["serial"]
    assert form.weight(sha(WEIGHTS)) in none.dropped and not (folder / form.weight(sha(WEIGHTS))).exists()


def test_two_runs_at_once_are_refused(
    tmp_path: Path, key: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    Outside(tmp_path / "outside", monkeypatch)
    (tmp_path / "work").mkdir()
    held = os.open(tmp_path / "work", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(FleetError, match="bundle-busy"):
        build.build(order(tmp_path, key), tmp_path / "x", earlier(tmp_path / "x", None), None, print)
    os.close(held)


# A medium that was in other hands ---------------------------------------------------------------------------------


@pytest.fixture
def medium(tmp_path: Path, key: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a bundle that this site made."""
    outside, folder = Outside(tmp_path / "outside", monkeypatch), tmp_path / "x"
    build.build(order(tmp_path, key), folder, earlier(folder, key[1]), None, print)
    outside.fetched.clear()
    return folder


@pytest.fixture(scope="module")
def foreign() -> tuple[bytes, bytes]:
    return new_key("another site")


@pytest.mark.parametrize("how", ["changed", "unsigned", "signed by another", "its key", "a pipe"])
def test_what_another_wrote_on_the_medium_is_nobodys_word(
    medium: Path, key: tuple[bytes, bytes], foreign: tuple[bytes, bytes], how: str
) -> None:
    assert earlier(medium, key[1])["serial"]
    content = (medium / form.FILE).read_bytes()
    # as security 3 has it: a file of code at the pinned commit, in a manifest that is whole
    evil, forged = File("modeling_x.py", 4, sha(b"evil")), json.loads(content)
    files = tuple(sorted((*MODEL_FILES, evil), key=lambda file: file.path))
    (model,) = forged["models"]
    model["files"] = [{"path": one.path, "size": one.size, "sha256": one.sha256} for one in files]
    model["seal"] = Manifest("org/name", REVISION, files).seal
    forged["files"][form.weight(evil.sha256)] = {"bytes": evil.size, "sha256": evil.sha256}
    changed = form.dump(forged)
    assert form.parse(changed, "m")["models"] == [model]
    (medium / form.FILE).write_bytes(changed)
    if how == "unsigned":
        (medium / form.SIGNATURE).unlink()
    if how in ("signed by another", "its key"):
        (medium / form.SIGNATURE).write_bytes(signed(foreign[0], changed, clear=False))
    if how == "its key":
        (medium / form.KEY).write_bytes(foreign[1])
        with pytest.raises(FleetError, match="another site"):
            earlier(medium, key[1])
        return
    if how == "a pipe":
        (medium / form.FILE).unlink()
        os.mkfifo(medium / form.FILE)
    words: list[str] = []
    assert earlier(medium, key[1], words.append)["serial"] == 0
    assert "counts as none" in words[0]


def test_a_record_of_half_a_run_is_believed_as_it_was_signed(
    tmp_path: Path, key: tuple[bytes, bytes], foreign: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies on the medium, too, with what is under way."""
    outside, folder, work = Outside(tmp_path / "outside", monkeypatch), tmp_path / "x", tmp_path / "work"
    for signature in (None, foreign[0], key[0]):
        content = json.dumps([{**MODEL, "origin": "of somebody else"}]).encode()
        write_whole(work, "models.json", content)
        if signature:
            write_whole(work, "models.json.sig", signed(signature, content, clear=False))
        made = build.build(order(tmp_path, key), folder, earlier(folder, None), None, print)
        assert (made.manifest["models"][0]["origin"] == "of somebody else") is (signature == key[0])
        (folder / form.FILE).unlink()
    assert outside.fetched == ["org/name"] * 2


def test_a_held_model_is_the_hubs(medium: Path, key: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = earlier(medium, key[1])
    target, wanted = Target(medium, manifest, None, None), entry("models")
    good = {"siblings": [_sibling("config.json", b"{}"), _sibling("model.safetensors", WEIGHTS, lfs=True)]}
    small = {"siblings": [_sibling("config.json", b"[]"), good["siblings"][1]]}
    large = {"siblings": [good["siblings"][0], _sibling("model.safetensors", b"x", lfs=True)]}
    lacking = {"siblings": [good["siblings"][1]]}
    for page, is_held in ((good, True), ({}, True), (small, False), (large, False), (lacking, False)):
        monkeypatch.setattr(build.models, "_asked", lambda _repository, _revision, page=page: page)
        assert (build.models.held(wanted, manifest["models"], target) is not None) is is_held


def _sibling(name: str, content: bytes, lfs: bool = False) -> dict[str, Any]:
    if lfs:
        return {"rfilename": name, "blobId": "0" * 40, "lfs": {"sha256": sha(content)}}
    git = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
    return {"rfilename": name, "blobId": git.hexdigest()}


@pytest.mark.parametrize("link", ["partial", "final", "folder", "folder of folders"])
def test_nothing_is_written_or_removed_through_a_link(tmp_path: Path, link: str) -> None:
    own, folder = tmp_path / "own", tmp_path / "x"
    own.mkdir()
    (own / "thesis.odt").write_bytes(b"mine")
    (own / "sha256").mkdir()
    folder.mkdir()
    path = form.blob(digest(LAYER))
    place = folder / path
    if link in ("partial", "final"):
        place.parent.mkdir(parents=True)
        place.with_name(place.name + (".partial" if link == "partial" else "")).symlink_to(own / "thesis.odt")
    else:
        at = place.parent if link == "folder" else place.parent.parent
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(own)
    (tmp_path / "source").write_bytes(LAYER)
    gone = {f"{Path(path).parent}/thesis.odt": b"mine"}
    target = Target(folder, manifest_of(gone), None, None)
    assert target.drop_unnamed() == []
    if link in ("partial", "final"):
        target.put(path, tmp_path / "source")
        assert place.read_bytes() == LAYER and not place.is_symlink()
    else:
        for write in (lambda: target.put(path, tmp_path / "source"), lambda: target.write(path, LAYER)):
            with pytest.raises(FleetError, match="a link or a file"):
                write()
    assert (own / "thesis.odt").read_bytes() == b"mine"
    assert sorted(str(one.relative_to(own)) for one in own.rglob("*")) == ["sha256", "thesis.odt"]


@pytest.mark.parametrize("at", ["", "models", "models/notes"])
def test_what_is_under_way_leads_nowhere_else(
    tmp_path: Path, key: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    Outside(tmp_path / "outside", monkeypatch)
    own, link = tmp_path / "own", tmp_path / "work" / at
    own.mkdir()
    (own / "notes").write_text("mine")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(own)
    build.build(order(tmp_path, key), tmp_path / "x", earlier(tmp_path / "x", None), None, print)
    assert [one.name for one in own.iterdir()] == ["notes"]


# On a host --------------------------------------------------------------------------------------------------------


class FailedError(Exception):
    """What ends a module."""


class Module:
    def fail_json(self, msg: str) -> None:
        raise FailedError(msg)


def test_what_arrived_in_pieces_is_joined_and_a_wrong_one_gets_no_name(tmp_path: Path) -> None:
    wanted = {"bytes": len(WEIGHTS), "sha256": sha(WEIGHTS)}
    path, pieces = tmp_path / "bundle" / "models" / "x", [tmp_path / "a", tmp_path / "b"]

    def send(content: bytes) -> None:
        pieces[0].write_bytes(content[:MIB])
        pieces[1].write_bytes(content[MIB:])

    for wrong in (WEIGHTS[:-1], bytes(len(WEIGHTS)), WEIGHTS + b"x"):
        send(wrong)
        with pytest.raises(FailedError, match=sha(wrong)):
            bundle_files.take(Module(), path, wanted, pieces)  # type: ignore[arg-type]
        assert [*path.parent.iterdir()] == []
    send(WEIGHTS)
    bundle_files.take(Module(), path, wanted, pieces)  # type: ignore[arg-type]
    assert bundle_files.is_whole(path, wanted) and path.stat().st_mode & 0o777 == 0o644
    assert not pieces[0].exists(), "it does not lie there twice"
    path.write_bytes(bytes(len(WEIGHTS)))
    assert not bundle_files.is_whole(path, wanted)


@pytest.mark.parametrize("written", ["2", "1MiB", "four", "4 GB", "-1", "0"])
def test_a_size_of_parts_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(FleetError, match="bundle-split"):
        bundle_action._part_bytes(written)


def test_files_stay_below_the_size_that_a_medium_takes() -> None:
    assert bundle_action._part_bytes("4GiB") == (4 << 30) - 1
    assert bundle_action._part_bytes(None) is None
