# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.export: the plan in, another scheduler's files out; runs on the controller."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.findings import ordered
from ..module_utils._base.own_files import replace_file
from ..module_utils._operations.export import gpustack, kubernetes
from ..module_utils._operations.export.service import Carried
from ..module_utils._operations.export.text import Changes, as_text, changes
from ..plugin_utils._documented import OnController
from ..plugin_utils._screen import show, warn

_SUFFIX = ".yml"
Options = Mapping[str, Any]
# What a service is there, and what comes next.
_TARGETS: Mapping[str, tuple[Callable[[str, Options], Carried], str]] = {
    "kubernetes": (
        lambda name, options: kubernetes.carried(options["plan"], name, options["rdma_resource"]),
        "Make the Secrets that each file names, then: kubectl apply -f {folder}",
    ),
    "gpustack": (
        lambda name, options: gpustack.carried(options["plan"], name),
        "Import each on the page Deployments of GPUStack, which shows what would change first",
    ),
}


class ActionModule(OnController):
    _before = "nothing was written: "

    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        plan, folder = options["plan"], Path(options["folder"]).absolute()
        carried, then = _TARGETS[options["target"]]
        services = {name: carried(name, options) for name in sorted(options["services"])}
        findings = ordered(finding for service in services.values() for finding in service.findings)
        refused = [finding.sentence() for finding in findings if finding.severity == "error"]
        warned = [finding.sentence() for finding in findings if finding.severity != "error"]
        wanted = {f"{name}{_SUFFIX}": as_text(service) for name, service in services.items() if service.documents}
        if not wanted:
            raise AnsibleActionFail("nothing was written: " + ("\n".join(refused) or "the plan has no service"))
        whole = {*options["services"]} == {*plan["services"]}
        there = _texts(folder)
        todo = changes(wanted, there, str(folder), whole=whole)
        if not self._task.check_mode:
            _write(folder, todo)
        for sentence in refused:
            warn(f"not written: {sentence}")
        for sentence in warned:
            warn(sentence)
        show("\n".join([*_summary(folder, wanted, todo, check=self._task.check_mode), then.format(folder=folder)]))
        return {
            "changed": bool(todo.write or todo.remove),
            "files": [str(folder / name) for name in wanted],
            "removed": [str(folder / name) for name in todo.remove],
            "refused": refused,
            "warnings_of_services": warned,
            "diff": [
                {
                    "before": there.get(name, ""),
                    "after": todo.write.get(name, ""),
                    "before_header": str(folder / name) if name in there else "no file",
                    "after_header": str(folder / name) if name in todo.write else "no file",
                }
                for name in (*todo.write, *todo.remove)
            ],
        }


def _texts(folder: Path) -> dict[str, str]:
    """The texts of a folder's files that may be ours; none where it isn't there."""
    if not folder.exists():
        return {}
    files = sorted(path for path in folder.iterdir() if path.suffix == _SUFFIX and path.is_file())
    return {path.name: path.read_text("utf-8", errors="replace") for path in files}


def _write(folder: Path, todo: Changes) -> None:
    for name, text in todo.write.items():
        replace_file(folder / name, text.encode())
    for name in todo.remove:
        (folder / name).unlink()


def _summary(folder: Path, wanted: dict[str, str], todo: Changes, *, check: bool) -> list[str]:
    """Each file and what became of it, for a person."""
    would = "would be " if check else ""
    lines = [f"{folder / name}: {f'{would}written' if name in todo.write else 'as it was'}" for name in wanted]
    return lines + [f"{folder / name}: {would}removed, since no service has it any more" for name in todo.remove]
