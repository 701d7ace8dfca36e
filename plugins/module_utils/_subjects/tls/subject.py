# SPDX-License-Identifier: GPL-3.0-or-later
"""The local CA that a host trusts, and the certificates of the services whose head it is, and of the gateway."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..._base import layout
from ..._base.managed import Managed
from ..._base.slice import Certified, Slice, TrustSlice
from ..._base.subject import Differences, DriftContext, Questions, SliceContext, Subject
from .judge import problems
from .reading import READS


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
            yield view.difference(
                problem.severity,
                problem.rule,
                f"file {path}",
                found=problem.found,
                expected=problem.expected,
                remedy=f"renew {tls['certificate']['source']} and its key, then {view.converge()}" if own else "",
                reason="clients refuse what a certificate does not prove",
                service=service,
            )


TRUST = Subject("tls", slice=_trusted, files=trusted, questions=_questions, read=READS, differences=_differences)
