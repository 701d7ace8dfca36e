# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traces go where a service says; headers for the collector are in a file alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.tracing.declared import headers_text
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.launch import _WITH_HEADERS
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.subject import credentials
from hypothesis import given
from hypothesis import strategies as st
from planned import ranks_of
from test_engines import errors as errors_of
from test_engines import plan as plan_of_echo

NANO = {
    "recipe": "nemotron-3-nano-30b-a3b-nvfp4",
    "hosts": ["titan"],
    "port": 8000,
    "trust": ["code"],
    "workload": {"max_model_len": 32768, "max_num_seqs": 8},
}
SECRET = "Basic cGstbGYtMTpzay1sZi0y"
LIBRARY, OF_RECIPES = load_all([SHIPPED_RECIPES])
SWITCH = {"switches": {"s": {"ports": {"titan:1": 1, "spark-2:1": 2}}}}


def plan(folder: Path, tracing: Any, **service: Any) -> dict[str, Any]:
    variables = {"fleet_services": {"nano": {**NANO, "tracing": tracing, **service}}, "fleet_fabric": SWITCH}
    hosts = {name: {"address": f"{name}.lan", "variables": variables} for name in ("titan", "spark-2")}
    return plan_fleet({"hosts": hosts, "folder": str(folder)}, LIBRARY, OF_RECIPES)


@pytest.fixture
def collector(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "langfuse").write_text(f"Authorization: {SECRET}\n\nx-langfuse-ingestion-version: 4\n")
    (tmp_path / "langfuse").chmod(0o600)
    return {"endpoint": "https://langfuse.lan/api/public/otel/v1/traces", "headers_file": "langfuse"}


@pytest.mark.parametrize(
    ("written", "endpoint", "protocol"),
    [
        ({"endpoint": "http://10.0.0.9:6006"}, "http://10.0.0.9:6006/v1/traces", "http/protobuf"),
        ({"endpoint": "http://10.0.0.9:6006/"}, "http://10.0.0.9:6006/v1/traces", "http/protobuf"),
        ({"endpoint": "https://x/own/path"}, "https://x/own/path", "http/protobuf"),
        ({"endpoint": "http://[fd00::1]:4317", "protocol": "grpc"}, "http://[fd00::1]:4317", "grpc"),
    ],
)
def test_vllm_sends_to_the_whole_address(tmp_path: Path, written: Any, endpoint: str, protocol: str) -> None:
    found = plan(tmp_path, written)
    (rank,) = ranks_of(found, "nano")
    words, env = rank["container"]["arguments"], rank["container"]["env"]
    assert errors_of(found) == []
    assert words[words.index("--otlp-traces-endpoint") + 1] == endpoint
    assert env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == protocol
    assert env["OTEL_SERVICE_NAME"] == "nano"
    assert rank["container"]["entrypoint"] is None
    assert rank["trace_headers"] is None
    assert rank["files"]["/etc/gb10-fleet/secrets/nano.trace-headers"]["content"] is None


def test_without_a_word_on_it_nothing_is_sent(tmp_path: Path) -> None:
    hosts = {"titan": {"address": "titan.lan", "variables": {"fleet_services": {"nano": NANO}}}}
    (rank,) = ranks_of(plan_fleet({"hosts": hosts, "folder": str(tmp_path)}, LIBRARY, OF_RECIPES), "nano")
    assert "--otlp-traces-endpoint" not in rank["container"]["arguments"]
    assert not [name for name in rank["container"]["env"] if name.startswith("OTEL")]


def test_secret_headers_are_in_a_mounted_file_and_nowhere_in_the_plan(
    tmp_path: Path, collector: dict[str, str]
) -> None:
    found = plan(tmp_path, collector)
    (rank,) = ranks_of(found, "nano")
    assert errors_of(found) == []
    path = "/etc/gb10-fleet/secrets/nano.trace-headers"
    mount = {"source": path, "target": "/run/secrets/trace-headers", "read_only": True}
    assert mount in rank["container"]["mounts"]
    assert rank["container"]["entrypoint"] == "/bin/sh"
    assert rank["container"]["arguments"][2:4] == ["vllm", "serve"]
    assert SECRET not in json.dumps(found)
    assert rank["trace_headers"] == {"source": str(tmp_path / "langfuse"), "path": path}
    (file,) = [one for one in credentials(rank) if one.path == path]
    assert (file.mode, file.secret, file.service) == ("0600", True, "nano")
    sent = file.rendered((tmp_path / "langfuse").read_text())
    assert sent == f"authorization={SECRET.replace(' ', '%20')},x-langfuse-ingestion-version=4\n"


def test_the_engine_itself_gets_the_variable_and_replaces_the_shell(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("a=b%20c\n")
    words = [word.replace("/run/secrets/trace-headers", str(tmp_path / "headers")) for word in _WITH_HEADERS]
    script = "import os, sys; print(os.environ['OTEL_EXPORTER_OTLP_TRACES_HEADERS'], os.getpid(), sys.argv[1:])"
    with subprocess.Popen(
        [*words, "python3", "-c", script, "--x", '{"a": "$HOME"}'], stdout=subprocess.PIPE, text=True
    ) as process:
        out, _none = process.communicate()
    assert out == f"""a=b%20c {process.pid} ['--x', '{{"a": "$HOME"}}']\n"""


@pytest.mark.parametrize("executor", ["mp", "ray"])
def test_the_head_of_a_group_sends_and_no_other_rank(tmp_path: Path, collector: dict[str, str], executor: str) -> None:
    flags = {"distributed-executor-backend": executor, "tensor-parallel-size": 2}
    found = plan(tmp_path, collector, hosts=["titan", "spark-2"], flags=flags, silence={"R008": "of two hosts"})
    head, worker = ranks_of(found, "nano")
    assert errors_of(found) == []
    serves = head["exec"] if executor == "ray" else head["container"]["arguments"]
    assert "--otlp-traces-endpoint" in serves
    assert any("OTEL_EXPORTER_OTLP_TRACES_HEADERS" in word for word in serves)
    assert "otlp" not in json.dumps([worker["container"]["arguments"], worker["exec"]]).lower()
    assert (head["trace_headers"] is None, worker["trace_headers"]) == (False, None)
    assert not [one for one in worker["container"]["mounts"] if "trace-headers" in one["source"]]


def test_an_image_with_an_entrypoint_of_its_own_keeps_it(tmp_path: Path, collector: dict[str, str]) -> None:
    image = {"reference": "nvcr.io/nvidia/vllm:26.06-py3", "family": "ngc", "release": "0.21.0", "entrypoint": "/own"}
    (rank,) = ranks_of(plan(tmp_path, collector, image=image), "nano")
    assert rank["container"]["entrypoint"] == "/own"
    assert rank["container"]["arguments"][0] == "/bin/sh"
    assert rank["container"]["arguments"][3:5] == ["vllm", "serve"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it is empty"),
        ("Authorization Bearer x", "line 1 is no header"),
        ("a: 1\nb:", "line 2 is no header"),
        ("a: 1\nA: 2", "line 2 names a again"),
        ("a b: 1", "line 1 is no header"),
        ("a: sécret", "line 1 is no header"),
        ("a: x\x00y", "line 1 is no header"),
        ("a: " + "x" * 9000, "more than 8192 bytes"),
    ],
)
def test_what_can_not_be_sent_is_refused_without_its_value(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "headers").write_text(text)
    found = plan(tmp_path, {"endpoint": "https://x", "headers_file": "headers"})
    [finding] = [
        one for one in found["findings"] if one["rule"] == "input-tracing-headers" and one["severity"] == "error"
    ]
    assert fault in finding["found"] and "sécret" not in json.dumps(finding, ensure_ascii=False)


NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=5))
def test_every_header_arrives_as_it_was_written(headers: dict[str, str]) -> None:
    """As opentelemetry.util.re.parse_env_headers reads it, 1.45."""
    text = headers_text("\n".join(f"{name}: {value}" for name, value in headers.items())).strip()
    read = (pair.split("=", 1) for pair in text.split(","))
    assert {unquote(name): unquote(value) for name, value in read} == headers


@pytest.mark.parametrize(
    "endpoint", ["ftp://x", "http://", "http://x y", "http://x:99999", "http://u:p@x", "http://[::1]:1", "x:4317"]
)
def test_what_is_no_collectors_address_is_refused(tmp_path: Path, endpoint: str) -> None:
    found = plan(tmp_path, {"endpoint": endpoint})
    assert errors_of(found) and "nano" not in found["services"]


@pytest.mark.parametrize(
    ("image", "severity"),
    [
        ({"reference": "vllm/vllm-openai:v0.16.0", "family": "upstream", "release": "0.16.0"}, "error"),
        ({"reference": "nvcr.io/nvidia/vllm:26.01-py3", "family": "ngc", "release": "0.13.0"}, "warning"),
        ({"reference": "mine:1", "family": "custom", "release": None}, "warning"),
        ({"reference": "vllm/vllm-openai:v0.23.0", "family": "upstream", "release": "0.23.0"}, None),
    ],
)
def test_an_image_that_may_lack_the_packages_is_named(tmp_path: Path, image: Any, severity: str | None) -> None:
    found = plan(tmp_path, {"endpoint": "https://x"}, image=image)
    seen = [one["severity"] for one in found["findings"] if one["rule"] == "service-tracing-image"]
    assert seen == ([severity] if severity else [])


def test_another_engine_has_none(tmp_path: Path) -> None:
    found = plan_of_echo(tmp_path, {"tracing": {"endpoint": "https://x"}})
    assert errors_of(found) == ["service-tracing-engine"]


@pytest.mark.parametrize(
    ("service", "rule"),
    [
        ({"flags": {"otlp-traces-endpoint": "http://x"}}, "recipe-planned-flag"),
        ({"env": {"OTEL_EXPORTER_OTLP_HEADERS": "a=b"}}, "recipe-secret"),
        ({"env": {"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b"}}, "recipe-secret"),
    ],
)
def test_there_is_one_way_to_write_it(tmp_path: Path, service: Any, rule: str) -> None:
    assert errors_of(plan(tmp_path, {"endpoint": "https://x"}, **service)) == [rule]
