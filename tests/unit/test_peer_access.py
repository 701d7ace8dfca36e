# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is let in, to do what, and whom this host knows."""

from __future__ import annotations

from ansible_collections.gb10.fleet.plugins.module_utils._transfer.access import (
    authorized_keys,
    known_hosts,
    unknown_hosts,
)

ONE, OTHER, NEW = "ssh-ed25519 AAAA1", "ssh-ed25519 AAAA2", "ssh-ed25519 AAAA3"


def test_a_reader_may_start_one_program_and_nothing_else() -> None:
    [line] = authorized_keys("", ["b"], {"b": f"{ONE} root@b"}).splitlines()
    assert line == f'restrict,command="sudo -n /usr/local/lib/gb10-fleet/peer-serve" {ONE} gb10-peer@b'


def test_who_reads_no_more_is_let_in_no_more_and_others_keep_their_keys() -> None:
    found = authorized_keys("", ["b", "c"], {"b": ONE, "c": OTHER})
    assert authorized_keys(found, ["b", "c"], {}) == found
    assert authorized_keys(found, ["c"], {"b": ONE}) == authorized_keys("", ["c"], {"c": OTHER})
    assert NEW in authorized_keys(found, ["b", "c"], {"b": NEW})
    assert ONE not in authorized_keys(found, ["b", "c"], {"b": NEW})


def test_a_reader_without_a_key_is_not_let_in() -> None:
    assert authorized_keys("", ["b"], {"b": ""}) == ""
    assert authorized_keys("somebody's own line\n", [], {}) == ""


def test_host_keys_are_known_by_name() -> None:
    found = known_hosts("", ["a", "b"], {"a": f"{ONE} root@a"})
    assert found == f"a {ONE}\n"
    assert known_hosts(found, ["a"], {}) == found
    assert known_hosts(found, ["b"], {"b": OTHER}) == f"b {OTHER}\n"
    assert unknown_hosts(found, ["b", "a", "c"]) == ["b", "c"]
