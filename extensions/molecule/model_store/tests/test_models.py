# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each model is where vLLM finds it offline, in the layout of the hub's own cache, and proved to the byte."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from testinfra.host import Host

testinfra_hosts = ["ssh://titan", "ssh://spark-2", "ssh://spark-3"]

HUB = "/var/lib/gb10-fleet/hf/hub"
REVISION = "0123456789abcdef0123456789abcdef01234567"
MODELS = {"titan": ["linked", "copied"], "spark-2": ["linked"], "spark-3": ["downloaded"]}


def records(host: Host) -> list[dict[str, Any]]:
    folders = [f"/var/lib/gb10-fleet/models/models--demo--{name}" for name in MODELS[host.backend.hostname]]
    return [json.loads(host.check_output(f"cat {folder}/*.json")) for folder in folders]


def snapshot(record: dict[str, Any]) -> str:
    manifest = record["manifest"]
    return f"{HUB}/models--{manifest['repository'].replace('/', '--')}/snapshots/{manifest['revision']}"


def test_every_file_is_there_and_is_what_the_manifest_states(host: Host) -> None:
    for record in records(host):
        sums = "".join(f"{file['sha256']}  {file['path']}\n" for file in record["manifest"]["files"])
        assert len(record["manifest"]["files"]) == 4
        host.check_output(f"cd {snapshot(record)} && printf '%s' '{sums}' | sha256sum --check --strict")


def test_the_manifest_is_sealed(host: Host) -> None:
    for record in records(host):
        text = json.dumps(record["manifest"], sort_keys=True, separators=(",", ":"))
        assert record["seal"] == hashlib.sha256(text.encode()).hexdigest()


def test_a_container_that_mounts_the_store_alone_sees_the_files(host: Host) -> None:
    """No link leads out of it."""
    for record in records(host):
        for file in record["manifest"]["files"]:
            assert host.check_output(f"realpath {snapshot(record)}/{file['path']}").startswith(f"{HUB}/")


def test_main_is_that_revision(host: Host) -> None:
    for record in records(host):
        manifest = record["manifest"]
        assert host.file(f"{snapshot(record)}/../../refs/main").content_string == manifest["revision"]
        assert manifest["revision"] == REVISION or manifest["repository"] == "demo/copied"


def test_a_folder_takes_room_once_where_it_can(host: Host) -> None:
    if host.backend.hostname == "titan":
        links = {record["manifest"]["repository"]: snapshot(record) for record in records(host)}
        shard = "model-1.safetensors"
        assert host.check_output(f"stat --dereference --format %h {links['demo/linked']}/{shard}") == "2"
        assert host.check_output(f"stat --dereference --format %h {links['demo/copied']}/{shard}") == "1"


def test_nothing_is_left_of_token_and_transfer(host: Host) -> None:
    others = "/run/gb10-fleet-hub-token-of-another"
    is_lent = host.backend.hostname == "spark-3"
    assert host.run("ls -d /run/gb10-fleet-*").stdout.split() == ([others] if is_lent else [])
    if is_lent:
        assert host.file(others).content_string == "hf_of-another-run"
    assert host.run("find /var/lib/gb10-fleet/hf/.staging -type f -size +0").stdout == ""
