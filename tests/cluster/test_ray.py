# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With Ray a group is served in two steps, and vLLM itself ends when a node is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .group import CONTAINER, HOSTS, KEY, ROUTES, Group

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def serving(ray_group: Group) -> Iterator[Group]:
    ray_group.place()
    ray_group.until_serving()
    yield ray_group


def test_it_serves_once_all_nodes_are_in(serving: Group) -> None:
    assert "2 of 2 ranks have joined" in serving.journal(serving.head)
    assert serving.open_routes() == []
    assert serving.open_routes(key=KEY) == [*ROUTES]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_container(serving: Group, rank: int) -> None:
    def kill_the_container() -> None:
        serving.fleet.root(HOSTS[rank], f"docker kill {CONTAINER}")

    serving.restart()
    serving.recovers(kill_the_container)


def test_an_engine_that_dies_while_rays_node_goes_on(serving: Group) -> None:
    """`docker exec` ends with status 0, the container does not."""

    def kill_the_engine() -> None:
        serving.fleet.root(serving.head, "pkill -KILL -x VLLM::EngineCor")

    serving.restart()
    serving.recovers(kill_the_engine)
