# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The files by which one host lets others read its images and models, and by which it reads theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.gb10.fleet.plugins.module_utils import _layout

ACCOUNT = "gb10-peer"
HOME = _layout.PEER_HOME
PROGRAM = _layout.PEER_PROGRAM
FOLDER = _layout.PEER
KEY = f"{FOLDER}/id_ed25519"
KNOWN_HOSTS = f"{FOLDER}/known_hosts"
PLACES = f"{FOLDER}/places.json"
AUTHORIZED_KEYS = f"{HOME}/.ssh/authorized_keys"
SUDOERS = "/etc/sudoers.d/gb10-peer"
# The account may start the program without arguments, and nothing else, as root.
SUDOERS_TEXT = f'{ACCOUNT} ALL=(root) NOPASSWD: {PROGRAM} ""\n'

OPTIONS = f'restrict,command="sudo -n {PROGRAM}"'


def authorized_keys(found: str, readers: Iterable[str], keys: Mapping[str, str]) -> str:
    """The account's ``authorized_keys``: one line for each reader, and none for anybody else.

    found: the file as it is. keys: public keys (``ssh-ed25519 ...``) by host name; a reader without one keeps the key
    that it has.
    """
    lines = {line.rpartition(f"{ACCOUNT}@")[2]: line for line in found.splitlines()}
    lines |= {name: f"{OPTIONS} {bare(key)} {ACCOUNT}@{name}" for name, key in keys.items() if key}
    return "".join(f"{lines[name]}\n" for name in sorted(set(readers)) if name in lines)


def known_hosts(found: str, reads: Iterable[str], keys: Mapping[str, str]) -> str:
    """The hosts' SSH host keys by inventory name, whatever address they are reached at. Arguments as above."""
    lines = {line.partition(" ")[0]: line for line in found.splitlines()}
    lines |= {name: f"{name} {bare(key)}" for name, key in keys.items() if key}
    return "".join(f"{lines[name]}\n" for name in sorted(set(reads)) if name in lines)


def unknown_hosts(known: str, reads: Iterable[str]) -> list[str]:
    """Hosts to read from whose host keys the file ``known`` does not have."""
    names = {line.partition(" ")[0] for line in known.splitlines()}
    return sorted(set(reads) - names)


def bare(key: str) -> str:
    """A public key without its comment."""
    return " ".join(key.split()[:2])
