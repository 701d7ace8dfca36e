# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A converge leaves a host out only where every role would have found all as declared."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.layout import HOTPLUG, trusted_link
from ansible_collections.gb10.fleet.plugins.module_utils._host.netplan.document import PATH as NETPLAN
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.questions import (
    DOCKER_HOOK,
    GPU_DEVICE,
    RDMA_PACKAGES,
    before_change,
    host_view,
    hub_tool,
    packages,
    paths_before_change,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.unconverged import (
    needed_first,
    unconverged,
    unstaged,
)
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.subject import with_files
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.hotplug import MARKER
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.state import (
    ALWAYS,
    BEFORE_CHANGE,
    NOT_BEFORE_CHANGE,
    READS,
    UNASKED,
    read_state,
)
from drift_fleet import HOSTS, IMAGE, planned, state_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_drift_compare import MODEL, SYSCTL_FILE, put
from test_hostile_answer import JSON

ROOT = Path(__file__).resolve().parents[2]
GROUP = {"recipe": "lab-tiny", "hosts": ["spark-2", "spark-3"], "port": 8001, "name": "pair"}


def locked(plan: dict[str, Any]) -> dict[str, Any]:
    """With the lock that a first run makes."""
    for host in plan["hosts"].values():
        for image in host["images"]:
            image["lock"] = {"digest": None, "identity": IMAGE["identity"]}
        for model in host["models"]:
            model["lock"] = {"revision": "c" * 40, "seal": "d" * 64}
    return plan


PLAN = locked(planned())
START = {"runs": True, "enabled": True, "stale": False, "newer": "", "other_image": False, "took_s": None}


def reading(plan: dict[str, Any], host: str) -> dict[str, Any]:
    """As `host_info` reads a host that is as planned."""
    mine, ask = plan["hosts"][host], before_change(host_view(plan, host))
    state = state_of(plan, host) | dict.fromkeys(NOT_BEFORE_CHANGE)
    state |= {
        "paths": {path: {"exists": path == trusted_link(mine["tls"]["path"])} for path in paths_before_change(mine)},
        "packages": {name: None if name == "earlyoom" else {"version": "1", "held": True} for name in ask["packages"]},
        "engine": state["engine"] | {"missing_rules": []},
        "images_changing": [],
        "models_changing": [],
        "starts": {one["name"]: START for one in mine["services"]},
        "peers_account": True,
    }
    for service in mine["services"]:
        if service["secret"]:
            state["files"][service["secret"]["path"]]["size"] = 64
    return {"state": state, "unknown": {}}


def why(plan: dict[str, Any] = PLAN, **changes: Callable[[dict[str, Any]], Any] | None) -> dict[str, list[str]]:
    """changes: what is done to the state of a host (with _ for -); None: it was not read."""
    states = {host: reading(plan, host) for host in plan["hosts"]}
    for name, change in changes.items():
        host = name.replace("_", "-")
        if change is None:
            states[host] = None  # type: ignore[assignment]
        else:
            change(states[host]["state"])
    return unconverged(plan, states, {})


def test_nothing_is_to_be_done_where_all_is_as_declared() -> None:
    assert why() == {host: [] for host in HOSTS}


SERVICE = PLAN["hosts"]["titan"]["services"][0]
# What a role would put right, by what it does: how a state shows it.
TO_BE_DONE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "kernel_settings": put("sysctl", "vm.swappiness", "60"),
    "kernel_settings: swap": put("kernel", "swap", "/swap.img"),
    "host_files: content": put("files", SYSCTL_FILE, "sha256", "0" * 64),
    "host_files: access": put("files", SYSCTL_FILE, "mode", "0666"),
    "host_files: folder": put("files", "/etc/docker", "kind", "absent"),
    "json_settings": put("json", "/etc/docker/daemon.json", "icc", True),
    "service_unit: docker": put("units", "docker.service", "active", "inactive"),
    "container_engine_info: rules": put("engine", "missing_rules", ["the chain DOCKER"]),
    "container_engine: hangs": put("engine", "running", False),
    "container_engine: toolkit": put("paths", GPU_DEVICE, "exists", True),
    "firewall_apply: file": put("firewall", "text", "table"),
    "firewall_apply: kernel": put("firewall", "live", "table"),
    "fabric: netplan of before": put("paths", NETPLAN, "exists", True),
    "fabric_hotplug": put("paths", HOTPLUG, "exists", True),
    "container_images": put("images_changing", ["tiny"]),
    "container_images: other": put("images", PLAN["hosts"]["titan"]["images"][0]["reference"], None),
    "model_snapshots": put("models_changing", [MODEL]),
    "model_snapshots: changed": put("models", "models", MODEL, "changed", ["config.json"]),
    "copy: key": put("files", SERVICE["key"]["path"], "same", False),
    "copy: key unknown": put("files", SERVICE["key"]["path"], {"kind": "file", "same": None, "why": "no Vault"}),
    "services: unit": put("files", f"/etc/systemd/system/{SERVICE['unit']}", "kind", "absent"),
    "services: runs": put("starts", "tiny", {**START, "runs": False}),
    "services: enabled": put("starts", "tiny", {**START, "enabled": False}),
    "services: stale": put("starts", "tiny", {**START, "stale": True}),
    "services: newer": put("starts", "tiny", {**START, "newer": "/etc/x"}),
    "services: other image": put("starts", "tiny", {**START, "other_image": True}),
    "service_removal": put("our_units", [{"unit": "gb10-service-old.service", "inventory": "", "ranks": 1}]),
    "phoenix: gone": put("our_units", [{"unit": "gb10-phoenix.service", "inventory": PLAN["inventory"], "ranks": 1}]),
    "monitoring: gone": put(
        "our_units", [{"unit": "gb10-prometheus.service", "inventory": PLAN["inventory"], "ranks": 1}]
    ),
}


@pytest.mark.parametrize("change", TO_BE_DONE.values(), ids=[*TO_BE_DONE])
def test_whatever_a_role_would_put_right_is_a_reason(change: Callable[[dict[str, Any]], Any]) -> None:
    found = why(titan=change)
    assert found["titan"] and not found["spark-2"] and not found["spark-3"]


NOT_OURS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "memory": put("memory_bytes", "available", 0),
    "clock": put("clock", 5.0),
    "another's port": lambda state: state["listening"].append(
        {"port": 9999, "local": False, "process": "x", "container": ""}
    ),
    "restarts": put("units", SERVICE["unit"], "restarts", 3),
    "drop-in": put("units", SERVICE["unit"], "drop_ins", ["/etc/x.conf"]),
    "memlock": put("kernel", "memlock", "8388608"),
    "model": put("models", "others", ["their/model"]),
    "another inventory's monitoring": put(
        "our_units", [{"unit": "gb10-prometheus.service", "inventory": "another", "ranks": 1}]
    ),
}


@pytest.mark.parametrize("change", NOT_OURS.values(), ids=[*NOT_OURS])
def test_what_no_role_changes_is_none(change: Callable[[dict[str, Any]], Any]) -> None:
    assert why(titan=change)["titan"] == []


def test_what_could_not_be_read_is_a_reason() -> None:
    states = {host: reading(PLAN, host) for host in HOSTS}
    states["titan"]["unknown"]["images_changing"] = "Docker gave no answer"
    assert unconverged(PLAN, states, {})["titan"] == ["images_changing could not be read"]
    assert why(titan=None)["titan"] == ["it could not be compared"]


@pytest.mark.parametrize("name", [*TO_BE_DONE, *NOT_OURS])
def test_a_rollout_stages_where_something_has_to_be_brought(name: str) -> None:
    """What its roles of staging would put right, and nothing else."""
    states = {host: reading(PLAN, host) for host in HOSTS}
    (TO_BE_DONE | NOT_OURS)[name](states["titan"]["state"])
    brought = name.startswith(("container_images", "model_snapshots"))
    assert {host: bool(found) for host, found in unstaged(PLAN, states).items()} == {
        host: brought and host == "titan" for host in HOSTS
    }


def test_what_a_rollout_can_not_see_is_staged() -> None:
    states = {host: reading(PLAN, host) for host in HOSTS}
    states["titan"]["unknown"]["images_changing"] = "Docker gave no answer"
    found = unstaged(PLAN, states | {"spark-2": None})
    assert found == {
        "titan": ["images_changing could not be read"],
        "spark-2": ["it could not be compared"],
        "spark-3": [],
    }
    for change in (put("images", 0, "lock", None), put("models", 0, "renew", True)):
        plan = with_plan(change)
        assert unstaged(plan, {host: reading(plan, host) for host in HOSTS})["titan"]


def test_the_network_is_a_reason() -> None:
    states = {host: reading(PLAN, host) for host in HOSTS}
    found = unconverged(PLAN, states, {"spark-2": True, "spark-3": False})
    assert found == {"spark-2": ["the network differs"], "spark-3": [], "titan": []}


def with_plan(change: Callable[[dict[str, Any]], Any], host: str = "titan") -> dict[str, Any]:
    plan = copy.deepcopy(PLAN)
    change(plan["hosts"][host])
    return plan


def test_what_was_never_locked_and_logins_are_reasons() -> None:
    for change in (
        put("images", 0, "lock", None),
        put("models", 0, "lock", None),
        put("images", 0, "renew", True),
        put("container_engine", "registries", [{"name": "x", "key": "x", "username": "y", "password_file": "/z"}]),
    ):
        assert why(with_plan(change))["titan"]


def test_the_adapters_hot_plug() -> None:
    off = with_plan(put("fabric", "hotplug", "off"), "spark-2")
    assert why(off, spark_2=put("paths", MARKER, "exists", True))["spark-2"]
    assert why(off, spark_2=put("paths", HOTPLUG, "exists", True))["spark-2"] == []


def test_a_package_that_a_role_installs() -> None:
    assert why(spark_2=put("packages", "perftest", None))["spark-2"] == ["package perftest is missing"]


def test_nvidias_toolkit_that_is_set_up() -> None:
    def set_up(state: dict[str, Any]) -> None:
        state["paths"] |= {path: {"exists": True} for path in (GPU_DEVICE, DOCKER_HOOK)}
        state["daemon"]["settings"]["runtimes"] = {"nvidia": {"path": "nvidia-container-runtime", "args": []}}

    assert why(titan=set_up)["titan"] == []


def test_hosts_that_depend_on_each_other_are_converged_together() -> None:
    """By a group, and by who reads from whom, over any number of them; no other host."""
    plan = copy.deepcopy(PLAN)
    for host, other in (("titan", "spark-2"), ("spark-2", "titan")):
        ends = {"reads": {other: ["10.0.0.9"]}, "readers": {other: ["192.168.100.9"]}}
        plan["hosts"][host]["peer_access"] = with_files(ends, plan["inventory"])

    def own_key(state: dict[str, Any]) -> None:
        state["peers"]["public_key"] = ""

    states = {host: reading(plan, host) for host in HOSTS}
    for host in ("titan", "spark-2"):
        states[host]["state"]["peers"]["public_key"] = f"ssh-ed25519 {host.replace('-', '/')}"
    assert unconverged(plan, states, {}) == {host: [] for host in HOSTS}
    own_key(states["titan"]["state"])
    found = unconverged(plan, states, {})
    assert found["titan"] == ["this host has no key to read with"]
    assert found["spark-2"] == ["titan has to be converged"] and found["spark-3"] == []
    plan["services"]["pair"] = {"hosts": ["spark-2", "spark-3"]}
    assert unconverged(plan, states, {})["spark-3"] == ["titan has to be converged"]


@pytest.mark.parametrize(("reader", "origin"), [("titan", "spark-2"), ("spark-2", "titan")])
def test_of_a_reader_and_its_source_neither_is_left_out(reader: str, origin: str) -> None:
    """Who only reads has to be known where it reads, and who is only read from has to know it."""
    plan = copy.deepcopy(PLAN)
    ends = {
        reader: {"reads": {origin: ["10.0.0.9"]}, "readers": {}},
        origin: {"reads": {}, "readers": {reader: ["10.0.0.8"]}},
    }
    for host, access in ends.items():
        plan["hosts"][host]["peer_access"] = with_files(access, plan["inventory"])
    states = {host: reading(plan, host) for host in HOSTS}
    states[reader]["state"]["peers"]["public_key"] = f"ssh-ed25519 {reader.replace('-', '/')}"
    found = unconverged(plan, states, {})
    assert found == {host: [] for host in HOSTS}
    for changed, other in ((reader, origin), (origin, reader)):
        now = copy.deepcopy(states)
        now[changed]["state"]["sysctl"]["vm.swappiness"] = "60"
        found = unconverged(plan, now, {})
        assert found[changed] and found[other] == [f"{changed} has to be converged"] and not found["spark-3"]


@given(part=st.sampled_from([*READS, *BEFORE_CHANGE, "paths", "listening"]), value=JSON)
@settings(deadline=None)
def test_whatever_a_host_answers_no_run_fails(part: str, value: Any) -> None:
    states = {host: reading(PLAN, host) for host in HOSTS}
    states["titan"]["state"][part] = value
    found = unconverged(PLAN, states, {})
    assert found.keys() == {*HOSTS}
    json.dumps(found)


# A run of some roles ----------------------------------------------------------------------------------------------


def needs(tags: list[str], skipped: list[str], network: bool = False, **changes: Any) -> list[str]:
    states = {host: reading(PLAN, host) for host in HOSTS}
    for part, value in changes.items():
        states["titan"]["state"][part] = value
    return [*needed_first(PLAN, states, {"titan": network}, tags, skipped)]


@pytest.mark.parametrize(
    ("tags", "skipped", "instead"),
    [
        (["all"], [], ""),
        (["firewall"], [], ""),
        (["image_store", "services"], [], ""),
        (["services"], [], "add image_store to --tags"),
        (["all"], ["image_store"], "leave image_store out of --skip-tags"),
        (["all"], ["image_store", "services"], ""),
        # it has nothing to do on this host
        (["gateway", "phoenix"], [], ""),
    ],
)
def test_no_role_runs_without_what_it_needs(tags: list[str], skipped: list[str], instead: str) -> None:
    assert needs(tags, skipped) == []
    sentence = f"titan: services needs image_store first, since an image must be brought; {instead}"
    assert needs(tags, skipped, images_changing=["an image"]) == ([sentence] if instead else [])


def test_whatever_a_role_needs_is_looked_at() -> None:
    firewall = {**reading(PLAN, "titan")["state"]["firewall"], "text": "other rules"}
    model, engine = ["a model"], {**reading(PLAN, "titan")["state"]["engine"], "running": False}
    for need, changes in {
        "container_engine": {"engine": engine},
        "fabric": {"network": True},
        "firewall": {"firewall": firewall},
        "model_store": {"models_changing": model},
    }.items():
        [sentence] = needs(["services"], [], **changes)
        assert sentence.startswith(f"titan: services needs {need} first, since ")
        assert needs(["services", need], [], **changes) == []


def test_a_host_that_could_not_be_compared_is_run_as_a_whole() -> None:
    found = [*needed_first(PLAN, dict.fromkeys(HOSTS), {}, ["services"], [])]
    assert found and {sentence.partition(":")[0] for sentence in found} == {"titan"}
    assert [*needed_first(PLAN, dict.fromkeys(HOSTS), {}, ["all"], [])] == []


# The questions ----------------------------------------------------------------------------------------------------


def test_a_host_reads_what_is_compared_and_judged() -> None:
    asked = before_change(host_view(PLAN, "titan"))
    asked["deep"] = {"days": 1, "today": 0, "seconds": 0, "seen": {}}
    state, _unknown = read_state(lambda _words: (1, "", ""), paths_before_change(PLAN["hosts"]["titan"]), ask=asked)
    assert state.keys() == {*ALWAYS, *READS, *BEFORE_CHANGE} - {*NOT_BEFORE_CHANGE}
    assert {*UNASKED} <= state.keys()


def role(name: str, part: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "roles" / name / part).read_text("utf-8"))
    return found


def test_the_packages_are_those_of_the_roles() -> None:
    assert sorted(role("fabric", "defaults/main.yml")["fabric_packages"]) == [*RDMA_PACKAGES]
    assert packages(PLAN["hosts"]["spark-2"]) == [*RDMA_PACKAGES]
    assert packages(PLAN["hosts"]["titan"]) == []
    # an owner's own list is not asked for
    assert f"is subset({[*RDMA_PACKAGES]})" in (ROOT / "playbooks" / "site.yml").read_text("utf-8")


def test_the_hubs_tool_is_where_its_role_puts_it() -> None:
    hub = {"source": {"kind": "hub"}, "peers": []}
    path, sha256 = hub_tool({"models": [hub]})
    assert path == role("model_store", "vars/main.yml")["__model_store_tool"] + "/.lock" and len(sha256) == 64
    assert hub_tool({"models": [{**hub, "peers": [{"host": "titan"}]}]}) == ("", "")


# Every task of a role of the converge, and what proves beforehand that it has nothing to do:
#   names of parts of the reading    the comparison of these parts would give a reason to converge the host
#   READS                            it changes nothing
#   after TASK                       it acts only where that task of the same role has found something to do
#   by ...                           something beside the reading, in words
READS_ONLY = "READS"
SEEN: dict[str, dict[str, str]] = {
    "host_tuning": {
        "Set the running kernel": "sysctl kernel",
        "Keep the settings over a boot": "files units",
        "Re-execute systemd": "after Keep the settings over a boot",
        "Stop the unit of the GPU's clock where it is no longer wanted": "files",
        "Keep the GPU's clock and persistence, now and over a boot": "files units",
    },
    "memory_guard": {
        "Stop a guard that is no longer wanted": "files",
        "Write its program and unit as planned": "files units",
        "Restart it after a change of its program": "after Write its program and unit as planned",
    },
    "fabric": {
        "Install the RDMA tools": "packages",
        "Install what takes network changes back, and keep the rails' settings over a boot": "files units",
        "Converge the interfaces": "by its own look before the converge (fabric_change.differs)",
        "Switch the adapter's hot-plug off, or undo that": "paths",
        "Set the rails in the running kernel": "sysctl",
        "Remove our netplan file, and put back what was moved aside for it": "paths",
        "Give the adapter its hot-plug back": "paths",
    },
    "container_engine": {
        "Look for Docker, a GPU and NVIDIA's toolkit": READS_ONLY,
        "Install Docker, of the packages that are there in part, else from the distribution": "engine",
        "Install NVIDIA's container toolkit from the host's repositories": "paths daemon",
        "Make the folder that Docker's client reads logins from": "by its logins, which are a reason by themselves",
        "Write the logins": "by its logins, which are a reason by themselves",
        "Make the folder of Docker's configuration": "files",
        "Write Docker's configuration": "json daemon",
        "Look whether Docker runs, with the rules that it made when it started": READS_ONLY,
        "Let Docker start, however often it could not before": "engine",
        "Run Docker with it, now and after a boot": "units engine",
    },
    "firewall": {
        "Install nftables": "packages",
        "Install what brings the rules at boot": "files units",
        "Converge the rules": "firewall",
        "Remove our units from a host that is open": "files",
    },
    "peer_access": {
        "Read the keys that identify this host": "peers",
        "Install what serves others": "files",
        "Give access to this host, and to others from it": "peers peers_account peers_entries",
    },
    "image_store": {
        "Fetch again for a new entry in the lock file": "by `relock`, with which no host is left out",
        "Bring the images": "images images_changing",
        "Remove the layers that were received": "after Bring the images",
    },
    "model_store": {
        "Make a place in memory for the hub's token": "after Bring them",
        "Lend the hub's token": "after Bring them",
        "Bring them": "models models_changing",
        "Take the hub's token back": "after Bring them",
        "See whether one was installed before": READS_ONLY,
        "Install what makes virtual environments": "files",
        "Install it": "files",
    },
    "lock": {"Record new digests in the lock file": "by the lock: what has no entry is a reason"},
    "services": {
        "Make the API keys that no owner has named": "files",
        "Make the certificates that no owner has named": "certificates files",
        "Bring keys, certificates and what they are trusted by": "files paths",
        "Install the supervisor, and make the services' folders": "files",
        "Write the models' changed files": "json files",
        "Write the units, their supervisors' files and small files laid over models and images": "files",
        "Forget that what is brought was taken back once": "after Write the units, their supervisors' files "
        "and small files laid over models and images",
        "Remove services that are retired, or that other hosts have now, and units that an earlier release named "
        "otherwise": "our_units",
        "Look whether the services run, and what changed since they started, also in a run that was cut "
        "off": READS_ONLY,
        "Let systemd read the units": "starts",
        "Give the services a new start budget": "starts",
        "Stop the heads of changed groups": "starts",
        "Start the services, and restart changed services": "starts",
        "Remove supervisors of earlier releases that nothing uses any more": "after Start the services, "
        "and restart changed services",
        "Make them on the heads": "files",
        "Give them to the other hosts": "files",
    },
    "gateway": {
        "Install its programs, without starting services of their own": "packages",
        "Keep a program that was not here before from starting a service of its own at boot": "after Install its "
        "programs, without starting services of their own",
        "Write its units, and make its folders": "files units",
        "Make the certificate that no owner has named": "certificates files",
        "Write its files as HAProxy takes them, and have it run by them": "files gateway units",
    },
    "clients": {
        "Make the secrets that no owner has named": "files",
        "Write their settings and units, and make their folders": "files units",
        "Place their secrets": "files",
        "Look whether they run, and what changed since they began": READS_ONLY,
        "Let systemd read the units": "starts",
        "Start the clients, and restart changed clients": "starts",
    },
    "monitoring": {
        "Look for units that an earlier declaration of this inventory left": READS_ONLY,
        "Stop them": "our_units",
        "Remove them": "our_units",
        "Install what shows and collects, without starting services of its own": "packages",
        "Keep services that were not here before from starting at boot": "after Install what shows and collects, "
        "without starting services of its own",
        "Make its folders": "files",
        "Place the keys that it asks services with, and what the owner is told by": "files",
        "Write its files and units as planned": "files units",
        "Restart programs whose files changed": "after Write its files and units as planned",
    },
    "phoenix": {
        "Look for units that an earlier declaration of this inventory left": READS_ONLY,
        "Stop them": "our_units",
        "Remove them": "our_units",
        "Install what makes virtual environments": "files",
        "Install Phoenix": "files",
        "Make its folder": "files",
        "Place its secrets": "files",
        "Write its units as planned": "files units",
        "Restart it after an installation or new secrets": "after Install Phoenix",
        "Make a key for spans": "by the action unconverged, which looks for the controller's file",
        "Write it beside Phoenix' secret": "by the action unconverged, which looks for the controller's file",
    },
}
_NO_CHANGE = ("assert", "fail", "include_tasks", "meta", "set_fact")
_OTHER_ENTRIES = (
    "back",
    "bandwidth",
    "preflight",
    "prune",
    "rollout",
    "rollout_step",
    "start",
    "stop",
    "trial",
    "trial_step",
    "verify",
)


def tasks(part: Any) -> Iterator[tuple[str, str]]:
    """Name and module of each task that may change something."""
    for task in part or ():
        for word in task:
            if "." in word and word.rpartition(".")[2] not in _NO_CHANGE:
                yield str(task["name"]).rpartition(" | ")[2], word
        for block in ("block", "rescue", "always"):
            yield from tasks(task.get(block))


def converged(name: str) -> Iterator[tuple[str, str]]:
    """The tasks of a role, but for those that no converge comes to."""
    files = (path for kind in ("tasks", "handlers") for path in (ROOT / "roles" / name / kind).glob("*.yml"))
    for path in files:
        if path.stem not in _OTHER_ENTRIES:
            yield from tasks(yaml.safe_load(path.read_text("utf-8")))


def test_each_task_of_a_role_is_seen_beforehand() -> None:
    """A host that needs a task whose need no comparison sees would be left out of the converge.

    A new task needs a line in `SEEN`.
    """
    plays = yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text("utf-8"))
    converge = next(play for play in plays if any("end_host" in str(task) for task in play.get("pre_tasks", ())))
    roles = [one["role"].rpartition(".")[2] for one in converge["roles"]]
    assert {name: sorted(task for task, _module in converged(name)) for name in roles} == {
        name: sorted(seen) for name, seen in SEEN.items()
    }


_READING = ("command", "slurp", "stat")
PARTS = {*READS, *BEFORE_CHANGE, "paths"} - {*NOT_BEFORE_CHANGE}


@pytest.mark.parametrize("name", SEEN)
def test_what_proves_a_task_unnecessary_is_compared(name: str) -> None:
    modules = dict(converged(name))
    for task, why in SEEN[name].items():
        if why == READS_ONLY:
            module = modules[task].rpartition(".")[2]
            assert module in _READING or module.endswith("_info"), task
        elif why.startswith("after "):
            first = SEEN[name][why.removeprefix("after ")]
            assert not first.startswith("after "), f"{task}: name the task that is compared"
        elif not why.startswith("by "):
            assert {*why.split()} <= PARTS, task


def test_each_call_of_a_rollouts_staging_is_seen_beforehand() -> None:
    """Who gives to whom matters only where something must be brought."""
    plays = yaml.safe_load((ROOT / "playbooks" / "rollout.yml").read_text("utf-8"))
    [staging] = [task for play in plays for task in play["tasks"] if "rollout_unstaged" in str(task.get("when"))]
    roles = [task["ansible.builtin.include_role"]["name"].rpartition(".")[2] for task in staging["block"]]
    assert roles == ["peer_access", "image_store", "model_store", "lock"]
    called = {module for name in ("image_store", "model_store", "lock") for _task, module in converged(name)}
    assert called == {
        "ansible.builtin.copy",
        "ansible.builtin.file",
        "ansible.builtin.stat",
        "ansible.builtin.tempfile",
        "gb10.fleet.container_images",
        "gb10.fleet.host_packages",  # of the hub's tool
        "gb10.fleet.lock_record",
        "gb10.fleet.model_snapshots",
        "gb10.fleet.python_tool",
    }
