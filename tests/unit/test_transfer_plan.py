# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who brings what from where."""

from __future__ import annotations

from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.plan import (
    access,
    routes,
    with_peers,
    with_sources,
)
from hypothesis import given
from hypothesis import strategies as st

NO_FABRIC: dict[str, Any] = {"interfaces": []}


def cabled(*peers: tuple[str, str | None]) -> dict[str, Any]:
    """A host's fabric slice: other hosts and their addresses, one interface each."""
    return {"interfaces": [{"peers": [{"host": host, "address": address}]} for host, address in peers]}


def management(*hosts: str) -> dict[str, tuple[str, int]]:
    return {host: (f"10.0.0.{number}", 2200 + number) for number, host in enumerate(hosts, 1)}


def peer(host: str, address: str, port: int) -> dict[str, Any]:
    return {"host": host, "address": address, "port": port}


def image(**source: str) -> dict[str, Any]:
    return {"reference": "vllm:1", "digest": None, "source": source}


def peers_of(planned: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    return {host: [peer["host"] for entry in entries for peer in entry["peers"]] for host, entries in planned.items()}


def test_the_fabric_is_the_best_way_and_the_management_network_the_last() -> None:
    fabric = {"a": cabled(("b", "192.168.100.2"), ("b", "192.168.101.2")), "b": cabled(("a", None)), "c": NO_FABRIC}
    reach = routes(fabric, management("a", "b", "c"))
    assert reach["a"]["b"] == [("192.168.100.2", 2202), ("10.0.0.2", 2202)]
    assert reach["b"]["a"] == [("10.0.0.1", 2201)]
    assert reach["c"]["a"] == [("10.0.0.1", 2201)]


def test_one_host_downloads_and_the_others_pass_it_on() -> None:
    hosts = ("a", "b", "c")
    reach = routes(dict.fromkeys(hosts, NO_FABRIC), management(*hosts))
    planned, findings = with_peers({host: [image(kind="registry")] for host in hosts}, reach)
    assert findings == []
    assert peers_of(planned) == {"a": [], "b": ["a"], "c": ["b", "a"]}
    assert planned["c"][0]["peers"] == [peer("b", "10.0.0.2", 2202), peer("a", "10.0.0.1", 2201)]


def test_a_named_host_is_the_origin_whether_it_wants_it_itself_or_not() -> None:
    reach = routes(dict.fromkeys("abc", NO_FABRIC), management("a", "b", "c"))
    planned, _ = with_peers({"a": [image(kind="host", host="c")], "b": [image(kind="host", host="c")], "c": []}, reach)
    assert peers_of(planned) == {"a": ["c"], "b": ["a", "c"], "c": []}
    planned, _ = with_peers({"a": [image(kind="host", host="b")], "b": [image(kind="host", host="b")], "c": []}, reach)
    assert peers_of(planned) == {"a": ["b"], "b": [], "c": []}


def test_archives_and_folders_are_each_hosts_own() -> None:
    reach = routes(dict.fromkeys("ab", NO_FABRIC), management("a", "b"))
    planned, _ = with_peers({host: [image(kind="archive", path="/x.tar")] for host in "ab"}, reach)
    assert peers_of(planned) == {"a": [], "b": []}


def test_a_chain_follows_the_cables() -> None:
    """a - c - b are cabled in a row; the inventory names them a, b, c."""
    fabric = {"a": cabled(("c", "f.c")), "b": cabled(("c", "f.c")), "c": cabled(("a", "f.a"), ("b", "f.b"))}
    reach = routes(fabric, management("a", "b", "c"))
    planned, _ = with_peers({host: [image(kind="registry")] for host in "abc"}, reach)
    assert planned["c"][0]["peers"] == [peer("a", "f.a", 2201), peer("a", "10.0.0.1", 2201)]
    assert planned["b"][0]["peers"] == [peer("c", "f.c", 2203), peer("a", "10.0.0.1", 2201)]


def test_different_pins_have_nothing_to_do_with_each_other() -> None:
    reach = routes(dict.fromkeys("ab", NO_FABRIC), management("a", "b"))
    one, other = image(kind="registry") | {"digest": "sha256:1"}, image(kind="registry") | {"digest": "sha256:2"}
    planned, _ = with_peers({"a": [one], "b": [other]}, reach)
    assert peers_of(planned) == {"a": [], "b": []}


def test_an_unknown_source_is_an_error_with_a_remedy() -> None:
    reach = routes(dict.fromkeys(("titan", "beast"), NO_FABRIC), management("titan", "beast"))
    planned, findings = with_peers({"titan": [image(kind="host", host="baest")], "beast": []}, reach)
    assert [(finding.rule, finding.remedy) for finding in findings] == [("source-host-unknown", 'write "beast"')]
    assert findings[0].place == "titan: vllm:1: source.host"
    assert peers_of(planned)["titan"] == []


def test_access_is_asked_for_each_peer_once() -> None:
    reach = routes(dict.fromkeys("ab", NO_FABRIC), management("a", "b"))
    images, _ = with_peers({host: [image(kind="registry")] for host in "ab"}, reach)
    models, _ = with_peers({host: [image(kind="hub")] for host in "ab"}, reach)
    assert access(images, models, fabric=dict.fromkeys("ab", NO_FABRIC)) == {
        "a": {"reads": {}, "readers": {"b": []}},
        "b": {"reads": {"a": ["10.0.0.1"]}, "readers": {}},
    }


def test_a_reader_comes_from_its_own_ends_of_the_cables_to_the_source() -> None:
    fabric = {"a": cabled(("b", "f.b")), "b": cabled(("a", "f.a"), ("a", "g.a"), ("c", "h.c")), "c": NO_FABRIC}
    for interface, own in zip(fabric["b"]["interfaces"], ("f.b/24", "g.b/24", "h.b/24"), strict=True):
        interface["address"] = own
    images, _ = with_peers({host: [image(kind="registry")] for host in "abc"}, routes(fabric, management(*"abc")))
    who = access(images, fabric=fabric)
    assert who["a"]["readers"] == {"b": ["f.b", "g.b"], "c": []}
    assert who["b"]["reads"] == {"a": ["10.0.0.1", "f.a"]}


def test_the_plan_gets_all_of_it_at_once() -> None:
    images = {host: [image(kind="registry")] for host in "ab"}
    planned, findings = with_sources(
        images, dict.fromkeys("ab", ()), dict.fromkeys("ab", NO_FABRIC), management("a", "b")
    )
    assert findings == []
    assert planned["b"]["images"][0]["peers"] == [peer("a", "10.0.0.1", 2201)]
    assert planned["a"]["peer_access"] == {"reads": {}, "readers": {"b": []}}
    assert planned["a"].keys() == {"images", "models", "peer_access"}


@given(st.integers(2, 12), st.data())
def test_a_chain_reaches_everyone_from_the_origin(count: int, data: st.DataObject) -> None:
    """Whoever is asked first gets it from somebody nearer to the origin, and everybody can fall back to the origin."""
    hosts = [f"h{number}" for number in range(count)]
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(hosts), st.sampled_from(hosts)), max_size=20))
    joined = {(one, other) for one, other in pairs if one != other}
    joined |= {(other, one) for one, other in joined}
    fabric = {host: cabled(*((other, f"f.{other}") for one, other in sorted(joined) if one == host)) for host in hosts}
    planned, _ = with_peers({host: [image(kind="hub")] for host in hosts}, routes(fabric, management(*hosts)))
    first = {host: peers[0] for host, peers in peers_of(planned).items() if peers}
    assert set(first) == set(hosts[1:])
    for host in first:
        assert peers_of(planned)[host][-1] == "h0"
        seen = [host]
        while seen[-1] != "h0":
            assert first[seen[-1]] not in seen
            seen.append(first[seen[-1]])
