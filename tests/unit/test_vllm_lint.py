# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The linter: what the catalogue says, how builds between releases are judged, and that no input breaks it."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue import store
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import load
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.judge import lint_map
from hypothesis import example, given, settings
from hypothesis import strategies as st

KEYS = {"rule", "kind", "severity", "place", "found", "expected", "remedy", "reason", "source", "since", "silenced"}
KEYS |= {one.name for one in fields(Place)}
# What an image was read to know, with one option for releases that are none.
UNREADABLE = {"releases": ["0.24.0"], "options": [{"name": "--x", "in": "soon"}], "variables": [], "registries": {}}
KINDS = {"catalogue", "combination", "memory", "host"}


def catalogue(words: list[str], version: str | None = "0.24.0", **rest: Any) -> list[tuple[str, str, str]]:
    """(rule, severity, place) of the catalogue's findings."""
    argv = ["vllm", "serve", "m", *words, "--gpu-memory-utilization", "0.5"]
    findings = lint_map({"argv": argv, "vllm_version": version, **rest})
    return [
        (item["rule"], item["severity"], item["place"]) for item in findings if item["rule"].startswith("catalogue-")
    ]


def only(words: list[str], version: str | None = "0.24.0", **rest: Any) -> dict[str, Any]:
    """The one catalogue finding of a launch."""
    argv = ["vllm", "serve", "m", *words, "--gpu-memory-utilization", "0.5"]
    findings = lint_map({"argv": argv, "vllm_version": version, **rest})
    found = [item for item in findings if item["rule"].startswith("catalogue-")]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    "words, version, rule, severity",
    [
        (["--foo", "1"], "0.24.0", "unknown-option", "error"),
        (["--swap-space", "4"], "0.18.0", "unknown-option", "error"),
        (["--linear-backend", "marlin"], "0.21.0", "unknown-option", "error"),
        (["--no-disable-log-stats"], "0.24.0", "not-negatable", "error"),
        (["--max-num", "4"], "0.24.0", "ambiguous-option", "error"),
        (["--max-num-batched", "4"], "0.24.0", "abbreviated-option", "warning"),
        (["--port", "1", "--port", "2"], "0.24.0", "duplicate-option", "warning"),
        (["--enable-lora", "--no-enable-lora"], "0.24.0", "duplicate-option", "warning"),
        (["--max-model-len"], "0.24.0", "missing-value", "error"),
        (["--enforce-eager=true"], "0.24.0", "unexpected-value", "error"),
        (["--enforce-eager", "true"], "0.24.0", "surplus-word", "error"),
        (["--tensor-parallel-size", "two"], "0.24.0", "wrong-value", "error"),
        (["--moe-backend", "marln"], "0.24.0", "wrong-value", "error"),
        (["--moe-backend", "b12x"], "0.24.0", "wrong-value", "error"),
        (["--dtype", "float8"], "0.24.0", "wrong-value", "error"),
        (["--speculative-config", "{"], "0.24.0", "wrong-value", "error"),
        (["--speculative-config", '{"methd": "mtp"}'], "0.24.0", "unknown-key", "error"),
        (["--speculative-config", '{"method": "nosuch"}'], "0.24.0", "unknown-name", "error"),
        (["--speculative-config.methd", "mtp"], "0.24.0", "unknown-key", "error"),
        (["--compilation-config", '{"nosuch": 1}'], "0.24.0", "unknown-key", "error"),
        (["--pooler-config", '{"nosuch": 1}'], "0.13.0", "unknown-key", "warning"),
        (["--port.x", "1"], "0.24.0", "unknown-key", "error"),
        (["--load-format", "fastsafetensor"], "0.24.0", "unknown-name", "error"),
        (["--attention-backend", "flashinfr"], "0.24.0", "unknown-name", "error"),
        (["--reasoning-parser", "qwen4"], "0.24.0", "unknown-name", "error"),
        (["--kv-cache-dtype", "fp9"], "0.33.0", "unknown-name", "error"),
        (["--model", "other"], "0.24.0", None, None),
        (["--calculate-kv-scales"], "0.24.0", "deprecated-option", "warning"),
        (["--task", "embed"], "0.12.0", "deprecated-option", "warning"),
    ],
)
def test_options(words: list[str], version: str, rule: str | None, severity: str | None) -> None:
    expected = [] if rule is None else [(f"catalogue-{rule}", severity)]
    assert [found[:2] for found in catalogue(words, version)] == expected


@pytest.mark.parametrize(
    "words",
    [
        ["--tensor_parallel_size", "1"],
        ["-tp=1"],
        ["-O3"],
        ["-cc.mode=3"],
        ["--compilation-config.pass_config.fuse_norm_quant", "true"],
        ["--limit-mm-per-prompt.video", "0"],
        ["--max-model-len", "32K"],
        ["--max-model-len", "-1"],
        ["--max-model-len=auto"],
        ["--kv-cache-memory-bytes", "4G"],
        ["--moe-backend", "FLASHINFER-CUTLASS"],
        ["--attention-backend", "flashinfer"],
        ["--quantization", "None"],
        ["--load-format", "FastSafetensors"],
        ["--served-model-name", "a", "b"],
        ["--middleware", "a", "--middleware", "b"],
        ["--hf-token"],
        ["--reasoning-parser", "own", "--reasoning-parser-plugin", "/own.py"],
        ["--hf-overrides", '{"a": 1}'],
        ["--distributed-executor-backend", "mp"],
        ["--worker-cls", "own.Worker"],
    ],
)
def test_what_vllm_takes_is_no_finding(words: list[str]) -> None:
    assert not catalogue(words)


@pytest.mark.parametrize(
    "name, value, version, rule, severity",
    [
        ("VLLM_NOSUCH", "1", "0.24.0", "unknown-variable", "error"),
        ("VLLM_ATTENTION_BACKEND", "FLASHINFER", "0.14.0", "deprecated-variable", "warning"),
        ("VLLM_USE_FLASHINFER_MOE_FP4", "1", "0.23.0", "deprecated-variable", "warning"),
        ("VLLM_USE_FLASHINFER_MOE_FP4", "1", "0.21.0", None, None),
        ("VLLM_FLOAT32_MATMUL_PRECISION", "low", "0.24.0", "wrong-value", "error"),
        ("VLLM_FLOAT32_MATMUL_PRECISION", "HIGH", "0.24.0", None, None),
        ("VLLM_PORT", "http", "0.24.0", "wrong-value", "error"),
        ("VLLM_USE_DEEP_GEMM", "maybe", "0.24.0", "wrong-value", "error"),
        ("NCCL_NOSUCH", "1", "0.24.0", None, None),
    ],
)
def test_variables(name: str, value: str, version: str, rule: str | None, severity: str | None) -> None:
    expected = [] if rule is None else [(f"catalogue-{rule}", severity, f"env {name}")]
    assert catalogue([], version, env={name: value}) == expected


@pytest.mark.parametrize(
    "words, version, found, remedy",
    [
        (["--max-model-length", "1"], "0.24.0", "no option of any", 'write "--max-model-len"'),
        (["--enforce-eagre"], "0.24.0", "no option of any", 'write "--enforce-eager"'),
        (["--enable-prefix-cashing"], "0.24.0", "no option of any", 'write "--enable-prefix-caching"'),
        (["--no-enable-prefix-cashing"], "0.24.0", "no option of any", 'write "--no-enable-prefix-caching"'),
        (["--swap-space", "4"], "0.24.0", "known 0.11.0 to 0.17.1", "drop it"),
        (["--linear-backend", "marlin"], "0.20.0", "known since 0.22.0", "use an image with vLLM 0.22.0 or later"),
        (["--moe-backend", "marln"], "0.24.0", '"marln"', 'write "marlin"'),
        (["--tool-call-parser", "nemotron_v3"], "0.24.0", "no name of any", "--tool-parser-plugin"),
    ],
)
def test_a_finding_names_since_when_and_what_next(words: list[str], version: str, found: str, remedy: str) -> None:
    finding = only(words, version)
    assert found in finding["found"]
    assert remedy in finding["remedy"]


def test_a_variable_that_was_meant() -> None:
    assert only([], env={"VLLM_HOST_PI": "1"})["remedy"] == 'write "VLLM_HOST_IP"'


@pytest.mark.parametrize(
    "argv, image",
    [
        (["vllm", "serve", "m", "--nosuch"], "nvcr.io/nvidia/vllm:26.07-py3"),
        (["m", "--nosuch"], "vllm/vllm-openai:v0.24.0"),
        (
            ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m", "--nosuch"],
            "nvcr.io/nvidia/vllm:26.07-py3",
        ),
        (["bash", "-c", "echo a && exec vllm serve m --nosuch; sleep 1"], "nvcr.io/nvidia/vllm:26.07-py3"),
        (["/usr/local/bin/vllm", "serve", "m", "--nosuch"], "nvcr.io/nvidia/vllm:26.07-py3"),
    ],
)
def test_vllm_is_found_in_every_form(argv: list[str], image: str) -> None:
    rules = [finding["rule"] for finding in lint_map({"argv": argv, "image": image})]
    assert rules.count("catalogue-unknown-option") == 1


@pytest.mark.parametrize(
    "words, version, rule",
    [
        (["--served-model-name", "a", "m"], "0.17.0", "catalogue-model-word"),
        (["--model", "m"], "0.11.0", "catalogue-model-option"),
        (["--port", "1"], "0.24.0", "catalogue-no-model"),
    ],
)
def test_where_the_model_is(words: list[str], version: str, rule: str) -> None:
    findings = lint_map({"argv": ["vllm", "serve", *words], "vllm_version": version})
    assert (rule, "error") in [(finding["rule"], finding["severity"]) for finding in findings]


class TestBetweenReleases:
    """0.23.1rc1.dev5 lies between 0.23.0 and 0.24.0."""

    BUILD = "0.23.1rc1.dev5+g0123abc"

    def test_what_only_one_knows_is_a_warning(self) -> None:
        found = catalogue([], self.BUILD, env={"VLLM_MXFP4_USE_MARLIN": "1"})
        assert ("catalogue-deprecated-variable", "warning", "env VLLM_MXFP4_USE_MARLIN") in found
        findings = lint_map({"argv": [], "env": {"VLLM_MXFP4_USE_MARLIN": "1"}, "vllm_version": self.BUILD})
        rule = next(finding for finding in findings if finding["rule"] == "R025")
        assert rule["severity"] == "warning"
        assert "between 0.23.0 and 0.24.0" in rule["reason"]

    def test_what_neither_knows_is_an_error(self) -> None:
        assert ("catalogue-unknown-option", "error", "argv --nosuch") in catalogue(["--nosuch"], self.BUILD)

    def test_it_is_reported(self) -> None:
        assert ("catalogue-between-releases", "hint", "image") in catalogue([], self.BUILD)


@pytest.mark.parametrize(
    "version, rule",
    [("0.99.0", "catalogue-newer-version"), ("0.10.2", "catalogue-older-version"), ("0.24.0+abc", None)],
)
def test_versions_beyond_the_catalogue(version: str, rule: str | None) -> None:
    assert [found[0] for found in catalogue([], version)] == ([rule] if rule else [])


def test_without_a_version_only_invented_names_are_found() -> None:
    assert [found[0] for found in catalogue(["--task", "embed", "--nosuch"], None)] == ["catalogue-unknown-option"]


def test_a_fork_may_know_more() -> None:
    found = catalogue(["--linear-backend", "b12x"], "0.24.0", image="eugr/spark-vllm:1")
    assert {severity for _, severity, _ in found} == {"warning"}
    assert ("catalogue-unknown-option", "warning", "argv --nosuch") in catalogue(
        ["--nosuch"], image="eugr/spark-vllm:1"
    )
    assert ("catalogue-unknown-option", "warning", "argv --nosuch") in catalogue(
        ["--nosuch"], None, image="eugr/spark-vllm:1"
    )


def test_an_images_own_catalogue() -> None:
    own = store.store([load().release("0.33.0")])
    assert not catalogue(["--log-level", "INFO"], "0.1.dev1+g0123abc", catalogue=own)
    assert [found[0] for found in catalogue(["--swap-space", "4"], "0.1.dev1", catalogue=own)] == [
        "catalogue-unknown-option"
    ]


class TestSilence:
    def test_marked_and_not_hidden(self) -> None:
        launch = {"argv": ["vllm", "serve", "m", "--nosuch"], "vllm_version": "0.24.0"}
        findings = lint_map({**launch, "silence": {"catalogue-unknown-option": "our patch adds it"}})
        finding = next(item for item in findings if item["rule"] == "catalogue-unknown-option")
        assert (finding["severity"], finding["silenced"]) == ("hint", "our patch adds it")

    def test_an_id_that_no_rule_has(self) -> None:
        findings = lint_map({"argv": ["vllm", "serve", "m"], "silence": {"R999": "x"}})
        assert ("lint-silence", "warning") in [(item["rule"], item["severity"]) for item in findings]

    def test_a_reason_is_needed(self) -> None:
        findings = lint_map({"argv": ["vllm", "serve", "m"], "silence": {"R086": ""}})
        assert "R086" in [item["rule"] for item in findings if item["severity"] == "error"]


def test_places_are_prefixed() -> None:
    findings = lint_map(
        {"argv": ["vllm", "serve", "m", "--nosuch"], "vllm_version": "0.24.0", "place": "fleet_services.a"}
    )
    assert all(finding["place"].startswith("fleet_services.a: ") for finding in findings)


@pytest.mark.parametrize("launch", [None, 5, "vllm serve m", ["vllm"], True])
def test_only_a_map_describes_a_launch(launch: Any) -> None:
    assert [finding["severity"] for finding in lint_map(launch)] == ["error"]


@pytest.mark.parametrize(
    "launch, place",
    [
        ({}, "lint.argv"),
        ({"argv": "vllm serve m"}, "lint.argv"),
        ({"argv": [None]}, "lint.argv[0]"),
        ({"argv": ["x"] * 5000}, "lint.argv"),
        ({"argv": ["m"], "env": ["A=1"]}, "lint.env"),
        ({"argv": ["m"], "env": {"A": 1}}, "lint.env.A"),
        ({"argv": ["m"], "env": {"A": True}}, "lint.env.A"),
        ({"argv": ["m"], "vllm_version": 0.24}, "lint.vllm_version"),
        ({"argv": ["m"], "image": 5}, "lint.image"),
        ({"argv": ["m"], "image": {}}, "lint.image.reference"),
        ({"argv": ["m"], "model": "m"}, "lint.model"),
        ({"argv": ["m"], "host": {"smm": 121}}, "lint.host.smm"),
        ({"argv": ["m"], "modell": {}}, "lint.modell"),
        ({"argv": ["m"], "catalogue": {"a": 1}}, "lint.catalogue.a"),
        ({"argv": ["m"], "catalogue": UNREADABLE}, "lint.catalogue"),
        ({"command": "docker ps"}, "command"),
    ],
)
def test_wrong_input_is_a_finding_with_its_place(launch: dict[str, Any], place: str) -> None:
    findings = lint_map(launch)
    assert place in [finding["place"] for finding in findings if finding["severity"] == "error"]


def test_numbers_among_the_words_are_words() -> None:
    assert catalogue(["--port", 8000]) == []  # type: ignore[list-item]  # as YAML gives them


def test_input_is_the_same_for_the_same_launch() -> None:
    launch = {
        "argv": ["m", "--nosuch", "--port", "x"],
        "image": "vllm/vllm-openai:nightly",
        "env": {"VLLM_B": "", "VLLM_A": ""},
    }
    shuffled = {"env": {"VLLM_A": "", "VLLM_B": ""}, **launch}
    assert json.dumps(lint_map(launch)) == json.dumps(lint_map(shuffled))


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
WORD = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [*load().newest.spellings, "vllm", "serve", "bash", "-c", "--", "-O3", "-cc.x=1", "{", "--=", "-", "--.="]
    ),
    st.builds(lambda name, value: f"{name}={value}", st.sampled_from(list(load().newest.options)), st.text(max_size=8)),
)
PARTS = (
    "argv",
    "env",
    "image",
    "model",
    "host",
    "group",
    "service",
    "silence",
    "mounts",
    "container",
    "catalogue",
    "command",
)


@settings(max_examples=200, deadline=None)
@given(st.lists(WORD, max_size=12), st.sampled_from([None, *load().releases, "0.19.2rc1.dev1", "junk"]))
@example(["--nnodes=INF"], None)
@example(["--tensor-parallel-size", "nan"], None)
def test_any_words_have_an_answer(words: list[str], version: str | None) -> None:
    findings = lint_map({"argv": words, "vllm_version": version})
    assert all(set(finding) == KEYS and finding["kind"] in KINDS for finding in findings)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(PARTS), JSONISH, max_size=5) | JSONISH)
def test_any_data_has_an_answer(launch: Any) -> None:
    findings = lint_map(launch)
    assert all(set(finding) == KEYS and finding["kind"] in KINDS for finding in findings)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.text(max_size=20), JSONISH, max_size=6),
    st.dictionaries(st.text(max_size=20), st.text(), max_size=4),
)
def test_any_facts_have_an_answer(facts: dict[str, Any], env: dict[str, str]) -> None:
    config = {"text_config": facts, "quantization_config": facts, "architectures": facts}
    launch = {"argv": ["vllm", "serve", "m"], "vllm_version": "0.24.0", "env": env}
    lint_map({**launch, "model": {**facts, "config": config}})
    lint_map({**launch, "model": facts})


@pytest.mark.parametrize(
    "words",
    [
        ["--hf-overrides", "[" * 100_000],
        ["--speculative-config", '{"a":' * 50_000],
        ["--" + "x" * 1_000_000],
        ["--port", "9" * (sys.get_int_max_str_digits() + 1)],
        ["--max-model-len", "9" * 10_000],
        ["\0\n\ud800"],
    ],
)
def test_absurd_words(words: list[str]) -> None:
    findings = lint_map({"argv": ["vllm", "serve", "m", *words], "vllm_version": "0.24.0"})
    assert all(len(finding["found"]) < 300 for finding in findings)


@pytest.mark.parametrize(
    ("short", "long"),
    [("--tp", "--tensor-parallel-size"), ("--pp", "--pipeline-parallel-size"), ("--cc", "--compilation-config")],
)
@pytest.mark.parametrize("version", ["0.33.0", None])
def test_a_short_form_with_two_dashes_is_the_option_that_it_is_short_for(
    short: str, long: str, version: str | None
) -> None:
    """A service's flags have no dashes, so that the short form itself, which was the remedy, can't be written there."""
    assert only([short, "2"], version)["remedy"] == f'write "{long}"'
