"""Every role: its defaults are its spec's, its variables bear its name, and its README says where the options stand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from drift_fleet import planned

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())


def read(role: str, part: str) -> dict[str, Any]:
    path = ROOT / "roles" / role / part
    return (yaml.safe_load(path.read_text("utf-8")) or {}) if path.exists() else {}


def options(role: str) -> dict[str, Any]:
    """The options of all the role's entry points."""
    points = read(role, "meta/argument_specs.yml")["argument_specs"].values()
    return {name: option for point in points for name, option in point["options"].items()}


@pytest.mark.parametrize("role", ROLES)
def test_the_defaults_are_those_of_the_spec(role: str) -> None:
    specified = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert read(role, "defaults/main.yml") == specified


@pytest.mark.parametrize("role", ROLES)
def test_variables_bear_the_roles_name(role: str) -> None:
    foreign = [name for name in options(role) if not name.startswith(f"{role}_")]
    foreign += [name for name in read(role, "vars/main.yml") if not name.startswith(f"__{role}_")]
    assert foreign == []


# What may take longer than other tasks: copies of hundreds of GB, drains, which may be given a day, and all rounds of a
# measurement.
LONG = {"container_images", "model_snapshots", "service_removal", "service_unit", "tune_load"}
TASK_S, LONG_S = 1800, 90_000


def test_no_host_holds_up_a_run_for_ever() -> None:
    """Each play gives its tasks a time; one that needs more names its own."""
    plays = [(path.name, play) for path in PLAYBOOKS for play in yaml.safe_load(path.read_text("utf-8"))]
    of_hosts = [(name, play) for name, play in plays if play.get("hosts", "localhost") != "localhost"]
    assert [(name, play["name"]) for name, play in of_hosts if play.get("timeout") != TASK_S] == []
    assert len(of_hosts) > len(PLAYBOOKS)


def parts(tasks: Any) -> Iterator[dict[str, Any]]:
    """Tasks and roles, those of a block with what it says of all of them."""
    for one in tasks or ():
        own = {key: value for key, value in one.items() if key not in ("block", "rescue", "always")}
        inner = [part for block in one.keys() - own for part in parts(one[block])]
        yield from ({**own, **part} for part in inner) if inner else [one]


def test_no_host_is_handed_the_whole_plan() -> None:
    """Ansible goes through all of an option once a host, which takes as long as the square of their number."""
    lists = [play.get(key) for path in PLAYBOOKS for play in _read(path) for key in ("roles", "pre_tasks", "tasks")]
    lists += [_read(path) for path in (*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/tasks/*.yml"))]
    handed = [
        part
        for some in lists
        for part in parts(some)
        if re.search(r"{{ *fleet_plan(\.plan)? *(}}|\| *default)", json.dumps(part))
    ]
    assert [part.get("name") or part["role"] for part in handed if not part.get("run_once")] == []


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from strings(one)
    elif isinstance(value, str):
        yield value


def test_no_template_ends_a_line_by_an_escape() -> None:
    """Ansible keeps a backslash of a template: a key ended with one on its host, and was none there."""
    files = [*PLAYBOOKS, *ROOT.glob("playbooks/tasks/*.yml"), *ROOT.glob("roles/*/[dhtv]*/*.yml")]
    assert [text for path in files for text in strings(_read(path)) if re.search(r"{{.*\\n", text, re.DOTALL)] == []


def test_what_copies_or_drains_has_time_for_it() -> None:
    given = [
        (module.rpartition(".")[2], task["timeout"])
        for path in sorted((ROOT / "roles").glob("*/tasks/*.yml"))
        for task in tasks_in(yaml.safe_load(path.read_text("utf-8")))
        for module in task
        if isinstance(task.get("timeout"), int) and task["timeout"] > TASK_S and "." in module
    ]
    assert {module for module, _limit in given} == LONG
    assert {limit for _module, limit in given} == {LONG_S}


def tasks_in(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for task in tasks:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_in(task.get(part, []))


@pytest.mark.parametrize("role", ROLES)
def test_the_readme_leads_to_the_options(role: str) -> None:
    text = (ROOT / "roles" / role / "README.md").read_text("utf-8")
    assert text.startswith(f"# gb10.fleet.{role}\n")
    assert "(meta/argument_specs.yml)" in text


@pytest.mark.parametrize("role", ROLES)
def test_no_option_can_contradict_the_plan(role: str) -> None:
    """A path that the plan decides is no option: services, preflight and drift would still go by the plan's."""
    plan = json.dumps(planned())
    paths = [value for value in read(role, "defaults/main.yml").values() if str(value).startswith("/")]
    assert [path for path in paths if json.dumps(path)[1:-1] in plan] == []


def converged(scenario: Path) -> str:
    """What a scenario runs: its playbooks, and those of ours that they import or its tests run."""
    text = "".join(path.read_text("utf-8") for path in [*scenario.glob("*.yml"), *scenario.glob("tests/*.py")])
    names = set(re.findall(r'"(\w+)\.yml"|import_playbook: gb10\.fleet\.(\w+)$', text, re.MULTILINE))
    playbooks = [ROOT / "playbooks" / f"{''.join(name)}.yml" for name in names]
    return text + "".join(path.read_text("utf-8") for path in playbooks if path.exists())


SCENARIOS = {path.parent.name: converged(path.parent) for path in ROOT.glob("extensions/molecule/*/converge.yml")}
# Scenarios of whole playbooks: a role's own says more of what fails.
WHOLE = {"site", "cluster", "stage"}


@pytest.mark.parametrize("role", ROLES)
def test_a_scenario_is_about_the_role(role: str) -> None:
    runs = re.compile(rf"\bgb10\.fleet\.{role}$", re.MULTILINE)
    assert [name for name, text in SCENARIOS.items() if name not in WHOLE and runs.search(text)]


def files_of_plays() -> list[Path]:
    folders = ("playbooks/*.yml", "extensions/molecule/*/*.yml", "roles/*/tasks/*.yml", "playbooks/tasks/*.yml")
    return [path for pattern in folders for path in sorted(ROOT.glob(pattern))]


def given(node: Any) -> Iterator[tuple[str, set[str]]]:
    """Each use of a role of ours, with the variables that it is given right there."""
    if isinstance(node, list):
        for item in node:
            yield from given(item)
    elif isinstance(node, dict):
        name = node.get("role") or next((node[key]["name"] for key in INCLUDES if key in node), "")
        if str(name).startswith("gb10.fleet."):
            yield name.removeprefix("gb10.fleet."), set(node.get("vars") or {})
        for value in node.values():
            yield from given(value)


INCLUDES = ("ansible.builtin.include_role", "ansible.builtin.import_role")


@pytest.mark.parametrize("path", files_of_plays(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_role_is_given_options_that_it_has(path: Path) -> None:
    """An option that one caller keeps calling by its earlier name would be found by a lab of ten minutes alone."""
    uses = list(given(yaml.safe_load(path.read_text("utf-8"))))
    unknown = [
        f"{role}: {name}"
        for role, names in uses
        for name in names
        if name.startswith(f"{role}_") and name not in options(role)
    ]
    assert unknown == []


MAY_FAIL = ("ansible.builtin.assert", "gb10.fleet.service_ready", "gb10.fleet.service_unit")


def tasks_of_roles() -> list[dict[str, Any]]:
    """Also those of blocks."""
    files = [yaml.safe_load(path.read_text("utf-8")) for path in sorted((ROOT / "roles").glob("*/tasks/*.yml"))]
    return [one for tasks in files for task in tasks for one in [*task.get("block", []), task]]


def test_a_loop_that_may_fail_shows_no_whole_service() -> None:
    """Ansible prints the item of a loop that failed: for a service 500 lines, above the one with the reason."""
    tasks = tasks_of_roles()
    loops = [task for task in tasks if "services" in task.get("loop", "") and any(name in task for name in MAY_FAIL)]
    whole = [task["name"] for task in loops if not re.search(r"map\(attribute=|dict2items", task["loop"])]
    assert len(loops) >= 5
    assert whole == []


def test_a_file_that_a_role_copies_is_roots() -> None:
    """A key that somebody gave another owner got its content and stayed his: the container could not read it."""
    copies = [task for task in tasks_of_roles() if "ansible.builtin.copy" in task]
    copies = [task for task in copies if task.get("delegate_to") != "localhost"]  # which is its owner's
    owners = [{task["ansible.builtin.copy"].get(key) for key in ("owner", "group")} for task in copies]
    assert copies
    assert [task["name"] for task, of in zip(copies, owners, strict=True) if of != {"root"}] == []


def test_what_a_run_lends_has_a_name_of_its_own() -> None:
    """Another run on the same host neither overwrites a lent secret nor takes it away: its name is a `tempfile`'s."""
    lenders = [
        task for task in tasks_of_roles() if any("ansible.builtin.file" in last for last in task.get("always", ()))
    ]
    assert lenders
    for lender in lenders:
        made = [task["register"] for task in lender["block"] if "ansible.builtin.tempfile" in task]
        own = {
            f"{{{{ {name} }}}}" for name, value in lender["vars"].items() for one in made if f" {one}.path " in value
        }
        written = [task["ansible.builtin.copy"]["dest"] for task in lender["block"] if "ansible.builtin.copy" in task]
        taken = [task["ansible.builtin.file"]["path"] for task in lender["always"] if "ansible.builtin.file" in task]
        assert {*written} == {*taken} == own


@pytest.mark.parametrize("role", ROLES)
def test_the_metadata_repeat_the_spec(role: str) -> None:
    meta = read(role, "meta/main.yml")
    spec = read(role, "meta/argument_specs.yml")["argument_specs"]["main"]
    assert meta["galaxy_info"]["description"] == spec["short_description"]
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text("utf-8"))
    assert runtime["requires_ansible"].startswith(f">={meta['galaxy_info']['min_ansible_version']}.")
    # the collection decides in which order roles run, and none brings another along
    assert meta["dependencies"] == []


PRIVATE = re.compile(r"\b__[a-z]\w*")


def made(node: Any) -> Iterator[str]:
    """Private names that a part of a playbook or role sets itself."""
    if isinstance(node, list):
        for item in node:
            yield from made(item)
    elif isinstance(node, dict):
        yield from (str(node[key]) for key in ("register", "loop_var", "index_var") if key in node)
        yield from (name for key in ("vars", "ansible.builtin.set_fact") for name in node.get(key) or {})
        for value in node.values():
            yield from made(value)


def test_playbooks_read_no_private_variable_of_a_role() -> None:
    """What a role hands on has a public name, which a change inside of the role keeps."""
    files = [*PLAYBOOKS, *ROOT.glob("playbooks/tasks/*.yml")]
    own = {name for path in files for name in made(_read(path))}
    read_there = {
        (path.name, name)
        for path in files
        for text in strings(_read(path))
        for name in PRIVATE.findall(text)
        if name not in own
    }
    assert read_there == set()


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_no_private_variable_of_another(role: str) -> None:
    of_others = {f"__{other}_" for other in ROLES if other != role and not role.startswith(other)}
    texts = [text for path in sorted((ROOT / "roles" / role).glob("*/*.yml")) for text in strings(_read(path))]
    names = {name for text in texts for name in PRIVATE.findall(text)}
    assert [name for name in names if name.startswith(tuple(of_others))] == []
