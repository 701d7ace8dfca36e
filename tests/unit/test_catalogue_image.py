# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading the vLLM in an image, with a stand-in for the engine's client that serves a folder as the image."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue import image
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.image import (
    catalogue_of_folder,
    catalogue_of_image,
)
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import Catalogue
from test_catalogue import PACKAGE

PLACE = "/usr/local/lib/python3.12/dist-packages/vllm"
CLIENT = """\
#!{python}
import json, pathlib, sys, tarfile
root = pathlib.Path({root!r})
with (root / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + chr(10))
match sys.argv[1:]:
    case ["image", "inspect", "vllm:nightly"]:
        print(json.dumps([{{"Id": "sha256:1234", "Config": {{"Env": ["PATH=/bin"]}}}}]))
    case ["create", *_]:
        print("made")
    case ["cp", source, "-"] if source == "made:{place}":
        with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as stream:
            stream.add(root / "vllm", "vllm")
    case ["rm", *_]:
        pass
    case _:
        sys.exit("Error: No such image or path")
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """The client of an engine that has one image."""
    for path, text in {**PACKAGE, "vllm/_version.py": "__version__ = version = '9.9.1rc1.dev2+g0'\n"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    client = tmp_path / "docker"
    client.write_text(CLIENT.format(python=sys.executable, root=str(tmp_path), place=PLACE))
    client.chmod(0o755)
    return client


def calls(engine: Path) -> list[str]:
    return (engine.parent / "calls").read_text().splitlines()


def test_an_image_is_read_without_being_run(engine: Path) -> None:
    answer = catalogue_of_image(str(engine), "vllm:nightly", None, None)
    assert (answer["version"], answer["image_id"]) == ("9.9.1rc1.dev2+g0", "sha256:1234")
    assert "--kv-cache-dtype" in Catalogue(answer["catalogue"]).newest.options
    assert not [call for call in calls(engine) if call.startswith(("run", "start"))]
    assert calls(engine)[-1] == "rm --volumes made"


def test_an_image_is_read_once(engine: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = catalogue_of_image(str(engine), "vllm:nightly", None, cache)
    before = len(calls(engine))
    assert json.dumps(catalogue_of_image(str(engine), "vllm:nightly", None, cache)) == json.dumps(first)
    assert len(calls(engine)) == before + 1


@pytest.mark.parametrize(
    "reference, package, expected",
    [("vllm:other", None, "pull or load it first"), ("vllm:nightly", "/opt/vllm", "no package vllm")],
)
def test_what_is_missing_is_reported(engine: Path, reference: str, package: str | None, expected: str) -> None:
    with pytest.raises(FleetError, match=expected):
        catalogue_of_image(str(engine), reference, package, None)
    made = [call for call in calls(engine) if call.startswith("create")]
    assert len(made) == len([call for call in calls(engine) if call.startswith("rm")])


@pytest.mark.parametrize(("limit", "bound"), [("_FILE_BYTES", 1000), ("_ALL_BYTES", 2000)])
def test_an_image_that_would_fill_the_memory_is_refused(
    engine: Path, monkeypatch: pytest.MonkeyPatch, limit: str, bound: int
) -> None:
    monkeypatch.setattr(image, limit, bound)
    with pytest.raises(FleetError, match="at most"):
        catalogue_of_image(str(engine), "vllm:nightly", None, None)
    assert calls(engine)[-1] == "rm --volumes made"


def test_no_engine(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="No such file"):
        catalogue_of_image(str(tmp_path / "docker"), "vllm:nightly", None, None)


def test_a_folder(engine: Path) -> None:
    root = engine.parent
    assert catalogue_of_folder(root) == catalogue_of_folder(root / "vllm")
    assert catalogue_of_folder(root)["version"] == "9.9.1rc1.dev2+g0"
