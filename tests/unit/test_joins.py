# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters that roles and playbooks join plan and results with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.hosts import (
    by_host,
    fabric_addresses,
    host_slice,
    whole_services,
)
from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.services import changed_services, service_starts
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.parts import UnreadableError
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.questions import host_view
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.starts import read_starts
from drift_fleet import planned


def service(name: str, **parts: Any) -> dict[str, Any]:
    whole = {
        "name": name,
        "unit": f"gb10-service-{name}.service",
        "files": {},
        "merged": [],
        "models": ["/hf"],
        "container": {"name": f"gb10-service-{name}", "image": "vllm:1"},
        "status_file": f"/run/gb10-fleet/{name}/status.json",
        "key": None,
        "secret": None,
        "tls": None,
    }
    return whole | parts


TWO = [service("a"), service("b")]


def loop(*items: tuple[Any, dict[str, Any]]) -> dict[str, Any]:
    return {"results": [{"item": item, "changed": False} | result for item, result in items]}


@pytest.mark.parametrize(
    ("results", "read", "names"),
    [
        ([], {}, []),
        ([loop((TWO[1], {"changed": True}))], {}, ["b"]),
        ([loop((TWO[0], {}), ([TWO[1], {"path": "/x"}], {"changed": True}))], {}, ["b"]),
        ([loop(("a", {}), ("b", {"changed": True}))], {}, ["b"]),
        ([{}, {"skipped": True}, loop((TWO[0], {}))], {}, []),
        ([], {"b": {"newer": "/f"}}, ["b"]),
        ([], {"a": {"other_image": True}}, ["a"]),
        ([], {"a": {"runs": False}}, []),  # started, and not anew
    ],
)
def test_what_starts_anew(results: list[Any], read: dict[str, dict[str, Any]], names: list[str]) -> None:
    states = {one["name"]: {"newer": "", "other_image": False, **read.get(one["name"], {})} for one in TWO}
    assert changed_services(TWO, results, states) == names


def test_a_model_that_is_brought_starts_anew_what_reads_it_in_check_mode_too() -> None:
    folder = "/var/lib/gb10-fleet/hf/hub/models--org--nano"
    services = [service("a", models=[f"{folder}/main"]), service("b", models=[f"{folder}-large/main", "/x"])]
    states = {name: {"newer": "", "other_image": False} for name in "ab"}
    assert changed_services(services, [], states, ["org/nano"]) == ["a"]
    assert changed_services(services, [], states, []) == []


def test_what_decides_whether_a_service_starts_anew() -> None:
    files = {"/f": {"content": "text"}, "/gone": {"content": None}}
    one = service("a", files=files, merged=[{"path": "/m"}], key={"path": "/k"}, secret={"path": "/s"})
    [start] = service_starts([one])
    assert start == {
        "name": "a",
        "unit": "gb10-service-a.service",
        "container": "gb10-service-a",
        "image": "vllm:1",
        "started": "/run/gb10-fleet/a/started",
        "files": ["/f", "/hf", "/k", "/m", "/s"],
    }


INACTIVE = {"Id": "x", "LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "UnitFileState": ""}
ACTIVE = INACTIVE | {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled"}
IDLE = {"runs": False, "enabled": False, "stale": False, "newer": "", "other_image": False, "took_s": None}
UP = IDLE | {"runs": True, "enabled": True}


@pytest.mark.parametrize(
    ("unit", "find", "docker", "read"),
    [
        (INACTIVE, (1, "", "find: /run: no such file"), None, IDLE),  # before the first start, without Docker
        (ACTIVE, (0, "", ""), (0, "sha256:1\nsha256:1\n", ""), UP),
        (ACTIVE | {"ActiveState": "activating"}, (0, "", ""), (1, "", "no such object"), UP),
        (ACTIVE | {"UnitFileState": "disabled"}, (0, "", ""), (1, "", ""), UP | {"enabled": False}),
        (ACTIVE | {"ActiveState": "failed"}, (0, "", ""), (1, "", ""), UP | {"runs": False}),
        (ACTIVE | {"NeedDaemonReload": "yes"}, (0, "", ""), (1, "", ""), UP | {"stale": True}),
        (ACTIVE, (0, "/etc/x\n", ""), (1, "", ""), UP | {"newer": "/etc/x"}),
        (ACTIVE, (0, "", ""), (0, "sha256:1\nsha256:2\n", ""), UP | {"other_image": True}),
        (ACTIVE, (2, "", "find: broken"), (1, "", ""), "find: broken"),
        (ACTIVE, (0, "", ""), (125, "", "docker: broken"), "docker: broken"),
    ],
)
def test_what_is_read_of_a_service_before_it_starts(
    unit: dict[str, str], find: Any, docker: Any, read: dict[str, Any] | str
) -> None:
    def run(words: list[str]) -> tuple[int, str, str]:
        if words[0] == "systemctl":
            return 0, "\n".join(f"{name}={value}" for name, value in {"NeedDaemonReload": "no", **unit}.items()), ""
        if words[0] == "docker" and docker is None:
            raise FileNotFoundError
        answer: tuple[int, str, str] = find if words[0] == "find" else docker
        return answer

    starts = service_starts([TWO[0]])
    if isinstance(read, str):
        with pytest.raises(UnreadableError, match=read):
            read_starts(run, starts)
    else:
        assert read_starts(run, starts) == {"a": read}


def test_a_host_gets_its_slice_with_the_services_of_the_run() -> None:
    plan = {"hosts": {"titan": {"images": [1], "services": TWO}}}
    assert host_slice({"plan": plan, "services": ["b"]}, "titan") == {"images": [1], "services": [TWO[1]]}


def test_what_a_host_is_asked_by_is_no_more_for_the_number_of_the_others() -> None:
    plan = planned()
    rails = {host: [one["address"] for one in part["fabric"]["interfaces"]] for host, part in plan["hosts"].items()}
    others = [address.partition("/")[0] for host in ("spark-2", "spark-3") for address in rails[host] if address]
    assert others
    for host, mine in plan["hosts"].items():
        addresses = sorted(others) if rails[host] else []
        days = plan["drift"]["weights_days"]
        assert host_view(plan, host) == {"slice": mine, "addresses": addresses, "weights_days": days}
    alone = {**plan, "hosts": {"titan": plan["hosts"]["titan"]}}
    assert host_view(alone, "titan") == host_view(plan, "titan")


def test_what_hosts_have_registered() -> None:
    variables: dict[str, Any] = {
        "a": {"key": {"public": "A", "changed": False}},
        "b": {"key": {"skipped": True}},
        "c": {},
    }
    assert by_host(variables, "abc", "key", "public") == {"a": "A"}
    assert by_host(variables, "ab", "key", "changed") == {"a": False}
    assert by_host(variables, "abc", "key") == {"a": variables["a"]["key"], "b": {"skipped": True}}


def test_addresses_of_all_hosts() -> None:
    readings = {"a": {"links": {"x": {"addresses": ["10.0.0.1/24", "fe80::1/64"]}, "y": {"addresses": []}}}}
    assert fabric_addresses(readings) == ["10.0.0.1", "fe80::1"]


def test_one_missing_host_takes_its_services_alone() -> None:
    slices = {"services": [service("solo", hosts=["a"]), service("pair", hosts=["a", "b"])], "fabric": {}}
    assert whole_services(slices, ["a", "b"]) == {"slice": slices, "left_out": []}
    found = whole_services(slices, ["a"])
    assert [one["name"] for one in found["slice"]["services"]] == ["solo"]
    [sentence] = found["left_out"]
    assert sentence.startswith("pair: b can't be reached or was refused")


def test_workers_find_all_filters_loaded_by_the_action_that_a_run_begins_with() -> None:
    """Each would load all of them by itself, for every task of every host that uses one."""
    root = Path(__file__).resolve().parents[2]
    program = (
        "import json, sys; from ansible.plugins.loader import init_plugin_loader, action_loader;"
        f"init_plugin_loader([{str(root / 'collections')!r}]);"
        "action_loader.get('gb10.fleet.plan', class_only=True); print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.rpartition(".")[2] for name in json.loads(done.stdout) if "gb10.fleet.plugins.filter." in name}
    assert loaded == {file.stem for file in (root / "plugins" / "filter").glob("*.py")}
