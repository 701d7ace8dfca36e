# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.vllm import images

from .bare import two_hosts
from .group import Group


def _group(kind: images.Kind, place: Path, ray: bool = False) -> Iterator[Group]:
    """Two hosts with a cable, Docker, vLLM and the supervisor; the lab ends with the tests of its module."""
    with two_hosts(kind, place) as (fleet, reference):
        made = Group(fleet, reference, ray)
        made.install()
        yield made


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="every failure, the firewall, and the real vLLM: an hour")
    parser.addoption("--minutes", type=float, default=20.0, help="how long the saturated run of the real vLLM lasts")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "whole: left out without --whole")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--whole"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("whole")])
        items[:] = [item for item in items if not item.get_closest_marker("whole")]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """With the stand-in, over vLLM's own multi-node."""
    yield from _group(images.STAND_IN, Path(tmp_path_factory.mktemp("cluster")))


@pytest.fixture(scope="module")
def ray_group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """With the stand-in, over Ray."""
    yield from _group(images.STAND_IN, Path(tmp_path_factory.mktemp("cluster")), ray=True)


@pytest.fixture(scope="module", params=[False, True], ids=["nnodes", "ray"])
def real_group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """With the real vLLM on CPU."""
    yield from _group(images.VLLM_CPU, Path(tmp_path_factory.mktemp("cluster")), ray=request.param)


@pytest.fixture(scope="module")
def real_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """The same over vLLM's own multi-node alone."""
    yield from _group(images.VLLM_CPU, Path(tmp_path_factory.mktemp("cluster")))
