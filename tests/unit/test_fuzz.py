# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of what others wrote, fed with mutants of real files: each is data or refused, soon and without a traceback.

The gate takes the same mutants each time, for ten seconds of processor a reader; by hand `GB10_FUZZ=120` takes others
for so many seconds. A mutant that once went wrong stays in `tests/data/fuzz.yml`, and is tried first.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._base.yaml_text import read_yaml
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp import boot_log as llama_log
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.foreign import import_recipe
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.formats import read_text
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import parse as parse_recipe
from ansible_collections.gb10.fleet.plugins.module_utils._engines.sglang.engine import Sglang
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text import boot_log as vllm_log
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.docker_command import split_docker_command
from ansible_collections.gb10.fleet.plugins.module_utils._facts.builds.dockerfile import read_dockerfile
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models import gguf
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.checkpoint import checkpoint_of
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.parameters import encoder_bytes, parameters
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.files import claims
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.causes import cause
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.textfile import _labels
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle import manifest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.formats import _labels as drift_labels
from ansible_collections.gb10.fleet.plugins.module_utils._operations.update import look
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.archive import read_archive
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.identity import parse_reference
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock import lock
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.request import read_request
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer import parts
from test_gguf import TEXT as GGUF
from test_hostile_archive import tar
from test_hostile_recipe import RECIPE
from test_pull import gb10_pull

SECONDS = float(os.environ.get("GB10_FUZZ", "0"))
GATE_S, MOST = 10.0, 2000
DATA = Path(__file__).resolve().parents[1] / "data"
KEPT: dict[str, list[str]] = yaml.safe_load((DATA / "fuzz.yml").read_bytes())
KEPT["docker run"] = ['docker run -p"' + 1_000_000 * "a"]  # 12 s, found by the gate's mutants
# 11 s, found so, too
KEPT["recipe of others"] = [
    f"recipe_version: '1'\nmodel: a/b\ncontainer: vllm/vllm-openai:v0.24.0\ncommand: vllm serve --x {1_000_000 * 'a'}\n"
]
FOREIGN = [
    yaml.safe_dump(one["source"]) for one in yaml.safe_load((DATA / "foreign_recipes.yml").read_bytes()).values()
]
DOCKER_RUN = "docker run -d --gpus all -v /srv/m:/m -e A=1 -p 8000:8000 vllm/vllm-openai:v0.11.0 --model /m"
APT = "Inst linux-image [6.17.0-1014.14] (6.17.0-1021.21 Ubuntu:24.04/noble-updates [arm64])\nRemv x [1]\n"
FWUPD = {"Devices": [{"Name": "UEFI", "Version": "1", "Releases": [{"Version": "2"}]}]}
REQUESTS = [
    {"read": 64 * "a", "ranges": [[0, 10]]},
    {"model": "a/b", "revision": 40 * "a"},
    {"image": "a:1", "digest": None},
]
PACKED = parts.recipe_of([(b"one" * 99, True), (b"two" * 999, False)]).pack()
# What JSON and YAML may hold and no reader of ours expects.
ODD = ("NaN", "-Infinity", "1e999", "-0", "-0.0", "1" + 400 * "0", "1e-400", '"\\ud800"', "null", "true", "[[]]", "{}",
       '""', "[{}]", '"' + 5000 * "a" + '"', 3000 * "[" + 3000 * "]")  # fmt: skip
CONFIGS = sorted((SHIPPED_RECIPES / "configs").glob("*.json"))
LOCK = {
    "images": {"a:1": {"digest": "sha256:" + 64 * "0"}},
    "models": {"a/b": {"revision": 40 * "a", "seal": 64 * "b"}},
}
NETPLAN = "network:\n  version: 2\n  ethernets:\n    enp1s0f0np0: {addresses: [192.168.0.1/24], mtu: 9000}\n"
SIGNED = "-----BEGIN SSH SIGNATURE-----\nAAAA\n" + gb10_pull._SIGNED.decode()
SLICE = {"format": gb10_pull.FORMAT, "inventory": "home", "host": "titan", "serial": 8, "collection": 64 * "a",
         "lock": "{}", "units": []}  # fmt: skip
MANIFEST = {"format": 1, "serial": 3, "files": {"x": {"sha256": 64 * "a", "bytes": 1}}, "images": {}, "models": {}}


def dockerfile(text: str) -> None:
    read_dockerfile(text, ["nvidia/cuda:13", "x"], "Dockerfile")


def recipe(text: str) -> None:
    parse_recipe(read_yaml(text), Place(thing="r.yml"))


def config(text: str) -> None:
    sizes = {"config.json": len(text), "model.safetensors": 1 << 30}
    texts = {"config.json": text.encode(errors="surrogatepass")}
    found = checkpoint_of("a/b", 40 * "a", sizes, texts, "the hub", None, None)
    parameters(found["config"] or {})
    encoder_bytes(found["config"] or {})


def index(text: str) -> None:
    sizes = {"config.json": 2, "model.safetensors.index.json": len(text), "model.safetensors": 1 << 30}
    texts = {"config.json": b"{}", "model.safetensors.index.json": text.encode(errors="surrogatepass")}
    checkpoint_of("a/b", 40 * "a", sizes, texts, "the hub", None, None)


def of_lock(text: str) -> None:
    lock.parse(text.encode(errors="surrogatepass"), "lock")


def netplan(text: str) -> None:
    assert claims(text, {"enp1s0f0np0": "4c:bb:47:00:00:01"}).keys() <= {"enp1s0f0np0"}


def label(text: str) -> None:
    """Of a metric: a line, whose value ends where it should."""
    for made in (_labels({"of": text}), f"{{{drift_labels(of=text)}}}"):
        assert re.fullmatch(r'\{of="(?:[^"\\\n]|\\[\\"n])*"\}', made)


def of_pull(text: str) -> None:
    try:
        found, _ = gb10_pull.opened(text.encode(errors="surrogatepass"))
        gb10_pull.judged(found, "titan", "home", 7)
    except gb10_pull.RefusedError as refused:
        raise ValueError(refused) from None


def of_bundle(text: str) -> None:
    manifest.parse(text.encode(errors="surrogatepass"), "manifest.json")


def of_bytes(text: str) -> bytes:
    """A format that is no text is a text of its bytes here."""
    return text.encode("latin-1", "replace")


def of_gguf(text: str) -> None:
    gguf.facts_of([gguf.read_header(io.BytesIO(of_bytes(text)).read)])


def of_archive(text: str) -> None:
    folder = Path(os.environ["PYTEST_TMP"])
    (folder / "a.tar").write_bytes(of_bytes(text))
    read_archive(folder / "a.tar", parse_reference("demo:1"))


def of_parts(text: str) -> None:
    parts.unpack(of_bytes(text))


def of_request(text: str) -> None:
    read_request(text.encode(errors="surrogatepass"))


def foreign_recipe(text: str) -> None:
    import_recipe(read_text(text), "fuzzed")


def docker_run(text: str) -> None:
    split_docker_command(text)


def of_apt(text: str) -> None:
    look.simulation(text)
    look.offered(text)
    with contextlib.suppress(ValueError):
        look.firmware_of(text.encode(errors="replace").decode())


def boot_log(text: str) -> None:
    for read in (vllm_log.parse_boot_log, Sglang().boot, llama_log.parse_boot_log):
        read(text)
    cause(text.splitlines())


READERS: dict[str, tuple[Callable[[str], None], list[str]]] = {
    "Dockerfile": (dockerfile, [path.read_text() for path in SHIPPED_RECIPES.glob("builds/*/Dockerfile")]),
    "recipe": (recipe, [yaml.safe_dump(RECIPE), json.dumps(RECIPE)]),
    "config.json": (config, [path.read_text() for path in CONFIGS[::12]]),
    "safetensors index": (index, [json.dumps({"metadata": {"total_size": 7}, "weight_map": {"a": "b.safetensors"}})]),
    "lock": (of_lock, [json.dumps(LOCK)]),
    "netplan": (netplan, [NETPLAN]),
    "metric's label": (label, ["titan, spark-2", "the mount of /srv"]),
    "slice of pull": (of_pull, [SIGNED + json.dumps(SLICE)]),
    "bundle": (of_bundle, [json.dumps(MANIFEST)]),
    "GGUF": (of_gguf, [GGUF.decode("latin-1")]),
    "docker archive": (of_archive, [tar().decode("latin-1")]),
    "peer's recipe of a file": (of_parts, [PACKED.decode("latin-1")]),
    "peer's request": (of_request, [json.dumps(one) for one in REQUESTS]),
    "recipe of others": (foreign_recipe, FOREIGN),
    "docker run": (docker_run, [DOCKER_RUN]),
    "apt and fwupd": (of_apt, [APT, json.dumps(FWUPD)]),
    "boot log": (boot_log, [path.read_text()[-40_000:] for path in sorted((DATA / "start_logs").glob("*.log"))[::3]]),
}


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(item, (*path, key))


def mutant(text: str, chance: random.Random) -> str:
    """One value of a document replaced by an odd one, or letters of the text."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if document is not None and chance.random() < 0.7:
        chosen = chance.choice([*paths(document)][1:] or [()])
        mark = "the value that is replaced"
        if chosen:
            place = document
            for key in chosen[:-1]:
                place = place[key]
            place[chosen[-1]] = mark
        return json.dumps(document).replace(json.dumps(mark), chance.choice(ODD))
    at, length = chance.randrange(len(text)), chance.randrange(8)
    other = chance.choice(
        [chr(chance.randrange(0x110000)), "\\", "\n", '"', "<<", "\x00", "\ud800", chance.choice(ODD)]
    )
    return text[:at] + other * chance.choice([1, 1, 2, 200]) + text[at + length :]


def mutants(name: str) -> Iterator[str]:
    """Those that were kept, then the gate's, or others for as long as asked."""
    yield from KEPT.get(name, ())
    corpus, number = READERS[name][1], 0
    end = time.process_time() + (SECONDS or GATE_S)
    while time.process_time() < end and (SECONDS or number < MOST):
        chance = random.Random(time.time_ns() if SECONDS else f"{name} {number}")
        yield mutant(chance.choice(corpus), chance)
        number += 1


@pytest.mark.parametrize("name", READERS)
def test_a_mutant_is_data_or_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_TMP", str(tmp_path))
    for text in mutants(name):
        began = time.process_time()
        try:
            READERS[name][0](text)
        except (FleetError, ValueError) as refused:
            assert str(refused).encode(errors="replace")
        except Exception as broken:
            raise AssertionError(f"keep it in tests/data/fuzz.yml: {text[:4000]!r}") from broken
        took = time.process_time() - began
        assert took < 5, (took, text[:2000])


def test_the_review_s_readers_are_all_here() -> None:
    """Its eight, by what they read; lone surrogates and odd numbers are among the mutants (security, "fuzz")."""
    assert len(READERS) == 17 and KEPT.keys() <= READERS.keys()
    assert {'"\\ud800"', "NaN", "1e999"} <= {*ODD}
