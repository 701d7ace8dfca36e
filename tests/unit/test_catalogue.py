# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The extractor on a small package written here, and the stored catalogue that it made."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue import store
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.image import extract, extract_tree
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import (
    Catalogue,
    Option,
    Release,
    Variable,
    load,
)

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

import catalogue as catalogue_tool

PACKAGE = {
    "vllm/entrypoints/cli/serve.py": "from vllm.entrypoints.cli_args import make_arg_parser\n",
    "vllm/entrypoints/cli_args.py": '''
from vllm.config import frontend
from vllm.config.cache import CacheConfig
from vllm.config.utils import config
from vllm.engine.arg_utils import EngineArgs, get_kwargs
from .names import *


@config
class BaseFrontendArgs:
    chat_format: ChatFormat = "auto"
    """How content is rendered."""
    middleware: list[str] = field(default_factory=lambda: [])

    @classmethod
    def _customize(cls, kwargs):
        kwargs["middleware"]["action"] = "append"
        kwargs["middleware"]["type"] = str
        if "nargs" in kwargs["middleware"]:
            del kwargs["middleware"]["nargs"]
        return kwargs

    @classmethod
    def add_cli_args(cls, parser):
        kwargs = cls._customize(get_kwargs(cls))
        for key, value in kwargs.items():
            extra = value.pop("flags", [])
            parser.add_argument(*extra, f"--{key.replace('_', '-')}", **value)
        return parser


@config
class FrontendArgs(BaseFrontendArgs):
    port: int = 8000

    @classmethod
    def _customize(cls, kwargs):
        kwargs = super()._customize(kwargs)
        kwargs["port"]["flags"] = ["-p"]
        return kwargs


def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--headless", action="store_true")
    parser = FrontendArgs.add_cli_args(parser)
    parser = EngineArgs.add_cli_args(parser)
    return parser
''',
    "vllm/entrypoints/names.py": 'from typing import Literal\nChatFormat = Literal["auto", "string"]\n',
    "vllm/engine/arg_utils.py": """
from typing import Literal
from vllm.config.cache import CacheConfig, DType
from vllm.config.nested import NestedConfig


def _compute_kwargs(cls):
    if name == "max_model_len":
        kwargs[name]["type"] = human_readable_int_or_auto
    elif name in {"batch_bytes"}:
        kwargs[name]["type"] = human_readable_int


class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        kwargs = get_kwargs(CacheConfig)
        group = parser.add_argument_group(title="Cache")
        if not ("--help" in sys.argv):
            group.add_argument("--model", **kwargs["model"])
        group.add_argument("--kv-cache-dtype", **kwargs["cache_dtype"])
        group.add_argument("--prefix-caching", **{**kwargs["prefix_caching"], "default": None})
        group.add_argument("--max-model-len", **kwargs["max_model_len"])
        group.add_argument("--batch-bytes", "-bb", **kwargs["batch_bytes"])
        nested = kwargs["nested"]
        group.add_argument("--nested-config", "-nc", **nested)
        backend = kwargs["backend"]
        backend["type"] = lambda s: s.lower().replace("-", "_")
        group.add_argument("--backend", **backend)
        for name, kind in [("--old-a", str), ("--old-b", int)]:
            group.add_argument(name, type=kind, deprecated=True, help=f"[DEPRECATED] {name} will be removed.")
        return parser
""",
    "vllm/config/__init__.py": "",
    "vllm/config/utils.py": 'def config(cls): ...\nDEFAULT = dict(extra="forbid")\n',
    "vllm/config/nested.py": """
from vllm.config.utils import config

@config
class NestedConfig:
    depth: int = 1
    name: str | None = None
""",
    "vllm/config/cache.py": """
from typing import TYPE_CHECKING, ClassVar, Literal
from vllm.config.nested import NestedConfig
from vllm.config.utils import config

if TYPE_CHECKING:
    from vllm.model_executor.layers.quantization import QuantizationMethods
else:
    QuantizationMethods = str

CacheDType = Literal["auto", "fp8"]

@config
class CacheConfig:
    counter: ClassVar[int] = 0
    model: str = "some/model"
    cache_dtype: CacheDType = "auto"
    prefix_caching: bool = True
    max_model_len: int | None = None
    batch_bytes: int | None = Field(default=None)
    backend: Literal["auto", "marlin"] = "auto"
    nested: NestedConfig | None = None
""",
    "vllm/envs.py": """
if TYPE_CHECKING:
    VLLM_PORT: int | None = None
    VLLM_BACKEND: str = "a"

environment_variables = {
    "VLLM_PORT": lambda: os.getenv("VLLM_PORT"),
    "VLLM_BACKEND": env_with_choices("VLLM_BACKEND", "a", ["a", "b"], case_sensitive=False),
    "VLLM_OLD": deprecated_env("VLLM_OLD", "v1.0", "Use --new.", lambda: None),
    "HOME": lambda: 1,
}
""",
    "vllm/model_executor/layers/quantization/__init__.py": (
        'from typing import Literal\nQuantizationMethods = Literal["fp8", "awq"]\n'
    ),
    "vllm/model_executor/models/registry.py": (
        '_TEXT_GENERATION_MODELS = {"A": ("a", "A")}\n_PREVIOUSLY_SUPPORTED_MODELS = {"Old": "1"}\n'
    ),
    "vllm/reasoning/__init__.py": "",
    "vllm/reasoning/a.py": '@ReasoningParserManager.register_module("qwen3")\nclass A: ...\n',
    "vllm/tool_parsers/__init__.py": '_TOOL_PARSERS_TO_REGISTER = {"hermes": ("f", "C")}\n',
}


@pytest.fixture(scope="module")
def release() -> Release:
    return extract(PACKAGE, "9.9.0")


@pytest.mark.parametrize(
    "expected",
    [
        Option("--help", ("-h",), type="flag"),
        Option("--headless", type="flag"),
        Option("--chat-format", choices=("auto", "string"), default="auto"),
        Option("--middleware", type="str", repeatable=True),
        Option("--port", ("-p",), type="int", default=8000),
        Option("--model", default="some/model"),
        Option("--kv-cache-dtype", choices=("auto", "fp8"), default="auto"),
        Option("--prefix-caching", negations=("--no-prefix-caching",), type="switch"),
        Option("--max-model-len", type="size-auto", optional=True),
        Option("--batch-bytes", ("-bb",), type="size", optional=True),
        Option("--nested-config", ("-nc",), type="json", optional=True, keys=("depth", "name"), strict=True),
        Option("--backend", choices=("auto", "marlin"), default="auto", folded=True),
        Option("--old-a", deprecated="[DEPRECATED] --old-a will be removed"),
        Option("--old-b", type="int", deprecated="[DEPRECATED] --old-b will be removed"),
    ],
    ids=lambda option: str(option.name),
)
def test_option(release: Release, expected: Option) -> None:
    assert release.options[expected.name] == expected


def test_nothing_else(release: Release) -> None:
    assert len(release.options) == 14
    assert set(release.variables) == {"VLLM_PORT", "VLLM_BACKEND", "VLLM_OLD"}


def test_variables(release: Release) -> None:
    assert release.variables["VLLM_PORT"] == Variable("VLLM_PORT", "int | None")
    assert release.variables["VLLM_BACKEND"] == Variable("VLLM_BACKEND", "str", ("a", "b"), True, "a")
    assert release.variables["VLLM_OLD"].deprecated == "will be removed in v1.0. Use --new."


def test_registries(release: Release) -> None:
    found = {name: values for name, values in release.registries.items() if values}
    assert found == {
        "quantization": ("awq", "fp8"),
        "kv_cache_dtype": ("auto", "fp8"),
        "architecture": ("A",),
        "reasoning_parser": ("qwen3",),
        "tool_call_parser": ("hermes",),
    }


@pytest.mark.parametrize("files", [{}, {"vllm/envs.py": "x ="}, {"vllm/entrypoints/cli/serve.py": "\0"}])
def test_another_package_is_refused(files: dict[str, str]) -> None:
    with pytest.raises(FleetError, match="0 options"):
        extract(files, "9.9.0")


def test_a_folder_is_read_like_a_mapping(release: Release, tmp_path: Path) -> None:
    for path, text in PACKAGE.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert extract_tree(tmp_path, "9.9.0") == release


def test_the_store_gives_back_what_it_was_given(release: Release) -> None:
    later = Release("9.10.0", {"--port": release.options["--headless"]}, {}, {"quantization": ("fp8",)})
    stored = json.loads(store.text(store.store([later, release])))
    catalogue = Catalogue(stored)
    assert catalogue.releases == ("9.9.0", "9.10.0")
    assert catalogue.release("9.9.0").options == release.options
    assert catalogue.release("9.9.0").variables == release.variables
    assert catalogue.name_range("quantization", "awq") is not None
    assert str(catalogue.name_range("quantization", "fp8")).count("9.9.0..") == 1


def test_one_entry_a_line() -> None:
    stored = load()
    text = store.text(store.store(stored.release(version) for version in stored.releases))
    assert text == (Path(__file__).resolve().parents[2] / "data" / "vllm_catalogue.json").read_text("utf-8")
    assert len(text) < 300_000


@pytest.mark.parametrize(
    "spelling, words",
    [
        ("--moe-backend", "since 0.17.0"),
        ("--linear-backend", "since 0.22.0"),
        ("--task", "0.11.0 to 0.12.0"),
        ("--disable-log-requests", "0.11.0 to 0.16.0 and since 0.33.0"),
        ("--speculative-disable-by-batch-size", None),
        ("--no-enable-prefix-caching", "since 0.11.0"),
        ("-tp", "since 0.11.0"),
    ],
)
def test_history_of_options(spelling: str, words: str | None) -> None:
    """As the survey of the releases found it (flags by release)."""
    known = load().option_range(spelling)
    assert (known.words() if known else None) == words


@pytest.mark.parametrize(
    "name, words",
    [
        ("VLLM_USE_FLASHINFER_MOE_FP4", "0.11.0 to 0.23.0"),
        ("VLLM_NVFP4_GEMM_BACKEND", "0.11.1 to 0.23.0"),
        ("VLLM_ATTENTION_BACKEND", "0.11.0 to 0.14.1"),
        ("VLLM_TEST_FORCE_FP8_MARLIN", "0.11.0 to 0.28.0"),
        ("VLLM_SLEEP_WHEN_IDLE", "0.11.0 to 0.17.1"),
        ("VLLM_MXFP4_BACKEND", None),
    ],
)
def test_history_of_variables(name: str, words: str | None) -> None:
    known = load().variable_range(name)
    assert (known.words() if known else None) == words


@pytest.mark.parametrize(
    "registry, name, words",
    [
        ("reasoning_parser", "nemotron_v3", "since 0.17.1"),
        ("reasoning_parser", "nano_v3", None),
        ("tool_call_parser", "nemotron_v3", None),
        ("speculative_method", "dflash", "since 0.20.0"),
        ("quantization", "gguf", "0.11.0 to 0.23.0"),
        ("quantization", "fp4", None),
        ("moe_backend", "b12x", "since 0.29.0"),
        ("attention_backend", "B12X", "since 0.30.0"),
        ("load_format", "instanttensor", "since 0.18.0"),
        ("speculative_config", "kv_cache_dtype", "since 0.26.0"),
        ("--mamba-cache-mode", "all", "0.15.0 to 0.31.0"),
        ("architecture", "Gemma4UnifiedForConditionalGeneration", "since 0.23.0"),
    ],
)
def test_history_of_names(registry: str, name: str, words: str | None) -> None:
    known = load().name_range(registry, name)
    assert (known.words() if known else None) == words


@pytest.mark.parametrize("version", load().releases)
def test_every_release_is_whole(version: str) -> None:
    release = load().release(version)
    assert len(release.options) > 150
    assert len(release.variables) > 150
    named = ("architecture", "attention_backend", "kv_cache_dtype", "load_format", "quantization", "reasoning_parser")
    assert all(
        release.registries[name] for name in (*named, "speculative_config", "speculative_method", "tool_call_parser")
    )


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (
            "ERROR: Could not find a version that satisfies the requirement vllm==0.34.0 (from versions: 0.9.2, 0.33.0,"
            " 0.34.0rc1)\nERROR: No matching distribution found for vllm==0.34.0\nERROR: Could not find a version that"
            " satisfies the requirement vllm==0.34.0 (from versions: 0.9.2, 0.20.2)\n",
            "the package index has no such release; its newest is 0.33.0",
        ),
        ("WARNING: x\nERROR: no route to host\n", "ERROR: no route to host"),
        ("ERROR: Could not find a version (from versions: none)\nERROR: No matching\n", "ERROR: No matching"),
        ("", "it said nothing"),
    ],
)
def test_a_release_that_is_not_there_is_one_sentence(words: str, answer: str) -> None:
    assert catalogue_tool.not_found(words).endswith(answer)
    assert len(catalogue_tool.not_found(words)) < 120
