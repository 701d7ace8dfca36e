# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may call the gateway: the owner's file of names and keys, and what a gateway is given of it.

A gateway knows digests alone: who takes its files has no key. Keys are long and made by chance, so that nobody finds
them from a digest.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from ..._base.findings import Finding, error
from ..._base.place import Place
from ..._base.yaml_text import read_yaml

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,60}")
# As a service's own key (`_plan.keys`): a header's value without quoting, and long enough.
_KEY = re.compile(r"[A-Za-z0-9._~+/=][A-Za-z0-9._~+/=-]{15,4095}")
# In the place of a key that its client alone has: a gateway needs no more.
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ROW = re.compile(r"([0-9A-F]{64}) (\S+)")
_EXPECTED = "one line a client, NAME: KEY, the key of at least 16 characters of A-Z, a-z, 0-9 and ._~+/=-"


def client_problems(place: Place, path: str, text: str) -> Iterator[Finding]:
    """Why a file of keys can't work. No key is in a finding: findings are printed and kept."""
    try:
        read: Any = read_yaml(text)
    except ValueError as cause:  # whose words may show a part of a key
        mark = getattr(cause.__cause__, "problem_mark", None)
        yield _problem(place, f"{path}{f', line {mark.line + 1}' if mark else ''}: no YAML", "mend that line")
        return
    if not isinstance(read, dict) or not read:
        yield _problem(place, f"{path} names no client", f'echo "me: $(openssl rand -hex 32)" >> {path}')
        return
    wrong = [name for name in read if not isinstance(name, str) or not _NAME.fullmatch(name)]
    if wrong:
        found = f"{path}: {len(wrong)} of the clients' names are none"
        yield _problem(place, found, "use letters, 0-9 and .-_@, at most 61 of them")
    holders: dict[str, int] = {}
    # by their places: a name may be a key, where both are exchanged
    for number, key in enumerate(read.values(), 1):
        if not isinstance(key, str) or not (_KEY.fullmatch(key) or _DIGEST.fullmatch(key)):
            fault = "too short, or not one word" if isinstance(key, str) else "no text"
            remedy = "write what `openssl rand -hex 32` prints, in quotes if it is a number"
            yield _problem(place, f"{path}: the key of client {number} in it is {fault}", remedy)
        elif (first := holders.setdefault(key, number)) != number:
            words = f"{path}: clients {first} and {number} in it have the same key"
            yield _problem(place, words, "give each its own: a key names its client")


def _problem(place: Place, found: str, remedy: str) -> Finding:
    return error("input-gateway-keys", place, found=found, expected=_EXPECTED, remedy=remedy)


def clients_map(text: str) -> str:
    """The file of a gateway, one line a client: SHA-256 of its key in the form in which HAProxy's ``hex`` writes it,
    and its name. text: the owner's file. ValueError, without a word of it, for one that `client_problems` refuses."""
    rows = sorted((_digest(key).upper(), name) for name, key in _clients(text).items())
    return "".join(f"{digest} {name}\n" for digest, name in rows)


def clients_file(there: str) -> str:
    """An owner's file from a gateway's, with the digest in the place of each key; empty for any other file."""
    rows = [_ROW.fullmatch(line) for line in there.splitlines()]
    return "".join(f'"{row[2]}": sha256:{row[1].lower()}\n' for row in rows if row) if all(rows) else ""


def _digest(key: str) -> str:
    return key.removeprefix("sha256:") if _DIGEST.fullmatch(key) else hashlib.sha256(key.encode()).hexdigest()


def first_key(text: str) -> str:
    """The first key of the file, by which the gateway is proved. text: as above."""
    keys = (key for key in _clients(text).values() if not _DIGEST.fullmatch(key))
    if (key := next(keys, None)) is None:
        raise ValueError("expected the key of one client at least, to prove the gateway by")
    return key


def names_of(text: str) -> frozenset[str]:
    """The clients' names; none in a file that `client_problems` refuses."""
    return frozenset() if next(client_problems(Place(), "", text), None) is not None else frozenset(_clients(text))


def key_of(text: str, name: str) -> str:
    """The key of a client. ValueError, without a word of the file, where it has none."""
    clients = _clients(text)
    if name not in clients or _DIGEST.fullmatch(clients[name]):
        raise ValueError(f'no key of the client "{name}"')
    return clients[name]


def _clients(text: str) -> dict[str, str]:
    if next(client_problems(Place(), "", text), None) is not None:
        raise ValueError(f"expected {_EXPECTED}")
    clients: dict[str, str] = read_yaml(text)
    return clients
