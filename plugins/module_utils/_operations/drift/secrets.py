# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host holds the owner's secrets, without showing anybody what they are.

A secret may be a word that somebody thought up, and a plain digest of it, in a report or in what ``-vvv`` prints, could
be tried out at home. So each call of a host gets a random salt, which its module keeps out of everything it says. What
the host answers is an HMAC under that salt: neither question nor answer alone reveals anything. The controller, which
knows both, keeps a yes or no, and forgets the rest.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..._base.findings import Difference
from ..._base.managed import Managed
from ..._base.place import Place
from ..._host.probe.files import salted


def new_salt() -> str:
    return secrets.token_hex(32)


def compared(
    files: Mapping[str, Mapping[str, Any]], wanted: Iterable[Managed], salt: str, read: Callable[[str], str]
) -> dict[str, dict[str, Any]]:
    """The files that a host has read, with ``same`` instead of each ``salted``.

    read: the text of a file of the controller's. same: None, with the reason in ``why``, where that can't be read.
    """
    found = {path: dict(file) for path, file in files.items()}
    for one in wanted:
        if one.source and found[one.path]["kind"] == "file":
            found[one.path] |= _same(found[one.path].pop("salted", ""), one, salt, read)
    return found


def same_on_all(plan: Mapping[str, Any], states: Mapping[str, Mapping[str, Any]]) -> Iterator[Difference]:
    """The secret of each group, which its head made: a rank that has another one can't join after its next start.

    states: read under one salt, so that equal secrets have equal digests. They were made by chance and are long, so
    that nobody finds them from a digest.
    """
    for service in plan["services"]:
        ranks = {host: one for host in states for one in plan["hosts"][host]["services"] if one["name"] == service}
        for host, one in ranks.items():
            head = one["secret"]["head"] if one["secret"] else host
            here, there = (_digest(states.get(name), one) for name in (host, head))
            if host != head and here and there and here != there:
                yield Difference(
                    rule="rank-secret-differs",
                    severity="error",
                    at=Place(host=host, service=service, thing=f"file {one['secret']['path']}"),
                    found="another secret than the head's",
                    expected=f"the group's secret, as on {head}",
                    remedy=f"ansible-playbook site.yml -l {','.join(sorted(one['hosts']))} gives it the head's",
                    reason="supervisors that don't share it don't speak with each other after the next start",
                )


def _digest(state: Mapping[str, Any] | None, service: Mapping[str, Any]) -> str:
    files = (state or {}).get("files") or {}
    return str((files.get(service["secret"]["path"]) or {}).get("salted") or "") if service["secret"] else ""


def _same(there: str, one: Managed, salt: str, read: Callable[[str], str]) -> dict[str, Any]:
    try:
        here = salted(one.rendered(read(one.source)).encode(), salt)
    except Exception as error:  # whatever it is, a wrong Vault password too: the file is unknown, not clean
        return {"same": None, "why": f"{one.source} can't be read on the controller: {error}"}
    if not there:
        return {"same": None, "why": "the host has not said what it holds"}
    return {"same": hmac.compare_digest(here, there)}
