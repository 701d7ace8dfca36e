# SPDX-License-Identifier: GPL-3.0-or-later
"""Models: the same bytes that were staged and verified, and no others."""

from collections.abc import Iterator, Mapping
from posixpath import commonpath
from typing import Any

from ..._base.findings import first_of
from ..._base.reading import Model
from ..._base.received import Foreign, one_line
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
            yield view.differs("error", "model-record", f"model {name}", found=have["broken"])
        if have["access"]:
            around = commonpath(have["access"])
            access = first_of([*map(one_line, have["access"])])
            yield view.differs("error", "model-access", f"model {name}", access=access, around=around)
        if have["closed"]:
            yield view.differs(
                "error",
                "model-unreadable",
                f"model {name}",
                closed=first_of([*map(one_line, have["closed"])]),
                converge=view.converge(),
            )
        for rule, expected, found in _wrong(model, have):
            yield view.difference("error", rule, f"model {name}", found=found, expected=expected)
    for name in sorted({*present["others"]} - {*view.settings["expect"]["models"]}):
        yield view.differs("hint", "model-undeclared", f"model {name}")
    for name, digest in sorted((view.state["deep"] or {"bad": {}})["bad"].items()):
        yield view.differs("error", "model-bytes", f"weights {name}", digest=digest[:12], converge=view.converge())


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


def _some(paths: list[Foreign]) -> str:
    return ", ".join(map(one_line, paths[:3])) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


MODELS = Subject("models", questions=_questions, read=READS, differences=_differences)
