# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recipe is data: it is no shell on the host, and holds no secret (security 5, 9, 12, 16)."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, Recipe, load_all, parse
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.service import Budget, Limits
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.ranks import rank_unit
from hypothesis import given
from hypothesis import strategies as st
from test_recipe import RECIPE, changed

SECRET = "hf_AAAAAAAAAAAAAAAA"


def mount(source: str = "/srv/x", target: str = "/x") -> list[dict[str, Any]]:
    return [{"source": source, "target": target}]


def overlay(**parts: Any) -> list[dict[str, Any]]:
    return [{"target": "/x", "file": "x", "reason": "r", "source": "s"} | parts]


def of_model(path: str, target: str = "/x") -> list[dict[str, Any]]:
    return [{"target": target, "model_file": path, "reason": "r", "source": "s"}]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        # a unit's line ends where the summary does
        ("summary", "fine\n[Service]\nExecStartPre=+/bin/sh -c id"),
        ("summary", "fine\r[Service]"),
        ("summary", "fine\\"),
        ("summary", "fine\x1b[2J"),
        ("summary", "fine\u2028x"),
        ("summary", "x" * 201),
        ("status/note", "a\nb"),
        ("status/by", "a\x00b"),
        ("image/entrypoint", "/bin/sh\n-c"),
        ("image/source", {"archive": "/srv/x\n"}),
        ("image/source", {"archive": "/srv/../root/x"}),
        ("image/source", {"archive": "x.tar"}),
        ("model/source", {"path": "/srv/../root/.ssh"}),
        ("model/source", {"path": "/srv/m/.."}),
        ("model/source", {"path": "srv/m"}),
        # `--mount` takes commas for its own
        ("mounts", mount("/srv/x,source=/etc")),
        ("mounts", mount(target="/y,readonly=false")),
        ("mounts", mount("/srv/../etc")),
        ("mounts", mount("/srv/x/..")),
        ("mounts", mount("/..")),
        ("mounts", mount("/srv/x\n")),
        ("mounts", mount("srv")),
        ("overlays", overlay(target="../x")),
        ("overlays", overlay(target="/a/../x")),
        ("overlays", overlay(target="/a,readonly=false")),
        ("overlays", overlay(file="../../x")),
        ("overlays", overlay(file="a/b")),
        ("overlays", of_model("../../../etc/shadow")),
        ("overlays", of_model("/etc/shadow")),
        ("overlays", of_model("a,source=/etc")),
        # what a container is given otherwise has a reason, and names what the kernel knows
        ("container/ipc", {"value": "host"}),
        ("container/ipc", "host"),
        ("container/ipc", {"value": "container:other", "reason": "r"}),
        ("container/capabilities", {"value": ["ALL"], "reason": "r"}),
        ("container/privileged", {"value": True, "reason": "r"}),
        ("container/pids_limit", {"value": 0, "reason": "r"}),
        ("container/tmpfs", {"value": ["/tmp:size=100g"], "reason": "r"}),
        ("container/tmpfs", {"value": ["/tmp,x"], "reason": "r"}),
        # what a terminal, a page or a metric's label would obey
        *(
            (f"flags/{name}", value)
            for name in ("served-model-name", "quantization", "hf-overrides")
            for value in ("a\x1b[2J", "a\x9b2J", "a\u202eb", "a\rb", {"a\x1b": 1}, ["a", "\x00"])
        ),
        ("flags/served-model-name", "a\nb"),
        ("flags/served-model-name", ["a", "a\nb"]),
        ("flags/speculative-config", {"method": "a\x1b"}),
        ("env/ANY_NAME", "a\x1b[2J"),
        ("env/ANY_NAME", "a\nb"),
        # options that the plan decides, abbreviated or smuggled
        ("flags/api-ke", "sk-12345"),
        ("flags/hos", "0.0.0.0"),
        ("flags/ssl-keyf", "/x"),
        ("flags/lora-modules", ["a=b", "--middleware", "evil.Mod"]),
        ("flags/lora-modules", ["-x"]),
        # secrets, which docker inspect shows
        ("flags/hf-token", SECRET),
        ("flags/some-api-key", SECRET),
        ("flags/x-password", SECRET),
        ("env/AWS_SECRET_ACCESS_KEY", SECRET),
        ("env/DB_PASS", SECRET),
        ("env/MYSQL_PWD", SECRET),
        ("env/hf_token", SECRET),
        ("env/X_CREDENTIALS", SECRET),
        ("env/HF_AUTH", SECRET),
    ],
)
def test_what_is_no_data_is_refused(path: str, value: Any) -> None:
    recipe, findings = parse(changed(path, value), Place(thing="r.yml"))
    assert recipe is None
    assert all(finding.remedy for finding in findings if finding.severity == "error")
    assert SECRET not in " ".join(finding.sentence() for finding in findings)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("summary", '100 % of a model: Müller\'s, "quoted"'),
        ("mounts", mount("/srv/a..b/..c", "/x")),
        ("env/TOKENIZERS_PARALLELISM", "false"),
        ("env/SSH_KEY", "/run/key"),
        ("env/VLLM_USE_KEY", "1"),
        ("flags/tokenizer", "some/tokenizer"),
        ("flags/max-num-batched-tokens", 8192),
        ("flags/lora-modules", ["a=b", "c=-1"]),
        ("flags/served-model-name", ["a b", "Müller\\u001b"]),
        ("flags/chat-template", "{{ a }}\n\t{{ b }}\\"),
        ("overlays", overlay(target="chat/t.jinja")),
    ],
)
def test_what_is_data_is_taken(path: str, value: Any) -> None:
    assert [
        one.sentence() for one in parse(changed(path, value), Place(thing="r.yml"))[1] if one.severity == "error"
    ] == []


@given(st.text(min_size=1, max_size=40))
def test_no_summary_adds_a_line_to_a_unit(summary: str) -> None:
    recipe, _findings = parse(changed("summary", summary), Place(thing="r.yml"))
    if recipe:
        limits = Limits(3600, 300, 60, 60, 3, Budget(3, 600))
        lines, plain = (
            rank_unit("nano", text, limits, inventory="site").splitlines() for text in (recipe["summary"], "x")
        )
        assert len(lines) == len(plain)
        assert [a for a, b in zip(lines, plain, strict=True) if a != b and not a.startswith("Description=")] == []
        assert not re.search(r"(?<!%)(%%)*%(?!%)", lines[1])


@pytest.mark.parametrize("kind", ["overlays", "configs"])
def test_a_link_in_a_recipes_folder_brings_no_other_file(tmp_path: Path, kind: str) -> None:
    (tmp_path / "id_ed25519").write_text('{"ssh": "key of the owner"}')
    folder = tmp_path / "recipes"
    (folder / kind).mkdir(parents=True)
    link = folder / kind / "t.json"
    link.symlink_to(tmp_path / "id_ed25519")
    library = load_all([folder])[0]

    def look() -> Any:
        written = {"file": "t.json", "sha256": None}
        return library.overlay(written, "p") if kind == "overlays" else library.config("t", "p")

    found, findings = look()
    assert found is None and findings
    link.unlink()
    (folder / kind / "own.json").write_text("{}")
    link.symlink_to("own.json")
    found, findings = look()
    assert found is not None and findings == []


def of_source(part: str, **source: str) -> dict[str, Any]:
    return {part: {**RECIPE[part], "source": source}}


def merged(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"target": "config.json", "json_merge": values, "reason": "r", "source": "s"}]


def adapter(folder: str) -> dict[str, Any]:
    return {"flags": {"enable-lora": True, "lora-modules": [f"a={folder}"]}}


@pytest.mark.parametrize("folder", ["/srv/../root/.ssh", "/srv/x,source=/etc", "/srv/x/..", "/root/x,readonly=false"])
@pytest.mark.parametrize("trust", [[], ["mounts"]])
def test_an_adapters_folder_is_one_path_of_a_mount(folder: str, trust: list[str]) -> None:
    """Also where the service itself names it: Docker separates a mount's parts by commas."""
    for recipe, service in ((adapter(folder), {}), ({}, adapter(folder))):
        rules = {row["rule"] for row in findings_of(recipe, service | {"trust": trust}) if row["severity"] == "error"}
        assert "service-adapter-folder" in rules


CODE = {"flags": {"trust-remote-code": True}}
DRAFTED = {"flags": {"speculative-config": {"model": "some/draft", "method": "draft_model"}}}
REPOSITORY = RECIPE["model"]["repository"]
PINNED = {"revision": "a" * 40}
LOCAL = {"source": {"path": "/srv/m"}}


@pytest.mark.parametrize(
    ("recipe", "service", "expected"),
    [
        (CODE, {}, ["service-trust-code"]),
        (CODE, {"trust": ["code"]}, []),
        (CODE, {"trust": ["mounts", "development"]}, ["service-trust-code"]),
        (CODE, {"model": PINNED}, []),
        (CODE, {"model": LOCAL}, []),
        (CODE, {"model": {"source": {"host": "beast"}}}, ["service-trust-code"]),
        (CODE, {"flags": {"trust-remote-code": None}}, []),
        ({}, {"flags": {"trust-remote-code": True}}, ["service-trust-code"]),
        (CODE, DRAFTED | {"trust": ["code"]}, []),
        (CODE, DRAFTED | {"model": PINNED}, ["service-trust-code"]),
        (CODE, DRAFTED | {"model": PINNED | {"draft": {"repository": "some/draft", "revision": "b" * 40}}}, []),
        ({"flags": {"reasoning-parser-plugin": "{model_path}/p.py"}}, {}, ["service-trust-code"]),
        ({"flags": {"reasoning-parser-plugin": "{model_path}/p.py"}}, {"model": PINNED}, []),
        ({"flags": {"chat-template": "{model_path}/t.jinja"}}, {}, []),
        ({"overlays": of_model("patched.py")}, {}, ["service-trust-code"]),
        ({"overlays": of_model("patched.py")}, {"trust": ["code"]}, []),
        ({"overlays": of_model("t.jinja", "/x.jinja")}, {}, []),
        # whatever leads into the model's folder is code, unless it can be none
        ({"overlays": of_model("t.jinja")}, {}, ["service-trust-code"]),
        ({"overlays": of_model("x.so", "/usr/lib/python3/dist-packages/x.so")}, {}, ["service-trust-code"]),
        ({"overlays": of_model("x.json", "/etc/ld.so.preload")}, {}, ["service-trust-code"]),
        ({"overlays": of_model("e.txt", "/p/x.dist-info/entry_points.txt")}, {}, ["service-trust-code"]),
        ({"flags": {"chat-template": "{model_path}/t"}}, {}, ["service-trust-code"]),
        ({"flags": {"generation-config": "{model_path}"}}, {}, []),
        ({"flags": {"lora-modules": ["a={model_path}/lora"]}}, {}, []),
        ({"flags": {"tool-parser-plugin": "{model_path}/x.json"}}, {}, ["service-trust-code"]),
        ({"flags": {"tool-parser-plugin": "/hf/hub/x/p.py"}}, {}, ["service-trust-code"]),
        ({"flags": {"tool-parser-plugin": "/proc/self/root//hf/hub/x/p.py"}}, {}, ["service-trust-code"]),
        ({"env": {"SOME_SETTINGS": "{model_path}/x.yaml"}}, {}, ["service-trust-code"]),
        ({"env": {"SOME_SETTINGS": "{model_path}/x.json"}}, {}, []),
        ({"env": {"VLLM_LOGGING_CONFIG_PATH": "{model_path}/x.json"}}, {}, ["service-trust-code"] * 2),
        ({}, {"env": {"PYTHONPATH": "{model_path}"}}, ["service-trust-code"]),
        ({"image": {**RECIPE["image"], "entrypoint": "bash {model_path}/run"}}, {}, ["service-trust-code"]),
        ({"mounts": mount("/var/lib/gb10-fleet/hf/hub/x", "/p")}, {}, ["service-trust-code"]),
        # and so is what a recipe names to be run; the owner may name it himself
        ({"env": {"LD_PRELOAD": "/srv/x.so"}}, {}, ["service-trust-code"]),
        ({"env": {"LD_PRELOAD": "/srv/x.so"}}, {"trust": ["code"]}, []),
        ({"env": {"LD_PRELOAD": "/srv/x.so"}}, {"env": {"LD_PRELOAD": "/srv/mine.so"}}, []),
        ({}, {"env": {"LD_PRELOAD": "/srv/x.so"}}, []),
        ({"env": {"PYTHONUNBUFFERED": "1", "LD_BIND_NOW": "1"}}, {}, []),
        ({"env": {"VLLM_PLUGINS": "x"}}, {"model": PINNED}, ["service-trust-code"]),
        ({"flags": {"worker-cls": "evil.Worker"}}, {"model": PINNED}, ["service-trust-code"]),
        ({"flags": {"worker-cls": "vllm.v1.worker.gpu_worker.Worker"}}, {}, []),
        ({"flags": {"worker-cls": "auto"}}, {}, []),
        ({}, {"flags": {"worker-cls": "mine.Worker"}}, []),
        (
            {"flags": {"kv-transfer-config": {"kv_connector": "X", "kv_connector_module_path": "evil.x"}}},
            {},
            ["service-trust-code"],
        ),
        ({"flags": {"compilation-config": {"backend": "evil.backend"}}}, {}, ["service-trust-code"]),
        ({"flags": {"compilation-config": {"backend": "inductor"}}}, {}, []),
        ({"flags": {"compilation-config": {"inductor_passes": {"a": "evil.f"}}}}, {}, ["service-trust-code"]),
        ({"flags": {"log-config-file": "/x/c.json"}}, {}, ["service-trust-code"]),
        # whatever names a place may lead to code, unless it is data or a place that is written to
        *(
            ({"env": {name: value}}, {"model": PINNED}, ["service-trust-code"])
            for name, value in (
                ("CC", "gcc-12"),
                ("CUDA_HOME", "/x"),
                ("TRITON_PTXAS_PATH", "/x/ptxas"),
                ("TORCHINDUCTOR_CACHE_DIR", "/x"),
                ("NCCL_NET_PLUGIN", "x"),
                ("OPENSSL_CONF", "file:///x"),
                ("HOME", "~x"),
                ("https_proxy", "evil:3128"),
                ("PIP_INDEX_URL", "http://evil"),
                ("RAY_ADDRESS", "evil:6379"),
                ("VLLM_MODEL_REDIRECT_PATH", "/x/y.json"),
                ("ANY_NAME", "a=1:/x"),
                ("ANY_NAME", '"/x"'),
                ("ANY_NAME", "@/x"),
                ("ANY_NAME", "proc/self/fd/3"),
                ("ANY_NAME", "/x/y.so:/x/z.json"),
                ("RAY_RUNTIME_ENV_HOOK", "evil.module.f"),
                ("CFLAGS", "-fplugin=evil.so"),
                ("NVCC_PREPEND_FLAGS", "-ccbin evil"),
                ("OMP_TOOL_LIBRARIES", "evil.so"),
                ("PERL5OPT", "-Mevil"),
                ("GIT_SSH_COMMAND", "evil"),
                ("RAY_JOB_CONFIG_JSON_ENV_VAR", '{"runtime_env":{"py_modules":["x"]}}'),
                ("RAY_RUNTIME_ENV", '{"pip":["evil"]}'),
                ("HF_HUB_OFFLINE", "0"),
                ("TRANSFORMERS_OFFLINE", "no"),
                ("ANY_TRUST_REMOTE_CODE", "1"),
                ("MODEL_ENDPOINT", "evil"),
                ("PS4", "$(id)"),
            )
        ),
        # what a number, a switch, a device, a list or a JSON text is
        *(
            ({"env": {"ANY_NAME": value}}, {"model": PINNED}, [])
            for value in (
                *("1", "-1", "0.8", "2MB", "12.1a", "True", "Ring,Tree", "10.0.0.1", "^docker0", "enp1s0f0.100"),
                *("expandable_segments:True,garbage_collection_threshold:0.8", '{"a":{"strategy":"SPREAD"}}'),
            )
        ),
        ({"env": {"ANY_NAME": "/x/t.jinja", "VLLM_TORCH_PROFILER_DIR": "/tmp/p"}}, {}, []),
        ({"flags": {"chat-template": "/x/t.jinja", "allowed-local-media-path": "/x"}}, {}, []),
        # a commit fixes the code of its own repository alone
        *(
            ({"flags": {"trust-remote-code": True, name: value}}, {"model": PINNED}, expected)
            for name, value, expected in (
                ("tokenizer", "other/repository", ["service-trust-code"]),
                ("tokenizer", "/hf/hub/other", ["service-trust-code"]),
                ("tokenizer", "{model_path}/tokenizer", []),
                ("hf-config-path", "other/repository", ["service-trust-code"]),
                ("hf-overrides", {"auto_map": {"AutoConfig": "other/repository--x.Y"}}, ["service-trust-code"]),
                ("hf-overrides", {"auto_map": {"AutoConfig": "configuration_x.Y"}}, []),
                ("hf-overrides", '{"auto_map": {"AutoConfig": "other/repository--x.Y"}}', ["service-trust-code"]),
                (
                    "hf-overrides",
                    '{"auto_map": {"a": "x/y--x.Y"}, "b": ' + 40 * "[" + 40 * "]" + "}",
                    ["service-trust-code"],
                ),
                ("mm-processor-kwargs", {"auto_map": {"A": "other/repository--x.Y"}}, ["service-trust-code"]),
                ("speculative-draft-model-path", "other/repository", ["service-trust-code"]),
                ("speculative-draft-model-revision", "main", ["service-trust-code"]),
                ("code-revision", "main", ["service-trust-code"]),
                ("code-revision", 40 * "c", []),
            )
        ),
        ({"flags": {"tokenizer": "other/repository"}}, {}, []),
        *(
            (CODE | {"overlays": rows}, {"model": PINNED}, expected)
            for rows, expected in (
                (merged({"auto_map": {"AutoConfig": "other/repository--x.Y"}}), ["service-trust-code"]),
                (merged({"auto_map": {"AutoConfig": "configuration_x.Y"}}), []),
                (merged({"rope_theta": 1e6}), []),
                # a recipe's own file, which may say so as well
                (overlay(target="tokenizer_config.json", file="written"), ["service-trust-code"]),
            )
        ),
        ({"overlays": overlay(target="tokenizer_config.json", file="written")}, {"model": PINNED}, []),
        # names that no list has, in what an engine hands on to others
        *(
            ({"flags": {name: value}}, {"model": PINNED}, ["service-trust-code"])
            for name, value in (
                ("hicache-storage-backend-extra-config", '{"backend_name": "x", "module_path": "evil.m"}'),
                ("kv-transfer-config", {"kv_connector": "X", "kv_connector_extra_config": {"a.b.module_path": "evil"}}),
                ("kv-transfer-config", {"kv_connector": "X", "kv_connector_extra_config": {"spec-class": "evil"}}),
                ("any-class-path", "evil"),
                ("model-loader-extra-config", "a=/x/y.py,b=/x/z.json"),
            )
        ),
        *(
            ({"flags": {name: value}}, {"model": PINNED}, [f"service-trust-{what}"])
            for name, value, what in (
                # vllm/config/speculative.py: the model is a class
                ("speculative-config", {"method": "custom_class", "model": "evil.module.Proposer"}, "code"),
                ("speculative-config.method", "custom_class", "code"),
                ("compilation-config", {"cache_dir": "/x"}, "code"),
                ("compilation-config.cache_dir", "/x", "code"),
                ("model-loader-extra-config", "@x.toml", "code"),
                ("model-loader-extra-config", "@/x/y.toml", "code"),
                ("model-loader-extra-config", "('/x/y.py')", "code"),
                ("allowed-local-media-path", "/", "development"),
                ("allowed-local-media-path", "/run/secrets", "development"),
                ("allowed-local-media-path", "//srv/../run", "development"),
            )
        ),
        ({}, {"flags": {"allowed-local-media-path": "/"}}, []),
        ({"env": {"HF_HUB_OFFLINE": "1", "ANY_LOG_DIR": "word"}}, {}, []),
        ({"flags": {"tool-server": "demo"}}, {}, ["service-trust-development"]),
        # so is a file of a recipe, and what lies where a loader looks
        *(
            ({"overlays": overlay(target=target, file="written")}, service, expected)
            for target in (
                "/etc/ld.so.preload",
                "/etc/ld.so.conf.d/0.conf",
                "//etc/./ld.so.preload",
                "/etc/x.json",
                "/usr/lib/python3.12/sitecustomize.py",
                "/usr/local/lib/python3.12/dist-packages/a.pth",
                "/usr/local/lib/python3.12/dist-packages/vllm/entrypoints/openai/api_server.py",
                "/usr/local/lib/python3.12/dist-packages/x.dist-info/entry_points.txt",
                "/usr/lib/aarch64-linux-gnu/libc.so.6",
                "/usr/bin/python3",
                "/root/.bashrc",
                "/x/y",
                "modeling_x.py",
            )
            for service, expected in (({}, ["service-trust-code"]), ({"trust": ["code"]}, []))
        ),
        ({"overlays": overlay(target="/overlays/t.jinja", file="written")}, {}, []),
        ({"overlays": overlay(target="chat.jinja", file="written")}, {}, []),
        (
            {"overlays": overlay(target="/usr/lib/python3.12/sitecustomize.py", file="ngc_25_11_sitecustomize.py")},
            {},
            [],
        ),
        *(
            ({"mounts": mount(target=target)}, {}, ["service-trust-code"])
            for target in (
                "/etc/ld.so.conf.d",
                "/usr/lib/python3/dist-packages",
                "/usr/lib/python3.12",
                "/opt/venv/lib/python3.12/site-packages/x",
                "/root/.local",
                "/x/a.pth",
                "/lib64",
                # programs of images, and what they compile and load again
                *("/x/y.pyc", "/x/y.PTH", "/x/y.whl", "/x/y.so.1a", "/x/__pycache__", "/nix/store", "/vllm/vllm"),
                *("/app", "/code/x", "/workspace/vllm/entrypoints", "/vllm-workspace", "/sgl-workspace/sglang/python"),
                *("/opt/vllm/lib", "/opt/conda/bin", "/opt/nvidia"),
                *("/root/.cache/torch_extensions", "/root/.cache/huggingface/modules", "/root/.nv", "/root/.pip"),
                *("/root/.bash_profile", "/root/.ssh", "/home/a/.profile"),
            )
        ),
        ({"mounts": mount(target="/root/.cache/huggingface")}, {}, []),
        ({"mounts": mount(target="/root/.cache/huggingface/hub/x")}, {}, []),
        ({"mounts": mount(target="/models/x")}, {}, []),
        ({"mounts": mount(target="/usr/x/t.jinja")}, {}, []),
        (
            {"container": {"tmpfs": {"value": ["/usr/lib/python3/dist-packages"], "reason": "r"}}},
            {},
            ["service-trust-code"],
        ),
        ({"container": {"tmpfs": {"value": ["/scratch"], "reason": "r"}}}, {}, []),
        ({"env": {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}}, {}, ["service-trust-development"]),
        ({"mounts": mount("/")}, {}, ["service-trust-mounts"]),
        ({"mounts": mount("/etc")}, {}, ["service-trust-mounts"]),
        ({"mounts": mount("/run/docker.sock")}, {}, ["service-trust-mounts"]),
        ({"mounts": mount("/var/lib/gb10-fleet/peer")}, {}, ["service-trust-mounts"]),
        ({"mounts": mount("/srvx")}, {}, ["service-trust-mounts"]),
        ({"mounts": mount("/srv/x")}, {}, []),
        # the whole of it, however it is written
        *(({"mounts": mount(root)}, {}, ["service-trust-mounts"]) for root in ("/srv/.", "/mnt//", "/data/./")),
        *((of_source("model", path=root), {}, ["service-trust-mounts"]) for root in ("/srv/", "/mnt/.", "/data//")),
        (of_source("image", archive="/srv/"), {}, ["service-trust-mounts"]),
        (adapter("/srv/"), {}, ["service-trust-mounts"]),
        ({"mounts": [{"source": "/srv/x", "target": "/x", "read_only": False}]}, {}, ["service-trust-mounts"]),
        ({"mounts": mount("/etc")}, {"trust": ["mounts"]}, []),
        (of_source("model", path="/root/.ssh"), {}, ["service-trust-mounts"]),
        (of_source("model", path="/etc/gb10-fleet/secrets"), {}, ["service-trust-mounts"]),
        (of_source("model", path="/"), {}, ["service-trust-mounts"]),
        (of_source("model", path="/srv"), {}, ["service-trust-mounts"]),
        (of_source("model", path="/root/.ssh"), {"trust": ["mounts"]}, []),
        (of_source("model", path="/root/m"), {"model": {"source": {"path": "/root/m"}}}, []),
        (of_source("model", path="/root/.ssh"), {"model": {"source": "hub"}}, []),
        (of_source("model", path="/srv/m"), {}, []),
        (of_source("model", host="beast"), {}, []),
        (of_source("image", archive="/root/x.tar"), {}, ["service-trust-mounts"]),
        (of_source("image", archive="/srv/x.tar"), {}, []),
        (adapter("/root/.ssh"), {}, ["service-trust-mounts"]),
        (adapter("/srv/x"), {}, []),
        ({"container": {"capabilities": {"value": ["SYS_ADMIN"], "reason": "r"}}}, {}, ["service-trust-container"]),
        ({"container": {"ipc": {"value": "host", "reason": "r"}}}, {}, ["service-trust-container"]),
        ({"container": {"ipc": {"value": "host", "reason": "r"}}}, {"trust": ["container"]}, []),
        ({"container": {"read_only": {"value": True, "reason": "r"}}}, {}, []),
        ({}, {"container": {"capabilities": {"value": ["SYS_PTRACE"], "reason": "r"}}}, []),
        ({"env": {"VLLM_SERVER_DEV_MODE": "1"}}, {}, ["service-trust-development"]),
        ({"env": {"VLLM_SERVER_DEV_MODE": "0"}}, {}, []),
        # clients send tensors, and one of a wrong shape ends the engine for all
        ({"flags": {"enable-prompt-embeds": True}}, {}, ["service-trust-development"]),
        ({"flags": {"enable-mm-embeds": True}}, {}, ["service-trust-development"]),
        ({"flags": {"enable-prompt-embeds": False}}, {}, []),
        ({}, {"env": {"VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}}, ["service-trust-development"]),
        ({"env": {"VLLM_SERVER_DEV_MODE": "1"}}, {"trust": ["development"]}, []),
    ],
)
def test_what_reaches_further_is_the_owners_word(
    recipe: dict[str, Any], service: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "overlays").mkdir()
    (tmp_path / "overlays" / "written").write_text("text")
    found = findings_of(recipe, service, folders=(tmp_path, SHIPPED_RECIPES))
    assert [row["rule"] for row in found if row["rule"].startswith("service-trust")] == expected
    assert all(row["severity"] == "error" for row in found if row["rule"] in expected)


@pytest.mark.parametrize(
    "target",
    [
        "/opt/gb10-fleet",
        "/opt/gb10-fleet/gb10_api_key.py",
        "//opt/./gb10-fleet",
        "/opt",
        "/",
        "/run/secrets/vllm.yaml",
        "/run",
        "/var/run/secrets",
        "/hf/hub",
        "/tmp/hf_modules/x",
        "/tmp",
        "/etc",
        "/proc/1",
        "/usr/local/bin/gb10_api_key.py",
        "/app/gb10_api_key/__init__.py",
        # Docker refuses two at one place; caches, the engine's; devices and sockets, the host's
        *("/root/.cache/vllm", "/root/.cache", "/root/.triton/cache", "/root/.cache/flashinfer"),
        *("/dev/shm", "/dev/urandom", "/dev/nvidia0", "/run/secrets.d", "/var/run/x"),
        "/twice",
    ],
)
@pytest.mark.parametrize("kind", ["mounts", "overlays"])
def test_nothing_of_a_recipe_lies_over_what_is_ours(target: str, kind: str) -> None:
    """Also where the owner trusts its mounts and code: a check of ours is nobody's to replace (security 9)."""
    rows = mount("/srv/x", target) if kind == "mounts" else of_model("x.json", target)
    recipe = {kind: rows if target != "/twice" else [*rows, *rows]}
    rules = [row["rule"] for row in findings_of(recipe, {"trust": ["mounts", "code"]}) if row["severity"] == "error"]
    assert rules == ["service-target"]


def test_a_recipe_silences_no_rule_about_who_reaches_a_service() -> None:
    words = {"R159": "mine", "R121": "mine", "R158": "mine"}

    def silenced(recipe: dict[str, Any], service: dict[str, Any]) -> set[str]:
        return {row["rule"] for row in findings_of(recipe, {"open": True} | service) if row.get("silenced")}

    assert silenced({"silence": words}, {}) == set()
    assert silenced({}, {"silence": {"R159": "mine"}}) == {"R159"}


def findings_of(
    recipe: dict[str, Any], service: dict[str, Any], folders: Any = (), **anchors: Any
) -> list[dict[str, Any]]:
    """Of a plan with one service of an unpinned model. anchors: ``lock`` and ``relock`` of the plan."""
    unpinned = copy.deepcopy(RECIPE["model"]) | {"revision": None}
    data, findings = parse({**copy.deepcopy(RECIPE), "env": {}, "model": unpinned, **recipe}, Place(thing="r.yml"))
    assert data, findings
    library = Library({"tiny": Recipe("tiny", data, Path("tiny.yml"))}, folders)
    services = {"nano": {"recipe": "tiny", "hosts": ["titan"], "port": 8000} | service}
    hosts = {name: {"address": name, "variables": {"fleet_services": services}} for name in ("titan", "beast")}
    rows: list[dict[str, Any]] = plan_fleet({"hosts": hosts, "folder": "/none"}, library, **anchors)["findings"]
    return rows


@pytest.mark.parametrize(
    ("name", "relock", "expected"),
    [
        (REPOSITORY, "", []),
        (REPOSITORY, REPOSITORY, ["service-trust-code"]),
        (f"{REPOSITORY}@{'a' * 40}", "", ["service-trust-code"]),
        ("another/model", "", ["service-trust-code"]),
    ],
    ids=["locked", "to be brought anew", "locked by a pin that is gone", "another is locked"],
)
def test_code_of_a_locked_model_is_the_same_in_every_run(name: str, relock: str, expected: list[str]) -> None:
    lock = {"images": {}, "models": {name: {"revision": "a" * 40, "seal": "b" * 64}}}
    found = findings_of(CODE, {}, lock=lock, relock=relock)
    assert [row["rule"] for row in found if row["rule"].startswith("service-trust")] == expected
