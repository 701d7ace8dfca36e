# SPDX-License-Identifier: GPL-3.0-or-later
"""The local CA that a host trusts, and the certificates of the services whose head it is, and of the gateway."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..._base import layout, worded
from ..._base.findings import Finding
from ..._base.gb10 import fact
from ..._base.managed import Managed
from ..._base.place import Place
from ..._base.slice import Certified, Slice, TrustSlice
from ..._base.subject import Differences, DriftContext, Questions, SliceContext, Subject
from .reading import READS


def problems(read: Mapping[str, Any], names: Collection[str]) -> Iterator[Finding]:
    """read: of a certificate, ``{names, days_left, days_until}`` and, where its key was read too, ``of_key``; or
    ``{why}``, a sentence, where it can't be read. days_left: until it ends. days_until: it begins, below 0 since then.
    names: by which clients reach the service.
    """
    if read.get("why"):
        yield worded.error("certificate-unreadable", Place(), found=read["why"])
        return
    if not read.get("of_key", True):
        yield worded.error("certificate-key", Place())
    left, until, least = read["days_left"], read["days_until"], fact("tls", "ending_days")
    if left < 0:
        yield worded.error("certificate-ended", Place(), ago=-left)
    elif left < least:
        yield worded.warning("certificate-ending", Place(), left=left, least=least)
    if until > 0:
        yield worded.error("certificate-early", Place(), until=until)
    missing = [name for name in names if not any(_covers(own, name) for own in read["names"])]
    if missing:
        has = ", ".join(read["names"]) or "no name at all"
        yield worded.warning("certificate-names", Place(), has=has, missing=", ".join(missing))


def of_owner(place: Place, tls: Mapping[str, Any], read: Mapping[str, object]) -> Iterator[Finding]:
    """What is wrong with a certificate of the owner's, before a run. place: where it is declared. tls: of the
    service's or the gateway's slice. read: as above."""
    certificate, key = (tls[kind]["source"] for kind in ("certificate", "key"))
    for problem in problems(read, tls["names"]):
        remedy = f"have it renewed, with its key in {key}; or tls: local for one that the collection makes"
        found = f"{certificate}: {problem.found}"
        yield replace(problem, at=place.below("tls", "certificate"), found=found, remedy=remedy)


def _covers(own: str, name: str) -> bool:
    """RFC 6125: a star stands for one whole label, the first."""
    own, name = own.lower(), name.lower()
    return own == name or (own.startswith("*.") and name.partition(".")[2] == own[2:])


def _trusted(here: SliceContext) -> TrustSlice:
    """``tls``: path: where a host keeps the certificate of the local CA of this inventory, whose name is ``inventory``.
    source: that certificate on the controller; None where neither a service nor the gateway has one of it."""
    name = here.fleet["name"]
    return {"path": layout.trusted_ca(name), "source": here.fleet["ca"], "inventory": name}


def trusted(part: TrustSlice) -> Iterator[Managed]:
    """The local CA on a host, or that there is none. part: ``tls`` of its slice."""
    if part["source"]:
        yield Managed(part["path"], "file", "0644", source=part["source"])
    else:
        yield Managed(part["path"], "absent")


def _shown(slice_: Slice) -> list[tuple[str, Certified]]:
    """The services of a host that have a certificate, and the gateway."""
    gateway = slice_["gateway"]
    served = [(service["name"], service["tls"]) for service in slice_["services"] if service["tls"]]
    return [*served, *([("gateway", gateway["tls"])] if gateway else [])]


def _questions(asked: Questions) -> Mapping[str, Any]:
    return {"certificates": [tls["certificate"]["path"] for _, tls in _shown(asked.slice)]}


def _differences(view: DriftContext) -> Differences:
    """What clients are shown: one that is not there, or another than the controller's, is reported with the files."""
    read = view.state["certificates"] or {}
    for service, tls in _shown(view.slice):
        path, own = tls["certificate"]["path"], tls["ca"] is None
        for problem in problems(read[path], tls["names"]) if read.get(path) else ():
            remedy = f"renew {tls['certificate']['source']} and its key, then {view.converge()}" if own else ""
            reason = "clients refuse what a certificate does not prove"
            yield view.of_finding(replace(problem, remedy=remedy, reason=reason), f"file {path}", service)


TRUST = Subject("tls", slice=_trusted, files=trusted, questions=_questions, read=READS, differences=_differences)
