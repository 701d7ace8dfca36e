# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One service on one host: it answers who has the key, shows it to nobody, and is retired when it is renamed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]

SCENARIO = Path(__file__).resolve().parents[1]
DECLARED: dict[str, Any] = yaml.safe_load((SCENARIO / "vars" / "fleet.yml").read_text("utf-8"))["fleet_services"]
KEY = (SCENARIO / "vars" / "key.txt").read_text("utf-8").strip()
Playbook = Callable[..., "subprocess.CompletedProcess[str]"]


def converge(playbook: Playbook, retire: str, **services: Any) -> subprocess.CompletedProcess[str]:
    variables = {"fleet_services": services, "retire": retire}
    return playbook(str(SCENARIO / "converge.yml"), "--extra-vars", json.dumps(variables))


def status(host: Host, port: int, key: str) -> str:
    """HTTP status of a request for the list of models."""
    return host.run(
        f"curl -s -m 60 -o /dev/null -w '%{{http_code}}' -H 'Authorization: Bearer {key}'"
        f" http://127.0.0.1:{port}/v1/models"
    ).stdout


def units(host: Host) -> list[str]:
    return [name for name in host.file("/etc/systemd/system").listdir() if name.startswith("gb10-service-")]


def test_it_answers_who_has_the_key(host: Host) -> None:
    assert (status(host, 8000, KEY), status(host, 8000, "wrong")) == ("200", "401")
    assert units(host) == ["gb10-service-tiny.service"]


def test_the_key_is_in_no_argument_and_no_file_that_others_read(host: Host) -> None:
    assert KEY not in host.check_output("ps -eo args")
    assert KEY not in host.check_output("docker inspect gb10-service-tiny")
    readable = host.check_output("find /etc/gb10-fleet /etc/systemd/system /run/gb10-fleet -type f -perm /044")
    assert KEY not in "".join(host.file(path).content_string for path in readable.splitlines())


def test_another_image_of_the_same_name_restarts_it(host: Host, playbook: Playbook) -> None:
    """harm.md S6: what runs is not what lies there."""
    name = host.check_output("docker inspect --format '{{.Config.Image}}' gb10-service-tiny")
    both = f'docker inspect --format \'{{{{or (index . "Image") (index . "Id")}}}}\' gb10-service-tiny {name}'
    host.check_output(f"docker commit --change 'LABEL mended=yes' gb10-service-tiny {name}")
    assert len({*host.check_output(both).split()}) == 2
    run = converge(playbook, retire="", **DECLARED)
    assert run.returncode == 0, run.stdout
    assert len({*host.check_output(both).split()}) == 1
    assert status(host, 8000, KEY) == "200"


def test_another_name_and_port_retire_the_first(host: Host, playbook: Playbook) -> None:
    run = converge(playbook, retire="tiny", renamed={**DECLARED["tiny"], "port": 8001})
    assert run.returncode == 0, run.stdout
    assert units(host) == ["gb10-service-renamed.service"]
    assert (status(host, 8001, KEY), status(host, 8000, KEY)) == ("200", "000")
