# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many failures as the few causes that they have: what may differ within one, and what tells two apart."""

from __future__ import annotations

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.causes import Cause, by_cause, spans
from hypothesis import given
from hypothesis import strategies as st

HOSTS = [f"spark-{number:03}" for number in range(1, 301)]


@pytest.mark.parametrize(
    ("sentences", "text"),
    [
        (["no route to titan.lan", "no route to beast.lan"], "no route to HOST.lan"),
        (["root@titan: Permission denied", "root@beast: Permission denied"], "root@HOST: Permission denied"),
        (["10.0.0.7 port 22: refused", "10.0.0.12 port 22: refused"], "10.0.0.7, 10.0.0.12 port 22: refused"),
        (["fe80::1 is away.", "fe80::2 is away."], "fe80::1, fe80::2 is away."),
        (["of 02:00:00:00:00:0a", "of 02:00:00:00:00:0b"], "of 02:00:00:00:00:0a, 02:00:00:00:00:0b"),
        (["9.5 GiB free, expected 80 GiB", "41 GiB free, expected 80 GiB"], "9.5 to 41 GiB free, expected 80 GiB"),
        (["1,024 tokens, 3% used", "512 tokens, 12% used"], "512 to 1,024 tokens, 3 to 12% used"),
        (["since 2026-11-23T10:00:00Z", "since 2026-11-23T11:30:01Z"],
         "since 2026-11-23T10:00:00Z, 2026-11-23T11:30:01Z"),
        (["sha256:0123456789ab is no", "sha256:ba9876543210 is no"], "sha256:0123456789ab, ba9876543210 is no"),
        (["pid 17 has it", "pid 4711 has it"], "pid 17, 4711 has it"),
        (["gb10-service-chat.service failed", "gb10-service-code-large.service failed"],
         "gb10-service-chat, code-large.service failed"),
        (["waits for rank 1 on beast", "waits for rank 1 on titan"], "waits for rank 1 on beast, titan"),
    ],
)  # fmt: skip
def test_one_cause(sentences: list[str], text: str) -> None:
    found = by_cause(zip(["titan", "beast"], sentences, strict=True), ["titan", "beast", "chat", "code-large"])
    assert found == [Cause(("beast", "titan"), text)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["exit status 1", "exit status 137"],
        ["port 8000 is taken", "port 8001 is taken"],
        ["HTTP 401", "HTTP 500"],
        ["driver 580.95", "driver 590.44"],
        ["no file a.gguf", "no file b.gguf"],
        ["9 MiB free", "9 GiB free"],
        ["titan is away", "it is away"],
        ["", "no route"],
        ["rule R112", "rule R113"],
    ],
)
def test_two_causes(sentences: list[str]) -> None:
    assert [one.text for one in by_cause(zip(["titan", "beast"], sentences, strict=True))] == sentences


def test_three_hundred_hosts_with_three_causes() -> None:
    """Each with its own name, address and free memory in its sentence."""
    sentences = (
        "ssh: connect to host {host}.lan port 22: No route to host",
        "/var/lib/docker: {number}.5 GiB free; expected 80 GiB; free room there [disk-short]",
        "chat-{host}: gb10-service-chat-{host} of 10.0.1.{byte} is masked; systemctl unmask it [unit-masked]",
    )
    reasons = [
        (host, sentences[number // 100].format(host=host, number=number, byte=number % 100))
        for number, host in enumerate(HOSTS)
    ]
    causes = by_cause(reasons, [*HOSTS, *(f"chat-{host}" for host in HOSTS)])
    assert [one.paragraph() for one in causes] == [
        "spark-001 to spark-100: ssh: connect to host HOST.lan port 22: No route to host",
        "spark-101 to spark-200: /var/lib/docker: 100.5 to 199.5 GiB free; expected 80 GiB; free room there "
        "[disk-short]",
        "spark-201 to spark-300: chat-spark-201, chat-spark-202, chat-spark-203 and 97 more: gb10-service-"
        "chat-spark-201, chat-spark-202, chat-spark-203 and 97 more of 10.0.1.0, 10.0.1.1, 10.0.1.2 and 97 more "
        "is masked; systemctl unmask it [unit-masked]",
    ]


def test_that_of_most_hosts_is_first_and_a_host_is_counted_once() -> None:
    reasons = [("a", "one"), ("b", "two"), ("c", "two"), ("c", "two"), ("d", "three")]
    assert [(one.text, one.hosts) for one in by_cause(reasons)] == [
        ("two", ("b", "c")),
        ("one", ("a",)),
        ("three", ("d",)),
    ]


def test_names_that_are_too_long_to_come_first_have_a_line() -> None:
    odd = HOSTS[::2]
    [cause] = by_cause((host, "no route") for host in odd)
    assert cause.paragraph() == "150 hosts: no route\n" + ", ".join(odd)


@pytest.mark.parametrize(
    ("hosts", "shown"),
    [
        (["titan"], "titan"),
        (["spark-2", "spark-3"], "spark-2, spark-3"),
        (["spark-8", "spark-9", "spark-10"], "spark-8 to spark-10"),
        (["n099", "n100", "n101", "n103"], "n099 to n101, n103"),
        (["a1.lan", "a2.lan", "a3.lan", "b4.lan"], "a1.lan to a3.lan, b4.lan"),
        (["a1", "a02", "a3"], "a1, a02, a3"),
        ([], ""),
    ],
)
def test_all_hosts_are_named(hosts: list[str], shown: str) -> None:
    assert spans(hosts) == shown


TEXT = st.text(st.sampled_from("ab0139 .,:-%GiBs\nspark\u0661²"), max_size=60) | st.text(max_size=60)


@given(TEXT, st.sets(st.text("ab1-.", min_size=1, max_size=5), max_size=4))
def test_a_sentence_alone_is_shown_as_it_is(text: str, names: set[str]) -> None:
    assert by_cause([("a-1", text)], names) == [Cause(("a-1",), text)]
    assert by_cause([("a-1", text), ("b", text)], names) == [Cause(("a-1", "b"), text)]


@given(st.lists(st.tuples(st.sampled_from(HOSTS), TEXT), max_size=12))
def test_no_host_is_lost(reasons: list[tuple[str, str]]) -> None:
    causes = by_cause(reasons, HOSTS)
    assert {host for one in causes for host in one.hosts} == {host for host, _text in reasons}
    assert len({one.text for one in causes}) <= len({text for _host, text in reasons})
    assert [one.text for one in by_cause(reasons, HOSTS)] == [one.text for one in causes]


def test_a_hosts_endless_sentence_takes_no_endless_time() -> None:
    """A host may send anything: as many steps as characters, whatever they are."""
    for piece in ("1", "a.", "a-", "0:", ":", "1,", "1.1.", "9 "):
        [cause] = by_cause([("titan", piece * 20_000)], HOSTS)
        assert len(cause.text) == len(piece) * 20_000
