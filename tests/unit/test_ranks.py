# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service on several hosts: what each rank is told, and what can't be."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.division import FLEETS, shape_of
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_text
from planned import ranks_of

ROOT = Path(__file__).resolve().parents[2]
LIBRARY, _ = load_all([ROOT / "inventories" / "lab" / "recipes", SHIPPED_RECIPES])
PAIR: dict[str, Any] = {"recipe": "lab-tiny", "hosts": ["spark-2", "spark-3"], "port": 8000}
RAY = {"distributed-executor-backend": "ray"}
FABRIC: dict[str, Any] = {"pool": "192.168.100.0/22", "cables": [["spark-2:1", "spark-3:1"]]}
NAMES = ("spark-2", "spark-3", "spark-4")


def plan(
    *, library: Library = LIBRARY, fabric: Any = FABRIC, own: dict[str, Any] | None = None, **service: Any
) -> dict[str, Any]:
    """The plan of three hosts with one service; own: `fleet_host` by name."""
    shared = {"fleet_services": {"pair": PAIR | service}, "fleet_fabric": fabric}
    settings = {name: {"memory_kib": 15728640} | (own or {}).get(name, {}) for name in NAMES}
    inventory = {
        name: {"address": f"{name}.lan", "variables": {**shared, "fleet_host": settings[name]}} for name in NAMES
    }
    return plan_fleet({"hosts": inventory, "folder": "/inventory"}, library)


def ranks(**service: Any) -> list[dict[str, Any]]:
    found = plan(**service)
    assert errors(found) == []
    return ranks_of(found, "pair")


def errors(found: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in found["findings"] if finding["severity"] == "error"]


def after(argv: list[str], option: str) -> str:
    return argv[argv.index(option) + 1]


def after_all(argv: list[str], option: str) -> list[str]:
    return [argv[at + 1] for at, word in enumerate(argv) if word == option]


def environment(rank: dict[str, Any]) -> dict[str, str]:
    run = rank["command"]
    given = [run[index + 1].partition("=") for index, word in enumerate(run) if word == "--env"]
    return {name: value for name, _, value in given}


# What the ranks run


def test_without_a_word_on_it_vllm_starts_its_ranks_by_itself() -> None:
    head, worker = ranks()
    for number, rank in enumerate((head, worker)):
        assert after(rank["command"], "--nnodes") == "2"
        assert after(rank["command"], "--node-rank") == str(number)
        assert after(rank["command"], "--master-addr") == "192.168.100.10"
        assert after(rank["command"], "--master-port") == "22000"
        assert after(rank["command"], "--tensor-parallel-size") == "2"
        assert rank["exec"] is None
    assert "--headless" not in head["command"]
    assert after(head["command"], "--port") == "8000"
    assert "--headless" in worker["command"]
    assert "--port" not in worker["command"]


def test_one_flag_makes_ray_nodes_of_them_and_serves_in_the_heads() -> None:
    head, worker = ranks(flags=RAY)
    start = head["command"].index("--entrypoint")
    assert head["command"][start : start + 4] == ["--entrypoint", "ray", "gb10-lab/vllm-cpu:0.32.0", "start"]
    assert "--include-dashboard=false" in head["command"]
    assert after(head["command"], "--node-ip-address") == "192.168.100.10"
    assert after(worker["command"], "--address") == "192.168.100.10:22000"
    assert after(worker["command"], "--node-ip-address") == "192.168.100.11"
    assert head["exec"][:2] == ["vllm", "serve"]
    assert head["supervisor"]["serve"] == ["/usr/bin/docker", "exec", "gb10-service-pair", *head["exec"]]
    assert after(head["exec"], "--distributed-executor-backend") == "ray"
    assert "--nnodes" not in head["exec"]
    assert (worker["exec"], worker["supervisor"]["serve"]) == (None, None)


def test_ray_asks_for_a_token_which_is_a_file() -> None:
    for rank in ranks(flags=RAY):
        assert environment(rank)["RAY_AUTH_MODE"] == "token"
        # nobody is left whom it could tell: answers were waited for, and the head has ended before
        assert environment(rank)["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] == "0"
        target = environment(rank)["RAY_AUTH_TOKEN_PATH"]
        token = rank["supervisor"]["token"]
        assert f"type=bind,source={token['file']},target={target},readonly" in rank["command"]
        assert token == {"file": "/run/gb10-fleet/pair/token", "purpose": "ray"}
        assert "/etc/gb10-fleet/secrets/pair.group" not in " ".join(rank["command"])
    assert not any("RAY" in name for name in environment(ranks()[0]))
    assert ranks()[0]["supervisor"]["token"] is None


@pytest.mark.parametrize(
    ("declared", "asked"),
    [({"flags": RAY}, True), ({"flags": RAY, "silence": {"R158": "an own network"}}, False), ({}, False)],
)
def test_an_image_is_asked_for_its_ray_unless_the_owner_takes_any(declared: dict[str, Any], asked: bool) -> None:
    for rank in ranks(**declared):
        found = rank["supervisor"]["probes"]["requires"]
        assert (found is not None) is asked
        if asked:
            assert found["command"][:3] == ["/usr/bin/docker", "run", "--rm"]
            assert found["command"][-4:] == ["--entrypoint", "ray", "gb10-lab/vllm-cpu:0.32.0", "--version"]


def test_other_images_get_ray_as_a_command_of_their_own() -> None:
    image = {"family": "custom", "entrypoint": "/start"}
    head, _ = ranks(flags=RAY, image=image)
    assert after(head["command"], "--entrypoint") == "/start"
    assert head["command"][head["command"].index("gb10-lab/vllm-cpu:0.32.0") + 1 :][:3] == ["ray", "start", "--head"]


def test_an_old_vllm_gets_ray() -> None:
    found = ranks_of(plan(image={"release": "0.11.0"}), "pair")
    assert "ray" in found[0]["command"]


@pytest.mark.parametrize("transport", ["roce", "socket"])
def test_a_rank_has_the_rights_that_rdma_needs_and_no_others(transport: str) -> None:
    for rank in ranks(fabric=FABRIC | {"transport": transport}):
        run = rank["command"]
        assert "--privileged" not in run
        assert after(run, "--network") == "host"
        assert after(run, "--ipc") == "private"  # one rank a host
        assert after(run, "--cap-drop") == "ALL"
        assert "memlock=-1" in run
        assert ("/dev/infiniband" in run) == (transport == "roce")
        assert [run[index + 1] for index, word in enumerate(run) if word == "--cap-add"] == (
            ["IPC_LOCK"] if transport == "roce" else []
        )
        assert (rank["supervisor"]["gids"] is not None) == (transport == "roce")


@pytest.mark.parametrize(("port", "heads"), [(443, ["NET_BIND_SERVICE"]), (1023, ["NET_BIND_SERVICE"]), (1024, [])])
def test_the_head_alone_may_have_a_port_that_is_roots(port: int, heads: list[str]) -> None:
    """In the host's network a port below 1024 takes a right, which a service on one host does not need."""
    head, other = (after_all(rank["command"], "--cap-add") for rank in ranks(port=port))
    assert [name for name in head if name != "IPC_LOCK"] == heads
    assert [name for name in other if name != "IPC_LOCK"] == []
    [alone] = ranks(port=port, hosts=["spark-2"])
    assert after_all(alone["command"], "--cap-add") == []


def test_each_rank_has_its_own_hosts_variables() -> None:
    head, worker = (environment(rank) for rank in ranks())
    assert (head["VLLM_HOST_IP"], worker["VLLM_HOST_IP"]) == ("192.168.100.10", "192.168.100.11")
    assert head["GLOO_SOCKET_IFNAME"] == "enp1s0f1np1"
    assert "NCCL_IB_GID_INDEX" not in head


OVERRIDES = {"VLLM_HOST_IP": "10.9.9.9", "RAY_AUTH_MODE": "", "RAY_AUTH_TOKEN_PATH": None, "HF_HOME": "/elsewhere"}


@pytest.mark.parametrize("name", OVERRIDES)
@pytest.mark.parametrize("where", ["service", "host"])
def test_what_follows_from_the_placement_is_not_overridden(name: str, where: str) -> None:
    written = {"env": {name: OVERRIDES[name]}}
    found = plan(**written) if where == "service" else plan(own={"spark-3": {"services": {"pair": written}}})
    (error,) = (finding for finding in found["findings"] if finding["severity"] == "error")
    place = "fleet_services.pair" if where == "service" else "spark-3: fleet_host.services.pair"
    assert (error["rule"], error["place"]) == ("recipe-planned-env", f"{place}.env.{name}")
    assert error["remedy"].startswith("take it out; ")
    assert found["services"] == {}


def test_a_host_may_not_set_a_planned_flag() -> None:
    found = plan(own={"spark-2": {"services": {"pair": {"flags": {"node-rank": 1}}}}})
    assert errors(found) == ["recipe-planned-flag"]


def test_the_owner_has_the_last_word_on_a_variable() -> None:
    own = {"spark-3": {"services": {"pair": {"env": {"NCCL_DEBUG": "INFO"}}}}}
    head, worker = (environment(rank) for rank in ranks(env={"NCCL_NET": "Socket"}, own=own))
    assert head["NCCL_NET"] == worker["NCCL_NET"] == "Socket"
    assert (head["NCCL_DEBUG"], worker["NCCL_DEBUG"]) == ("WARN", "INFO")


def test_the_key_is_where_clients_are_answered_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-0123456789abcdef")
    for flags in ({}, RAY):
        head, worker = ranks(api_key_file=str(tmp_path / "key"), flags=flags)
        assert any("pair.key" in word for word in head["command"])
        assert not any("pair.key" in word or word == "--config" for word in worker["command"])
        assert head["supervisor"]["endpoint"]["key_file"] == "/etc/gb10-fleet/secrets/pair.key"


def test_with_a_key_every_route_of_the_head_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-0123456789abcdef")
    found = plan(api_key_file=str(tmp_path / "key"), env={"PYTHONPATH": "/own"})
    head, worker = ranks_of(found, "pair")
    assert errors(found) == []
    assert after(head["command"], "--middleware") == "gb10_api_key.KeyOnEveryRoute"
    assert "--middleware" not in worker["command"]
    assert environment(head)["PYTHONPATH"] == "/opt/gb10-fleet:/own"
    assert any(word.endswith("target=/opt/gb10-fleet/gb10_api_key.py,readonly") for word in head["command"])
    path = "/var/lib/gb10-fleet/overlays/pair/gb10_api_key.py"
    assert "class KeyOnEveryRoute" in head["files"][path]["content"]
    assert path.rpartition("/")[0] in head["folders"]


def test_an_open_service_has_nothing_of_that() -> None:
    head = ranks(open=True)[0]
    assert head["key"] is None and head["supervisor"]["endpoint"]["key_file"] is None
    assert "--middleware" not in head["command"]
    assert "PYTHONPATH" not in environment(head)


def test_middleware_of_ones_own_beside_the_keys_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-0123456789abcdef")
    flags = {"middleware": "mine.Mine"}
    assert errors(plan(api_key_file=str(tmp_path / "key"), flags=flags)) == ["service-middleware"]
    assert errors(plan(open=True, flags=flags)) == []


# What their supervisors are told


def test_the_supervisors_know_where_they_meet() -> None:
    head, worker = (rank["supervisor"] for rank in ranks())
    assert head["rendezvous"] == worker["rendezvous"] == {"address": "192.168.100.10", "port": 18000}
    assert (head["peers"], worker["peers"]) == (["192.168.100.11"], ["192.168.100.10"])
    assert head["endpoint"]["url"] == "http://127.0.0.1:8000"
    assert (worker["endpoint"], worker["warm_up"], worker["ports"]) == (None, [], [])
    assert head["ports"] == [8000, 22000]


def test_the_gids_are_looked_up_for_the_devices_that_nccl_uses() -> None:
    assert ranks()[1]["supervisor"]["gids"] == [
        {"device": "rocep1s0f1", "address": "192.168.100.11"},
        {"device": "roceP2p1s0f1", "address": "192.168.101.11"},
    ]
    single = ranks(env={"NCCL_IB_HCA": "=rocep1s0f1:1"})[1]["supervisor"]["gids"]
    assert single == [{"device": "rocep1s0f1", "address": "192.168.100.11"}]
    assert ranks(env={"NCCL_IB_GID_INDEX": "3"})[0]["supervisor"]["gids"] is None


def definition(**service: Any) -> str:
    head, worker = (rank["supervisor"]["definition"] for rank in ranks(**service))
    assert head == worker
    return str(head)


@pytest.mark.parametrize(
    "change",
    [
        {"flags": {"max-num-batched-tokens": 1024}},
        {"env": {"OMP_NUM_THREADS": "2"}},
        {"port": 8001},
        {"hosts": ["spark-3", "spark-2"]},
        {"flags": RAY},
        {"image": {"digest": f"sha256:{'0' * 64}"}},
        {"hosts": ["spark-2", "spark-3"], "fabric": FABRIC | {"rails": "single"}},
    ],
)
def test_a_change_on_any_rank_is_one_of_the_whole_group(change: dict[str, Any]) -> None:
    assert definition(**change) != definition()


def test_the_same_declaration_is_the_same_definition() -> None:
    assert definition() == definition(**copy.deepcopy({"flags": {}}))


def test_a_warm_up_fits_into_the_context() -> None:
    for context in (64, 2048, 32768):
        for request in ranks(workload={"max_model_len": context})[0]["supervisor"]["warm_up"]:
            letters = len(request["body"]["messages"][0]["content"])
            assert 0 < letters + request["body"]["max_tokens"] <= context


# The slices of their hosts


def test_each_host_gets_its_own_part() -> None:
    found = plan()
    (head,), (worker,) = (found["hosts"][name]["services"] for name in ("spark-2", "spark-3"))
    assert (head["rank"], worker["rank"]) == (0, 1)
    assert head["hosts"] == worker["hosts"] == ["spark-2", "spark-3"]
    assert json.loads(worker["files"]["/etc/gb10-fleet/services/pair.json"]["content"])["rank"] == 1
    assert head["secret"] == worker["secret"] == {"path": "/etc/gb10-fleet/secrets/pair.group", "head": "spark-2"}
    assert found["hosts"]["spark-4"]["services"] == []
    assert [entry["repository"] for entry in found["hosts"]["spark-3"]["models"]] == ["gb10-lab/tiny"]
    assert (head["proof"]["url"], worker["proof"]) == ("http://127.0.0.1:8000", None)


def test_a_service_on_one_host_is_a_group_of_one() -> None:
    (rank,) = ranks(hosts=["spark-2"])
    supervisor = rank["supervisor"]
    assert (rank["ranks"], supervisor["ranks"], supervisor["peers"]) == (1, 1, [])
    assert (supervisor["rendezvous"], supervisor["secret_file"], supervisor["gids"], supervisor["serve"]) == (
        None,
        None,
        None,
        None,
    )
    assert supervisor["endpoint"]["url"] == "http://127.0.0.1:8000"
    assert "--network" not in rank["command"]


@pytest.mark.parametrize(
    ("listen", "published", "asked"),
    [
        ("0.0.0.0", "0.0.0.0:8000:8000", "127.0.0.1"),
        ("::", "[::]:8000:8000", "[::1]"),
        ("10.0.0.5", "10.0.0.5:8000:8000", "10.0.0.5"),
        ("fd00::5", "[fd00::5]:8000:8000", "[fd00::5]"),
    ],
)
def test_a_service_is_published_and_asked_at_the_address_that_it_listens_at(
    listen: str, published: str, asked: str
) -> None:
    """Docker and URLs have IPv6 addresses in brackets."""
    (rank,) = ranks(hosts=["spark-2"], listen=listen)
    assert after(rank["command"], "--publish") == published
    assert rank["supervisor"]["endpoint"]["url"] == f"http://{asked}:8000"
    assert rank["proof"]["url"] == f"http://{asked}:8000"


def test_what_listens_is_reported_of_each_host() -> None:
    found = plan()["hosts"]
    assert [(row["port"], row["address"]) for row in found["spark-2"]["listens"]] == [
        (8000, "0.0.0.0"),
        (18000, "192.168.100.10"),
        (22000, "192.168.100.10"),
        ("any", "192.168.100.10"),
    ]
    assert [(row["port"], row["address"]) for row in found["spark-3"]["listens"]] == [("any", "192.168.100.11")]
    assert 26000 in [row["port"] for row in plan(flags=RAY)["hosts"]["spark-2"]["listens"]]


def test_the_text_shows_both_ranks() -> None:
    text = as_text(plan(flags=RAY), ["spark-2", "spark-3"])
    assert "command on spark-2 (head)" in text
    assert "command on spark-3 (worker)" in text
    assert "and in it, once all ranks have joined" in text
    assert "VLLM_HOST_IP (spark-3)" in text


# Their memory


def test_the_pool_of_a_rank_holds_its_share_of_the_workload() -> None:
    def pool(**service: Any) -> int:
        return int(plan(workload={"max_model_len": 2048}, **service)["services"]["pair"]["kv"]["bytes"])

    assert pool() * 2 == pool(hosts=["spark-2"])


def test_memory_that_is_short_on_one_rank_is_refused() -> None:
    found = plan(own={"spark-3": {"memory_kib": 6 << 20}})
    places = [row["place"] for row in found["findings"] if row["rule"] == "memory-does-not-fit"]
    assert places == ["spark-3"]


# What can't be

THREE = ["spark-2", "spark-3", "spark-4"]
SWITCH = {"switches": {"s": {"ports": {"spark-2:1": 2, "spark-3:1": 3, "spark-4:1": 4}}}}


@pytest.mark.parametrize(
    ("service", "rule"),
    [
        ({"hosts": ["spark-2", "spark-4"]}, "fabric-group-unconnected"),
        ({"fabric": {}}, "fabric-group-unconnected"),
        ({"fabric": FABRIC | {"mode": "link-local"}}, "fabric-group-link-local"),
        ({"flags": {"tensor-parallel-size": 3}}, "group-ranks"),
        ({"flags": {"tensor-parallel-size": 2, "pipeline-parallel-size": 2}}, "group-ranks"),
        ({"flags": {"data-parallel-size": 2}}, "group-data-parallel"),
        ({"flags": {"distributed-executor-backend": "uni"}}, "group-executor"),
        ({"flags": {"distributed-executor-backend": "mp"}, "image": {"release": "0.11.0"}}, "group-executor"),
        ({"port": 14768}, "group-port"),
        ({"flags": {"node-rank": 1}}, "recipe-planned-flag"),
    ],
)
def test_a_group_that_can_not_be_is_refused(service: dict[str, Any], rule: str) -> None:
    found = plan(**service)
    assert {*errors(found)} == {rule}
    assert found["services"] == {}


# By model and checkpoint: tensor x pipeline on 1, 2, 3, 4 and 8 hosts, as far as nobody has shown another way.
SPLITS = [
    ("qwen3.6-27b", "modelopt", "1x1 2x1 1x3 4x1 8x1"),  # 24 heads would do for three, its 4 KV heads don't
    ("qwen3.6-35b-a3b", "modelopt", "1x1 2x1 1x3 4x1 8x1"),
    ("qwen3.5-35b-a3b", "fp8", "1x1 2x1 1x3 4x1 4x2"),  # 512 channels of an expert are 4 blocks of a scale
    ("qwen3.5-122b-a10b", "fp8", "1x1 2x1 1x3 4x1 8x1"),
    ("qwen3.5-397b-a17b", None, "1x1 2x1 1x3 4x1 8x1"),
    ("qwen3-vl-235b-a22b", "awq", "1x1 2x1 1x3 4x1 4x2"),
    ("nemotron-3-nano-30b-a3b", "modelopt", "1x1 2x1 1x3 4x1 4x2"),
    ("nemotron-3-super-120b-a12b", "modelopt", "1x1 2x1 1x3 4x1 8x1"),
    ("gpt-oss-120b", "mxfp4", "1x1 2x1 1x3 4x1 8x1"),
    ("glm-4.7-flash", None, "1x1 2x1 1x3 4x1 4x2"),  # 20 heads
    ("deepseek-v3", "fp8", "1x1 2x1 1x3 4x1 8x1"),  # latent attention has no KV heads to share out
    ("gemma-4-31b", "modelopt", "1x1 2x1 1x3 4x1 8x1"),
    ("llama-3.3-70b", None, "1x1 2x1 1x3 4x1 8x1"),
    ("bge-base-en-v1.5", None, "1x1 2x1 3x1 4x1 4x2"),  # 12 heads
]


@pytest.mark.parametrize(("config", "quantization", "expected"), SPLITS)
def test_a_model_is_divided_by_its_shape(config: str, quantization: str | None, expected: str) -> None:
    text = (ROOT / "recipes" / "configs" / f"{config}.json").read_text("utf-8")
    shape = shape_of(json.loads(text), quantization)
    assert shape is not None
    found = [shape.split(hosts) for hosts in FLEETS]
    assert [f"{one[0]}x{one[1]}" for one in found if one] == expected.split()
    assert shape.host_counts() == [*FLEETS]


def lab_tiny(folder: Path, **config: Any) -> Library:
    """The lab's recipe as `odd`, its config.json with other values."""
    lab = ROOT / "inventories" / "lab" / "recipes"
    recipe = yaml.safe_load((lab / "lab-tiny.yml").read_text()) | {"name": "odd"}
    written = json.loads((lab / "configs" / "lab-tiny.json").read_text())
    (folder / "configs").mkdir()
    (folder / "odd.yml").write_text(yaml.safe_dump(recipe))
    (folder / "configs" / "lab-tiny.json").write_text(json.dumps(written | config))
    return load_all([folder])[0]


@pytest.mark.parametrize(
    ("service", "config", "words"),
    [
        ({"hosts": THREE}, {}, "4 attention heads over 3 ranks; 2 KV heads over 3 ranks"),  # two layers: no 3 stages
        ({"flags": {"tensor-parallel-size": 2}}, {"num_attention_heads": 3}, "3 attention heads over 2 ranks"),
        ({"flags": {"pipeline-parallel-size": 2}}, {"num_hidden_layers": 1}, "1 layers in 2 stages"),
        ({"hosts": THREE, "flags": {"pipeline-parallel-size": 3}}, {}, "2 layers in 3 stages"),
    ],
)
def test_what_does_not_divide_is_refused_with_its_numbers(
    tmp_path: Path, service: dict[str, Any], config: dict[str, Any], words: str
) -> None:
    found = plan(library=lab_tiny(tmp_path, **config), recipe="odd", fabric=SWITCH, **service)
    (finding,) = [row for row in found["findings"] if row["severity"] == "error"]
    assert finding["rule"] == "group-shape"
    assert words in finding["found"]
    assert "numbers of hosts that it divides into: 1" in finding["remedy"]


def test_three_hosts_are_a_pipeline_where_the_heads_do_not_divide(tmp_path: Path) -> None:
    found = plan(library=lab_tiny(tmp_path, num_hidden_layers=6), recipe="odd", fabric=SWITCH, hosts=THREE)
    assert errors(found) == []
    command = ranks_of(found, "pair")[0]["command"]
    assert after(command, "--pipeline-parallel-size") == "3"
    assert "--tensor-parallel-size" not in command
    assert ("service-host-count", "hint") in {(row["rule"], row["severity"]) for row in found["findings"]}


def test_a_number_of_hosts_that_somebody_has_shown_is_tensor_parallel() -> None:
    """512 channels of an expert are four blocks: on eight hosts its scales would be cut, unless somebody did it."""
    shape = shape_of({"num_attention_heads": 16, "moe_intermediate_size": 512, "num_hidden_layers": 40}, "fp8")
    assert shape is not None
    assert (shape.split(8), shape.split(8, shown=True)) == ((4, 2), (8, 1))


def test_replicas_are_services_on_parts_of_the_hosts() -> None:
    found = plan(hosts=["spark-2", "spark-3"], replicas=2, fabric={})
    assert errors(found) == []
    assert {name: one["hosts"] for name, one in found["services"].items()} == {
        "pair-1": ["spark-2"],
        "pair-2": ["spark-3"],
    }
    keys = {found["hosts"][host]["services"][0]["key"]["source"] for host in ("spark-2", "spark-3")}
    assert keys == {"/inventory/.fleet/keys/pair.key"}  # clients write one key


@pytest.mark.parametrize(
    ("more", "own", "rule"),
    [
        ({"hosts": THREE, "replicas": 2}, {}, "input-replicas"),
        ({"replicas": 3}, {}, "input-replicas"),
        ({"replicas": 2}, {"spark-2": {"services": {"pair-1": {"flags": {"max-num-seqs": 2}}}}}, None),
        ({"replicas": 2}, {"spark-2": {"services": {"pair-3": {}}}}, "input-unknown-service"),
    ],
)
def test_what_replicas_need(more: dict[str, Any], own: dict[str, Any], rule: str | None) -> None:
    assert errors(plan(own=own, fabric=SWITCH, **more)) == ([rule] if rule else [])


def test_the_two_ways_of_a_model_over_two_hosts() -> None:
    assert after(ranks(flags={"pipeline-parallel-size": 2})[0]["command"], "--pipeline-parallel-size") == "2"
    assert "--tensor-parallel-size" not in ranks(flags={"pipeline-parallel-size": 2})[0]["command"]
    staged = ranks(flags={"tensor-parallel-size": 1})[0]["command"]
    assert after(staged, "--pipeline-parallel-size") == "2"


def test_a_group_takes_the_ports_above_its_own() -> None:
    shared = {"fleet_services": {"a": PAIR, "b": PAIR | {"hosts": ["spark-2"], "port": 18000}}, "fleet_fabric": FABRIC}
    inventory = {name: {"address": name, "variables": shared} for name in NAMES}
    found = plan_fleet({"hosts": inventory, "folder": "/"}, LIBRARY)
    assert "input-port-twice" in errors(found)


def test_a_hybrid_model_over_two_hosts_is_named() -> None:
    found = plan(
        recipe="qwen3.5-122b-a10b-fp8", trust=["code"], own={name: {"memory_kib": 127601452} for name in NAMES}
    )
    assert "L16" in [row["rule"] for row in found["findings"] if row["severity"] == "hint"], "its report silences it"


def test_no_two_services_share_compiled_code() -> None:
    """What is compiled is code: a service of another image, or another service, has folders of its own."""
    folders = [
        tuple(
            plan(image={"reference": reference, "family": "upstream", "release": "0.24.0"} | pin)["hosts"][NAMES[0]][
                "services"
            ][0]["container"]["caches"].values()
        )
        for reference in ("a/b:1", "a-b:1", "a/b-1:1", "x" * 70 + "/b:1", "x" * 70 + "/b:2")
        for pin in ({}, {"digest": "sha256:" + "a" * 64})
    ]
    assert all(folders) and len({*folders}) == len(folders)
    assert all("/pair/" in folder for one in folders for folder in one)
