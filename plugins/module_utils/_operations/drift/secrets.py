# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host holds the owner's secrets, without showing anybody what they are.

A secret may be a word that somebody thought up, and a plain digest of it, in a report or in what ``-vvv`` prints, could
be tried out at home. So each call of a host gets a random salt, which its module keeps out of everything it says. What
the host answers is an HMAC under that salt: neither question nor answer alone reveals anything. The controller, which
knows both, keeps a yes or no, and forgets the rest.
"""

import hmac
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import cast

from ..._base.findings import Difference
from ..._base.managed import Managed
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.ranks import with_groups
from ..._base.reading import FileAnswer, FileState, State
from ..._base.received import Foreign
from ..._base.slice import ServiceSlice
from ..._host.probe.files import salted


def new_salt() -> str:
    return secrets.token_hex(32)


def compared(
    files: Mapping[str, FileAnswer], wanted: Iterable[Managed], salt: str, read: Callable[[str], str]
) -> dict[str, FileState]:
    """The files that a host has read, with ``same`` instead of each ``salted``.

    read: the text of a file of the controller's. same: None, with the reason in ``why``, where that can't be read.
    """
    found = {path: cast(FileState, dict(file)) for path, file in files.items()}
    for item in wanted:
        file = found[item.path]
        if item.source and file["kind"] == "file":
            file["same"], why = _same(file.pop("salted", ""), item, salt, read)
            if why:
                file["why"] = cast(Foreign, why)
    return found


def same_on_all(plan: Plan, states: Mapping[str, State]) -> Iterator[Difference]:
    """The secret of each group, which its head made: a rank that has another one can't join after its next start.

    states: read under one salt, so that equal secrets have equal digests. They were made by chance and are long, so
    that nobody finds them from a digest.
    """
    for service in plan["services"]:
        ranks = {host: one for host in states for one in plan["hosts"][host]["services"] if one["name"] == service}
        for host, one in ranks.items():
            secret = one["secret"]
            head = secret["head"] if secret else host
            here, there = (_digest(states.get(name), one) for name in (host, head))
            if secret and host != head and here and there and here != there:
                yield Difference(
                    rule="rank-secret-differs",
                    severity="error",
                    at=Place(host=host, service=service, thing=f"file {secret['path']}"),
                    found="another secret than the head's",
                    expected=f"the group's secret, as on {head}",
                    remedy=f"ansible-playbook site.yml -l {with_groups(plan, one['hosts'])} gives it the head's",
                    reason="supervisors that don't share it don't speak with each other after the next start",
                )


def _digest(state: State | None, service: ServiceSlice) -> str:
    if not service["secret"] or state is None:
        return ""
    file = (state["files"] or {}).get(service["secret"]["path"])
    return file.get("salted", "") if file else ""


def _same(there: str, managed: Managed, salt: str, read: Callable[[str], str]) -> tuple[bool | None, str]:
    try:
        here = salted(managed.rendered(read(managed.source)).encode(), salt)
    except Exception as error:  # whatever it is, a wrong Vault password too: the file is unknown, not clean
        return None, f"{managed.source} can't be read on the controller: {error}"
    if not there:
        return None, "the host has not said what it holds"
    return hmac.compare_digest(here, there), ""
