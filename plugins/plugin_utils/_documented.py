# SPDX-License-Identifier: GPL-3.0-or-later
"""An action whose options are those that its module documents, or ``data/steps.yml``, and no second copy of them."""

import importlib
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins import modules

from ..module_utils._base.findings import FleetError
from ..module_utils._base.gb10 import data_file
from ..module_utils._base.own_files import unwritten
from ..module_utils._base.yaml_text import read_yaml

_KEYS = ("type", "elements", "required", "default", "choices")


def _documentation(module: str) -> str:
    text: str = importlib.import_module(f"{modules.__name__}.{module}").DOCUMENTATION
    return text


def documented(documentation: str) -> dict[str, Any]:
    """The argument spec of the options in a module's DOCUMENTATION (YAML, its fragments left out)."""
    return _spec(read_yaml(documentation)["options"])


def _spec(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _option(option) for name, option in options.items()}


def _option(option: Mapping[str, Any]) -> dict[str, Any]:
    nested = {"options": _spec(option["suboptions"])} if "suboptions" in option else {}
    return {key: option[key] for key in _KEYS if key in option} | nested


class Documented(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    _options: ClassVar[dict[str, Any]]
    # what a refusal begins with
    _before: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        """Read once, where a run loads the action, and not by the worker of each host."""
        package, _, name = cls.__module__.rpartition(".")
        if package.endswith(".action"):
            steps = data_file("steps")
            is_step = name in steps  # of our own playbooks, and no module that others call
            cls._options = _spec(steps[name]) if is_step else documented(_documentation(name))

    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        _checked, options = self.validate_argument_spec(self._options)
        try:
            return result | self.act(options, variables)
        except FleetError as problem:
            raise AnsibleActionFail(f"{self._before}{problem}") from None

    @abstractmethod
    def act(self, options: dict[str, object], variables: dict[str, object]) -> dict[str, Any]:
        """The result. options: checked, with their defaults. variables: the host's."""


class OnController(Documented):
    """Reaches no host."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        try:
            return super().run(tmp, task_vars)
        except OSError as problem:  # of a file that we keep beside the inventory, or that the owner names
            remedy = "make it yours to read and write, and run again"
            raise AnsibleActionFail(unwritten(problem, "a file", "a file or folder of yours", remedy)) from problem
