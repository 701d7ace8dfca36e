# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Kubernetes is given of a plan: valid by its own schemas, nothing lost of a container, and no secret in it."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.action import export
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._operations.export.kubernetes import carried
from ansible_collections.gb10.fleet.plugins.module_utils._operations.export.service import Carried, Secret
from ansible_collections.gb10.fleet.plugins.module_utils._operations.export.text import MARK, as_text, changes, create
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from planned import found, ranks_of
from shell import owners_environment
from tools.golden import INVENTORIES, inventory_of

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "tests" / "data" / "kubernetes.json").read_text("utf-8"))
RDMA = "rdma/rdma_shared_device_a"
DIGEST = f"sha256:{'0' * 64}"
LLAMA: dict[str, Any] = {
    "name": "llama",
    "summary": "A tiny model",
    "engine": "llama.cpp",
    "host_counts": [1, 2, 3],
    "model": {"repository": "org/tiny-gguf", "revision": "a" * 40, "file": "Q4_0/tiny.gguf"},
    "image": {"reference": "llama:1", "digest": DIGEST, "family": "custom", "release": "0.7.0"},
    "status": {"state": "reported", "by": "us", "hardware": "none"},
    "sources": ["us"],
}
PAIR = {"cables": [["a:1", "b:1"]]}
SWITCH = {"switches": {"s": {"ports": {"a:1": 1, "b:1": 2, "c:1": 3}}}}


def plan(
    tmp_path: Path, settings: Mapping[str, Any], fabric: Mapping[str, Any] = PAIR, name: str = "chat", **others: Any
) -> dict[str, Any]:
    """Of one service, and others, on the hosts a, b and c."""
    (tmp_path / "llama.yml").write_text(yaml.safe_dump(LLAMA))
    whole = {"recipe": "qwen3-1.7b", "hosts": ["a"], "port": 8000} | settings
    variables = {"fleet_services": {name: whole, **others}, "fleet_fabric": fabric}
    hosts = {host: {"address": f"{host}.lan", "port": 22, "variables": variables} for host in "abc"}
    made = plan_fleet({"hosts": hosts, "folder": str(tmp_path)}, *load_all([tmp_path, SHIPPED_RECIPES]))
    assert found(made) == []
    return made


def objects(made: Carried) -> dict[str, Any]:
    return {one["kind"]: one for one in made.documents}


def pods(made: Carried) -> list[dict[str, Any]]:
    """Each rank's pod, head first."""
    template = objects(made)["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    return [template[name]["spec"] for name in ("leaderTemplate", "workerTemplate") if name in template]


def check(planned: Mapping[str, Any], name: str, made: Carried) -> None:
    """Valid, whole, safe: of each service that is carried over."""
    for document in made.documents:
        schema = {**SCHEMA, "$ref": f"#/$defs/{document['kind']}"}
        jsonschema.Draft202012Validator(schema).validate(document)
    assert [one for one in yaml.safe_load_all(as_text(made)) if one] == [*made.documents]
    files = objects(made).get("ConfigMap", {}).get("data", {})
    for rank, pod in zip(ranks_of(dict(planned), name), pods(made), strict=True):
        container = rank["container"]
        (shown,) = pod["containers"]
        # as Kubernetes expands them: $$ is one $, and there is no other $
        assert [word.replace("$$", "$") for word in shown["args"]] == [*container["arguments"]]
        assert {one["name"]: one["value"].replace("$$", "$") for one in shown["env"]} == container["env"]
        assert not [text for text in shown["args"] if re.search(r"(?<!\$)\$(?!\$)", text)]
        volumes = {one["name"]: one for one in pod["volumes"]}
        assert len(volumes) == len(pod["volumes"])
        by_target = {one["mountPath"]: one for one in shown["volumeMounts"]}
        assert {one["name"] for one in shown["volumeMounts"]} == {*volumes}
        for mount in container["mounts"]:
            there = by_target[mount["target"]]
            assert there.get("readOnly", False) == mount["read_only"]
            volume = volumes[there["name"]]
            if "hostPath" in volume:
                assert volume["hostPath"]["path"] == mount["source"]
                assert not mount["source"].startswith((layout.SECRETS, layout.OVERLAYS, layout.STATUS))
            elif "configMap" in volume:
                assert files[there["subPath"]] == rank["files"][mount["source"]]["content"]
            else:
                assert volume["secret"]["secretName"] in [one.name for one in made.secrets]
        assert {*container["caches"], *container["tmpfs"]} <= {*by_target}
        allowed = shown["securityContext"]
        assert (allowed["allowPrivilegeEscalation"], allowed["capabilities"]["drop"]) == (False, ["ALL"])
        assert allowed["capabilities"].get("add", []) == [*container["capabilities"]]
        assert pod["nodeSelector"] == {"kubernetes.io/hostname": planned["services"][name]["hosts"][rank["rank"]]}


def shipped() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in INVENTORIES:
        folder = ROOT / name
        recipes = [folder / "recipes"] if (folder / "recipes").is_dir() else []
        yield name, plan_fleet(inventory_of(folder), *load_all([*recipes, SHIPPED_RECIPES]))


def test_every_service_of_our_inventories_is_carried_over_or_refused_with_a_reason() -> None:
    refused = {}
    for inventory, planned in shipped():
        for name in planned["services"]:
            made = carried(planned, name, RDMA)
            errors = [one for one in made.findings if one.severity == "error"]
            assert bool(errors) != bool(made.documents)
            if errors:
                refused[f"{inventory} {name}"] = [one.rule for one in errors]
                assert all(one.found and one.expected and one.remedy for one in errors)
            else:
                check(planned, name, made)
    assert refused == {"inventories/example qwen3-vl": ["export-group-start"]}


def test_a_service_on_one_host(tmp_path: Path) -> None:
    planned = plan(tmp_path, {"flags": {"chat-template": "{{ $x }} $(HOME)"}})
    made = carried(planned, "chat", RDMA)
    check(planned, "chat", made)
    template = objects(made)["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    assert (template["size"], "leaderTemplate" in template) == (1, False)
    (pod,) = pods(made)
    (container,) = pod["containers"]
    assert not {"hostNetwork", "hostIPC"} & {*pod}
    assert "{{ $$x }} $$(HOME)" in container["args"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert re.fullmatch(r"vllm/vllm-openai:\S+@sha256:[0-9a-f]{64}", container["image"])
    (rank,) = ranks_of(planned, "chat")
    assert container["resources"]["requests"]["memory"] == str(rank["supervisor"]["memory_bytes"])
    limits, probes = rank["supervisor"]["limits"], rank["supervisor"]["probes"]
    start, alive = container["startupProbe"], container["livenessProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= limits["startup_limit_s"]
    assert alive["periodSeconds"] * alive["failureThreshold"] >= probes["patience_s"]
    assert start["httpGet"] == {"path": "/health", "port": "api"}
    service = objects(made)["Service"]
    assert service["spec"]["ports"] == [{"name": "api", "port": 8000, "targetPort": 8000}]
    assert service["metadata"]["name"] != objects(made)["LeaderWorkerSet"]["metadata"]["name"], "which LWS itself makes"
    assert made.findings == []


def test_a_group_has_its_rails_and_rdma_by_the_clusters_plugin(tmp_path: Path) -> None:
    planned = plan(tmp_path, {"hosts": ["b", "a"]})
    made = carried(planned, "chat", "rdma/mine")
    check(planned, "chat", made)
    head, worker = pods(made)
    for pod in (head, worker):
        (container,) = pod["containers"]
        assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
        assert container["resources"]["limits"]["rdma/mine"] == 1
        assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
        assert not [one for one in pod["volumes"] if "/dev/" in one.get("hostPath", {}).get("path", "")]
    assert not {"startupProbe", "readinessProbe", "livenessProbe", "ports"} & {*worker["containers"][0]}
    template = objects(made)["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    assert (template["size"], template["restartPolicy"]) == (2, "RecreateGroupOnPodRestart")
    assert [(one.severity, one.rule) for one in made.findings] == [("hint", "export-gid")]


def test_llama_cpps_head_calls_the_others_and_ends_without_them(tmp_path: Path) -> None:
    planned = plan(tmp_path, {"recipe": "llama", "hosts": ["a", "b"]})
    made = carried(planned, "chat", RDMA)
    check(planned, "chat", made)
    assert objects(made)["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]["restartPolicy"] == "None"
    _head, worker = pods(made)
    (container,) = worker["containers"]
    assert container["command"] == ["rpc-server"]
    assert container["startupProbe"]["tcpSocket"] == {"port": 22000}
    assert worker["terminationGracePeriodSeconds"] == 0, "rpc-server ends by SIGKILL alone"
    assert not [one for one in worker["volumes"] if one.get("hostPath", {}).get("path") == layout.MODELS]


def test_a_group_of_sglang(tmp_path: Path) -> None:
    planned = plan(tmp_path, {"recipe": "qwen3-8b-nvfp4-sglang", "hosts": ["a", "b"]})
    made = carried(planned, "chat", RDMA)
    check(planned, "chat", made)
    head, worker = (pod["containers"][0] for pod in pods(made))
    assert (head["command"], worker["command"]) == (["python3"], ["python3"])
    (secret,) = made.secrets
    assert [*secret.files] == ["sglang.yaml"]


@pytest.mark.parametrize(
    ("settings", "fabric", "name", "rule", "word"),
    [
        (
            {"hosts": ["a", "b", "c"], "flags": {"pipeline-parallel-size": 3}},
            SWITCH,
            "chat",
            "workers-differ",
            "--node",
        ),
        ({"recipe": "llama", "hosts": ["a", "b", "c"]}, SWITCH, "chat", "workers-differ", "--host"),
        ({}, PAIR, "7b", "name", '"7b"'),
        ({}, PAIR, "chat-", "name", '"chat-"'),
        (
            {"hosts": ["a", "b"], "recipe": "qwen3.5-122b-a10b-fp8", "flags": {"distributed-executor-backend": "mp"}},
            PAIR,
            "chat",
            "merged-file",
            "config.json",
        ),
    ],
)
def test_what_cannot_be_carried_over_has_no_objects(
    tmp_path: Path, settings: Any, fabric: Any, name: str, rule: str, word: str
) -> None:
    made = carried(plan(tmp_path, settings, fabric, name), name, RDMA)
    assert [one.rule for one in made.findings] == [f"export-{rule}"]
    assert word in made.findings[0].found
    assert (made.documents, made.secrets) == ((), ())


@pytest.mark.parametrize(
    ("settings", "rule", "word"),
    [
        ({"image": {"digest": None}}, "image-moves", "without a digest"),
        ({"image": {"source": {"archive": "/srv/v.tar"}}}, "image-local", "from no registry"),
        ({"listen": "127.0.0.1"}, "listen", "127.0.0.1"),
        ({"tls": {"certificate": "tls.crt", "key": "tls.key"}}, "certificate", "a certificate for"),
    ],
)
def test_what_works_otherwise_there_is_reported(tmp_path: Path, settings: Any, rule: str, word: str) -> None:
    for kind in ("crt", "key"):
        (tmp_path / f"tls.{kind}").write_text("")
    planned = plan(tmp_path, settings)
    made = carried(planned, "chat", RDMA)
    check(planned, "chat", made)
    assert [(one.severity, one.rule) for one in made.findings] == [("warning", f"export-{rule}")]
    assert word in made.findings[0].found
    (container,) = pods(made)[0]["containers"]
    assert (container["imagePullPolicy"] == "Never") == (rule == "image-local")
    assert (container["readinessProbe"]["httpGet"].get("scheme") == "HTTPS") == (rule == "certificate")
    assert ("chat-tls" in [one.name for one in made.secrets]) == (rule == "certificate")


def test_two_services_share_their_hosts_gpu(tmp_path: Path) -> None:
    small = {"workload": {"pool": "least"}}
    planned = plan(tmp_path, small, small={"recipe": "bge-base-en-v1.5", "hosts": ["a"], "port": 8001, **small})
    made = carried(planned, "chat", RDMA)
    assert [one.rule for one in made.findings] == ["export-gpu-shared"]
    assert "small" in made.findings[0].found
    assert made.findings[0].expected.startswith("nvidia.com/gpu: 2")


def test_two_services_do_not_meet_in_one_name(tmp_path: Path) -> None:
    """LWS makes a headless Service by the name of each set."""
    other = {"recipe": "bge-base-en-v1.5", "hosts": ["b"], "port": 8001}
    planned = plan(tmp_path, {}, **{"chat-head": other})
    assert [one.rule for one in carried(planned, "chat", RDMA).findings] == ["export-name"]
    assert carried(planned, "chat-head", RDMA).documents


def test_another_overlay_starts_the_pods_anew(tmp_path: Path) -> None:
    """A container doesn't see that a file of its ConfigMap changed."""
    planned = plan(tmp_path, {})
    before = objects(carried(planned, "chat", RDMA))
    rank = planned["hosts"]["a"]["services"][0]
    [path] = [mount["source"] for mount in rank["container"]["mounts"] if mount["source"].endswith(".py")]
    rank["files"][path]["content"] += "# another\n"
    after = objects(carried(planned, "chat", RDMA))
    assert before["ConfigMap"]["metadata"]["name"] != after["ConfigMap"]["metadata"]["name"]
    assert before["LeaderWorkerSet"]["spec"] != after["LeaderWorkerSet"]["spec"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {"v.yaml": ("/it's", "api-key: %s\n")},
            """sed 's/.*/api-key: "&"/' '/it'"'"'s' | kubectl create secret generic x --from-file=v.yaml=/dev/stdin""",
        ),
        ({"llama.key": ("/k", "%t\n")}, "kubectl create secret generic x --from-file=llama.key=/k"),
        (
            {"tls.crt": ("/c", ""), "tls.key": ("/k", "")},
            "kubectl create secret generic x --from-file=tls.crt=/c --from-file=tls.key=/k",
        ),
    ],
)
def test_the_command_for_a_secret(files: dict[str, tuple[str, str]], words: str) -> None:
    assert create(Secret("x", files)) == words


def test_the_command_makes_the_file_that_the_engine_reads(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-0123456789abcdef\n")
    command = create(Secret("x", {"vllm.yaml": (str(tmp_path / "key"), "api-key: %s\n")}))
    done = subprocess.run(["/bin/sh", "-c", command.partition(" | ")[0]], capture_output=True, text=True, check=True)
    assert done.stdout == 'api-key: "sk-0123456789abcdef"\n'


def test_the_page_explains_each_rule() -> None:
    page = (ROOT / "docs" / "how-to" / "export.md").read_text()
    of_kubernetes, _, of_gpustack = page.partition("## GPUStack\n")
    folder = ROOT / "plugins" / "module_utils" / "_operations" / "export"
    for target, part in (("kubernetes", of_kubernetes), ("gpustack", of_gpustack)):
        sources = "".join((folder / f"{name}.py").read_text() for name in (target, "service"))
        assert {*re.findall(r'"(export-[a-z-]+)["/]', sources)} == {*re.findall(r"`(export-[a-z-]+)`", part)}


def test_which_files_change() -> None:
    ours = f"{MARK}\na\n"
    there = {"a.yml": ours, "b.yml": ours, "gone.yml": ours, "foreign.yml": "kind: Pod\n"}
    wanted = {"a.yml": ours, "b.yml": f"{MARK}\nb\n", "c.yml": ours}
    todo = changes(wanted, there, "/f", whole=True)
    assert ([*todo.write], todo.remove) == (["b.yml", "c.yml"], ["gone.yml"])
    assert changes(wanted, there, "/f", whole=False).remove == []
    with pytest.raises(FleetError, match=re.escape("/f/foreign.yml: a file that gb10.fleet.export did not make")):
        changes({"foreign.yml": ours}, there, "/f", whole=True)


# The action and the playbook -----------------------------------------------------------------------------------------


def act(monkeypatch: pytest.MonkeyPatch, *, check_mode: bool = False, **options: Any) -> dict[str, Any]:
    monkeypatch.setattr(ActionBase, "run", lambda *_: {})
    action = export.ActionModule.__new__(export.ActionModule)
    action._task = SimpleNamespace(check_mode=check_mode)
    whole = {"target": "kubernetes", "rdma_resource": RDMA} | options
    action.validate_argument_spec = lambda *_, **__: (None, whole)
    returned: dict[str, Any] = action.run(None, {})
    return returned


def test_a_second_run_changes_nothing_and_check_mode_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = plan(tmp_path, {}, pair={"recipe": "qwen3-1.7b", "hosts": ["b", "c"], "port": 8001}, fabric=SWITCH)
    folder = tmp_path / "out"
    options = {"plan": planned, "services": ["chat", "pair"], "folder": str(folder)}
    first = act(monkeypatch, check_mode=True, **options)
    assert (first["changed"], folder.exists()) == (True, False)
    made = act(monkeypatch, **options)
    assert made["diff"] == first["diff"]
    assert [Path(one).name for one in made["files"]] == ["chat.yml", "pair.yml"]
    assert all(stat.S_IMODE(Path(one).stat().st_mode) == 0o644 for one in made["files"])
    again = act(monkeypatch, **options)
    assert (again["changed"], again["diff"], again["files"]) == (False, [], made["files"])
    one = act(monkeypatch, **options | {"services": ["chat"]})
    assert one["changed"] is False, "of one service nothing is words of the others"
    less = {**planned, "services": {"chat": planned["services"]["chat"]}}
    last = act(monkeypatch, **options | {"plan": less, "services": ["chat"]})
    assert (last["removed"], sorted(folder.iterdir())) == ([str(folder / "pair.yml")], [folder / "chat.yml"])


def test_what_cannot_be_carried_over_keeps_the_rest_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan(tmp_path, {}, **{"7b": {"recipe": "qwen3-1.7b", "hosts": ["b"], "port": 8001}})
    options = {"plan": planned, "folder": str(tmp_path / "out")}
    made = act(monkeypatch, services=["chat", "7b"], **options)
    assert ([Path(one).name for one in made["files"]], len(made["refused"])) == (["chat.yml"], 1)
    with pytest.raises(AnsibleActionFail, match=r"nothing was written: fleet_services\.7b"):
        act(monkeypatch, services=["7b"], **options)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "out"
    with pytest.raises(AnsibleActionFail, match=re.escape(str(tmp_path / "file"))):
        act(monkeypatch, plan=plan(tmp_path, {}), services=["chat"], folder=str(folder))


def test_the_playbook_writes_beside_the_inventory_and_reaches_no_host(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("ansible-playbook")
    services = {"chat": {"recipe": "qwen3-1.7b", "hosts": ["a"], "port": 8000}}
    inventory = {"all": {"hosts": {"a": {"ansible_host": "127.0.0.2", "ansible_port": 1}}}}
    inventory["all"]["vars"] = {"fleet_services": services}  # type: ignore[assignment]
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    mine = owners_environment() | {"ANSIBLE_HOME": str(tmp_path / "home")}
    command = [str(program), "-i", str(tmp_path / "hosts.yml"), "gb10.fleet.export"]
    refused = subprocess.run(command, cwd=ROOT, env=mine, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "write -e target=kubernetes or gpustack" in refused.stdout
    command += ["-e", "target=kubernetes"]
    done = subprocess.run(command, cwd=ROOT, env=mine, capture_output=True, text=True, check=False)
    file = tmp_path / ".fleet" / "export" / "kubernetes" / "chat.yml"
    assert (done.returncode, f"{file}: written" in done.stdout) == (0, True), done.stdout + done.stderr
    assert [one["kind"] for one in yaml.safe_load_all(file.read_text())] == ["ConfigMap", "LeaderWorkerSet", "Service"]
