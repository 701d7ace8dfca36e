# SPDX-License-Identifier: GPL-3.0-or-later
"""Models: the same bytes that were staged and verified, and no others."""

from collections.abc import Iterator, Mapping
from posixpath import commonpath
from typing import Any

from ..._base.findings import first_of
from ..._base.reading import Model
from ..._base.slice import StoredModel
from ..._base.subject import Differences, DriftContext, Questions, Subject
from .reading import READS


def _questions(asked: Questions) -> Mapping[str, Any]:
    models = asked.slice["models"]
    return {"models": [{key: model[key] for key in ("repository", "revision")} for model in models]}


def _differences(view: DriftContext) -> Differences:
    """Each model's files as they were when they were verified; and, of those read tonight, each byte."""
    present = view.state["models"]
    if present is None:
        return
    for model in view.slice["models"]:
        name = model["repository"]
        have = present["models"][name]
        if have["broken"]:
            yield view.differs(
                "error",
                "model-record",
                f"model {name}",
                found=have["broken"],
                expected="a sealed manifest",
                reason="nobody knows any more whether its files are what was verified",
            )
        if have["access"]:
            around = commonpath(have["access"])
            yield view.differs(
                "error",
                "model-access",
                f"model {name}",
                found=f"others may change {first_of(have['access'])}",
                expected="files that root alone writes",
                # what has another name elsewhere is an owner's too
                remedy=f"look who made it so, then: find {around} '(' -type d -o -links 1 ')' "
                "-exec chown root:root '{}' + -exec chmod u+rwX,go-w '{}' +",
                reason="who can change the weights can change what the service answers",
            )
        if have["closed"]:
            yield view.differs(
                "error",
                "model-unreadable",
                f"model {name}",
                found=f"a container can't read {first_of(have['closed'])}",
                expected="files that root without capabilities can read, as it is in there",
                remedy=f"run {view.converge()}: it names the command that opens them to root alone",
                reason="the next start of its service fails",
            )
        for rule, expected, found in _wrong(model, have):
            yield view.differs("error", rule, f"model {name}", found=found, expected=expected)
    for name in sorted({*present["others"]} - {*view.settings["expect"]["models"]}):
        yield view.differs(
            "hint",
            "model-undeclared",
            f"model {name}",
            found="its files are in the cache",
            expected="nobody declared it",
            remedy="remove it with the tasks file prune.yml of model_store, or declare it: fleet_drift.expect.models",
        )
    for name, digest in sorted((view.state["deep"] or {"bad": {}})["bad"].items()):
        yield view.differs(
            "error",
            "model-bytes",
            f"weights {name}",
            found=f"sha256 {digest[:12]}",
            expected="the bytes that were verified",
            remedy=f"move the file away and run {view.converge()}; look at the disk: sudo smartctl -a /dev/nvme0",
            reason="its size and time are as before: the disk or memory changed it",
        )


def _wrong(wanted: StoredModel, have: Model) -> Iterator[tuple[str, str, str]]:
    if have["revision"] is None:
        yield "model-missing", wanted["revision"] or "a verified revision", "none"
    lock = wanted["lock"]
    revision, seal = have["revision"] or "", have["seal"]
    if lock and seal and (revision, seal) != (lock["revision"], lock["seal"]):
        found = f"revision {revision[:12]}, seal {seal[:12]}"
        yield "model-other", f"revision {lock['revision'][:12]}, seal {lock['seal'][:12]}, as locked", found
    if have["gone"]:
        yield "model-file-missing", "all files of the revision", f"missing: {_some(have['gone'])}"
    if have["changed"]:
        yield "model-file-changed", "files as they were verified", f"another size or time: {_some(have['changed'])}"


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


MODELS = Subject("models", questions=_questions, read=READS, differences=_differences)
