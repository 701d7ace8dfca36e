# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real vLLM and the real llama-server made to fail: each ends in the sentence that a person needs, and in nothing
half. Two cheap ones are in the gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lab.vllm import images

from .bare import HOSTS
from .group import CONTAINER, KEY_CHECK, KEY_FILE, LISTEN, NAME, PORT, SERVE, UNIT, Group

HOST = HOSTS[0]
ALONE = {
    "ranks": 1,
    "peers": [],
    "rendezvous": None,
    "adapter": None,
    "secret_file": None,
    "token": None,
    "serve": None,
}
ONCE = {"budget": {"starts": 1, "within_s": 1800}, "startup_limit_s": 600, "stop_s": 20}
TINY = "/srv/broken/tiny"
# What makes a copy of the model below TINY unfit.
WHOLE = f"rm -rf /srv/broken && mkdir -p /srv/broken && cp -r /srv/lab/tiny {TINY}"
NO_WEIGHTS = f"{WHOLE} && rm {TINY}/model.safetensors"
CUT = f"{WHOLE} && truncate -s 300000 {TINY}/model.safetensors"
NO_TOKENIZER = f'{WHOLE} && echo \'{{"version": "1.0", "model":\' > {TINY}/tokenizer.json'
GGUF = "/srv/lab/tiny-gguf/F16/tiny-F16.gguf"
SOLO = ["1" if word == "2" else word for word in SERVE]


def ended(group: Group, words: Sequence[str], harm: Callable[[], object] | None = None, **changes: Any) -> str:
    """The supervisor's last sentence of a service that runs these `docker run` words after `docker run`."""
    written = group.service(0, limits=ONCE, **(ALONE | changes))
    written["run"] = ["/usr/bin/docker", "run", "--rm", "--name", CONTAINER, "--pull", "never", *words]
    group.stop()
    group.define(written)
    # what the case before has left
    group.fleet.root(HOST, f"rm -rf /run/gb10-fleet/{NAME}; systemctl daemon-reload; systemctl start {UNIT}")
    if harm is not None:
        harm()
    group.until(lambda: group.status(HOST)["state"] == "stopped", "it has given up", 900)
    sentence = str(group.status(HOST)["error"])
    print(f"\n{sentence}")
    group.until(lambda: group.unit(HOST) == "failed", "its unit has failed", 60)
    assert group.fleet.root(HOST, "docker ps --all --quiet").strip() == "", "a container is left"
    assert group.evidence(HOST, "reason.txt").strip()[:60] in sentence
    assert f"/var/lib/gb10-fleet/evidence/{NAME}/" in sentence
    return sentence


# llama-server ------------------------------------------------------------------------------------------------------


def _llama(group: Group, prepare: str, words: Sequence[str]) -> str:
    folder = images.default_directory()
    images.ensure_model("tiny-gguf", folder)
    facts = images.ensure_image(images.LLAMA_CPP, folder)
    group.fleet.root(HOST, f"docker load --quiet --input /srv/lab/{Path(facts['path']).name}")
    group.fleet.root(HOST, f"rm -rf /srv/broken; mkdir -p /srv/broken; {prepare}")
    mounts = ["--mount", "type=bind,source=/srv/broken,target=/models,readonly", "--network", "host"]
    return ended(group, [*mounts, facts["reference"], "--port", str(PORT), *words])


@pytest.mark.parametrize(
    ("prepare", "words", "named"),
    [
        pytest.param(
            f"head -c 100000 {GGUF} > /srv/broken/m.gguf",
            ["-m", "/models/m.gguf"],
            "a file of the model is damaged or cut off",
            id="cut off",
        ),
        pytest.param(
            f"cp {GGUF} /srv/broken/m.gguf",
            ["-m", "/models/m.gguf", "--no-such-option"],
            "the engine does not know an option (error: invalid argument: --no-such-option)",
            id="unknown option",
        ),
        pytest.param(
            "true", ["-m", "/models/m.gguf"], "a file of the model is missing", id="no file", marks=pytest.mark.whole
        ),
        pytest.param(
            "echo '<html>404</html>' > /srv/broken/m.gguf",
            ["-m", "/models/m.gguf"],
            "a file of the model is damaged or cut off",
            id="a page instead",
            marks=pytest.mark.whole,
        ),
        pytest.param(
            f"cp {GGUF} /srv/broken/m.gguf",
            ["-m", "/models/m.gguf", "--cache-type-k", "q99"],
            'the engine refuses a setting (error while handling argument "--cache-type-k"',
            id="cache type",
            marks=pytest.mark.whole,
        ),
    ],
)
def test_llama_server(group: Group, prepare: str, words: list[str], named: str) -> None:
    assert named in _llama(group, prepare, words)


# vLLM --------------------------------------------------------------------------------------------------------------


def _vllm(
    group: Group, model: str, more: Sequence[str] = (), docker: Sequence[str] = ("--ipc", "host"), **harm: Any
) -> str:
    mounts = [
        *("--mount", f"type=bind,source={model},target=/models/tiny,readonly", "--network", "host"),
        *("--mount", f"type=bind,source={KEY_FILE},target=/run/secrets/vllm.yaml,readonly"),
        *("--mount", f"type=bind,source={KEY_CHECK},target=/opt/gb10-fleet/gb10_api_key.py,readonly"),
        *("--env", "PYTHONPATH=/opt/gb10-fleet", *docker),
    ]
    return ended(group, [*mounts, group.image, *SOLO, *LISTEN, *more], **harm)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("prepare", "more", "named"),
    [
        pytest.param(
            WHOLE,
            ["--enable-auto-tool-choice", "--tool-call-parser", "qwen9_xml"],
            "the engine does not know a parser of tools or reasoning",
            id="wrong parser",
        ),
        pytest.param(NO_WEIGHTS, [], "a file of the model is missing", id="no weights"),
        pytest.param(CUT, [], "a file of the model is damaged or cut off", id="cut off"),
        pytest.param(NO_TOKENIZER, [], "its config or tokenizer can't be read", id="wrong tokenizer"),
        pytest.param(WHOLE, ["--kv-cache-dtyp", "fp8"], "the engine does not know an option", id="unknown option"),
        pytest.param(
            WHOLE,
            ["--kv-cache-memory-bytes", "400000000000"],
            "no memory is left for the KV pool beside the weights",
            id="not enough memory",
        ),
    ],
)
def test_vllm(real_pair: Group, prepare: str, more: list[str], named: str) -> None:
    real_pair.fleet.root(HOST, prepare)
    assert named in _vllm(real_pair, TINY, more)


@pytest.mark.whole
def test_vllm_without_room_in_shared_memory(real_pair: Group) -> None:
    real_pair.fleet.root(HOST, WHOLE)
    more = ["--tensor-parallel-size", "2"]
    assert "the container's /dev/shm has no room" in _vllm(real_pair, TINY, more, ("--shm-size", "64k"))


@pytest.mark.whole
def test_vllm_whose_port_is_taken(real_pair: Group) -> None:
    """By a program that takes it after the supervisor has looked."""
    real_pair.fleet.root(HOST, WHOLE)
    taker = f"import socket, time; s = socket.create_server(('0.0.0.0', {PORT})); time.sleep(900)"
    real_pair.fleet.root(HOST, f'systemd-run --quiet --unit taker --collect python3 -c "{taker}"')
    try:
        assert "its port is taken" in _vllm(real_pair, TINY, ports=[])
    finally:
        real_pair.fleet.root(HOST, "systemctl stop taker")


@pytest.mark.whole
def test_vllm_whose_worker_is_killed(real_pair: Group) -> None:
    """By a person, who is named."""
    real_pair.fleet.root(HOST, WHOLE)

    def harm() -> None:
        real_pair.until(lambda: real_pair.status(HOST)["state"] == "serving", "it serves", 600)
        real_pair.fleet.root(HOST, "logger -t sudo ' maria : TTY=pts/0 ; USER=root ; COMMAND=/usr/bin/pkill -9 VLLM'")
        real_pair.fleet.root(HOST, "pkill -9 -f '[V]LLM::Worker'")

    sentence = _vllm(real_pair, TINY, ["--tensor-parallel-size", "2"], harm=harm)
    assert "maria ended it by `/usr/bin/pkill -9 VLLM`; its container ended with status " in sentence


@pytest.mark.whole
def test_ray_without_a_token(real_pair: Group) -> None:
    words = ["--network", "host", "--env", "RAY_AUTH_MODE=token", "--entrypoint", "ray", real_pair.image]
    assert "Ray's ranks do not have the same token" in ended(real_pair, [*words, "start", "--head", "--block"])


@pytest.mark.whole
def test_a_container_that_docker_is_asked_to_kill(real_pair: Group) -> None:
    real_pair.fleet.root(HOST, WHOLE)

    def harm() -> None:
        real_pair.until(lambda: real_pair.fleet.ok(HOST, f"docker top {CONTAINER}"), "it runs", 120)
        real_pair.fleet.root(HOST, f"docker kill {CONTAINER}")

    sentence = _vllm(real_pair, TINY, harm=harm)
    assert "or a tool that does so); its container ended with status 137: killed; see " in sentence
