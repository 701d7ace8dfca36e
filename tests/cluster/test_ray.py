# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With Ray a group is served in two steps, and vLLM itself ends when a node is lost."""

from __future__ import annotations

import hmac
from collections.abc import Iterator

import pytest

from .bare import HOSTS
from .group import CONTAINER, KEY, ROUTES, SECRET, Group

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


def test_ray_is_given_a_token_and_not_the_groups_secret(serving: Group) -> None:
    for host in HOSTS:
        given = serving.fleet.root(host, f"docker exec {CONTAINER} sh -c 'cat $RAY_AUTH_TOKEN_PATH'")
        assert given == hmac.new(SECRET.encode(), b"ray", "sha256").hexdigest()
        held = f"docker exec {CONTAINER} grep -rl {SECRET} /run /etc /tmp /proc/1/environ"
        assert serving.fleet.root(host, held, check=False) == ""


def test_a_ray_that_is_too_old_starts_nothing(ray_group: Group) -> None:
    wanted = ray_group.service(0)["probes"]
    ray_group.place(probes=wanted | {"requires": wanted["requires"] | {"least": [99, 0]}})
    ray_group.until(lambda: "99.0 or newer" in ray_group.status(ray_group.head)["error"], "the head refuses its Ray")
    for host in HOSTS:
        assert ray_group.fleet.root(host, f"docker ps --quiet --filter name={CONTAINER}") == ""
    ray_group.place()
    ray_group.until_serving()


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
