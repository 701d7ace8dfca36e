# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules that bring images and models are given is checked by its type in the slice of the plan."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.slice import StoredImage, StoredModel
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.step import Wanted
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.modules import entries

IMAGE: dict[str, Any] = {"reference": "demo:1", "source": {"kind": "archive", "path": "/srv/demo.tar"}}


def test_a_short_entry_gets_its_defaults() -> None:
    [image] = entries("images", StoredImage, {"images": [IMAGE], "is_renewed": False})
    assert image == {**IMAGE, "digest": None, "peers": [], "lock": None, "renew": False}
    assert Wanted.from_plan(image).source == "archive"
    [model] = entries(
        "models", StoredModel, {"models": [{"repository": "a/b", "source": {"kind": "hub"}}], "is_renewed": False}
    )
    assert (model["revision"], model["bytes"], model["peers"]) == (None, None, [])


def test_a_peer_has_the_port_of_ssh() -> None:
    entry = {**IMAGE, "source": {"kind": "host", "host": "b"}, "peers": [{"host": "b", "address": "10.0.0.2"}]}
    [image] = entries("images", StoredImage, {"images": [entry], "is_renewed": False})
    assert [peer.port for peer in Wanted.from_plan(image, ["b"]).peers] == [22]


def test_what_was_renewed_elsewhere_is_not_renewed_again() -> None:
    own = {**IMAGE, "renew": True}
    far = {**own, "peers": [{"host": "b", "address": "10.0.0.2"}]}
    found = entries("images", StoredImage, {"images": [own, far], "is_renewed": True})
    assert [entry["renew"] for entry in found] == [False, True]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"reference": "demo:1"}, r"images\[0\]\.source.*expected a map"),
        ({**IMAGE, "source": {"kind": "ftp"}}, "known are: archive, build, bundle, host, hub, path, registry"),
        ({**IMAGE, "sauce": {}}, r"images\[0\].*source"),
        ({**IMAGE, "reference": 7}, r"images\[0\]\.reference"),
        ({**IMAGE, "peers": [{"host": "b"}]}, r"images\[0\]\.peers\[0\]\.address"),
        ({**IMAGE, "lock": {"digest": "sha256:1"}}, r"images\[0\]\.lock\.identity"),
        ({**IMAGE, "build": {"files": {}}}, r"images\[0\]\.build"),
        ({**IMAGE, "source": {"kind": "archive"}}, r"images\[0\]\.source\.path: missing; expected a path on the host"),
        ("demo:1", r"images\[0\].*expected a map"),
    ],
)
def test_another_entry_is_refused_by_its_place(entry: Any, words: str) -> None:
    with pytest.raises(FleetError, match=words):
        entries("images", StoredImage, {"images": [entry], "is_renewed": False})
