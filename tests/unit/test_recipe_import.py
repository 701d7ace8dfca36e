# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gb10.fleet.plugins.action import recipe_import as recipe_import_action
from ansible_collections.gb10.fleet.plugins.filter.recipe_import import FilterModule
from ansible_collections.gb10.fleet.plugins.module_utils import api
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Finding
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES, fact
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.foreign import import_recipe
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.formats import own_name, read_script
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, Recipe, load_all, parse
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import load
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.docker_command import words_of
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.flags import flags_to_argv, read_flags
from ansible_collections.gb10.fleet.plugins.module_utils._facts.builds.build import read as read_build
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_text
from ansible_collections.gb10.fleet.plugins.module_utils._plan.trust import TRUST
from hypothesis import given
from hypothesis import strategies as st
from unit.test_execution_environment import copy_tracked

ROWS = yaml.safe_load((Path(__file__).parents[1] / "data" / "foreign_recipes.yml").read_text("utf-8"))
SHIPPED, _FINDINGS = load_all([SHIPPED_RECIPES])


def imported(name: str) -> tuple[dict[str, Any], list[Finding]]:
    recipe, findings = import_recipe(ROWS[name]["source"], name)
    assert recipe is not None, [finding.sentence() for finding in findings]
    return recipe, findings


def part_of(found: Any, wanted: Any) -> Any:
    """As much of it as is wanted."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return {key: part_of(found.get(key), wanted[key]) for key in wanted}
    return found


@pytest.mark.parametrize("name", ROWS)
def test_a_recipe_of_others_gives_ours(name: str) -> None:
    recipe, findings = imported(name)
    for key, wanted in ROWS[name]["gives"].items():
        found = recipe[key]
        if key not in ("flags", "env"):
            found = part_of(found, wanted)
        assert found == wanted, key
    reported = {f"{finding.rule} {finding.place.removeprefix(f'{name}.')}" for finding in findings}
    assert reported == {*ROWS[name]["warns"]}


HOSTILE = "\x1b]52;c;x\x07\x9b\u202e"


def hostile(value: Any) -> Iterator[Any]:
    """The value, each time with another of its keys or texts that a terminal would obey."""
    if isinstance(value, str):
        yield from (value + HOSTILE, value[: len(value) // 2] + HOSTILE + value[len(value) // 2 :])
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        for other in hostile(item):
            changed = copy.copy(value)
            changed[key] = other
            yield changed
        if isinstance(value, dict):
            yield {f"{name}{HOSTILE}" if name == key else name: each for name, each in value.items()}


@pytest.mark.parametrize("name", ROWS)
def test_nothing_that_a_terminal_obeys_is_in_what_an_import_gives(name: str) -> None:
    for source in hostile(ROWS[name]["source"]):
        recipe, findings = import_recipe(source, name)
        texts = [finding.sentence() for finding in findings] + [yaml.safe_dump(recipe or {}, allow_unicode=True)]
        assert [text for text in texts if not text.replace("\n", "").replace("\t", "").isprintable()] == []
        assert recipe is None or r"\e" not in texts[-1]


@pytest.mark.parametrize("name", ROWS)
def test_what_was_imported_is_a_recipe_as_it_is(name: str) -> None:
    recipe, _ = imported(name)
    assert parse(recipe, Place(thing="again"))[0] == recipe


def planned_alone(name: str, recipe: dict[str, Any]) -> dict[str, Any]:
    """The plan of a recipe on as many hosts as its author names."""
    library = Library({name: Recipe(name, recipe, Path("theirs.yml"))}, SHIPPED.folders)
    hosts = [f"host-{at}" for at in range(1, max(recipe["host_counts"]) + 1)]
    ports = {f"{host}:1": at for at, host in enumerate(hosts, 10)}
    variables: dict[str, Any] = {
        "fleet_services": {"x": {"recipe": name, "hosts": hosts, "port": 8000, "trust": [*TRUST]}},
        "fleet_fabric": {"switches": {"switch": {"ports": ports}}} if len(hosts) > 1 else {},
    }
    addressed = {host: {"address": f"192.0.2.{at}", "variables": variables} for at, host in enumerate(hosts, 1)}
    return plan_fleet({"hosts": addressed, "folder": "."}, library)


@pytest.mark.parametrize("name", ROWS)
def test_what_was_imported_is_planned_on_as_many_hosts_as_its_author_names(name: str) -> None:
    plan = planned_alone(name, imported(name)[0])
    wrong = {row["rule"] for row in plan["findings"] if row["severity"] == "error"}
    assert wrong == {*ROWS[name].get("errors", [])}
    pool = plan["services"].get("x", {}).get("kv", {})
    assert bool(pool.get("bytes_per_request") and pool["bytes"]) == ROWS[name].get("sized", not wrong)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"command": "vllm serve {model} --port {port}"}, "import-placeholder"),
        ({"command": "vllm serve x/y --a 'b"}, "import-command"),
        ({"command": "vllm serve x/y && touch z"}, "import-command"),
        ({"command": "python3 -m sglang.launch_server"}, "import-command"),
        ({"command": "vllm serve x/y --max-model-len long"}, "schema-choice"),
        ({"command": "vllm serve /models/x"}, "schema-pattern"),
        ({"container": None}, "schema-required"),
        ({"defaults": {"x": 10**5000}}, "schema-range"),
    ],
)
def test_what_cannot_be_imported_gives_the_reason(changes: dict[str, Any], rule: str) -> None:
    source = {"name": "x", "container": "vllm-node", "command": "vllm serve x/y", **changes}
    recipe, findings = import_recipe(source, "other")
    assert recipe is None
    assert rule in [finding.rule for finding in findings if finding.severity == "error"]


def test_of_another_engine_the_model_is_taken_over() -> None:
    recipe, findings = import_recipe(ROWS["sparkrun-defaults"]["source"] | {"runtime": "atlas"}, "m")
    assert recipe is not None
    assert ("import-runtime", "m.runtime") in {(finding.rule, finding.place) for finding in findings}
    assert recipe["host_counts"] == [2]
    assert recipe["flags"]["tool-call-parser"] == "minimax_m2"
    assert recipe["image"]["reference"] == fact("image", "reference")


@pytest.mark.parametrize(
    ("flags", "model", "kind"),
    [
        ("--runner pooling", "Qwen/Qwen3-VL-Embedding-8B", "embed"),
        ("--runner pooling", "Qwen/Qwen3-VL-Reranker-8B", "rerank"),
        ("", "Qwen/Qwen3-VL-8B-Instruct", "chat"),
    ],
)
def test_a_model_that_pools_is_no_chat(flags: str, model: str, kind: str) -> None:
    recipe, findings = import_recipe({"container": "vllm-node", "command": f"vllm serve {model} {flags}"}, "x")
    assert recipe is not None, [finding.sentence() for finding in findings]
    assert (recipe["kind"], recipe["model"]["config"]) == (kind, "qwen3-vl-8b")


def test_an_api_key_is_never_repeated() -> None:
    source = {"container": "vllm-node", "command": "vllm serve x/y --api-key s3cret"}
    _, findings = import_recipe(source, "other")
    assert "s3cret" not in "".join(finding.sentence() for finding in findings)


def test_the_filter_takes_a_text_or_a_map() -> None:
    recipe_import = FilterModule().filters()["recipe_import"]
    theirs = ROWS["eugr-solo"]["source"]
    from_text = recipe_import(yaml.safe_dump(theirs), "nano")
    assert from_text == recipe_import(theirs, "nano")
    assert from_text["recipe"]["name"] == "nano"
    assert len(from_text["sentences"]) == len(from_text["findings"])
    assert recipe_import("a: [", "nano")["findings"][0]["rule"] == "recipe-unreadable"
    with pytest.raises(AnsibleFilterError, match="recipe_import"):
        recipe_import(7, "nano")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
)
KEYS = ["name", "command", "container", "defaults", "env", "mods", "model", "model_revision", "metadata", "runtime"]


@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING) | ANYTHING)
def test_any_content_ends_in_a_recipe_or_findings(source: Any) -> None:
    recipe, findings = import_recipe(source, "other")
    assert recipe is not None or findings


@given(st.text(), st.dictionaries(st.sampled_from(["a", "model"]), st.text()))
def test_any_command_ends_in_a_recipe_or_findings(command: str, defaults: dict[str, str]) -> None:
    source = {"container": "x", "command": f"vllm serve x/y {command}", "defaults": defaults}
    recipe, findings = import_recipe(source, "other")
    assert recipe is not None or findings


CATALOGUE = load()
OPTIONS = [option for option in CATALOGUE.newest.options.values() if option.name != "--model"]
VALUES = st.integers(-1000, 10**9) | st.from_regex(r"[a-z][a-z0-9_./-]{0,10}", fullmatch=True)
MAPS = st.dictionaries(st.text(), st.integers() | st.text(), min_size=1)
FOREIGN = st.from_regex(r"[a-m][a-z]{1,8}(-[a-z]{1,5})?", fullmatch=True).filter(
    lambda name: not any(spelling.startswith(f"--{name}") for spelling in CATALOGUE.any_options)
)
FLAGS = [
    st.dictionaries(FOREIGN, st.booleans() | VALUES | MAPS | st.lists(VALUES, min_size=2)),
    st.dictionaries(st.sampled_from([o.name[2:] for o in OPTIONS if o.type == "switch"]), st.booleans()),
    st.dictionaries(st.sampled_from([o.name[2:] for o in OPTIONS if o.takes_value]), VALUES | MAPS),
]


@given(st.tuples(*FLAGS))
def test_reading_is_the_way_back_from_writing(parts: tuple[dict[str, Any], ...]) -> None:
    flags = parts[0] | parts[1] | parts[2]
    assert read_flags(["org/model", *flags_to_argv(flags)], CATALOGUE) == ("org/model", flags)


@pytest.mark.parametrize(
    "words, flags",
    [
        ("x/y -tp 2 -O3", {"tensor-parallel-size": 2, "optimization-level": 3}),
        ("--enforce-eager x/y --max_model_len 4096", {"enforce-eager": True, "max-model-len": 4096}),
        ("--model x/y --no-enable-prefix-caching", {"enable-prefix-caching": False}),
        ("x/y --compilation-config.level 3", {"compilation-config.level": 3}),
        ("x/y --served-model-name a b --fork-only c d", {"served-model-name": ["a", "b"], "fork-only": ["c", "d"]}),
        ("x/y --middleware a --middleware b", {"middleware": ["a", "b"]}),
        ("x/y --enforce-eager=false --fork-only", {"enforce-eager": "false", "fork-only": True}),
    ],
)
def test_a_written_command_is_read_as_vllm_reads_it(words: str, flags: dict[str, Any]) -> None:
    assert read_flags(words_of(words), CATALOGUE) == ("x/y", flags)


def test_a_shells_command_is_split_as_a_shell_does() -> None:
    words = words_of("vllm serve x/y \\\n --a 'b c' \\\n --d=\"e\" # remark")
    assert words == ["vllm", "serve", "x/y", "--a", "b c", "--d=e"]


# The playbook -----------------------------------------------------------------------------------------------------

CLONE = Path(__file__).parents[2]
THEIRS = yaml.safe_dump(ROWS["eugr-solo"]["source"])
PAGE = (CLONE / "docs" / "how-to" / "recipes.md").read_text("utf-8")
PRINTED, TO_SHARE = re.findall(r"(?m)^(ansible-playbook .*recipe_import_file=.*)$", PAGE)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """This one, in whose inventories one can be written."""
    (tmp_path / "inventories").mkdir()
    for entry in [*CLONE.iterdir(), *(CLONE / "inventories").iterdir()]:
        if entry.name not in ("inventories", "site") and not entry.name.startswith("."):
            (tmp_path / entry.relative_to(CLONE)).symlink_to(entry)
    return tmp_path


def play(clone: Path, command: str, **own: str) -> tuple[int, str]:
    words = [str(Path(sys.executable).with_name("ansible-playbook")), *shlex.split(command)[1:]]
    environment = {**os.environ, "COLUMNS": "10000", "ANSIBLE_NOCOLOR": "1", **own}
    done = subprocess.run(words, cwd=clone, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_printed_line_imports_and_never_overwrites(clone: Path) -> None:
    (clone / "qwen3-coder-next-fp8.yaml").write_text(THEIRS)
    code, output = play(clone, PRINTED)
    file = clone / "inventories" / "site" / "recipes" / "qwen3-coder-next-fp8.yml"
    assert code == 0, output
    recipe = yaml.safe_load(file.read_text())
    sentences = import_recipe(yaml.safe_load(THEIRS), "qwen3-coder-next-fp8")[1]
    assert sentences and all(one.sentence() in output for one in sentences)
    assert [*map(len, recipe["status"]["left_out"])] == [min(500, len(one.sentence())) for one in sentences]
    file.write_text(file.read_text() + "# of its owner\n")
    before = file.read_text()
    for command in (PRINTED, f"{PRINTED} --check"):
        code, output = play(clone, command)
        assert code == 2 and f"{file} is there already, and is yours" in output
    assert file.read_text() == before


def test_the_printed_line_writes_a_recipe_for_others(clone: Path) -> None:
    mine = clone / "inventories" / "site" / "recipes" / "mine.yml"
    mine.parent.mkdir(parents=True)
    mine.write_text(
        (SHIPPED_RECIPES / "qwen3-8b-fp8.yml").read_text("utf-8").replace("name: qwen3-8b-fp8", "name: mine")
    )
    code, output = play(clone, TO_SHARE)
    assert code == 0, output
    theirs = yaml.safe_load((clone / "shared" / "mine.sparkrun.yaml").read_text("utf-8"))
    recipe, findings = import_recipe(theirs, "mine")
    assert recipe is not None, [one.sentence() for one in findings]
    assert play(clone, TO_SHARE)[0] == 2


def test_the_printed_lines_hold_where_the_collection_is_installed(tmp_path: Path) -> None:
    """Built and installed by ansible-galaxy, in a folder of an owner's, without the clone and its ansible.cfg."""
    source, mine, installed = tmp_path / "source", tmp_path / "mine", tmp_path / "installed"
    copy_tracked(source)
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    for words in (["build", "--output-path", str(tmp_path)], ["install", "-f", "--no-deps", "-p", str(installed)]):
        artifacts = map(str, tmp_path.glob("*.tar.gz"))
        command = [galaxy, "collection", *words, *(artifacts if words[0] == "install" else ())]
        done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    there = installed / "ansible_collections" / "gb10" / "fleet"
    folders = ("data", "extensions/eda", "meta", "playbooks", "plugins", "recipes", "roles")
    files = (path.relative_to(source) for folder in folders for path in (source / folder).rglob("*") if path.is_file())
    assert [str(file) for file in files if not (there / file).exists()] == []
    shutil.rmtree(source)
    site = mine / "inventories" / "site"
    site.mkdir(parents=True)
    (mine / "qwen3-coder-next-fp8.yaml").write_text(THEIRS)
    (site / "hosts.yml").write_text("all: {hosts: {titan: {}}}\n")
    (site / "group_vars").mkdir()
    (mine / "theirs").mkdir()
    (mine / "theirs" / "one.yml").write_text(THEIRS)
    sources = {"fleet_recipe_sources": [{"path": str(mine / "theirs"), "name": "others"}]}
    (site / "group_vars" / "all.yml").write_text(yaml.safe_dump(sources))
    shown = ""
    for line in re.findall(r"(?m)^(ansible-playbook .*)$", PAGE):
        if "gb10.fleet.recipe_new" in line:  # asks the hub: tests/models
            continue
        command = line if "-i " in line or "recipe_import" in line else f"{line} -i inventories/site"
        code, output = play(mine, command, ANSIBLE_COLLECTIONS_PATH=str(installed))
        assert code == 0, f"{line}: {output[-3000:]}"
        shown += output
        (site / "recipes" / "mine.yml").write_text(
            (site / "recipes" / "qwen3-coder-next-fp8.yml")
            .read_text("utf-8")
            .replace("name: qwen3-coder-next-fp8", "name: mine")
        )
    assert (mine / "shared" / "mine.sparkrun.yaml").is_file()
    assert "others-one" in shown and "recipes passed" in shown


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda line: line.replace("qwen3-coder-next-fp8.yaml", "none.yaml"), "/none.yaml: No such file or directory"),
        (lambda line: re.sub(r"-e recipe_import_file=\S+", "", line), "write -e recipe_import_file="),
        (lambda line: line.replace("qwen3-coder-next-fp8.yaml", "inventories"), "Is a directory"),
    ],
)
def test_what_can_not_be_imported_is_one_sentence(clone: Path, change: Callable[[str], str], words: str) -> None:
    code, output = play(clone, change(PRINTED))
    assert code == 2 and words in output and "Traceback" not in output and "{{" not in output
    assert not (clone / "inventories" / "site").exists()


def test_a_plan_warns_until_its_owner_has_seen_to_each(tmp_path: Path) -> None:
    recipe, _ = imported("eugr-solo")
    assert recipe["status"]["left_out"]
    (found,) = [one for one in parse(recipe, Place(thing="r.yml"))[1] if one.rule == "recipe-left-out"]
    assert (found.severity, recipe["status"]["left_out"][0] in found.found) == ("warning", True)
    recipe["status"]["left_out"] = []
    assert "recipe-left-out" not in {one.rule for one in parse(recipe, Place(thing="r.yml"))[1]}


def test_a_docker_run_line_is_read_as_it_is_copied() -> None:
    text = "# as its author starts it\n" + ROWS["docker-run"]["source"]["docker"]
    found = FilterModule().filters()["recipe_import"](text, "docker-run")["recipe"]
    assert found == imported("docker-run")[0]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"docker": "docker run --gpus all"}, "write the image after the options"),
        ({"docker": "docker run x 'y"}, "close the quotes"),
        ({"services": {"web": {"image": "nginx"}}}, "found web; expected one service"),
        ({"services": {"a": {"image": "vllm/vllm-openai:v0.28.0"}, "b": {"image": "lmsysorg/sglang"}}}, "a, b"),
        ({"meta": {}, "model": {"model_id": "a/Image", "base_args": ["--omni"]}}, "a/Image for vLLM-Omni"),
        ({"meta": {}, "model": {"model_id": "a/Voice", "context_length": 0}}, "a/Voice for vLLM-Omni"),
    ],
)
def test_what_holds_no_server_is_refused_by_its_name(source: dict[str, Any], words: str) -> None:
    recipe, findings = import_recipe(source, "x")
    assert recipe is None and words.removeprefix("found ") in findings[0].sentence()


def test_an_option_that_counts_once_is_not_a_list() -> None:
    source = {"container": "vllm-node", "command": "vllm serve x/y --mm-encoder-tp-mode data --mm-encoder-tp-mode data"}
    recipe, _ = import_recipe(source, "x")
    assert recipe is not None and recipe["flags"] == {"mm-encoder-tp-mode": "data"}


def test_the_pool_that_its_author_ran_is_planned_where_none_can_be_sized() -> None:
    kv = planned_alone("pinned-pair", imported("pinned-pair")[0])["services"]["x"]["kv"]
    assert (kv["bytes"], kv["tokens"]) == (6 << 30, None)


def test_a_file_of_others_gives_a_name_of_ours() -> None:
    assert own_name("4x-spark-cluster_Qwen3.5 (FP8)") == "4x-spark-cluster-qwen3.5-fp8"


def test_a_build_of_others_is_asked_for_no_name_that_it_has() -> None:
    env = {"VLLM_ENABLE_ROCE_ALLREDUCE": "1", "VLLM_OF_NOBODY": "1"}
    launch = {"argv": ["a/b", "--max-parallel-prefills", "2"], "env": env, "image": "eugr/spark-vllm-b12x:latest"}
    found = [one for one in api.lint(launch) if one["rule"].startswith("catalogue-unknown")]
    assert [(one["place"], one["severity"]) for one in found] == [("env VLLM_OF_NOBODY", "warning")]
    assert found[0]["remedy"] == "keep it if this image's build reads it; if not, drop it"


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ("/workspace/MiMo-V2.6-Flash-RL-dflash", "XiaomiMiMo/MiMo-V2.6-Flash-RL-dflash"),
        ("~/models/qwen3.6-27b-dflash/", "z-lab/Qwen3.6-27B-DFlash"),
        ("$DRAFTS/Qwen3.6-35B-A3B-DFlash", "z-lab/Qwen3.6-35B-A3B-DFlash"),
        ("/models/of-nobody", None),
        ("/", None),
    ],
)
def test_a_drafter_in_a_folder_of_its_author_is_known_by_its_name(written: str, taken: str | None) -> None:
    speculation = f'{{{{"method": "dflash", "model": "{written}", "num_speculative_tokens": 7}}}}'
    source = {"container": "vllm-node", "command": f"vllm serve x/y --speculative-config '{speculation}'"}
    recipe, findings = import_recipe(source, "x")
    assert recipe is not None
    (found,) = [one for one in findings if one.rule == "import-drafter"]
    assert (taken or "model.draft.repository") in found.remedy
    assert recipe["model"].get("draft", {}).get("repository") == taken
    if taken:
        assert recipe["flags"]["speculative-config"]["model"] == taken


# Of a pair that ran; the checkpoint's size is in no file of ours, so that its weights are estimated as too large.
PROVEN = (
    "vllm serve {model} -tp 2 --block-size 256 --kv-cache-dtype fp8 --mamba-cache-mode align --enable-prefix-caching"
    " --max-model-len 1048576 --max-num-seqs 4 --max-num-batched-tokens 4096 --load-format instanttensor"
    """ --speculative-config '{{"method": "mtp", "num_speculative_tokens": 5}}' --kv-cache-memory-bytes 10G"""
    " --gpu-memory-utilization 0.87 --quantization modelopt_mixed"
)


@pytest.mark.parametrize(
    ("weights", "rule", "severity"), [(None, "memory-tight", "warning"), (184 << 30, "memory-does-not-fit", "error")]
)
def test_a_pool_that_its_author_ran_outweighs_an_estimate_alone(weights: int | None, rule: str, severity: str) -> None:
    model = "local-inference-lab/GLM-5.3-Flash-NVFP4-Spark"
    source = {"container": "vllm-node-b12x", "model": model, "cluster_only": True, "command": PROVEN}
    recipe = api.import_recipe(source, "glm")["recipe"]
    assert recipe is not None
    recipe["model"]["weights_bytes"] = weights
    rows = [row for row in planned_alone("glm", recipe)["findings"] if row["host"] == "host-1"]
    assert (rule, severity) in {(row["rule"], row["severity"]) for row in rows}
    assert ("ran it on so many hosts with a pool of 10.0 GiB" in rows[0]["found"]) == (weights is None)


def test_a_pool_that_holds_less_than_a_request_is_shown_with_what_it_takes() -> None:
    """vLLM would refuse it; an owner sees how much is lacking."""
    command = PROVEN.replace("10G", "8G")
    source = {"container": "vllm-node-b12x", "model": "zai-org/GLM-5.3-Flash", "cluster_only": True, "command": command}
    recipe = api.import_recipe(source, "glm")["recipe"]
    plan = planned_alone("glm", recipe)
    assert "kv-fit" in {row["rule"] for row in plan["findings"]}
    kv = plan["services"]["x"]["kv"]
    assert 0 < kv["max_concurrency"] < 1 and kv["bytes_per_request"] > kv["bytes"] == 8 << 30
    assert kv["tokens"] < kv["context"] == 1048576
    text = as_text(plan, ["host-1"])
    assert f"8.0 GiB a rank: {kv['max_concurrency']:.2f} requests of 1,048,576 tokens at once" in text


MOD = "set -euo pipefail\n# as its author runs it\necho applying\n"


def with_mods(project: Path, mods: dict[str, dict[str, str]], **more: Any) -> Path:
    """A recipe in a project of eugr's shape, with its mods beside it."""
    for mod, texts in mods.items():
        for name, text in texts.items():
            path = project / "mods" / mod / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    command = "vllm serve Qwen/Qwen3-0.6B --max-model-len 4096 --chat-template fixed.jinja"
    source = {"container": "vllm/vllm-openai:v0.32.0", "model": "Qwen/Qwen3-0.6B", "command": command}
    path = project / "recipes" / "small.yaml"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(source | {"mods": [f"mods/{mod}" for mod in mods]} | more))
    return path


def test_mods_that_lie_beside_a_recipe_are_made(tmp_path: Path) -> None:
    """A template is an overlay; scripts that need no network are steps of an image; the others are named."""
    mods = {
        "fix-template": {"run.sh": f"{MOD}cp chat.jinja $WORKSPACE_DIR/fixed.jinja\n", "chat.jinja": "{{ messages }}"},
        "patches": {
            "run.sh": f"{MOD}patch -p1 -d / < a.patch\n",
            "a.patch": "--- a\n+++ b\n",
            "vendor/x.py": "x = 1\n",
        },
        "fetches": {"run.sh": f"{MOD}curl -L https://example.org/1.diff | patch -p1\n"},
    }
    theirs = with_mods(tmp_path / "theirs", mods)
    done = taken(theirs)
    recipe, files = done["recipe"], done["files"]
    assert recipe is not None and parse(recipe, Place(thing="r.yml"))[0] is not None
    assert recipe["flags"]["chat-template"] == "/overlays/fixed.jinja"
    assert files["overlays/fixed.jinja"] == "{{ messages }}"
    assert [(one["target"], one["file"]) for one in recipe["overlays"]] == [("/overlays/fixed.jinja", "fixed.jinja")]
    assert recipe["image"]["build"] == "small" and "reference" not in recipe["image"]
    build = yaml.safe_load(files["builds/small/build.yml"])
    pinned = {**build, "bases": dict.fromkeys(build["bases"], f"sha256:{'0' * 64}")}
    texts = {name.removeprefix("builds/small/"): text for name, text in files.items()}
    made, problems = read_build("small", pinned, texts, "builds/small")
    assert made is not None and problems == []
    assert build["bases"] == {"vllm/vllm-openai:v0.32.0": None}
    left = "\n".join(recipe["status"]["left_out"])
    assert "fetches patches the image" in left and "builds/small makes an image with it" in left
    assert "its file is an overlay" in left


def taken(theirs: Path) -> api.Imported:
    text = theirs.read_text()
    return api.import_recipe(text, theirs.stem, recipe_import_action._mods(theirs, text))


@pytest.mark.parametrize("kind", ["link", "folder-link", "mods-link", "huge", "binary", "name", "no-script", "outside"])
def test_mods_that_are_no_plain_texts_are_left_out(tmp_path: Path, kind: str) -> None:
    plain = {"run.sh": f"{MOD}cp a.json $WORKSPACE_DIR/a.json\n", "a.json": "{}"}
    theirs = with_mods(tmp_path / "theirs", {"one": plain})
    folder = tmp_path / "theirs" / "mods" / "one"
    match kind:
        case "link":
            (folder / "secret").symlink_to("/etc/passwd")
        case "folder-link":
            folder.rename(tmp_path / "elsewhere")
            folder.symlink_to(tmp_path / "elsewhere")
        case "mods-link":  # git keeps a link of a project to anywhere on the controller
            folder.parent.rename(tmp_path / "elsewhere")
            folder.parent.symlink_to(tmp_path / "elsewhere")
        case "huge":
            (folder / "a.json").write_text("0" * (2 << 20))
        case "binary":
            (folder / "a.json").write_bytes(b"\xff\xfe")
        case "name":
            (folder / "run.sh").write_text("cp a.json $WORKSPACE_DIR/../../etc/a.json\n")
        case "no-script":
            (folder / "run.sh").unlink()
        case "outside":
            theirs.write_text(theirs.read_text().replace("mods/one", "mods/.."))
    done = taken(theirs)
    assert done["recipe"] is not None and not [name for name in done["files"] if name.startswith("overlays")]
    assert all(name.startswith("builds/small/") and ".." not in name for name in done["files"])
    assert bool(done["files"]) == (kind == "name")  # a step in an image, where it can do no harm


@pytest.mark.parametrize("mod", ["Dockerfile", "build.yml"])
def test_a_mod_is_no_file_of_a_builds_own(tmp_path: Path, mod: str) -> None:
    theirs = with_mods(tmp_path / "theirs", {mod: {"run.sh": f"{MOD}patch -p1 -d / < a.patch\n", "a.patch": "+\n"}})
    assert taken(theirs)["files"] == {}


@pytest.mark.parametrize(
    ("text", "variables", "command", "before"),
    [
        ("vllm serve a/b", {}, "vllm serve a/b", []),
        (
            "# first\nexport A=1\nexport B='x y' # why\nexec vllm serve a/b",
            {"A": "1", "B": "x y"},
            "vllm serve a/b",
            [],
        ),
        ("set -e\npip install x && vllm serve a/b", {}, "vllm serve a/b", ["pip install x"]),
        ('A=1 B="x y" vllm serve a/b --c=d', {"A": "1", "B": "x y"}, "vllm serve a/b --c=d", []),
        ("env A=1 vllm serve a/b 2>&1 | tee /tmp/log", {"A": "1"}, "vllm serve a/b", []),
        ("vllm serve a/b >> /tmp/log 2>&1 &", {}, "vllm serve a/b", []),
        ("vllm serve a/b \\\n\n  --port 1", {}, "vllm serve a/b --port 1", []),
        ("vllm serve a/b `# why` --port 1", {}, "vllm serve a/b   --port 1", []),
        ("", {}, "", []),
    ],
)
def test_what_surrounds_a_command_is_read(
    text: str, variables: dict[str, str], command: str, before: list[str]
) -> None:
    found = read_script(text)
    assert (found[0], " ".join(found[1].split()), found[2]) == (variables, " ".join(command.split()), before)


def test_variables_and_programs_before_the_server_are_not_lost() -> None:
    command = "export VLLM_USE_V2_MODEL_RUNNER=1\npip install x\nvllm serve {model} --max-model-len 4096"
    recipe, findings = import_recipe({"container": "vllm-node", "model": "a/b", "command": command}, "x")
    assert recipe is not None and recipe["env"] == {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert [one.at.thing.partition(".")[2] for one in findings if one.rule == "import-left-out"] == ["pre_exec"]


def test_a_shell_in_a_container_is_read() -> None:
    line = (
        "docker run --entrypoint bash vllm/vllm-openai:v0.33.0 -lc 'pip install -q x && export A=1 && vllm serve a/b'"
    )
    done = api.import_recipe(line, "x")
    assert done["recipe"] is not None and done["recipe"]["env"] == {"A": "1"}
    assert any("pre_exec" in sentence for sentence in done["sentences"])


def test_a_model_of_tensorrt_is_taken_from_its_command() -> None:
    line = "docker run nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13 trtllm-serve openai/gpt-oss-20b --port 8355"
    done = api.import_recipe(line, "x")
    assert done["recipe"] is not None and done["recipe"]["model"]["repository"] == "openai/gpt-oss-20b"
    nothing = api.import_recipe("docker run nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13 trtllm-serve", "x")
    assert nothing["recipe"] is None and any(one["severity"] == "error" for one in nothing["findings"])


def test_a_service_is_found_behind_variables_of_its_image() -> None:
    service = {
        "image": "${IMAGE:-vllm/vllm-openai}:${TAG:-v0.32.0}",
        "command": "--model a/b --max-model-len $${N:-4096}",
    }
    done = api.import_recipe({"services": {"ui": {"image": "nginx:1"}, "llm": service}}, "x")
    assert done["recipe"] is not None, done["sentences"]
    assert done["recipe"]["image"]["reference"] == "vllm/vllm-openai:v0.32.0"
    assert done["recipe"]["flags"]["max-model-len"] == 4096


def test_a_model_that_needs_a_newer_release_gets_its_image() -> None:
    source = {"meta": {"title": "M"}, "model": {"model_id": "a/b", "min_vllm_version": "0.30.0"}, "variants": {}}
    done = api.import_recipe(source, "x")
    assert done["recipe"] is not None and done["recipe"]["image"]["reference"] == "vllm/vllm-openai:v0.30.0"
    older = api.import_recipe(source | {"model": {"model_id": "a/b", "min_vllm_version": "0.11.0"}}, "x")
    assert older["recipe"] is not None and older["recipe"]["image"]["digest"]
