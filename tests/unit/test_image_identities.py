# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read on each host of a service, to be compared."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.parts import Run
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.reading import read_identities


def docker(**image: Any) -> Run:
    """A docker that has this image under the name vllm:1 and no other."""
    whole = {"Os": "linux", "Architecture": "arm64", "RootFS": {"Layers": ["sha256:1"]}, "Config": {}} | image

    def run(command: list[str]) -> tuple[int, str, str]:
        return (0, json.dumps([whole]), "") if command[-1] == "vllm:1" else (1, "[]", "No such image")

    return run


def read(**image: Any) -> str | None:
    return read_identities(docker(**image), ["vllm:1"])["vllm:1"]


def test_an_image_is_the_same_whatever_its_store_calls_it() -> None:
    assert read(Id="sha256:a") == read(Id="sha256:b") is not None


def test_other_layers_or_another_configuration_are_another_image() -> None:
    assert len({read(), read(RootFS={"Layers": ["sha256:2"]}), read(Config={"Env": ["VLLM_USE=1"]})}) == 3


def test_an_image_that_is_not_there() -> None:
    assert read_identities(docker(), ["other:1"]) == {"other:1": None}
