"""A recipe placed on a host becomes a command line; every value knows where it came from."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._layers import Layer
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import Host
from ansible_collections.gb10.fleet.plugins.module_utils._plan.launch import docker_run
from ansible_collections.gb10.fleet.plugins.module_utils._plan.service import (
    Placed,
    decide_environment,
    decide_flags,
    served_name,
    solo_container,
    vllm_argv,
)

RECIPE: dict[str, Any] = {
    "name": "nano",
    "model": {"repository": "nvidia/Nano", "revision": "a" * 40, "source": "hub"},
    "image": {"reference": "img:1", "digest": None, "family": "upstream", "vllm": "0.23.0", "entrypoint": None},
    "flags": {"kv-cache-dtype": "fp8", "max-model-len": 8192, "enforce-eager": True},
    "env": {"VLLM_NVFP4_GEMM_BACKEND": "marlin"},
    "reasons": {"kv-cache-dtype": "half the bytes"},
    "mounts": [],
}
SETTINGS: dict[str, Any] = {
    "port": 8003,
    "listen": "0.0.0.0",
    "workload": {},
    "flags": {},
    "env": {},
    "image": {},
    "model": {},
}
DEFAULTS = Layer("default", {"enable-prefix-caching": True}, {})


def placed(settings: dict[str, Any] | None = None, host: dict[str, Any] | None = None, **recipe: Any) -> Placed:
    titan = Host("titan", "10.0.0.1", host or {})
    whole = RECIPE | recipe
    return Placed("nano", SETTINGS | (settings or {}), whole, [titan], whole["image"], whole["model"])


def argv_of(service: Placed) -> list[str]:
    return vllm_argv(service, decide_flags(service, DEFAULTS))


def test_each_layer_wins_over_the_one_below() -> None:
    host = {"services": {"nano": {"flags": {"max-model-len": 4}, "env": {}}}}
    flags = decide_flags(placed({"flags": {"max-model-len": 16384}}), DEFAULTS)
    assert (flags["max-model-len"].value, flags["max-model-len"].origin) == (16384, "service")
    assert (flags["kv-cache-dtype"].origin, flags["kv-cache-dtype"].reason) == ("recipe", "half the bytes")
    assert flags["enable-prefix-caching"].origin == "default"
    flags = decide_flags(placed({"flags": {"max-model-len": 16384}}, host), DEFAULTS)
    assert (flags["max-model-len"].value, flags["max-model-len"].origin) == (4, "host")


def test_the_workload_becomes_flags() -> None:
    flags = decide_flags(placed({"workload": {"max_model_len": 32768, "max_num_seqs": 8}}), DEFAULTS)
    assert (flags["max-model-len"].value, flags["max-num-seqs"].value) == (32768, 8)


def test_null_removes_what_a_lower_layer_set() -> None:
    assert "enforce-eager" not in decide_flags(placed({"flags": {"enforce-eager": None}}), DEFAULTS)


@pytest.mark.parametrize(
    ("family", "start"), [("upstream", ["nvidia/Nano"]), ("ngc", ["vllm", "serve", "nvidia/Nano"])]
)
def test_the_launch_form_is_that_of_the_image(family: str, start: list[str]) -> None:
    argv = argv_of(placed(image=RECIPE["image"] | {"family": family}))
    assert argv[: len(start)] == start
    assert argv.count("serve") == len(start) // 2


def test_the_staged_revision_is_asked_for() -> None:
    argv = argv_of(placed())
    assert argv[argv.index("--revision") + 1] == "a" * 40
    assert "--revision" not in argv_of(placed(model=RECIPE["model"] | {"revision": None}))


def test_a_key_is_a_mounted_file_and_stands_in_no_argument_or_variable() -> None:
    service = placed({"api_key_file": "keys/nano"})
    run = docker_run(solo_container(service, argv_of(service), decide_environment(service, service.head, DEFAULTS)))
    assert "type=bind,source=/etc/gb10-fleet/secrets/nano.yaml,target=/run/secrets/vllm.yaml,readonly" in run
    assert run[run.index("--config") + 1] == "/run/secrets/vllm.yaml"
    assert not any("keys/nano" in argument or "API_KEY" in argument for argument in run)


def test_clients_ask_for_the_served_name() -> None:
    assert served_name(placed(), decide_flags(placed(), DEFAULTS)) == "nvidia/Nano"
    named = placed({"served_name": "nano"})
    assert served_name(named, decide_flags(named, DEFAULTS)) == "nano"


def test_places_in_flags_and_variables_are_filled_in() -> None:
    service = placed(flags={"chat-template": "{model_path}/t.jinja"})
    argv = argv_of(service)
    assert argv[argv.index("--chat-template") + 1] == f"/hf/hub/models--nvidia--Nano/snapshots/{'a' * 40}/t.jinja"
