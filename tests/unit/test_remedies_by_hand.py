# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remedies in prose: a mistake in a fleet or a recipe, the change that its finding's remedy asks for, and the finding
is gone without another error. Every rule by which a plan refuses or warns has a row here, or is in `ELSEWHERE`.
"""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base import findings as _findings
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._base.worded import rule_of
from ansible_collections.gb10.fleet.plugins.module_utils._engines.observed import read_observed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, load_all
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.checkpoint import require
from ansible_collections.gb10.fleet.plugins.module_utils._plan.choice import (
    choose,
    declared_and_retired,
    split_by_limit,
)
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.inventory_files import declared_twice, not_inventories
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock.file import NAME, read
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock.lock import EMPTY, dump

UTILITIES = Path(_findings.__file__).parents[1]
NANO, VL, TINY = "nemotron-3-nano-30b-a3b-nvfp4", "qwen3-vl-235b-a22b-instruct-awq", "mine"
SOLO = {"recipe": NANO, "hosts": ["titan"], "port": 8003, "trust": ["code"],
        "workload": {"max_model_len": 32768, "max_num_seqs": 8}}  # fmt: skip
PAIR = {"recipe": VL, "hosts": ["spark-2", "spark-3"], "port": 8001, "trust": ["code"]}
CABLE = ["spark-2:1", "spark-3:1"]
FLEET: dict[str, Any] = {
    "fleet_services": {"solo": SOLO, "pair": PAIR},
    "fleet_fabric": {"cables": [CABLE]},
    "fleet_host": {},
    "fleet_firewall": {},
}
HOSTS = ("titan", "spark-2", "spark-3", "spark-4")
GONE = object()
DRAFTS = {"method": "eagle3", "model": "org/eagle3", "num_speculative_tokens": 3}
SHIPPED = load_all([SHIPPED_RECIPES])

S, P, F, H = ("fleet_services", "solo"), ("fleet_services", "pair"), ("fleet_fabric",), ("fleet_host",)
R, AGAIN = ("recipe",), ("fleet_services", "again")
Edits = Mapping[tuple[Any, ...], Any]


@dataclass(frozen=True)
class Row:
    """wrong: what the owner wrote, by its path. remedy: words of the finding's remedy. right: what he writes by it.

    A path begins with a variable of the fleet, with `recipe` (a copy of the shipped one named `mine`, which solo then
    runs), with `inventory` (a host's address, port and own variables), with `file` (a file beside the inventory: its
    text), with `run` (what is typed: `RUN`), with `model` (what was read of a model of the hub) or with `boot` (what a
    start of a service has shown on a host).
    """

    rule: str
    wrong: Edits
    remedy: str
    right: Edits
    also: Edits = field(default_factory=dict)
    """What else is there from the start."""


def hand(*both: list[str]) -> dict[str, Any]:
    return {"addresses": dict(zip(CABLE, both, strict=True))}


LEFT, RIGHT = ["10.1.0.1/24", "10.1.1.1/24"], ["10.1.0.2/24", "10.1.1.2/24"]
C0 = (*F, "cables", 0)
RING = [{"ends": ends, "index": number}
        for number, ends in enumerate([CABLE, ["spark-3:0", "spark-4:0"], ["spark-4:1", "spark-2:0"]])]  # fmt: skip
FOUR = {(*P, "hosts"): [*HOSTS], (*F, "cables"): [["titan:0", "spark-2:0"], CABLE, ["spark-3:0", "spark-4:0"],
                                                  ["spark-4:1", "titan:1"]]}  # fmt: skip
NO_TREES = {"NCCL_SWITCHLESS_RING_ONLY": "1"}
SMALL = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_hidden_layers": 36,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 4096,
         "intermediate_size": 12288, "vocab_size": 151936, "max_position_embeddings": 40960,
         "torch_dtype": "bfloat16"}  # fmt: skip
QWEN = "qwen3.6-35b-a3b-nvfp4"
# A model without a recipe in solo's place, and an image of its owner's.
FOUND = {"model": "someone/model", "hosts": ["titan"], "port": 8003}
NEXT = "RadixArk/Qwen3.8-Flash-Next-NVFP4"
OWN_IMAGE = {"reference": "me/mine:1", "family": "custom", "release": "0.33.0"}
TWICE = "fleet_services:\n  solo: {}\n  solo: {}\n"
AGAIN_MINE = (SHIPPED_RECIPES / f"{NANO}.yml").read_text("utf-8").replace(f"name: {NANO}", f"name: {TINY}")
REGISTRY = {"registries": [{"name": "nvcr.io", "username": "me", "password_file": "secrets/ngc"}]}
SHIPPED_NANO = SHIPPED[0].recipes[NANO].data
NANO_IMAGE, NANO_MODEL = SHIPPED_NANO["image"]["reference"], SHIPPED_NANO["model"]["repository"]
DIGEST, HAD, HAS = (f"sha256:{number * 64}" for number in "123")
LOCKED = {"images": {f"{NANO_IMAGE}@{DIGEST}": {"digest": DIGEST, "identity": HAD}}, "models": {}}  # fmt: skip
RECORD = {"hosts": 1, "release": "0.23.0", "weights_gib": 17.7, "non_kv_gib": 20.05, "source": "me"}
BOOT = {"service": "solo", "booted": "2026-11-01", "requested_bytes": 40 << 30,
        "log": {"weights_gib": 17.7, "available_kv_gib": 1.0}}  # fmt: skip
G = ("fleet_gateway",)
# A gateway that may be: its clients' file is there.
BEFORE = {G: {"hosts": ["spark-4"], "keys_file": "secrets/clients.yml"},
          ("file", "secrets/clients.yml"): "anna: key-of-anna-0000000001\n"}  # fmt: skip
AGENT = {("fleet_clients",): {"agent": {"kind": "hermes", "host": "spark-4", "service": "solo", "key": "anna"}}}
# What people write by habits from other tools, as far as it was taken for something else once.
BY_HABIT = [
    Row(
        "recipe-unknown",
        {(*S, "recipe"): "recipes/mine.yml"},
        'write "mine", and keep its file',
        {(*S, "recipe"): "mine", ("recipe", "name"): "mine"},
    ),
    Row("recipe-unknown", {(*S, "recipe"): f"./recipes/{NANO}.yaml"}, f'write "{NANO}"', {(*S, "recipe"): NANO}),
    Row(
        "schema-type",
        {(*S, "hosts"): "all"},
        "write hosts: [spark-2, spark-3, spark-4, titan]",
        {(*S, "hosts"): ["titan"]},
    ),
    Row("schema-type", {(*S, "hosts"): "titan, spark-9"}, "write hosts: [titan]", {(*S, "hosts"): ["titan"]}),
    Row("input-unknown-host", {(*S, "hosts"): ["all"]}, "write them: hosts: [spark-2", {(*S, "hosts"): ["titan"]}),
    Row("input-unknown-host", {(*S, "hosts"): ["tit*"]}, "write them: hosts: [titan]", {(*S, "hosts"): ["titan"]}),
    Row(
        "schema-unknown-key",
        {(*S, "max-model-len"): 32768},
        "write workload: {max_model_len: 32768}",
        {(*S, "max-model-len"): GONE, (*S, "workload"): {"max_model_len": 32768}},
    ),
    Row(
        "schema-unknown-key",
        {(*S, "enable_prefix_caching"): True},
        "write flags: {enable-prefix-caching: true}",
        {(*S, "enable_prefix_caching"): GONE, (*S, "flags"): {"enable-prefix-caching": True}},
    ),
    Row(
        "schema-pattern",
        {(*S, "recipe"): GONE, (*S, "model"): f"hf.co/{NANO_MODEL}"},
        f"write model: {NANO_MODEL}",
        {(*S, "model"): NANO_MODEL},
    ),
    Row(
        "schema-pattern",
        {(*S, "recipe"): GONE, (*S, "model"): "llama3.1:8b"},
        "recipe: NAME",
        {(*S, "model"): GONE, (*S, "recipe"): NANO},
    ),
    Row("input-no-services", {("fleet_services",): None}, "fleet_services: {}", {("fleet_services",): {}}),
    Row(
        "memory-does-not-fit",
        {(*P, "hosts"): ["spark-2"]},
        "name 2 hosts in pair",
        {(*P, "hosts"): ["spark-2", "spark-3"]},
    ),
]
BY_HAND = [
    *BY_HABIT,
    # The gateway
    Row("input-gateway-alias", {(*G, "aliases"): {"gpt": f"{NANO_MODEL}s"}}, "write",
        {(*G, "aliases"): {"gpt": NANO_MODEL}}, also=BEFORE),
    Row("input-gateway-alias", {(*G, "aliases"): {NANO_MODEL: NANO_MODEL}}, "take the alias out",
        {(*G, "aliases"): GONE}, also=BEFORE),
    Row("input-gateway-listen", {(*S, "listen"): "127.0.0.1"}, "take listen out", {(*S, "listen"): GONE}, also=BEFORE),
    Row("input-gateway-tls-name", {(*S, "tls"): {"certificate": "a.crt", "key": "a.key", "names": ["10.0.0.1"]}},
        "tls: local", {(*S, "tls"): "local"},
        also={**BEFORE, ("file", "a.crt"): "-", ("file", "a.key"): "-"}),
    # Its clients
    Row("input-client-context", {(*S, "workload"): {"max_model_len": 32768}}, "max_model_len: 65536",
        {(*S, "workload"): {"max_model_len": 65536}}, also={**BEFORE, **AGENT}),
    Row("input-client-tools", {(*S, "flags"): {"tool-call-parser": None}}, "tool-call-parser, the model's parser",
        {(*S, "flags"): {"tool-call-parser": "hermes", "enable-auto-tool-choice": True}},
        also={**BEFORE, **AGENT, (*S, "workload"): {"max_model_len": 65536}}),
    # The monitoring
    Row("input-monitoring-listen", {(*S, "listen"): "127.0.0.1"}, "take listen out", {(*S, "listen"): GONE},
        also={("fleet_monitoring",): {"host": "spark-4"}}),
    # The inventory
    Row("input-benchmark", {("fleet_drift",): {"benchmark": ["sol"]}}, 'write "solo"',
        {("fleet_drift",): {"benchmark": ["solo"]}}),
    Row("input-no-services", {("fleet_services",): GONE}, "fleet_services: {}", {("fleet_services",): {}}),
    Row("input-unknown-variable", {("fleet_servces",): {}}, "fleet_services", {("fleet_servces",): GONE}),
    Row("input-same-address", {("inventory", "titan", "address"): "10.0.0.2"}, "",
        {("inventory", "titan", "address"): "10.0.0.1"}),
    Row("input-host-twice", {(*S, "hosts"): ["titan", "titan"]}, "remove one", {(*S, "hosts"): ["titan"]}),
    # As people write it by habits from other tools
    Row("schema-unknown-key", {(*S, "max_model_len"): 16384}, "write workload: {max_model_len: 16384}",
        {(*S, "max_model_len"): GONE, (*S, "workload", "max_model_len"): 16384}),
    Row("schema-type", {(*S, "image"): NANO_IMAGE}, f'write image: {{reference: "{NANO_IMAGE}"}}',
        {(*S, "image"): {"reference": NANO_IMAGE}}),
    Row("schema-type", {(*S, "served_name"): ["nano", "small"]}, 'write served_name: "nano"; aliases give',
        {(*S, "served_name"): "nano"}),
    Row("schema-pattern", {(*S, "recipe"): GONE, (*S, "model"): f"https://huggingface.co/{NANO_MODEL}"},
        f"write model: {NANO_MODEL}", {(*S, "model"): NANO_MODEL}),
    Row("schema-pattern", {(*S, "recipe"): GONE, (*S, "model"): "/srv/models/nano"},
        'write model: {repository: ORGANISATION/NAME, source: {path: "/srv/models/nano"}}',
        {(*S, "model"): {"repository": NANO_MODEL, "source": {"path": "/srv/models/nano"}}}),
    Row("schema-pattern", {(*G, "name"): "https://llm.home/v1"}, 'write "llm.home"', {(*G, "name"): "llm.home"},
        also=BEFORE),
    Row("recipe-unknown", {(*S, "recipe"): f"recipes/{NANO}.yml"}, f'write "{NANO}"', {(*S, "recipe"): NANO}),
    Row("input-unknown-host", {(*P, "hosts"): ["spark-[23]"]}, "write them: hosts: [spark-2, spark-3]",
        {(*P, "hosts"): ["spark-2", "spark-3"]}),
    Row("input-unknown-variable", {("memory_kib",): 62800000}, "write fleet_host: {memory_kib: ...}",
        {("memory_kib",): GONE, (*H, "memory_kib"): 127535084}),
    Row("recipe-env-name", {(*S, "env"): {"vllm_logging_level": "DEBUG"}}, "write VLLM_LOGGING_LEVEL",
        {(*S, "env"): {"VLLM_LOGGING_LEVEL": "DEBUG"}}),
    Row("service-model-of-another", {(*S, "recipe"): "gpt-oss-20b", (*S, "model"): NANO_MODEL}, "take recipe out",
        {(*S, "recipe"): GONE}),
    Row("fabric-group-unconnected", {(*P, "hosts"): ["titan", "spark-4"], (*P, "recipe"): "gpt-oss-20b"},
        "replicas: 2 needs none", {(*P, "replicas"): 2}),
    # its cable lies in another port of spark-2
    Row("fabric-group-unconnected", {(*P, "hosts"): ["titan", "spark-2"]}, "[spark-2:0, titan:",
        {(*F, "cables"): [{"ends": CABLE, "index": 0}, {"ends": ["spark-2:0", "titan:0"], "index": 1}]}),
    Row("memory-does-not-fit", {P: GONE, (*H, "memory_kib"): 62800000, (*S, "recipe"): "gpt-oss-120b"},
        "take a smaller model", {(*S, "recipe"): "gpt-oss-20b"}),
    Row("memory-does-not-fit", {S: GONE, (*P, "hosts"): ["titan"]}, "name 2 hosts in pair",
        {(*P, "hosts"): ["spark-2", "spark-3"]}),
    Row("input-unknown-host", {(*S, "hosts"): ["titn"]}, 'write "titan"', {(*S, "hosts"): ["titan"]}),
    Row("input-unknown-service", {(*H, "services", "slo"): {"env": {"A": "1"}}}, 'write "solo"',
        {(*H, "services"): {"solo": {"env": {"A": "1"}}}}),
    Row("input-port-twice", {(*P, "hosts"): ["titan", "spark-2"], (*P, "port"): 8003,
                             (*F, "cables"): [["titan:1", "spark-2:1"]]}, "another port", {(*P, "port"): 8004}),
    Row("input-port-of-the-host", {(*S, "port"): 22}, "another port", {(*S, "port"): 8003}),
    Row("input-no-model", {(*S, "recipe"): GONE}, "write recipe: NAME", {(*S, "recipe"): NANO}),
    Row("input-declared-twice", {(*S, "flags"): {"max-model-len": 65536}}, "remove one", {(*S, "flags"): GONE}),
    Row("input-key-file", {(*S, "api_key_file"): "keys/none"}, "write the key into it",
        {("file", "keys/none"): "0123456789abcdef-0123456789abcdef"}),
    Row("input-key-file", {(*S, "open"): True, (*S, "api_key_file"): "keys/one"}, "remove open", {(*S, "open"): GONE},
        also={("file", "keys/one"): "0123456789abcdef-0123456789abcdef"}),
    Row("input-tracing-endpoint", {(*S, "tracing"): {"endpoint": "http://localhost:4318"}}, "the collector's address",
        {(*S, "tracing"): {"endpoint": "http://10.0.0.9:4318"}}),
    Row("input-tracing-endpoint", {(*S, "tracing"): {"endpoint": "https://me:pw@traces"}}, "into headers_file",
        {(*S, "tracing"): {"endpoint": "https://traces", "headers_file": "otlp"}},
        also={("file", "otlp"): "Authorization: Basic bWU6cHc="}),
    Row("input-tracing-endpoint", {(*S, "tracing"): {"endpoint": "http://traces:4317/v1/traces", "protocol": "grpc"}},
        "protocol: http/protobuf", {(*S, "tracing"): {"endpoint": "http://traces:4317/v1/traces"}}),
    Row("input-tracing-headers", {(*S, "tracing"): {"endpoint": "https://traces", "headers_file": "otlp"}},
        "write them into it", {("file", "otlp"): "Authorization: Bearer one"}),
    Row("service-tracing-clear", {(*S, "tracing"): {"endpoint": "http://traces:4318", "headers_file": "otlp"}},
        "take headers_file out", {(*S, "tracing"): {"endpoint": "http://traces:4318"}},
        also={("file", "otlp"): "Authorization: Bearer one"}),
    Row("service-tracing-image", {(*S, "tracing"): {"endpoint": "https://traces"},
                                  (*S, "image"): {"reference": "vllm/vllm-openai:v0.16.0", "release": "0.16.0"}},
        "take a newer image", {(*S, "image"): GONE}),
    Row("input-tls", {(*S, "tls"): {"certificate": "one.pem"}}, "tls: local", {(*S, "tls"): GONE}),
    Row("input-firewall-source", {(*H, "firewall"): {"allow": [{"port": 80, "from": ["10.0.0.1/8"]}]}}, "",
        {(*H, "firewall"): {"allow": [{"port": 80, "from": ["10.0.0.0/8"]}]}}),
    Row("tuning-contradiction", {(*H, "host_tuning"): {"sysctl": {"vm.dirty_ratio": "5"}}},
        "set vm.dirty_bytes to null", {(*H, "host_tuning"): {"sysctl": {"vm.dirty_ratio": "5",
        "vm.dirty_bytes": None}}}),
    Row("tuning-contradiction", {(*H, "host_tuning"): {"sysctl": {"vm.dirty_ratio": "5"}}}, "remove vm.dirty_ratio",
        {(*H, "host_tuning"): {}}),
    Row("input-fleet-differs", {("inventory", "titan", "variables"): {"fleet_services": {}}}, "group_vars/all",
        {("inventory", "titan", "variables"): {}}),
    Row("input-key-twice", {("file", "group_vars/all.yml"): TWICE}, "another name",
        {("file", "group_vars/all.yml"): TWICE.replace("solo", "alone", 1)}),
    Row("input-key-twice", {("file", "group_vars/all.yml"): TWICE}, "remove it",
        {("file", "group_vars/all.yml"): TWICE.replace("  solo: {}\n", "", 1)}),
    Row("input-not-an-inventory", {("run", "inventory"): ".", ("file", "secrets/key"): "sk-1"},
        "-i inventories/mine/hosts.yml", {("run", "inventory"): "hosts.yml"}),
    Row("input-hook", {("fleet_drift",): {"hook": ["/nowhere/notify"]}}, "make it executable",
        {("fleet_drift",): {"hook": ["/bin/sh"]}}),
    Row("input-secret-file", {(*H, "container_engine"): REGISTRY}, "", {("file", "secrets/ngc"): "a token"}),
    Row("input-replicas", {(*S, "hosts"): ["titan", "spark-2", "spark-4"], (*S, "replicas"): 2}, "another number",
        {(*S, "replicas"): 3}),
    Row("input-replicas", {(*S, "hosts"): ["titan", "spark-4"], (*S, "replicas"): 2,
                           ("fleet_services", "solo-1"): SOLO | {"port": 8004}}, "another name",
        {("fleet_services", "solo-1"): GONE}),
    # What is typed
    Row("service-declared", {("run", "retire"): ["solo"]}, "leave solo out of retire", {("run", "retire"): []}),
    Row("service-declared", {("run", "retire"): ["solo"]}, "take it out of fleet_services", {S: GONE}),
    Row("service-no-group", {P: GONE, ("run", "scope"): "groups"}, "name two hosts in a service", {P: PAIR}),
    Row("service-no-group", {P: GONE, ("run", "scope"): "groups"}, "run site.yml", {("run", "scope"): "fleet"}),
    Row("service-split", {("run", "hosts"): ["spark-2"]}, "-l spark-2,spark-3",
        {("run", "hosts"): ["spark-2", "spark-3"]}),
    Row("service-unknown", {("run", "scope"): "any", ("run", "service"): "sol"}, 'write "solo"',
        {("run", "service"): "solo"}),
    Row("service-unnamed", {("run", "scope"): "one"}, "known are: pair, solo", {("run", "service"): "solo"}),
    # The lock
    Row("lock-damaged", {("file", NAME): "<<<<<<< HEAD\n"}, "take the file of the last good commit",
        {("file", NAME): dump(EMPTY)}),
    Row("lock-unknown-name", {("run", "relock"): "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP"},
        f'write "{NANO_MODEL}"', {("run", "relock"): NANO_MODEL}),
    # Models without a recipe
    Row("model-unread", {S: FOUND}, "recipe_new -e model=someone/model", {("model", "someone/model"): {}}),
    Row("model-architecture", {S: FOUND}, "name the repository of the model itself", {(*S, "model"): "someone/other"},
        also={("model", "someone/model"): {"config": {**SMALL, "architectures": []}}, ("model", "someone/other"): {}}),
    Row("model-architecture", {S: FOUND}, "name an image whose vLLM has it", {(*S, "image"): OWN_IMAGE},
        also={("model", "someone/model"): {"config": {**SMALL, "architectures": ["NobodysForCausalLM"]}}}),
    Row("model-image", {S: FOUND}, "name an image of yours", {(*S, "image"): OWN_IMAGE},
        also={("model", "someone/model"): {"config": {**SMALL, "architectures": ["Step5ForCausalLM"]}}}),
    Row("model-template", {S: FOUND}, "flags {chat-template: /overlays/FILE}",
        {(*S, "flags"): {"chat-template": "/overlays/mine.jinja"}},
        also={("model", "someone/model"): {"chat_template": False}}),
    Row("memory-table-on-disk", {S: {**FOUND, "model": NEXT, "flags": {"enable-prefix-caching": False}}},
        "name an image whose build does, with its variable", {(*S, "image"): {**OWN_IMAGE, "release": "0.30.0"},
                                                              (*S, "env"): {"VLLM_PLE_TABLE_MEMORY": "disk"}},
        also={("model", NEXT): {"weights_bytes": 135291469824}}),
    # The fabric
    Row("fabric-group-management", {(*F, "cables"): RING, (*P, "hosts"): ["spark-2", "spark-3", "spark-4"],
                                    ("inventory", "spark-3", "address"): "spark-3.local"},
        "ansible_host: <address> for spark-3", {("inventory", "spark-3", "address"): "10.0.0.3"},
        also={(*F, "pool"): "192.168.96.0/20"}),
    Row("fabric-triangle-like-ports", {(*F, "cables"): RING, (*P, "hosts"): ["spark-2", "spark-3", "spark-4"]},
        "write [spark-3:0, spark-2:1] and [spark-3:1, spark-4:0]",
        {(*F, "cables"): [["spark-3:0", "spark-2:1"], ["spark-3:1", "spark-4:0"], ["spark-4:1", "spark-2:0"]]}),
    Row("fabric-group-unconnected", FOUR, "join the hosts by a switch",
        {(*F, "cables"): GONE, (*F, "switches"): {"qsfp": {"ports": {f"{host}:1": 1 + at
                                                                    for at, host in enumerate(HOSTS)}}}}),
    Row("fabric-group-unconnected", FOUR, 'write NCCL_SWITCHLESS_RING_ONLY: "1"', {(*P, "env"): NO_TREES}),
    Row("fabric-ring-order", {**FOUR, (*P, "env"): NO_TREES, (*P, "hosts"): ["titan", "spark-3", "spark-2", "spark-4"]},
        "write hosts: [titan, spark-2, spark-3, spark-4]", {(*P, "hosts"): [*HOSTS]}),
    Row("fabric-cable-form", {C0: {}}, "write {ends: [spark-2:1, spark-3:1], index: 0}", {C0: {"ends": CABLE,
        "index": 0}}),
    Row("fabric-keeper-addresses", {(*F, "keeper"): "others"}, "write addresses:", {C0: hand(LEFT, RIGHT)}),
    Row("fabric-unknown-host", {C0: ["spark-2:1", "spark-9:1"]}, 'write "spark-', {C0: CABLE}),
    Row("fabric-unknown-port", {C0: ["spark-2:2", "spark-3:1"]}, "or spark-2:1", {C0: CABLE}),
    Row("fabric-same-host", {C0: ["spark-2:0", "spark-2:1"]}, "write the host that the other end goes to",
        {C0: CABLE}),
    Row("fabric-port-twice", {(*F, "cables"): [CABLE, {"ends": ["spark-4:1", "spark-2:1"], "index": 1}]},
        "a port takes one cable", {(*F, "cables", 1, "ends"): ["spark-4:0", "spark-2:0"]}),
    Row("fabric-crossed-pair", {C0: ["spark-2:0", "spark-3:1"]}, "write spark-3:0", {C0: ["spark-2:0", "spark-3:0"]}),
    Row("fabric-index-taken", {(*F, "cables"): [{"ends": CABLE, "index": 0}, {"ends": ["spark-4:0", "spark-2:0"],
                                                                              "index": 0}]}, "index: 1}",
        {(*F, "cables", 1): {"ends": ["spark-4:0", "spark-2:0"], "index": 1}}),
    Row("fabric-pool-too-small", {(*F, "pool"): "192.168.100.0/24"}, "leave pool out", {(*F, "pool"): GONE}),
    Row("fabric-pool-too-small", {(*F, "pool"): "192.168.100.0/24"}, "a longer prefix (28", {(*F, "prefix"): 28}),
    Row("fabric-network-invalid", {(*F, "pool"): "192.168.100.1/22"}, "the network's first address",
        {(*F, "pool"): "192.168.100.0/22"}),
    Row("fabric-overlap-management", {(*F, "pool"): "10.0.0.0/22"}, "write another pool", {(*F, "pool"): GONE}),
    Row("fabric-overlap", {(*F, "cables"): [CABLE, {"addresses": {"spark-4:0": ["192.168.100.1/24", "10.1.1.1/24"],
                                                                  "spark-2:0": ["192.168.100.2/24",
        "10.1.1.2/24"]}}]},
        "or other addresses", {(*F, "cables", 1): {"addresses": {"spark-4:0": LEFT, "spark-2:0": RIGHT}}}),
    Row("fabric-halves-share-subnet", {C0: hand(["10.1.0.1/24", "10.1.0.2/24"], ["10.1.0.3/24", "10.1.0.4/24"])},
        "give each half a subnet of its own", {C0: hand(LEFT, RIGHT)}),
    Row("fabric-ends-differ", {C0: hand(LEFT, ["10.2.0.2/24", "10.1.1.2/24"])}, "addresses of one subnet",
        {C0: hand(LEFT, RIGHT)}),
    Row("fabric-one-half", {C0: hand(LEFT[:1], RIGHT[:1])}, "give the second halves", {C0: hand(LEFT, RIGHT)}),
    Row("fabric-ends-differ", {C0: hand(LEFT, RIGHT[:1])}, "give each half of each end", {C0: hand(LEFT, RIGHT)}),
    Row("fabric-address-twice", {C0: hand(LEFT, LEFT)}, "change one of them", {C0: hand(LEFT, RIGHT)}),
    Row("fabric-address-invalid", {C0: hand(LEFT, ["10.1.0.2/24", "10.1.1.300/24"])}, "correct it",
        {C0: hand(LEFT, RIGHT)}),
    Row("fabric-address-invalid", {C0: hand(LEFT, ["10.1.0.255/24", "10.1.1.2/24"])}, "write a host's address",
        {C0: hand(LEFT, RIGHT)}),
    Row("fabric-mtu-range", {(*F, "mtu"): 9979}, "write 9000", {(*F, "mtu"): 9000}),
    Row("fabric-mtu-small", {(*F, "mtu"): 1500}, "write 9000", {(*F, "mtu"): 9000}),
    Row("fabric-link-on-rail", {(*F, "links"): [{"addresses": {"spark-2:enp1s0f1np1": "10.9.0.1/24",
                                                               "spark-4:enp1s0f1np1": "10.9.0.2/24"}}]}, "cable",
        {(*F, "links"): GONE}),
    Row("fabric-switch-form", {(*F, "cables"): GONE, (*F, "switches"): {"s": {"ports": {"spark-2:1": 1,
        "spark-3:1": LEFT}}}},
        "give every port a number", {(*F, "switches", "s", "ports", "spark-3:1"): 2}),
    Row("fabric-number-taken", {(*F, "cables"): GONE, (*F, "switches"): {"s": {"ports": {"spark-2:1": 1,
        "spark-3:1": 1}}}},
        "a number of its own", {(*F, "switches", "s", "ports", "spark-3:1"): 2}),
    Row("fabric-number-range",
        {(*F, "cables"): GONE, (*F, "switches"): {"s": {"ports": {"spark-2:1": 1, "spark-3:1": 255}}}},
        "a lower number",
        {(*F, "switches", "s", "ports", "spark-3:1"): 2}),
    Row("fabric-speed-unused", {(*F, "speeds"): {"spark-2:0": 100}}, 'write "spark-2:1"', {(*F,
        "speeds"): {"spark-2:1": 100}}),
    Row("fabric-speeds-differ", {(*F, "speeds"): {"spark-2:1": 100, "spark-3:1": 200}}, "the speed of one end",
        {(*F, "speeds"): {"spark-2:1": 100}}),
    Row("fabric-group-unconnected", {(*F, "cables"): []}, "like [spark-2:1, spark-3:1]", {(*F, "cables"): [CABLE]}),
    Row("fabric-group-link-local", {(*F, "mode"): "link-local"}, "write mode: static", {(*F, "mode"): "static"}),
    Row("fabric-link-local", {(*F, "mode"): "link-local"}, "write mode: static", {(*F, "mode"): "static"}),
    # Services
    Row("service-trust-code", {(*S, "trust"): []}, "write trust: [code]", {(*S, "trust"): ["code"]}),
    Row("service-host-count", {(*S, "hosts"): ["spark-2", "spark-3"], ("fleet_services", "pair"): GONE},
        "recipe's own number of hosts", {(*S, "hosts"): ["titan"]}),
    Row("service-image", {(*S, "image"): {"reference": "me/mine:1"}}, "family",
        {(*S, "image"): {"reference": "me/mine:1", "family": "custom", "release": "0.23.0"}}),
    Row("service-image-engine", {(*S, "image"): {"reference": "lmsysorg/sglang:v0.5", "family": "custom",
                                                 "release": "0.23.0"}}, "name an image of vLLM",
        {(*S, "image"): GONE}),
    Row("service-middleware", {(*S, "flags"): {"middleware": ["mine.Guard"]}}, "`open: true`", {(*S, "open"): True}),
    Row("service-middleware", {(*S, "flags"): {"middleware": ["mine.Guard"]}}, "leave it out", {(*S, "flags"): GONE}),
    Row("group-ranks", {(*P, "flags"): {"tensor-parallel-size": 3}}, "take the sizes out", {(*P, "flags"): GONE}),
    Row("group-executor", {(*P, "flags"): {"distributed-executor-backend": "uni"}}, 'write "', {(*P,
        "flags"): {"distributed-executor-backend": "ray"}}),
    Row("group-data-parallel", {(*P, "flags"): {"data-parallel-size": 2}}, "take data-parallel-size out",
        {(*P, "flags"): GONE}),
    Row("group-shape", {(*P, "hosts"): ["spark-2", "spark-3", "spark-4"], (*F, "cables"): RING,
                        (*P, "flags"): {"tensor-parallel-size": 3}}, "take the sizes out", {(*P, "flags"): GONE},
        also={(*F, "pool"): "192.168.96.0/20"}),
    Row("group-port", {(*P, "port"): 60000}, "a lower port", {(*P, "port"): 8001}),
    Row("source-host-unknown", {(*S, "model"): {"source": {"host": "spark-22"}}}, 'write "spark-2"',
        {(*S, "model"): {"source": {"host": "spark-2"}}}),
    Row("source-circle", {(*S, "model"): {"source": {"host": "spark-2"}},
                          AGAIN: SOLO | {"hosts": ["spark-2"],
        "model": {"source": {"host": "titan"}}},
                          ("fleet_services", "pair"): GONE}, "another source", {(*S, "model"): {"source": "hub"}}),
    # Memory
    Row("kv-fit", {(*S, "workload"): {"max_model_len": 32768, "pool": "1MiB"}}, "give the KV cache",
        {(*S, "workload"): {"max_model_len": 32768, "pool": "least", "max_num_seqs": 8}}),
    Row("memory-does-not-fit", {(*S, "workload"): {"max_model_len": 262144, "max_num_seqs": 512, "pool": "least"}},
        "max_num_seqs", {(*S, "workload"): {"max_model_len": 32768, "max_num_seqs": 8}}),
    Row("memory-utilization-too-low", {(*S, "flags"): {"gpu-memory-utilization": 0.05}}, "", {(*S, "flags"): GONE}),
    Row("memory-shared-profile", {(*S, "flags"): {"gpu-memory-utilization": 0.3}, AGAIN: SOLO | {"port": 8004}},
        "take gpu-memory-utilization out", {(*S, "flags"): GONE}),
    Row("memory-pool-small", {(*S, "flags"): {"gpu-memory-utilization": 0.2},
                              (*S, "workload"): {"max_model_len": 131072, "max_num_seqs": 64}}, "workload.pool: rest",
        {(*S, "workload"): {"max_model_len": 131072, "max_num_seqs": 64, "pool": "rest"}, (*S, "flags"): GONE}),
    Row("memory-load-peak", {(*P, "flags", "safetensors-load-strategy"): "eager", (*H, "memory_kib"): 80 << 20},
        "safetensors-load-strategy: lazy", {(*P, "flags", "safetensors-load-strategy"): "lazy"},
        also={(*P, "flags"): {"load-format": "safetensors"},
              (*P, "workload"): {"max_model_len": 8192, "max_num_seqs": 1}}),
    Row("memory-boot-differs", {("boot", "titan"): {"solo": BOOT}}, "memory.calibrations of a recipe of your own",
        {(*R, "memory", "calibrations"): [RECORD | {"non_kv_gib": 39.0, "flags": {"max-num-batched-tokens": 8192}}]}),
    Row("memory-calibration-unused", {(*R, "memory", "calibrations"): [RECORD | {"flags": {}}]},
        'write "max-num-batched-tokens: N"',
        {(*R, "memory", "calibrations"): [RECORD | {"flags": {"max-num-batched-tokens": 8192}}]}),
    Row("memory-crowded", {(*R, "model", "config"): GONE, (*R, "model", "repository"): "mine/new", (*R, "memory"): GONE,
                           AGAIN: SOLO | {"recipe": TINY, "port": 8004}}, "model.config and model.weights_bytes",
        {(*R, "model", "config"): "nemotron-3-nano-30b-a3b", (*R, "model", "weights_bytes"): 19_000_000_000}),
    Row("memory-tight", {(*S, "flags"): {"gpu-memory-utilization": 0.92}}, "take gpu-memory-utilization out",
        {(*S, "flags"): GONE}),
    Row("memory-weights-estimated", {S: FOUND, ("model", "someone/model"): {"weights_bytes": None}},
        "model.weights_bytes", {(*S, "model"): {"repository": "someone/model", "weights_bytes": 20_000_000_000}}),
    Row("observed-unusable", {("file", ".fleet/observed/boots/titan/x.json"): "{"}, "remove the file",
        {("file", ".fleet/observed/boots/titan/x.json"): GONE}),
    # The KV pool
    Row("kv-dtype-unknown", {(*R, "flags", "kv-cache-dtype"): GONE, (*R, "reasons", "kv-cache-dtype"): GONE},
        "kv-cache-dtype: fp8", {(*S, "flags"): {"kv-cache-dtype": "fp8"}}),
    Row("kv-prefix-never", {(*S, "workload"): {"max_model_len": 1024, "max_num_seqs": 8}}, "a larger max_model_len",
        {(*S, "workload"): {"max_model_len": 32768, "max_num_seqs": 8}}),
    Row("kv-prefix-never", {(*S, "workload"): {"max_model_len": 1024, "max_num_seqs": 8}},
        "enable-prefix-caching: false", {(*S, "flags"): {"enable-prefix-caching": False}}),
    Row("kv-late", {(*S, "flags"): {"kv-cache-memory-bytes": 4 * 10**8}, (*S, "workload", "max_num_seqs"): 512},
        "write --max-num-seqs", {(*S, "workload", "max_num_seqs"): 8}),
    Row("kv-align", {(*S, "flags"): {"max-num-batched-tokens": 2048}, (*S, "recipe"): QWEN},
        "write --max-num-batched-tokens 2144", {(*S, "flags"): {"max-num-batched-tokens": 2144}},
        also={(*S, "image"): {**OWN_IMAGE, "release": "0.23.0"}}),
    Row("memory-drafter-unknown", {(*S, "flags"): {"speculative-config": DRAFTS}}, "weights_bytes",
        {(*S, "model"): {"draft": {"repository": "org/eagle3", "weights_bytes": 1 << 30}}}),
    Row("kv-unknown", {(*S, "flags"): {"kv-cache-dtype": "fp8_ds_mla"}}, "", {(*S, "flags"): GONE}),
    Row("kv-release-assumed", {(*S, "image"): {"reference": "vllm/vllm-openai:nightly", "release": None}},
        "write image.release",
        {(*S, "image", "release"): "0.23.0"}),
    # A recipe
    Row("recipe-duplicate", {("file", f"recipes/{TINY}.yaml"): AGAIN_MINE, (*R, "summary"): "mine"}, "remove one",
        {("file", f"recipes/{TINY}.yaml"): GONE}),
    Row("recipe-folder", {("run", "recipe_dirs"): ["none"]}, "make it", {("file", "none/readme"): "mine"}),
    Row("recipe-unreadable", {("file", "recipes/bad.yml"): "name: [\n", (*S, "recipe"): "bad"}, "correct the file",
        {("file", "recipes/bad.yml"): GONE, (*S, "recipe"): NANO}),
    Row("service-model-overlay", {(*R, "overlays"): [{"target": "mine.py", "model_file": "mine.py", "reason": "why",
                                                      "source": "me"}], (*S, "model"): {"repository": "someone/other"}},
        "without these overlays", {(*R, "overlays"): GONE}),
    Row("lock-recipe-unpinned", {(*R, "model", "seal"): "2" * 64}, "write its revision into the recipe",
        {(*R, "model", "revision"): "0" * 40}),
    Row("lock-recipe-differs", {(*R, "image", "identity"): HAS, (*R, "image", "digest"): DIGEST},
        f"-e relock={NANO_IMAGE}",
        {("run", "relock"): NANO_IMAGE}, also={("file", NAME): dump(LOCKED)}),
    Row("recipe-engine", {(*R, "engine"): "vlm"}, 'write "vllm"', {(*R, "engine"): "vllm"}),
    Row("recipe-old-key", {(*R, "image", "vllm"): "0.23.0", (*R, "image", "release"): GONE},
        "write release: 0.23.0", {(*R, "image", "vllm"): GONE, (*R, "image", "release"): "0.23.0"}),
    Row("recipe-planned-flag", {(*R, "flags", "port"): 8000}, "", {(*R, "flags", "port"): GONE}),
    Row("recipe-abbreviated-flag", {(*R, "flags", "kv-cache-memory"): 1 << 34}, "write kv-cache-memory-bytes",
        {(*R, "flags", "kv-cache-memory"): GONE, (*R, "flags", "kv-cache-memory-bytes"): 1 << 34}),
    Row("recipe-planned-env", {(*R, "env", "VLLM_HOST_IP"): "10.0.0.1"}, "", {(*R, "env", "VLLM_HOST_IP"): GONE}),
    Row("recipe-flag-value", {(*R, "flags", "served-model-name"): GONE, (*R, "flags", "lora-modules"): []},
        "take it out or fill it", {(*R, "flags", "lora-modules"): GONE}),
    Row("recipe-flag-value", {(*R, "flags", "dtype"): ["half", "--enforce-eager"]}, "under its own name",
        {(*R, "flags", "dtype"): GONE, (*R, "flags", "enforce-eager"): True}),
    Row("recipe-secret", {(*R, "env", "HF_TOKEN"): "hf_abc"}, "", {(*R, "env", "HF_TOKEN"): GONE}),
    Row("recipe-reason", {(*R, "reasons", "nothing"): "why"}, "take it out", {(*R, "reasons", "nothing"): GONE}),
    Row("recipe-draft", {(*R, "model", "draft"): {"repository": "a/b"}}, "take it out", {(*R, "model",
        "draft"): GONE}),
    Row("service-model-file", {(*R, "model", "file"): "mine-q4.gguf"}, "take it out", {(*R, "model", "file"): GONE}),
    Row("recipe-overlay", {(*R, "overlays"): [{"target": "config.json", "reason": "why", "source": "me"}]},
        "write exactly one",
        {(*R, "overlays"): GONE}),
    Row("recipe-overlay-missing", {(*R, "overlays"): [{"target": "x.jinja", "file": "none.jinja", "reason": "why",
        "source": "me"}]}, "",
        {(*R, "overlays"): GONE}),
    Row("recipe-config", {(*R, "model", "config"): "nemotron-3-nano"}, 'write "nemotron-3-nano', {(*R, "model",
        "config"): "nemotron-3-nano-30b-a3b"}),
    Row("recipe-image", {(*R, "image", "build"): "mine"}, "write reference:", {(*R, "image", "build"): GONE}),
    Row("recipe-name", {(*R, "name"): "other"}, "make them equal", {(*R, "name"): "mine"}),
    Row("recipe-unknown", {(*S, "recipe"): "nemotron-3-nano-nvfp4"}, f'write "{NANO}"', {(*S, "recipe"): NANO}),
    Row("recipe-known-bad", {(*R, "status", "state"): "known-bad", (*R, "status", "note"): "hangs"}, "",
        {(*S, "recipe"): NANO}),
    Row("memory-weights-unknown", {(*R, "model", "weights_bytes"): GONE, (*R, "model", "config"): GONE,
        (*R, "memory"): GONE, (*R, "model", "repository"): "mine/new"}, "model.weights_bytes",
        {(*R, "model", "weights_bytes"): 20_000_000_000}),
]  # fmt: skip


# What no edit of a fleet or a recipe is a remedy of, and where it is looked at.
ELSEWHERE = {
    "a folder of recipes beside the inventory, fetched: test_recipe_sources, tests/models": ("recipe-source",),
    "hosts that have something else, relocked or given the same: test_lock": ("lock-differs", "lock-hosts-differ"),
    "a file of a recipe's folder and its sum, corrected: test_recipe": ("recipe-overlay-changed",),
    "a host, before or while it is changed, its settings typed: test_doctor, test_kernel_settings": (
        *("tuning-refused", "tuning-unknown", "tuning-unreadable"),
    ),
    "an engine that ends no TLS: test_tls": ("service-tls-engine",),
    "a recipe that names a host's files: test_hostile_recipe": (
        "service-trust-mounts",
        "service-adapter-folder",
        "service-target",
    ),
    "lines that an import has left, taken out: test_recipe_import": ("recipe-left-out",),
    "a recipe that has ended, its successor named: test_sharing": ("recipe-ended",),
    "an engine without traces: test_tracing": ("service-tracing-engine",),
    "an engine that asks for no key: test_trtllm": ("service-key-engine",),
    "an engine whose paths answer without its key: test_sglang": ("service-open-paths",),
}
PLANNING = (
    *("_subjects/fabric/addresses.py", "_subjects/fabric/declared.py", "_engines/environment.py"),
    "_subjects/fabric/plan.py",
    *(
        "_engines/recipes/recipe.py",
        "_engines/recipes/overlays.py",
        "_subjects/firewall/plan.py",
        "_subjects/tls/declared.py",
        "_engines/tracing/declared.py",
        "_engines/memory",
        "_stores/lock/lock.py",
    ),
    *("_engines/observed.py", "_engines/vllm/parallel.py", "_engines/vllm/placement.py", "_engines/vllm/sizing.py"),
    *("_engines/vllm/propose.py", "_stores/transfer/plan.py", "_subjects/host_tuning"),
    "_host/settings/kernel_settings.py",
)
RULE = re.compile(r"(?:input|fabric|recipe|service|group|memory|kv|lock|source|model|tuning|observed)(?:-[a-z]+)+")
OPTIONS = {"model-path", "kv-cache-dtype", "kv-cache-memory-bytes", "kv-offloading-size"}


def rules_of_plans() -> set[str]:
    """Texts of the modules that decide which look like a rule's name."""
    places = [*(UTILITIES / "_plan").glob("*.py"), *(UTILITIES / name for name in PLANNING)]
    files = [file for place in places for file in ([place] if place.suffix else sorted(place.rglob("*.py")))]
    texts = [node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    constants = {node.value for node in texts if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    words = {rule_of(text) for text in constants}
    return {word for word in words if RULE.fullmatch(word)} - OPTIONS


def test_every_rule_has_a_row_or_a_place() -> None:
    elsewhere = [rule for rules in ELSEWHERE.values() for rule in rules]
    assert rules_of_plans() - {row.rule for row in BY_HAND} == {*elsewhere}
    assert len(elsewhere) == len({*elsewhere})


def written(edits: Edits, tree: Any, kind: str) -> None:
    for path, value in edits.items():
        of_fleet = path[0] not in OTHERS
        if kind != ("fleet" if of_fleet else path[0]):
            continue
        *steps, last = path if of_fleet else path[1:]
        inner = tree
        for step in steps:
            inner = inner[step] if isinstance(step, int) else inner.setdefault(step, {})
        if value is GONE:
            inner.pop(last, None)
        else:
            inner[last] = copy.deepcopy(value)


OTHERS = ("recipe", "inventory", "file", "run", "model", "boot")
# site.yml on all hosts, with the inventory's file.
RUN = {"scope": "fleet", "service": "", "hosts": [*HOSTS], "retire": [], "relock": "", "inventory": "hosts.yml"}


class Site:
    """A fleet as it is written after some edits, one after the other, and planned."""

    def __init__(self, folder: Path, *edits: Edits) -> None:
        self.folder = folder
        self.fleet = copy.deepcopy(FLEET)
        self.hosts = {name: {"address": f"10.0.0.{number}", "port": 22} for number, name in enumerate(HOSTS, 1)}
        self.recipe: dict[str, Any] | None = None
        self.run: dict[str, Any] = copy.deepcopy(RUN)
        self.models: dict[str, Any] = {}
        self.boots: dict[str, Any] = {}
        for some in edits:
            self.edit(some)

    def edit(self, some: Edits) -> None:
        if any(path[0] == "recipe" for path in some) and self.recipe is None:
            self.recipe = yaml.safe_load((SHIPPED_RECIPES / f"{NANO}.yml").read_text()) | {"name": TINY}
            self.fleet["fleet_services"]["solo"]["recipe"] = TINY
        written(some, self.fleet, "fleet")
        written(some, self.hosts, "inventory")
        written(some, self.run, "run")
        written(some, self.models, "model")
        written(some, self.boots, "boot")
        if self.recipe is not None:
            written(some, self.recipe, "recipe")
        for (kind, *path), text in some.items():
            if kind == "file":
                file = self.folder / path[0]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.unlink(missing_ok=True)
                if text is not GONE:
                    file.write_text(text)
                    file.chmod(0o700 if text.startswith("#!") else 0o600)

    def findings(self) -> list[dict[str, Any]]:
        """As a run shows them: of the inventory's files, of the plan, and of what the run is about."""
        try:
            self.lock = read(self.folder / NAME)
        except FleetError as problem:
            return [one.as_dict() for one in problem.findings]
        plan = self.plan()
        for host, services in self.boots.items():
            for service, record in services.items():
                file = (
                    self.folder
                    / ".fleet"
                    / "observed"
                    / "boots"
                    / host
                    / f"{plan['services'][service]['boot']['key']}.json"
                )
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(record))
        plan = self.plan() if self.boots else plan
        run = self.run
        services, more = choose(plan, run["scope"], run["service"])
        more += [
            *declared_and_retired(plan, run["retire"]),
            *split_by_limit(plan, services, run["hosts"], run["service"]),
            *declared_twice({file.name: file.read_text() for file in self.folder.glob("group_vars/*")}),
            *not_inventories(self.sources(), [str(self.folder / run["inventory"])]),
        ]
        return [*plan["findings"], *(one.as_dict() for one in more)]

    def sources(self) -> dict[str, str]:
        """What Ansible takes hosts from: the file that is given, or each one below the folder."""
        given = self.folder / self.run["inventory"]
        files = [file for file in given.rglob("*") if file.is_file()] if given.is_dir() else [given]
        return {f"host-{number}": str(file) for number, file in enumerate(files)}

    def plan(self) -> dict[str, Any]:
        mine = self.folder / "recipes"
        if self.recipe is not None:
            mine.mkdir(exist_ok=True)
            (mine / f"{TINY}.yml").write_text(yaml.safe_dump(self.recipe))
        own = [mine] if mine.is_dir() else []
        own += [self.folder / name for name in self.run.get("recipe_dirs", ())]
        found, of_own = load_all(own)
        # as if all folders were read here; the shipped one is read once for all rows
        shipped, of_recipes = SHIPPED
        models = {name: checkpoint(name, known) for name, known in self.models.items()}
        library = Library({**shipped.recipes, **found.recipes}, (*own, SHIPPED_RECIPES), models)
        hosts = {}
        for name, host in self.hosts.items():
            variables = copy.deepcopy({**self.fleet, **host.get("variables", {})})
            hosts[name] = {**host, "variables": variables}
        inventory = {"hosts": hosts, "folder": str(self.folder)}
        observed = read_observed(self.folder)
        planned: dict[str, Any] = plan_fleet(
            inventory, library, [*of_own, *of_recipes], observed, lock=self.lock, relock=self.run["relock"]
        )
        return planned


def checkpoint(repository: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Of a small model; known: what is otherwise."""
    written = {"repository": repository, "revision": "0" * 40, "config": SMALL, "source": "a test",
               "chat_template": True, "weights_bytes": 20 << 30}  # fmt: skip
    return require({**written, **known}, Place())


def errors(findings: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["rule"], one["place"]) for one in findings if one["severity"] == "error"}


def test_the_fleet_that_the_mistakes_are_made_in_has_none(tmp_path: Path) -> None:
    assert errors(Site(tmp_path).findings()) == set()


@pytest.mark.parametrize("row", BY_HAND, ids=lambda row: row.rule)
def test_doing_what_a_remedy_asks_for_makes_its_finding_go(tmp_path: Path, row: Row) -> None:
    site = Site(tmp_path, row.also, row.wrong)
    named = [one for one in site.findings() if one["rule"] == row.rule]
    assert named, [(one["rule"], one["place"], one["found"]) for one in site.findings()]
    assert any(one["remedy"] and row.remedy in one["remedy"] for one in named), [one["remedy"] for one in named]
    site.edit(row.right)
    after = site.findings()
    assert [one for one in after if one["rule"] == row.rule and one["place"] in {bad["place"] for bad in named}] == []
    assert errors(after) == set()
