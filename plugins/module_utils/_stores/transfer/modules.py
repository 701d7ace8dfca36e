# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules that bring images and models, and remove earlier ones, have in common."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..._base.findings import FleetError, refusal
from ..._base.place import Place
from ..._base.schema import check
from ..._base.staging import Progress, in_the_way
from ..._base.typed import spec_of


def run(module: Any, prune: Callable[[Any], list[Any]], line: Callable[[Any], str]) -> None:
    """Remove by ``prune`` and end the module. line: one of what was removed, or would be, as the diff shows it."""
    try:
        removed = prune(module)
    except FleetError as error:
        module.fail_json(msg=str(error), findings=[finding.as_dict() for finding in error.findings])
    diff = {"before": "".join(f"{line(entry)}\n" for entry in removed), "after": ""}
    module.exit_json(changed=bool(removed), removed=removed, diff=diff)


def bring(module: Any, converge: Callable[[Any, Progress], dict[str, Any]], folder: str) -> None:
    """Bring by ``converge`` and end the module. folder: the parameter with the place of what the system refuses."""
    file = module.params["progress_file"]
    progress = Progress(Path(file) if file else None)
    try:
        result = converge(module, progress)
    except OSError as problem:
        error = in_the_way(problem, Path(module.params[folder]), progress)
        module.fail_json(msg=str(error), findings=[finding.as_dict() for finding in error.findings])
    except FleetError as error:
        module.fail_json(msg=str(error), findings=[finding.as_dict() for finding in error.findings])
    module.exit_json(**result)


def entries(kind: str, form: type, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is wanted. What an earlier task has renewed on the host that others fetch from is renewed no second time.

    form: of an entry, its type in the slice of the plan.
    """
    wanted, findings = check({"type": "list", "elements": spec_of(form)}, parameters[kind], kind)
    if findings:
        raise FleetError(*findings)
    for index, entry in enumerate(wanted):
        if entry["source"]["kind"] in ("archive", "path", "bundle") and "path" not in entry["source"]:
            place = Place(variable=kind).below(index, "source", "path")
            raise refusal("schema-required", place, found="missing", expected="a path on the host")
    is_renewed = parameters["is_renewed"]
    return [{**entry, "renew": entry["renew"] and not (is_renewed and not entry["peers"])} for entry in wanted]
