# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup gb10.fleet.endpoint: what a client needs of each kind of endpoint, or why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible_collections.gb10.fleet.plugins.lookup.endpoint import endpoint
from ansible_collections.gb10.fleet.plugins.module_utils import api


def planned(folder: Path, **service: Any) -> Any:
    declared = {"chat": {"recipe": "gpt-oss-20b", "hosts": ["spark"], "port": 8000, **service}}
    host = {"address": "10.0.0.9", "port": 22, "variables": {"fleet_services": declared}}
    return api.plan({"hosts": {"spark": host}, "folder": str(folder)})  # type: ignore[typeddict-item]


def test_a_client_gets_url_key_and_name(tmp_path: Path) -> None:
    assert endpoint(planned(tmp_path), "chat") == {
        "url": "http://10.0.0.9:8000/v1",
        "model": "openai/gpt-oss-20b",
        "key_file": str(tmp_path / ".fleet/keys/chat.key"),
        "clients_file": None,
        "ca_file": None,
    }


def test_what_asks_for_no_key_names_none_and_encryption_its_ca(tmp_path: Path) -> None:
    assert endpoint(planned(tmp_path, open=True), "chat")["key_file"] is None
    found = endpoint(planned(tmp_path, tls="local", served_name="talk"), "chat")
    assert found["url"].startswith("https://") and found["model"] == "talk"
    assert found["ca_file"] == str(tmp_path / ".fleet/ca/ca.crt")


def test_behind_a_gateway_the_answer_is_the_gateways(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    row = {"model": "small", "services": ["chat"]}
    plan["gateway"] = {"url": "https://llm.home/v1", "clients": "/c.yml", "ca": "/ca.crt", "models": [row]}
    assert endpoint(plan, "chat") == {
        "url": "https://llm.home/v1",
        "model": "small",
        "key_file": None,
        "clients_file": "/c.yml",
        "ca_file": "/ca.crt",
    }


def test_what_is_not_planned_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(AnsibleError, match="no service 'chta' is planned; write \"chat\""):
        endpoint(planned(tmp_path), "chta")
    with pytest.raises(AnsibleError, match=r"no service 'chat' is planned; .*no recipe .gpt-oss-20bb."):
        endpoint(planned(tmp_path, recipe="gpt-oss-20bb"), "chat")
