# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""titan is the gateway and serves a model that spark-2 serves too; spark-2 asks, as a client that trusts the CA."""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml
from testinfra.host import Host

testinfra_hosts = ["ssh://spark-2"]
pytestmark = pytest.mark.story

SCENARIO = Path(__file__).resolve().parents[1]
FLEET: dict[str, Any] = yaml.safe_load((SCENARIO / "vars" / "fleet.yml").read_text("utf-8"))
CLIENTS: dict[str, str] = yaml.safe_load((SCENARIO / "vars" / "clients.yml").read_text("utf-8"))
TITAN, SPARK_2 = "10.77.0.11", "10.77.0.12"
UNIT = "gb10-gateway.service"
Playbook = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def titan(host: Host) -> Host:
    return testinfra.get_host("ssh://titan", ssh_config=host.backend.ssh_config, sudo=True)


def converge(playbook: Playbook, retire: str = "", **changes: Any) -> subprocess.CompletedProcess[str]:
    return playbook(str(SCENARIO / "converge.yml"), "--extra-vars", json.dumps(FLEET | changes | {"retire": retire}))


def ask(host: Host, path: str, body: Any = None, key: str = CLIENTS["anna"], options: str = "") -> tuple[int, Any]:
    """Status and JSON of the gateway's answer."""
    data = f"-H 'Content-Type: application/json' -d '{json.dumps(body)}'" if body is not None else ""
    done = host.check_output(
        f"curl -s -m 60 --resolve llm.lab:443:{TITAN} -w '\\n%{{http_code}}' {options} {data}"
        f" -H 'Authorization: Bearer {key}' https://llm.lab{path}"
    )
    text, _, status = done.rpartition("\n")
    return int(status), json.loads(text)


def chat(host: Host, model: str = "tiny", **others: Any) -> tuple[int, Any]:
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, "model": model}
    return ask(host, "/v1/chat/completions", body, **others)


def test_who_has_a_key_reaches_each_model_by_its_names(host: Host) -> None:
    assert [chat(host, name)[0] for name in ("tiny", "gpt-4o")] == [200, 200]
    assert sorted(one["id"] for one in ask(host, "/v1/models")[1]["data"]) == ["gpt-4o", "tiny"]
    assert ask(host, "/v1/models/tiny")[1]["id"] == "tiny"


def test_refusals_have_openais_form(host: Host) -> None:
    large = "--data-binary @/tmp/large"
    host.check_output("truncate -s 34M /tmp/large")
    answers = {
        401: chat(host, key="wrong-key-of-nobody"),
        404: chat(host, "none"),
        413: ask(host, "/v1/chat/completions", options=f"--http1.1 {large}"),
    }
    assert {wanted: status for wanted, (status, _) in answers.items()} == {401: 401, 404: 404, 413: 413}
    assert {*answers[401][1]["error"]} == {"message", "type", "param", "code"}
    assert "gpt-4o, tiny" in answers[404][1]["error"]["message"]


def test_a_body_of_pictures_passes_with_the_model_behind_it(host: Host) -> None:
    """Beside those that the gateway reads itself, and also where a model is nobody's. What a tiny model refuses (400)
    has reached it; the stand-in reads no body without a length."""
    write = 'import json; print(json.dumps({"messages": [{"role": "user", "content": "x" * %d}], "model": "%s"}))'
    for size, model, status in ((20_000_000, "none", 404), (20_000_000, "tiny", 400), (220_000, "tiny", 400)):
        host.check_output("python3 -c %s > /tmp/pictures", write % (size, model))
        without_length = ["--http1.1 -H Transfer-Encoding:chunked"] if model == "none" else []
        kind = "-H Content-Type:application/json"
        for options in ("--http1.1", "--http2", *without_length):
            answered = ask(host, "/v1/chat/completions", options=f"{options} {kind} --data-binary @/tmp/pictures")
            assert answered[0] == status, (size, model, options, answered)


def test_plain_http_is_sent_on(host: Host) -> None:
    answer = host.check_output(f"curl -s -o /dev/null -w '%{{http_code}} %{{redirect_url}}' http://{TITAN}/v1/models")
    assert answer == f"308 https://{TITAN}/v1/models"


def test_services_are_the_gateways_alone(host: Host, titan: Host) -> None:
    assert host.run(f"curl -s -m 5 http://{TITAN}:8000/health").rc != 0
    assert titan.run("curl -s -m 60 http://127.0.0.1:8000/health").rc == 0
    assert titan.run(f"curl -s -m 60 https://spark-2:8000/health --resolve spark-2:8000:{SPARK_2}").rc == 0


def test_no_key_of_a_client_is_on_the_gateway(titan: Host) -> None:
    for first, *rest in CLIENTS.values():
        # so that sudo's line of this very command does not match it
        asked = f"[{first}]{''.join(rest)}"
        assert titan.run(f"grep -rl '{asked}' /etc /run/gb10-gateway /var/log").stdout == ""
    assert not titan.service("haproxy").is_running and not titan.service("haproxy").is_enabled


SHOW_STAT = """
import socket
connection = socket.socket(socket.AF_UNIX)
connection.connect("/run/gb10-gateway/admin.sock")
connection.sendall(b"show stat\\n")
while part := connection.recv(65536): print(part.decode(), end="")
"""


def until_the_gateway_has(titan: Host, status: str) -> None:
    """The replica on spark-2."""
    seen = f"python3 -c '{SHOW_STAT}' | grep -q '^chat-a,chat-b,.*,{status},'"
    titan.check_output("timeout 300 sh -c %s", f"until {seen}; do sleep 1; done")


def test_a_replica_that_stops_takes_no_request_along(host: Host, titan: Host) -> None:
    host.check_output("systemctl stop gb10-service-chat-b.service")
    assert [chat(host)[0] for _ in range(8)] == [200] * 8
    # else who next waits for it to be up would see what it was before
    until_the_gateway_has(titan, "DOWN")
    host.check_output("systemctl start gb10-service-chat-b.service")


def test_what_a_host_took_and_never_answered_is_answered_by_another(host: Host, titan: Host) -> None:
    """Its engine computes nothing, and then its container is gone."""
    until_the_gateway_has(titan, "UP")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        # the brackets keep the pattern from matching the shell that runs this very command
        host.check_output("pkill -STOP -f [v]llm_stand_in.engine")
        both = [pool.submit(chat, host) for _ in range(2)]
        try:
            # one for each replica: the other's is answered at once
            concurrent.futures.wait(both, return_when=concurrent.futures.FIRST_COMPLETED)
            assert sum(one.done() for one in both) == 1
        finally:  # a failure here is not to be that of the tests after it, too
            host.check_output("docker kill gb10-service-chat-b")
        assert [one.result()[0] for one in both] == [200, 200]


def test_a_withdrawn_key_and_a_stream_under_way(host: Host, titan: Host, playbook: Playbook, tmp_path: Path) -> None:
    """The files are read anew by a process beside the first, which goes on with its answers."""
    clients = tmp_path / "clients.yml"
    clients.write_text(json.dumps({"anna": CLIENTS["anna"]}))
    clients.chmod(0o600)
    first = titan.check_output(f"systemctl show -P MainPID {UNIT}")
    run = converge(playbook, fleet_gateway=FLEET["fleet_gateway"] | {"keys_file": str(clients)})
    assert run.returncode == 0, run.stdout
    assert (chat(host)[0], chat(host, key=CLIENTS["bert"])[0]) == (200, 401)
    assert titan.check_output(f"systemctl show -P MainPID {UNIT}") == first


def drift(playbook: Playbook) -> str:
    """What differs on titan, as the report has it."""
    variables = json.dumps(FLEET | {"drift_format": "json"})
    output = playbook("drift.yml", "-l", "titan", "--extra-vars", variables).stdout
    start = output.index("\n{\n") + 1
    report = json.loads(output[start : output.index("\n}\n", start) + 2])
    return "\n".join(f"{one['rule']} {one['resource']}" for one in report["findings"])


def test_drift_names_a_changed_file_and_is_clean_without(titan: Host, playbook: Playbook) -> None:
    assert converge(playbook).returncode == 0
    titan.check_output("echo 0000 nobody >> /etc/gb10-fleet/gateway/clients.map")
    found = drift(playbook)
    assert "gateway/clients.map" in found and "gateway-unread" in found
    assert converge(playbook).returncode == 0
    assert "gateway" not in drift(playbook)
