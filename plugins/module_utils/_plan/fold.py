# SPDX-License-Identifier: GPL-3.0-or-later
"""One mistake, one error: what follows from another finding is left out, and what the plan computed is not blamed.

An owner can change what he wrote. A rule that finds fault with a value that the plan computed from a workload speaks of
the workload; where the memory doesn't suffice at all, that is the finding, and the rest follows from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from .._base.findings import Finding, uncovered
from .._base.place import ARGV, Place

# A finding, and the hosts that it concerns: none for the whole fleet.
Concerned = tuple[Finding, tuple[str, ...]]
_SIZES = {"--max-model-len": "max_model_len", "--max-num-seqs": "max_num_seqs"}
_LOWER = "lower max_model_len or max_num_seqs of the workload, which it is computed from"


def folded(
    found: Sequence[Concerned], sized: Mapping[str, Iterable[str]], workloads: Mapping[str, Iterable[str]]
) -> list[Concerned]:
    """The findings without consequences of others.

    sized: the options of each service that its memory was computed for. workloads: the sizes that each service's
    workload declares.
    """
    errors = [item for item in found if item[0].severity == "error"]
    short = {host for one, hosts in errors if one.kind == "memory" for host in (hosts or [one.host])}
    fabric_is_wrong = any(one.at.variable == "fleet_fabric" for one, _ in errors)
    # what else there is to say of a value that can't be is of no use
    wrong = {(one.service, _bare(one)) for one, _ in errors if one.rule == "catalogue-wrong-value"}
    standing = {*uncovered(one for one, _ in found)}
    kept = []
    for one, hosts in found:
        is_sized = _is_word(one) and one.option.removeprefix("--") in sized.get(one.service, ())
        is_of_wrong = one.severity != "error" and (one.service, _bare(one)) in wrong
        if one not in standing or is_of_wrong or (is_sized and short.intersection(hosts)):
            continue
        if one.rule == "fabric-group-unconnected" and fabric_is_wrong:
            continue
        kept.append((_in_the_owners_words(one, workloads, is_sized=is_sized), hosts))
    return kept


def _bare(finding: Finding) -> str:
    """An option's name, wherever it was found."""
    return (finding.option or finding.at.part).rpartition(".")[2].removeprefix("--").replace("_", "-")


def _is_word(finding: Finding) -> bool:
    """Whether it is about an option of a service's launch."""
    return bool(finding.service and finding.at.part == ARGV and finding.option)


def _in_the_owners_words(finding: Finding, workloads: Mapping[str, Iterable[str]], *, is_sized: bool) -> Finding:
    """A finding about an option, at the place where the owner wrote what it comes from."""
    if not _is_word(finding):
        return finding
    place = Place(service=finding.service, option="workload")
    if is_sized:
        found = f"{finding.option} {finding.found}".removesuffix(" ")
        return replace(finding, at=place, found=found, remedy=_LOWER)
    size = _SIZES.get(finding.option, "")
    return replace(finding, at=place.below(size)) if size in workloads.get(finding.service, ()) else finding
