"""A recipe placed on a host becomes a command line; every value knows where it came from."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import default_layer
from ansible_collections.gb10.fleet.plugins.module_utils._engines.placed import Host, Placed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library
from ansible_collections.gb10.fleet.plugins.module_utils._plan.container import docker_run
from ansible_collections.gb10.fleet.plugins.module_utils._plan.ranks import Configured, judged_container
from ansible_collections.gb10.fleet.plugins.module_utils._plan.service import place

RECIPE: dict[str, Any] = {
    "name": "nano",
    "engine": "vllm",
    "kind": "chat",
    "host_counts": [1],
    "model": {"repository": "nvidia/Nano", "revision": "a" * 40, "source": "hub"},
    "image": {"reference": "img:1", "digest": None, "family": "upstream", "release": "0.23.0", "entrypoint": None},
    "flags": {"kv-cache-dtype": "fp8", "max-model-len": 8192, "enforce-eager": True},
    "env": {"VLLM_NVFP4_GEMM_BACKEND": "marlin"},
    "reasons": {"kv-cache-dtype": "half the bytes"},
    "mounts": [],
    "container": {},
    "overlays": [],
}
SETTINGS: dict[str, Any] = {
    "hosts": ["titan"],
    "port": 8003,
    "listen": "0.0.0.0",
    "workload": {},
    "flags": {},
    "env": {},
    "container": {},
    "image": {},
    "model": {},
}


def placed(settings: dict[str, Any] | None = None, host: dict[str, Any] | None = None, **recipe: Any) -> Placed:
    titan = Host("titan", "10.0.0.1", host or {})
    service, findings = place("nano", SETTINGS | (settings or {}), RECIPE | recipe, [titan], Library({}, ()), {})
    assert service is not None, findings
    return service


def container_of(service: Placed) -> dict[str, Any]:
    return judged_container(Configured(service, service.flags, {}))


def argv_of(service: Placed) -> list[str]:
    return list(container_of(service)["arguments"])


def test_each_layer_wins_over_the_one_below() -> None:
    host = {"services": {"nano": {"flags": {"max-model-len": 4}, "env": {}}}}
    flags = placed({"flags": {"max-model-len": 16384}}).flags
    assert (flags["max-model-len"].value, flags["max-model-len"].origin) == (16384, "service")
    assert (flags["kv-cache-dtype"].origin, flags["kv-cache-dtype"].reason) == ("recipe", "half the bytes")
    assert {flags[name].origin for name in default_layer("flags").values} == {"default"}
    flags = placed({"flags": {"max-model-len": 16384}}, host).flags
    assert (flags["max-model-len"].value, flags["max-model-len"].origin) == (4, "host")


def test_the_workload_becomes_flags() -> None:
    flags = placed({"workload": {"max_model_len": 32768, "max_num_seqs": 8}}).flags
    assert (flags["max-model-len"].value, flags["max-num-seqs"].value) == (32768, 8)


def test_null_removes_what_a_lower_layer_set() -> None:
    assert "enforce-eager" not in placed({"flags": {"enforce-eager": None}}).flags


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


def test_a_key_is_a_mounted_file_and_in_no_argument_or_variable() -> None:
    service = placed({"api_key_file": "keys/nano"})
    run = docker_run(container_of(service))
    assert "type=bind,source=/etc/gb10-fleet/secrets/nano.key,target=/run/secrets/vllm.yaml,readonly" in run
    assert run[run.index("--config") + 1] == "/run/secrets/vllm.yaml"
    assert not any("keys/nano" in argument or "API_KEY" in argument for argument in run)


def test_clients_ask_for_the_served_name() -> None:
    for settings, name in (({}, "nvidia/Nano"), ({"served_name": "nano"}, "nano")):
        service = placed(settings)
        assert Configured(service, service.flags, {}).served_name == name


def test_places_in_flags_and_variables_are_filled_in() -> None:
    service = placed(flags={"chat-template": "{model_path}/t.jinja"})
    argv = argv_of(service)
    assert argv[argv.index("--chat-template") + 1] == f"/hf/hub/models--nvidia--Nano/snapshots/{'a' * 40}/t.jinja"
