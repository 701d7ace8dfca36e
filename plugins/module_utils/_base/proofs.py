# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a rule or a row may refuse, and since when: ``data/proofs.yml``, and the same keys of ``data/known_bad.yml``."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .findings import F
from .gb10 import data_file

Proof = Mapping[str, Any]


@functools.cache
def proofs() -> Mapping[str, Proof]:
    """The proof of each rule that refuses, by its id."""
    table: dict[str, Proof] = data_file("proofs")
    return table


def proven(finding: F, proof: Proof | None, reported: str = "") -> F:
    """A finding with the date of its proof; a refusal that a newer report contradicts is a warning.

    reported: when somebody saw just this launch run, as its recipe says; empty where nobody did.
    """
    if proof is None:
        return finding
    own = [{"date": reported, "report": "the recipe's own status"}] if reported else []
    newest = max([*proof.get("against", ()), *own], key=lambda item: str(item["date"]), default=None)
    if finding.severity != "error" or newest is None or str(newest["date"]) <= proof["since"]:
        return replace(finding, since=proof["since"])
    otherwise = f"but {newest['report']} of {newest['date']} shows it otherwise"
    reason = f"{finding.reason}; {otherwise}" if finding.reason else otherwise
    return replace(finding, severity="warning", since=proof["since"], reason=reason)
