# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second or new control machine makes no secret that hosts have already: it would lock all clients out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.managed import managed_files
from ansible_collections.gb10.fleet.plugins.module_utils._plan.preflight.needs import made_elsewhere
from test_undeclared import whole


@pytest.fixture(scope="module")
def titan(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The slice of a host with a gateway, whose certificate the local CA made, and services in clear."""
    return whole(tmp_path_factory.mktemp("site"), "home")


def refused(titan: Any, kept: list[str]) -> dict[str, str]:
    """By source what a host that has all of it refuses. kept: what the control machine has."""
    paths = {path: {"exists": True, "free_bytes": 0} for path in titan["needs"]["paths"]}
    found = [*made_elsewhere(titan["needs"], {"paths": paths}, kept)]  # type: ignore[typeddict-item]
    sources = {secret["source"] for secret in titan["needs"]["secrets"]}
    return {source: one.sentence() for source in sources for one in found if f" {source} is not on" in one.found}


def test_every_secret_that_the_tree_makes_is_refused(titan: Any) -> None:
    """But the certificates of the CA: it makes them anew, and no client sees a difference."""
    issued = {titan["gateway"]["tls"][kind]["source"] for kind in ("certificate", "key")}
    made = {file.source for file in managed_files(titan) if file.source} - issued
    own = {Path(source).name for source in made}
    assert own >= {"clients.yml", "phoenix.key"}
    assert not any(service["tls"] for service in titan["services"])
    found = refused(titan, [])
    assert found.keys() == made | {titan["tls"]["source"]}
    assert "fleet_gateway" in found[titan["tls"]["source"]] and "fleet_phoenix" in found[_one(made, "phoenix.key")]


def test_what_this_machine_has_is_gone_on_with(titan: Any) -> None:
    sources = sorted(refused(titan, []))
    assert refused(titan, sources) == {}
    for source in sources:
        assert [*refused(titan, [one for one in sources if one != source])] == [source]


def _one(sources: set[str], name: str) -> str:
    (found,) = (source for source in sources if Path(source).name == name)
    return found
