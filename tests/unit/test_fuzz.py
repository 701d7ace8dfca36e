# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of what others wrote, fed with mutants of real files: each is data or refused, soon and without a traceback.

The gate takes a fixed stretch of mutants; by hand `GB10_FUZZ=120` takes others for so many seconds a reader.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._base.yaml_text import read_yaml
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import parse as parse_recipe
from ansible_collections.gb10.fleet.plugins.module_utils._facts.builds.dockerfile import read_dockerfile
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.checkpoint import checkpoint_of
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.parameters import encoder_bytes, parameters
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.files import claims
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.textfile import _labels
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle import manifest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.formats import _labels as drift_labels
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock import lock
from test_hostile_recipe import RECIPE
from test_pull import gb10_pull

SECONDS = float(os.environ.get("GB10_FUZZ", "0"))
MOST = 150
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


@pytest.mark.parametrize("name", READERS)
def test_a_mutant_is_data_or_refused(name: str) -> None:
    read, corpus = READERS[name]
    end = time.monotonic() + SECONDS
    number = 0
    while number < MOST or time.monotonic() < end:
        chance = random.Random(number if not SECONDS else time.time_ns())
        text = mutant(chance.choice(corpus), chance)
        began = time.process_time()
        try:
            read(text)
        except (FleetError, ValueError) as refused:
            assert str(refused).encode(errors="replace")
        took = time.process_time() - began
        assert took < 5, (took, text[:2000])
        number += 1
