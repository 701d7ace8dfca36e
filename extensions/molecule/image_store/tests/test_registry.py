# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each store pulled by digest, once; what a registry does not give is reported with its reason."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from testinfra.host import Host

Playbook = Callable[..., "subprocess.CompletedProcess[str]"]
testinfra_hosts = ["ssh://titan", "ssh://spark-2", "ssh://spark-3"]

REGISTRY = "10.77.0.11:5000"
RECORD = "/var/lib/gb10-fleet/images/10.77.0.11%3A5000%2Fpulled%3A1.json"


def test_it_was_fetched_by_its_digest_and_the_digest_is_on_record(host: Host) -> None:
    if host.backend.hostname == "titan":
        return
    digest = json.loads(host.file(RECORD).content_string)["images"][0]["digest"]
    known = host.check_output(f"docker image inspect --format '{{{{json .RepoDigests}}}}' {REGISTRY}/pulled:1")
    assert f"{REGISTRY}/pulled@{digest}" in json.loads(known)


def test_only_the_first_run_took_bytes(host: Host) -> None:
    """Of the config and the one layer, for two hosts."""
    if host.backend.hostname == "titan":
        log = host.check_output("journalctl --unit docker-registry --output cat")
        assert log.count('"GET /v2/pulled/blobs/') == 4


@pytest.mark.parametrize(
    ("reference", "sentences"),
    [
        (f"{REGISTRY}/pulled:1", ["not found; expected an image that 10.77.0.11:5000 has"]),
        ("10.77.0.11:5001/pulled:1", ["no basic auth credentials", "docker login 10.77.0.11:5001"]),
    ],
)
def test_what_can_not_be_pulled_is_reported_by_each_host(
    playbook: Playbook, reference: str, sentences: list[str]
) -> None:
    digest = f"sha256:{64 * '1'}"
    variables = json.dumps({"reference": reference, "digest": digest})
    run = playbook("extensions/molecule/image_store/refused.yml", "--extra-vars", variables)
    output = " ".join(run.stdout.split() + run.stderr.split())
    for sentence in sentences:
        assert sentence in output
    assert output.count("failed=1") == 2
    assert digest in output
