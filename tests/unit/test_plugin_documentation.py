# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules document is what their actions take, and what several of them share is written once.

Steps of our own playbooks are no modules: `data/steps.yml` has their options.

Where a module has code, `ansible-test sanity` compares its argument spec with its DOCUMENTATION.
"""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gb10.fleet.plugins.doc_fragments.attributes import ModuleDocFragment
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import data_file
from ansible_collections.gb10.fleet.plugins.plugin_utils._documented import documented

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
MODULES = sorted(path.stem for path in (PLUGINS / "modules").glob("*.py"))


def documentation(module: str) -> str:
    text: str = importlib.import_module(f"ansible_collections.gb10.fleet.plugins.modules.{module}").DOCUMENTATION
    return text


def test_an_argument_spec_is_what_the_documentation_states() -> None:
    spec = documented(
        """
        options:
          name: {description: Its name., type: str, required: true}
          kinds: {description: Kinds., type: list, elements: str, choices: [a, b], default: [a]}
          limits:
            description: Limits.
            type: dict
            default: {}
            suboptions:
              seconds: {description: How long., type: int, default: 5}
        """
    )
    assert spec == {
        "name": {"type": "str", "required": True},
        "kinds": {"type": "list", "elements": "str", "choices": ["a", "b"], "default": ["a"]},
        "limits": {"type": "dict", "default": {}, "options": {"seconds": {"type": "int", "default": 5}}},
    }
    checked = ArgumentSpecValidator(spec).validate({"name": "x"})
    assert checked.validated_parameters == {"name": "x", "kinds": ["a"], "limits": {"seconds": 5}}


def test_no_action_writes_a_spec_of_its_own() -> None:
    texts = {path.name: path.read_text("utf-8") for path in sorted((PLUGINS / "action").glob("*.py"))}
    assert [name for name, text in texts.items() if "validate_argument_spec(" in text] == []
    assert any("(OnController" in text for text in texts.values())


def test_an_action_has_a_module_or_is_a_step_of_our_own_playbooks() -> None:
    actions = {path.stem for path in (PLUGINS / "action").glob("*.py")}
    assert {*MODULES} & {*data_file("steps")} == set()
    assert actions - {*MODULES} == {*data_file("steps")}


@pytest.mark.parametrize("step", sorted(data_file("steps")))
def test_the_options_of_a_step_are_what_a_task_can_give(step: str) -> None:
    action = importlib.import_module(f"ansible_collections.gb10.fleet.plugins.action.{step}").ActionModule
    spec = action._options
    assert {*spec} == {*data_file("steps")[step]}
    assert all(option["description"] for option in data_file("steps")[step].values())
    assert ArgumentSpecValidator(spec).validate({"nonsense": 1}).error_messages


@pytest.mark.parametrize("module", MODULES)
def test_every_module_shows_what_it_does_in_check_and_diff_mode(module: str) -> None:
    written = yaml.safe_load(documentation(module))
    fragments = written.get("extends_documentation_fragment", [])
    shared = [name.rpartition(".")[2].upper() for name in fragments if name.startswith("gb10.fleet.attributes.")]
    attributes: dict[str, Any] = {}
    for name in shared:
        attributes |= yaml.safe_load(getattr(ModuleDocFragment, name))["attributes"]
    assert {"check_mode", "diff_mode"} <= {*attributes, *written.get("attributes", {})}


def test_what_several_modules_share_of_check_mode_is_in_a_fragment() -> None:
    written = [yaml.safe_load(documentation(module)).get("attributes", {}) for module in MODULES]
    times = Counter(one["check_mode"]["description"] for one in written if "check_mode" in one)
    assert [text for text, count in times.items() if count > 1] == []


@pytest.mark.parametrize("module", MODULES)
def test_no_key_of_an_answer_is_one_that_ansible_makes_a_truth_value_of(module: str) -> None:
    """Found: ansible-core 2.21 made False of the text "" in a key called failed, and no service could be proved."""
    found = importlib.import_module(f"ansible_collections.gb10.fleet.plugins.modules.{module}")
    answer = yaml.safe_load(found.RETURN) or {}
    taken = {"changed", "failed", "skipped", "unreachable", "finished"}
    assert {name for name in answer if name in taken and answer[name]["type"] != "bool"} == set()
