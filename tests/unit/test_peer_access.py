# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is let in, to do what, and whom this host knows."""

from __future__ import annotations

import re

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.reading import local
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.access import (
    addresses_in,
    authorized_keys,
    bare,
    given_by,
    is_of_another,
    known_hosts,
    options,
    sudoers,
    unknown_hosts,
)
from hypothesis import given
from hypothesis import strategies as st

ONE, OTHER, NEW = "ssh-ed25519 AAAA1", "ssh-ed25519 AAAA2", "ssh-ed25519 AAAA3"
AT = {"b": ["10.0.0.2", "192.168.100.2"], "c": ["10.0.0.3"]}
B, BOTH = {"b": []}, {"b": [], "c": []}


def test_a_reader_may_start_one_program_from_its_own_addresses_and_nothing_else() -> None:
    [line] = authorized_keys("", B, {"b": f"{ONE} root@b"}, AT).splitlines()
    start = 'command="sudo -n /usr/local/lib/gb10-fleet/peer-serve"'
    assert line == f'restrict,from="10.0.0.2,192.168.100.2",{start} {ONE} gb10-peer@b'


def test_who_reads_no_more_is_let_in_no_more_and_others_keep_their_keys() -> None:
    found = authorized_keys("", BOTH, {"b": ONE, "c": OTHER}, AT)
    assert authorized_keys(found, BOTH, {}, {}) == found
    assert authorized_keys(found, BOTH, {"b": NEW}, {"b": []}) == found
    assert authorized_keys(found, {"c": []}, {"b": ONE}, AT) == authorized_keys("", {"c": []}, {"c": OTHER}, AT)
    assert NEW in authorized_keys(found, BOTH, {"b": NEW}, AT)
    assert ONE not in authorized_keys(found, BOTH, {"b": NEW}, AT)


def test_a_reader_without_a_key_or_an_address_is_not_let_in() -> None:
    assert authorized_keys("", B, {"b": ""}, AT) == ""
    assert authorized_keys("", B, {"b": ONE}, {}) == ""
    assert authorized_keys("somebody's own line\n", {}, {}, {}) == ""


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        (sudoers("home"), "home"),
        ('gb10-peer ALL=(root) NOPASSWD: /usr/local/lib/gb10-fleet/peer-serve ""\n', ""),
        ("# Inventory=a b\n", ""),
        ("", ""),
    ],
)
def test_the_rule_for_sudo_names_the_inventory_whose_readers_are_let_in(rule: str, given: str) -> None:
    assert given_by(rule) == given
    assert [is_of_another(given, name) for name in ("home", "work")] == [False, bool(given)]


@pytest.mark.parametrize(
    ("addresses", "written"),
    [
        (["10.0.0.12", "10.0.0.2", "10.0.0.2"], "10.0.0.2,10.0.0.12"),
        (["2001:db8:0:1:a:b:c:d", "10.0.0.2", "2001:db8:0:1::7"], "10.0.0.2,2001:db8:0:1::/64"),
    ],
)
def test_ipv6_addresses_are_let_in_by_their_networks(addresses: list[str], written: str) -> None:
    assert f'from="{written}"' in options(addresses)
    assert options(addresses_in(options(addresses))) == options(addresses)


HOSTILE = (
    *("*", "0.0.0.0/0", "::/0", "10.0.0.0/8", "0.0.0.0", "::", "127.0.0.1", "::1", "224.0.0.1", "ff02::1", "!10.0.0.1"),
    *('10.0.0.1"', '10.0.0.1",pty,command="sh', "10.0.0.1\n", "10.0.0.1,*", "10.0.0.1 ", "", "host.lan", "10.0.0.1 b"),
    *("2001:db8::1/1", "fe80::1%eth0,*"),
)


@pytest.mark.parametrize("address", HOSTILE)
def test_a_reader_names_its_addresses_and_nothing_else(address: str) -> None:
    with pytest.raises(ValueError, match=r"address|prefix"):
        options(["10.0.0.2", address])


@pytest.mark.parametrize("named", [*([one] for one in HOSTILE), 7, {"x": 1}, [None], [["10.0.0.1"]], "10.0.0.1", True])
def test_a_reader_that_names_something_else_keeps_its_line_and_harms_nobody(named: object) -> None:
    found = authorized_keys("", BOTH, {"b": ONE, "c": OTHER}, AT)
    assert authorized_keys(found, BOTH, {"b": NEW, "c": OTHER}, AT | {"b": named}) == found
    assert authorized_keys("", B, {"b": NEW}, {"b": named}) == ""


KEYS = (
    *("", "x", "ssh-ed25519", "ssh-rsa AAAA", 'command="sh" ssh-ed25519 AAAA', "ssh-ed25519 AAAA\\x", 7, None, ["x"]),
    *("ssh-ed25519 AAAA,BBBB", "ssh-ed25519\nAAAA", "* ssh-ed25519 AAAA", "@cert-authority * ssh-ed25519 AAAA"),
)


@pytest.mark.parametrize("key", KEYS)
def test_what_is_no_key_lets_nobody_in_and_pins_no_host(key: object) -> None:
    assert bare(key) == ""
    assert authorized_keys("", B, {"b": key}, AT) == ""
    assert known_hosts("", ["b"], {"b": key}) == ""


@given(st.text())
def test_whatever_a_host_calls_its_key_its_line_is_one(text: str) -> None:
    for key in (text, f"{ONE} {text}", f"{ONE}{text}"):
        assert len(authorized_keys("", B, {"b": key}, AT).splitlines()) <= 1
        assert re.fullmatch(r"(ssh-ed25519 [A-Za-z0-9+/]+=*)?", bare(key))


@pytest.mark.parametrize("count", [0, 65])
def test_a_reader_has_some_addresses_and_no_more_than_a_host_has(count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} addresses"):
        options(f"10.0.0.{number}" for number in range(1, count + 1))


@given(st.lists(st.text() | st.ip_addresses().map(str), max_size=4))
def test_whatever_a_reader_names_its_line_has_three_options(addresses: list[str]) -> None:
    try:
        found = options(addresses)
    except ValueError:
        return
    assert re.fullmatch(r'restrict,from="[0-9a-f:./,]+",command="[^"]+"', found)


def test_a_host_knows_from_where_it_reaches_others() -> None:
    assert local(["127.0.0.1", "no.such.host.invalid"]) == ["127.0.0.1"]


def test_host_keys_are_known_by_name() -> None:
    found = known_hosts("", ["a", "b"], {"a": f"{ONE} root@a"})
    assert found == f"a {ONE}\n"
    assert known_hosts(found, ["a"], {}) == found
    both = f"a {ONE}\nb {OTHER}\n"  # which another inventory may need
    assert known_hosts(found, ["b"], {"a": NEW, "b": OTHER}) == known_hosts(both, [], {}) == both
    assert known_hosts(both, ["a", "b"], {"a": NEW}) == f"a {NEW}\nb {OTHER}\n"
    assert unknown_hosts(found, ["b", "a", "c"]) == ["b", "c"]
