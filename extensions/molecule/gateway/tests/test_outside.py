# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway as strangers see it: OpenAI's own client, and what testssl.sh looks at, asked of OpenSSL by hand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml
from testinfra.host import Host

testinfra_hosts = ["ssh://spark-2"]

SCENARIO = Path(__file__).resolve().parents[1]
LAB = SCENARIO.parents[2] / "tests" / "lab" / "lab"
KEY: str = yaml.safe_load((SCENARIO / "vars" / "clients.yml").read_text("utf-8"))["anna"]
TITAN, NAME = "10.77.0.11", "llm.lab"


@pytest.fixture
def ca(host: Host, tmp_path: Path) -> Path:
    """The local CA, of a host that trusts it."""
    file = tmp_path / "ca.crt"
    file.write_text(host.check_output("cat /usr/local/share/ca-certificates/gb10-fleet-*.crt"))
    return file


def in_the_lab(*words: str | Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    """A program of this machine in the lab's network."""
    return subprocess.run(lab_net(*words), input=typed, capture_output=True, text=True, timeout=180, check=False)


def lab_net(*words: str | Path) -> list[str]:
    return [str(LAB), "-d", os.environ["GB10_LAB_DIR"], "net", "--", *map(str, words)]


def asking(task: str, ca: Path) -> tuple[str | Path, ...]:
    return (sys.executable, SCENARIO / "outside.py", task, ca, TITAN, KEY)


def outside(task: str, ca: Path) -> Any:
    done = in_the_lab(*asking(task, ca))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_openais_own_client(ca: Path) -> None:
    seen = outside("uses", ca)
    assert seen["models"] == ["gpt-4o", "tiny"]
    assert len(seen["answer"]) == len(seen["completion"]) == 4 and len(seen["streamed"]) == 16
    wrong_key, unknown, pictures = seen["wrong key"], seen["unknown model"], seen["pictures"]
    assert (wrong_key["kind"], wrong_key["code"]) == ("AuthenticationError", "invalid_api_key")
    assert (unknown["kind"], unknown["code"]) == ("NotFoundError", "model_not_found")
    assert "gpt-4o, tiny" in unknown["message"]
    # 20 MB came to the engine whole: its own refusal counts them, since the tiny model reads pictures as text
    assert pictures["kind"] == "BadRequestError" and "at least 20000" in pictures["message"]


def engines(host: Host, signal: str) -> None:
    titan = testinfra.get_host("ssh://titan", ssh_config=host.backend.ssh_config, sudo=True)
    for one in (host, titan):
        # the brackets keep the pattern from matching the shell that runs this very command
        one.check_output(f"pkill -{signal} -f [v]llm_stand_in.engine")


def test_too_many_at_once_read_when_to_come_back(host: Host, ca: Path) -> None:
    """Two engines take eight each, four more wait. Who was taken has its answer when the engines go on."""
    engines(host, "STOP")
    try:
        with subprocess.Popen(lab_net(*asking("overload", ca)), stdout=subprocess.PIPE, text=True) as forty:
            assert forty.stdout
            first = json.loads(forty.stdout.readline())
            engines(host, "CONT")
            every = json.loads(forty.stdout.read())
    finally:
        engines(host, "CONT")
    refused = [one for one in every if one]
    assert len(first) == 10 and all(one in refused for one in first)
    assert {(one["kind"], one["code"], one["retry_after"], one["type"]) for one in refused} == {
        ("RateLimitError", "rate_limit_exceeded", "5", "application/json")
    }
    assert 16 <= len(every) - len(refused) < 30


# What testssl.sh looks at -----------------------------------------------------------------------------------------


def handshake(ca: Path, *words: str, typed: str = "") -> str:
    """What OpenSSL says of one, with everything allowed on its side that it still knows."""
    command = ("openssl", "s_client", "-connect", f"{TITAN}:443", "-servername", NAME, "-CAfile", ca, *words)
    done = in_the_lab(*command, typed=typed)
    return done.stdout + done.stderr


def cipher(ca: Path, *words: str) -> str:
    """The one that was agreed on; (NONE) for none."""
    return re.findall(r"^New, .*Cipher is (\S+)$", handshake(ca, *words), re.MULTILINE)[0]


@pytest.mark.parametrize("protocol", ["tls1", "tls1_1"])
def test_old_protocols_are_refused(ca: Path, protocol: str) -> None:
    assert cipher(ca, f"-{protocol}", "-cipher", "ALL:COMPLEMENTOFALL:@SECLEVEL=0") == "(NONE)"


def test_new_protocols_are_there_and_the_chain_and_names_hold(ca: Path) -> None:
    for protocol in ("tls1_2", "tls1_3"):
        for name in (NAME, "titan"):
            output = handshake(ca, f"-{protocol}", "-verify_hostname", name)
            assert "Verify return code: 0 (ok)" in output and "Compression: NONE" in output
            assert "Server Temp Key: X25519" in output and "Peer signing digest: SHA256" in output
    assert "hostname mismatch" in handshake(ca, "-verify_hostname", "other.lab")
    assert "Verify return code: 0" not in handshake(Path("/etc/ssl/certs/ca-certificates.crt"))


@pytest.mark.parametrize(
    "ciphers",
    [
        "NULL:eNULL:aNULL",
        "EXPORT:LOW:3DES:RC4:IDEA:SEED:CAMELLIA:ARIA",
        "kRSA",  # without forward secrecy
        "DHE:ADH",
        "PSK:SRP",
        "ECDHE:!AESGCM:!CHACHA20",  # CBC, CCM
    ],
)
def test_ciphers_without_authenticated_encryption_and_forward_secrecy_are_refused(ca: Path, ciphers: str) -> None:
    assert cipher(ca, "-tls1_2", "-cipher", f"{ciphers}:@SECLEVEL=0") == "(NONE)"


@pytest.mark.parametrize("ciphers", ["ECDHE+AESGCM", "ECDHE+CHACHA20"])
def test_todays_ciphers_are_taken(ca: Path, ciphers: str) -> None:
    assert cipher(ca, "-tls1_2", "-cipher", ciphers) != "(NONE)"


def test_no_client_negotiates_anew_and_no_ticket_is_given(ca: Path) -> None:
    assert "no renegotiation" in handshake(ca, "-tls1_2", typed="R\n")
    assert "Secure Renegotiation IS supported" in handshake(ca, "-tls1_2")  # RFC 5746: nothing can be put before
    assert "TLS session ticket:" not in handshake(ca, "-tls1_2")


def test_the_certificate_is_of_this_day_and_strong(ca: Path, tmp_path: Path) -> None:
    shown = handshake(ca, "-showcerts")
    file = tmp_path / "own.crt"
    file.write_text(shown[shown.index("-----BEGIN") : shown.index("-----END CERTIFICATE-----") + 26])
    words = ("openssl", "x509", "-in", str(file), "-noout", "-text", "-checkend", "86400")
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "Certificate will not expire" in text and "CA:TRUE" not in text
    assert re.search(r"Public-Key: \((256|384|2048|3072|4096) bit\)", text) and "sha1" not in text.lower()


def test_browsers_come_by_tls_alone_to_its_own_name(host: Host) -> None:
    headers = f"curl -s -D - -o /dev/null --resolve {NAME}:443:{TITAN} https://"
    for path in ("/health", "/v1/models", "/"):  # answers of all kinds
        assert "strict-transport-security: max-age=31536000" in host.check_output(f"{headers}{NAME}{path}").lower()
    # by a host's name other programs are reached, too, which may know no TLS
    assert "strict-transport" not in host.check_output(f"{headers}titan/health --resolve titan:443:{TITAN}").lower()


def test_without_tls_nothing_is_answered_on_its_port(host: Host) -> None:
    assert host.run(f"curl -s -m 10 http://{TITAN}:443/v1/models").stdout == ""
    sent_on = host.check_output(f"curl -s -m 10 -o /dev/null -w '%{{http_code}} %{{size_download}}' http://{TITAN}/")
    assert sent_on == "308 0"
