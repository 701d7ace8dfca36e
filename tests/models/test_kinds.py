# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models that don't chat, and a LoRA adapter, on a lab host with the real vLLM: each is proved by its own request."""

from __future__ import annotations

import json
import math
import random
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.fixtures import need_lab
from lab.vllm import tiny_model

from .owner import ENVIRONMENT, FLAGS, IMAGE, Owner, owner_at

JUDGE = {**tiny_model.config(), "architectures": ["Qwen3ForSequenceClassification"]}
LABELS = {"0": "code", "1": "prose", "2": "numbers"}
ADAPTER = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "bias": "none"}
MODEL = {"weights_bytes": 660384}
# As inventories/lab/recipes/lab-tiny.yml has it: a CPU needs next to nothing beside the pool.
CALIBRATION = {
    "release": "0.32.0",
    "flags": {"enforce-eager": True, "max-num-batched-tokens": 2048},
    "weights_gib": 0.001,
    "non_kv_gib": 0.2,
    "source": "tests/lab/vllm/README.md",
}
MEMORY_KIB = 23 << 20  # five of them are planned with 3.3 GiB each, most of it processes, and take half as much
# by name: the kind, the folder of its weights, further options
SERVED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "finder": ("embed", "plain", {}),
    "judge": ("score", "judge", {}),
    "ranker": ("rerank", "judge", {}),
    "sorter": ("classify", "sorter", {}),
    "adapted": (
        "chat",
        "plain",
        {"enable-lora": True, "max-loras": 1, "max-lora-rank": 8, "lora-modules": ["sql=/srv/kinds/sql"]},
    ),
}


def _noise(source: random.Random, *shape: int) -> tiny_model.Tensor:
    """bfloat16: the upper half of each float32."""
    numbers = (source.gauss(0, 0.05) for _ in range(math.prod(shape)))
    return shape, b"".join(struct.pack("<f", number)[2:] for number in numbers)


def _models(folder: Path) -> None:
    """The tiny model as it is, twice with a head that judges a text, and an adapter for it."""
    source = random.Random(3)
    heads: dict[str, dict[str, Any]] = {"plain": {}, "judge": {"num_labels": 1}, "sorter": {"id2label": LABELS}}
    folder.mkdir()
    for name, head in heads.items():
        tiny_model.write(folder / name)
        if head:
            (folder / name / "config.json").write_text(json.dumps(JUDGE | head))
            score = _noise(source, len(head.get("id2label", "1")), tiny_model.HIDDEN)
            tensors = {**dict(tiny_model.weights()), "score.weight": score}
            (folder / name / "model.safetensors").write_bytes(tiny_model.safetensors(tensors))
    widths = {"q_proj": tiny_model.HEADS * tiny_model.HEAD_SIZE, "v_proj": tiny_model.KV_HEADS * tiny_model.HEAD_SIZE}
    tensors = {}
    for layer in range(tiny_model.LAYERS):
        for part, width in widths.items():
            name = f"base_model.model.model.layers.{layer}.self_attn.{part}"
            tensors[f"{name}.lora_A.weight"] = _noise(source, 4, tiny_model.HIDDEN)
            tensors[f"{name}.lora_B.weight"] = _noise(source, width, 4)
    (folder / "sql").mkdir()
    (folder / "sql" / "adapter_config.json").write_text(json.dumps({**ADAPTER, "target_modules": [*widths]}))
    (folder / "sql" / "adapter_model.safetensors").write_bytes(tiny_model.safetensors(tensors))


def _recipe(name: str, kind: str, folder: str, flags: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "summary": f"the lab's tiny model, {kind}",
        "kind": kind,
        "model": MODEL | {"repository": f"lab/{folder}", "config": folder, "source": {"path": f"/srv/kinds/{folder}"}},
        "image": IMAGE,
        "flags": FLAGS | flags,
        "env": ENVIRONMENT,
        "memory": {"calibrations": [CALIBRATION]},
        "status": {"state": "tested", "by": "gb10.fleet", "when": "2026-11-22", "hardware": "the lab"},
        "sources": ["tests/models/test_kinds.py"],
    }


@pytest.fixture(scope="module")
def owner() -> Iterator[Owner]:
    need_lab()
    place = Path(tempfile.mkdtemp(prefix="gb10-kinds-"))
    _models(place / "kinds")
    with owner_at(place, f"{place / 'kinds'}:/srv/kinds") as one:
        configs = one.folder / "recipes" / "configs"
        configs.mkdir(parents=True)
        for folder in ("plain", "judge", "sorter"):
            (configs / f"{folder}.json").write_bytes((place / "kinds" / folder / "config.json").read_bytes())
        for name, (kind, folder, flags) in SERVED.items():
            recipe = _recipe(name, kind, folder, flags)
            (one.folder / "recipes" / f"{name}.yml").write_text(yaml.safe_dump(recipe))
        yield one


def test_each_kind_is_served_and_proved_by_a_request_of_its_own(owner: Owner) -> None:
    workload = {"max_model_len": 512, "max_num_seqs": 2, "pool": "least"}
    services = {
        name: {"recipe": name, "hosts": ["titan"], "port": port, "open": True, "workload": workload}
        for port, name in enumerate(SERVED, 8100)
    }
    owner.declare(memory_kib=MEMORY_KIB, **services)
    site = owner.play("site.yml")
    assert site.returncode == 0, site.stdout[-6000:]
    proved = owner.play("verify.yml")
    assert proved.returncode == 0, proved.stdout[-6000:]
    status = owner.play("status.yml")
    assert status.returncode == 0, status.stdout[-3000:]
    assert [name for name in SERVED if f"{name} " not in status.stdout] == []
    assert status.stdout.count("serving") >= len(SERVED)
    assert owner.answers(services["adapted"]["port"], "sql"), "the adapter answers under its own name"
    again = owner.play("site.yml")
    assert again.returncode == 0, again.stdout[-6000:]
    assert "changed=0" in again.stdout
