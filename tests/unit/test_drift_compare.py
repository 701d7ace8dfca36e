"""The comparison: nothing on a fleet as planned, and each single change said with host, resource, want and have."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Difference
from ansible_collections.gb10.fleet.plugins.module_utils._base.subject import DriftContext
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.files import claims
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import Reading, compare
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.report import as_json, as_text, report
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.system.subject import SYSTEM
from drift_fleet import CONTAINER, UNIT, changed, mac, planned, readings
from hypothesis import given, settings
from hypothesis import strategies as st

PLAN = planned()
TODAY = "2026-11-21"
GIB = 1 << 30
SYSCTL_FILE = "/etc/sysctl.d/99-zz-gb10-fleet.conf"
RAIL = "enp1s0f1np1"
PLACE = f"port 1 half 0 ({RAIL})"
IMAGE = next(iter(readings(PLAN)["titan"].state["images"]))  # type: ignore[index]
MODEL = "gb10-lab/tiny"

Change = Callable[[dict[str, Any]], Any]


MEMLOCK = {"key": "DefaultLimitMEMLOCK", "value": "64K", "file": "/etc/systemd/system.conf.d/99-x.conf", "line": 2}
SERVICE = next(one for one in PLAN["hosts"]["titan"]["services"] if one["unit"] == UNIT)
BACK = {
    **{"definition": SERVICE["definition"], "of": SERVICE["name"]},
    **{"at": "2026-11-26 11:58 UTC", "why": "engine core failed"},
}
LATER = {"key": "vm.swappiness", "value": "60", "file": "/etc/sysctl.d/99-zzz.conf", "line": 3}


def unit_of(name: str, inventory: str = "") -> Change:
    """Another unit of ours, or the same one from another inventory."""

    def change(state: dict[str, Any]) -> None:
        state["our_units"] = [*state["our_units"], {"unit": name, "inventory": inventory, "ranks": 1}]

    return change


def put(*path: Any) -> Change:
    """Set what the path leads to: all but the last word are keys, the last is the value."""

    def change(state: dict[str, Any]) -> None:
        *keys, last, value = path
        for key in keys:
            state = state[key]
        state[last] = value

    return change


def running_too(state: dict[str, Any], inventory: str) -> None:
    """A service that nobody declared here, with all that is seen of it."""
    name = "gb10-service-third"
    unit_of(f"{name}.service", inventory)(state)
    state["running"][name] = {"id": "d" * 64, "reference": "x:1", "privileged": False}
    state["listening"].append(listener(8003, container="d" * 64))


def listener(port: int, **more: Any) -> dict[str, Any]:
    return {"port": port, "local": False, "process": "nginx", "container": ""} | more


# (host, change, resource, rule, a word of want, a word of have)
CASES: list[tuple[str, Change, str, str, str, str]] = [
    ("titan", put("files", SYSCTL_FILE, {"kind": "absent"}), f"file {SYSCTL_FILE}", "file-kind", "a file", "no such"),
    ("titan", put("files", SYSCTL_FILE, "sha256", "0" * 64), f"file {SYSCTL_FILE}", "file-content", "sha256", "000000"),
    ("titan", put("files", SYSCTL_FILE, "mode", "0666"), f"file {SYSCTL_FILE}", "file-access", "0644", "0666"),
    ("titan", put("files", SYSCTL_FILE, "owner", "nvidia"), f"file {SYSCTL_FILE}", "file-access", "root:", "nvidia:"),
    ("titan", put("files", "/etc/systemd/system/default.target", "target", "/x"),
     "file /etc/systemd/system/default.target", "file-target", "multi-user.target", "/x"),
    ("titan", put("files", "/etc/systemd/system/swap.target", {"kind": "absent"}),
     "file /etc/systemd/system/swap.target", "file-kind", "/dev/null", "no such"),
    ("spark-2", put("netplan", [{"path": "/etc/netplan/99-x.yaml", "claims": [RAIL]}]),
     "netplan /etc/netplan/99-x.yaml", "netplan-foreign", RAIL, "also"),
    ("titan", put("json", "/etc/docker/daemon.json", "log-driver", "journald"),
     "file /etc/docker/daemon.json", "json-key log-driver", "json-file", "journald"),
    ("titan", put("sysctl", "vm.swappiness", "60"), "sysctl vm.swappiness", "sysctl-live", "1", "60"),
    ("titan", put("sysctl", "vm.swappiness", None), "sysctl vm.swappiness", "sysctl-live", "1", "no such"),
    ("spark-2", put("sysctl", f"net.ipv6.conf.{RAIL}.disable_ipv6", "0"),
     f"sysctl net.ipv6.conf.{RAIL}.disable_ipv6", "sysctl-live", "1", "0"),
    ("titan", put("kernel", "swap", "/swap.img"), "swap", "swap-live", "off", "/swap.img"),
    ("titan", put("kernel", "read_ahead", "nvme0n1", 128), "read-ahead of nvme0n1", "read-ahead-live", "8192", "128"),
    ("titan", put("kernel", "memlock", "8388608"), "systemd's limit on locked memory", "memlock-live", "infinity",
     "83"),
    ("titan", put("kernel", "reboot_required", True), "reboot", "reboot-pending", "runs", "waits"),
    ("titan", put("apt", "unproved", True), "update", "update-unproved", "proved", "was cut off"),
    ("titan", put("kernel", "release", "7.0.0-1019-nvidia"), "kernel 7.0.0-1019-nvidia", "known-bad kernel-7.0.0-1019",
     "not 7.0.0-1019", "7.0.0-1019"),
    ("titan", put("driver", "580.178.04"), "driver 580.178.04", "known-bad driver-out-of-memory",
     "a version", "580.178.04"),
    ("titan", put("packages", "earlyoom", {"version": "1.7", "held": False}), "package earlyoom", "package-earlyoom",
     "not installed", "1.7"),
    ("titan", unit_of("gb10-prometheus.service", PLAN["inventory"]), "unit gb10-prometheus.service",
     "monitoring-undeclared", "no such unit", "file is there"),
    ("titan", put("memory_bytes", "available", 2 * GIB), "free memory", "memory-low", "6.0 GiB", "2.0 GiB"),
    ("titan", put("disks", "/", "free", GIB), "disk of /", "disk-low", "20.0 GiB", "1.0 GiB"),
    ("titan", put("clock", 1100.0), "clock", "clock-off", "within 5 s", "98 s ahead"),
    ("titan", put("clock", 900.0), "clock", "clock-off", "within 5 s", "100 s behind"),
    ("titan", put("engine", {"installed": True, "running": False}), "Docker", "docker-down", "runs", "not answer"),
    ("titan", put("engine", {"installed": True, "running": False, "hangs": "docker did not end within 30 s"}), "Docker",
     "docker-down", "runs", "docker did not end within 30 s"),
    # harm of our own: nft flush ruleset
    ("titan", put("engine", "missing_rules", ["the chain DOCKER"]), "Docker", "docker-rules", "made when it started",
     "the chain DOCKER is gone"),
    # an owner's drop-in of docker.service that wins over ours, by file and line
    ("titan", put("daemon", "file", "/etc/mine.json"), "/etc/docker/daemon.json", "docker-other-file", "this file",
     "/etc/mine.json instead (systemctl cat docker)"),
    ("titan", lambda state: state["daemon"].update(flags=["log-driver"], where={"log-driver": "/etc/x.conf, line 3"}),
     "fleet_host.container_engine.daemon.log-driver", "docker-option-twice", "once", "(/etc/x.conf, line 3)"),
    ("titan", put("units", UNIT, "active", "failed"), f"unit {UNIT}", "unit-active", "active", "failed"),
    ("titan", put("units", UNIT, "enabled", "disabled"), f"unit {UNIT}", "unit-enabled", "enabled", "disabled"),
    ("titan", put("units", UNIT, "stale", True), f"unit {UNIT}", "unit-stale", "file says", "since it changed"),
    # the owner's own later file, by name and line
    ("titan", put("sysctl_later", [LATER]),
     "/etc/sysctl.d/99-zzz.conf, line 3", "sysctl-later", "read after ours", "vm.swappiness = 60"),
    ("titan", put("memlock_later", [MEMLOCK]),
     "/etc/systemd/system.conf.d/99-x.conf, line 2", "memlock-later", "reads this file after ours", "=64K"),
    ("titan", put("units", UNIT, "drop_ins", ["/etc/systemd/system/x.service.d/mine.conf"]), f"unit {UNIT}",
     "unit-drop-in", "as it was written", "mine.conf changes it"),
    ("titan", put("units", UNIT, "restarts", 2), f"unit {UNIT}", "unit-restarts", "no restart", "2"),
    ("titan", unit_of("gb10-service-old.service"), "unit gb10-service-old.service", "unit-undeclared",
     "no such", "there"),
    ("titan", put("our_units", 0, "unproved", True), f"unit {UNIT}", "service-unproved", "proved", "cut off"),
    ("titan", put("our_units", 0, "taken_back", BACK), f"unit {UNIT}", "service-taken-back", "another declaration",
     "this declaration was taken back at 2026-11-26 11:58 UTC: engine core failed"),
    ("titan", unit_of(UNIT, "home"), f"unit {UNIT}", "unit-undeclared", "no such", "by the inventory home"),
    ("titan", put("running", CONTAINER, "image", "sha256:" + "9" * 64), f"container {CONTAINER}", "container-image",
     "aaaaaaaaaaaa", "999999999999"),
    ("titan", put("running", CONTAINER, "argv", ["x"]), f"container {CONTAINER}", "container-argv", MODEL, "x"),
    ("titan", put("running", CONTAINER, "entrypoint", ["sh"]), f"container {CONTAINER}", "container-argv",
     "vllm", "sh"),
    ("titan", put("running", CONTAINER, "env", "HF_HUB_OFFLINE", "0"), f"container {CONTAINER}",
     "container-env HF_HUB_OFFLINE", "=1", "=0"),
    ("titan", put("running", CONTAINER, "other_env", ["HF_TOKEN"]), f"container {CONTAINER}", "container-env",
     "no other", "HF_TOKEN"),
    ("titan", put("running", CONTAINER, "mounts", []), f"container {CONTAINER}", "container-mounts", "/hf", "[]"),
    ("titan", put("running", CONTAINER, "devices", ["/dev/sda"]), f"container {CONTAINER}", "container-devices",
     "[]", "/dev/sda"),
    ("titan", put("running", CONTAINER, "privileged", True), f"container {CONTAINER}", "container-privileged",
     "false", "true"),
    ("titan", put("running", CONTAINER, "capabilities", ["SYS_ADMIN"]), f"container {CONTAINER}",
     "container-capabilities", "[]", "SYS_ADMIN"),
    ("titan", put("running", CONTAINER, "security", []), f"container {CONTAINER}", "container-security",
     "no-new-privileges", "[]"),
    ("titan", put("running", CONTAINER, "network", "host"), f"container {CONTAINER}", "container-network",
     "bridge", "host"),
    ("titan", put("running", CONTAINER, "published", []), f"container {CONTAINER}", "container-published",
     "8000", "[]"),
    ("titan", lambda state: state["running"].update(other={"id": "f", "reference": "ollama:1", "privileged": False}),
     "container other", "container-undeclared", "nobody", "ollama:1"),
    ("titan", lambda state: state["listening"].append(listener(9999)), "port 9999", "port-undeclared",
     "nobody", "nginx"),
    ("titan", put("listening", [listener(22)]), "port 8000", "port-closed", "tiny listens", "nobody"),
    ("titan", put("images", IMAGE, None), f"image {IMAGE}", "image-missing", "store", "no such"),
    ("titan", put("images", IMAGE, "identity", "sha256:" + "7" * 64), f"image {IMAGE}", "image-other", "bbbbbbbbbbbb",
     "777777777777"),
    ("titan", put("models", "models", MODEL, "revision", None), f"model {MODEL}", "model-missing", "revision", "none"),
    ("titan", put("models", "models", MODEL, "gone", ["a.bin"]), f"model {MODEL}", "model-file-missing",
     "all", "a.bin"),
    ("titan", put("models", "models", MODEL, "changed", ["a.bin"]), f"model {MODEL}", "model-file-changed",
     "verified", "a.bin"),
    ("titan", put("models", "models", MODEL, "closed", ["/hf/hub/x"]), f"model {MODEL}", "model-unreadable",
     "root without capabilities", "a container can't read /hf/hub/x"),
    ("titan", put("models", "models", MODEL, "access", ["/hf/hub", "/hf/hub/x"]), f"model {MODEL}", "model-access",
     "root alone", "others may change /hf/hub and 1 more"),
    ("titan", put("models", "models", MODEL, "broken", "its seal is broken"), f"model {MODEL}", "model-record",
     "sealed", "broken"),
    ("titan", put("models", "others", ["org/old"]), "model org/old", "model-undeclared", "nobody", "cache"),
    ("titan", put("deep", "bad", {f"{MODEL}/a.bin": "5" * 64}), f"weights {MODEL}/a.bin", "model-bytes", "verified",
     "555555"),
    ("titan", put("firewall", "live", "table"), "nftables table inet gb10_fleet", "firewall-live",
     "not in the kernel", "other rules"),
    ("titan", put("firewall", "live_planned", "table"), "nftables table inet gb10_fleet", "firewall-live",
     "the planned rules", "not in the kernel"),
    ("titan", put("firewall", "text", "table"), "file /etc/gb10-fleet/firewall.nft", "firewall-file",
     "no such", "other"),
    ("spark-2", put("fabric", "links", RAIL, "mtu", 1500), PLACE, "fabric-mtu", "9000", "1500"),
    ("spark-2", put("fabric", "links", RAIL, "speed_mbps", 100000), PLACE, "fabric-link-speed", "200000", "100000"),
    ("spark-2", put("fabric", "links", RAIL, "addresses", []), PLACE, "fabric-address", "192.168.", "no address"),
    ("spark-2", put("fabric", "links", RAIL, "up", False), PLACE, "fabric-link-down", "up", "off"),
    ("spark-2", put("fabric", "links", RAIL, "carrier", False), PLACE, "fabric-half-dead", "spark-3", "no carrier"),
    ("spark-2", put("fabric", "asked", RAIL, "answers", {"192.168.103.9": mac("titan", RAIL)}), PLACE,
     "fabric-wrong-peer", "spark-3", "connected to"),
    ("spark-2", put("fabric", "rdma", "rocep1s0f1", "gids", []), PLACE, "fabric-no-gid", "one", "no RoCE v2 GID"),
    ("spark-2", put("fabric", "rdma", "rocep1s0f1", "state", "DOWN"), PLACE, "fabric-rdma-state", "ACTIVE", "DOWN"),
]  # fmt: skip


def test_a_fleet_as_planned_is_clean() -> None:
    result = compare(PLAN, readings(PLAN), TODAY)
    assert result.differences == () and result.unknown == ()
    assert result.verdict == "clean"


@pytest.mark.parametrize(
    ("host", "change", "resource", "rule", "want", "have"),
    CASES,
    ids=lambda value: None if callable(value) else str(value)[:40],
)
def test_a_change_is_reported_where_it_is(
    host: str, change: Change, resource: str, rule: str, want: str, have: str
) -> None:
    result = compare(PLAN, changed(PLAN, host, change), TODAY)
    (one,) = result.differences
    assert (one.host, one.place, one.rule) == (host, resource, rule)
    assert want in one.expected and have in one.found
    assert one.remedy


NETPLAN = """network:
  ethernets: # enp1s0f1np1 in a comment is nobody's
    lan0: {dhcp4: true}
    enp1s0f1np1: {addresses: [10.0.0.1/24]}
    enp1s0f1np1.5: {}
"""


@pytest.mark.parametrize(
    ("host", "change", "named"),
    [
        ("titan", put("sysctl_later", [LATER]), "/etc/sysctl.d/99-zzz.conf, line 3"),
        ("titan", put("memlock_later", [MEMLOCK]), "/etc/systemd/system.conf.d/99-x.conf, line 2"),
        ("titan", put("daemon", {"flags": ["log-driver"], "where": {"log-driver": "/etc/x.conf, line 3"}, "file": ""}),
         "/etc/x.conf, line 3"),
        ("titan", put("daemon", {"flags": ["config-file"], "where": {"config-file": "/etc/x.conf, line 4"},
                                 "file": "/etc/mine.json"}), "/etc/x.conf, line 4"),
        # all of a drop-in wins
        ("titan", put("units", UNIT, "drop_ins", ["/etc/systemd/system/x.d/mine.conf"]), "/x.d/mine.conf changes it"),
        ("spark-2", put("netplan", [{"path": "/etc/netplan/99-x.yaml", "claims": [RAIL],
                                     "lines": claims(NETPLAN, {RAIL: "aa:bb:cc:dd:ee:ff"})}]),
         "/etc/netplan/99-x.yaml: it also does, in line 4"),
    ],
)  # fmt: skip
def test_an_owners_own_that_wins_over_ours_is_named_by_file_and_line(host: str, change: Change, named: str) -> None:
    (one,) = compare(PLAN, changed(PLAN, host, change), TODAY).differences
    assert named in f"{one.place}: {one.found}"
    assert compare(PLAN, changed(PLAN, host, lambda _state: None), TODAY).differences == ()  # it is taken away


@pytest.mark.parametrize(
    ("image", "rules"),
    [
        ({"reference": "vllm/vllm-openai:v0.24.0", "digest": None}, []),
        ({"reference": "vllm/vllm-openai:gemma4", "digest": None}, ["known-bad bad-tag"]),
        ({"reference": "vllm/vllm-openai:nightly", "digest": None}, ["known-bad moving-tag"]),
        ({"reference": "vllm/vllm-openai:nightly", "digest": "sha256:" + "0" * 64}, []),
        ({"reference": "eugr/spark-vllm:nightly-20260704", "digest": None}, []),
    ],
)
def test_bad_and_moving_tags(image: dict[str, Any], rules: list[str]) -> None:
    plan = copy.deepcopy(PLAN)
    plan["hosts"]["titan"]["images"] = [image]
    state = readings(PLAN)["titan"].state or {}
    found = SYSTEM.differences(DriftContext("titan", plan, {"titan": state}))
    assert [one.rule for one in found if isinstance(one, Difference)] == rules


@pytest.mark.parametrize("part", sorted(readings(PLAN)["titan"].state or {}))
def test_a_part_that_could_not_be_read_is_never_clean(part: str) -> None:
    found = readings(PLAN)
    state = dict(found["titan"].state or {}) | {part: None}
    result = compare(PLAN, found | {"titan": Reading(state, {part: "no permission"})}, TODAY)
    assert result.verdict == "unknown"
    assert ("titan", part, "no permission") in [(one.host, one.part, one.why) for one in result.unknown]


def test_a_host_that_does_not_answer_is_neither_clean_nor_drifted() -> None:
    found = readings(PLAN) | {"titan": Reading(None, {}, "unreachable")}
    result = compare(PLAN, found, TODAY)
    assert result.verdict == "unknown" and result.verdict_of("titan") == "unknown"
    assert result.verdict_of("spark-2") == "clean"


def test_a_cable_to_a_host_that_is_off_is_not_judged() -> None:
    found = changed(PLAN, "spark-2", put("fabric", "asked", RAIL, "answers", {}))
    result = compare(PLAN, found | {"spark-3": Reading(None, {}, "unreachable")}, TODAY)
    assert result.verdict == "unknown"
    assert any("spark-3 could not be read" in one.why for one in result.unknown)


def test_a_rule_that_the_kernel_holds_and_the_plan_does_not_is_shown() -> None:
    found = {"live": "table {\n\taccept\n\tdrop\n}\n", "live_planned": "table {\n\tdrop\n}\n"}
    (one,) = compare(PLAN, changed(PLAN, "titan", lambda state: state["firewall"].update(found)), TODAY).differences
    assert (one.expected, one.found) == ("the planned rules", "other rules")
    assert "+\taccept" in one.diff.splitlines() and "-\tdrop" not in one.diff


def test_rules_that_could_not_be_compared_are_unknown() -> None:
    change = put("firewall", "why", "unshare can't tell the rules: Operation not permitted")
    result = compare(PLAN, changed(PLAN, "titan", change), TODAY)
    (one,) = result.unknown
    assert result.verdict == "unknown"
    assert (one.part, "not permitted" in one.why) == ("nftables table inet gb10_fleet", True)


def test_an_undeclared_service_is_one_finding() -> None:
    """Its container and its port were two more, with remedies that did not help."""
    result = compare(PLAN, changed(PLAN, "titan", lambda state: running_too(state, PLAN["inventory"])), TODAY)
    [one] = result.differences
    assert (one.rule, one.remedy.partition(":")[0]) == ("unit-undeclared", "declare third again, or remove it")


def test_a_model_that_loads_is_not_a_closed_port() -> None:
    def change(state: dict[str, Any]) -> None:
        state["listening"] = [listener(22)]
        state["units"][UNIT]["active_s"] = 60

    result = compare(PLAN, changed(PLAN, "titan", change), TODAY)
    assert result.verdict == "unknown" and "has run for 1 min 00 s" in result.unknown[0].why


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["listening"].append(listener(11434, local=True)),
        lambda state: state["listening"].append(listener(34567, container="e" * 64)),
        # a service of another inventory, which has its own drift check
        lambda state: running_too(state, "theirs"),
        put("kernel", "release", "7.1.0"),
        put("packages", "docker-ce", None),
        put("clock", 1004.0),
    ],
)
def test_what_nobody_declared_and_hurts_nobody_is_clean(change: Change) -> None:
    assert compare(PLAN, changed(PLAN, "titan", change), TODAY).verdict == "clean"


def test_a_cure_on_the_kernels_command_line_counts() -> None:
    def change(state: dict[str, Any]) -> None:
        state["kernel"] |= {"release": "7.0.0-1019-nvidia", "cmdline": "quiet kho=off"}

    assert compare(PLAN, changed(PLAN, "titan", change), TODAY).verdict == "clean"


def accepting(until: str, **more: str) -> dict[str, Any]:
    entry = {"resource": "sysctl vm.*", "reason": "being measured", "until": until} | more
    return planned(fleet_drift={"accept": [entry]})


@pytest.mark.parametrize(
    ("plan", "verdict"),
    [
        (accepting("2026-11-21"), "clean"),
        (accepting("2026-11-20"), "drift"),
        (accepting("2026-12-31", host="spark-*"), "drift"),
        (accepting("2026-12-31", rule="sysctl-*"), "clean"),
    ],
)
def test_drift_is_accepted_with_a_reason_until_a_day(plan: dict[str, Any], verdict: str) -> None:
    result = compare(plan, changed(plan, "titan", put("sysctl", "vm.swappiness", "60")), TODAY)
    assert result.verdict == verdict
    assert bool(result.accepted) == (verdict == "clean")


def test_an_acceptance_that_ended_reports_it() -> None:
    plan = accepting("2026-11-20")
    (one,) = compare(plan, changed(plan, "titan", put("sysctl", "vm.swappiness", "60")), TODAY).differences
    assert "ended on 2026-11-20 (being measured)" in one.reason


def test_one_service_alone() -> None:
    def change(state: dict[str, Any]) -> None:
        state["sysctl"]["vm.swappiness"] = "60"
        state["units"][UNIT]["active"] = "failed"

    result = compare(PLAN, changed(PLAN, "titan", change), TODAY, "tiny")
    assert [one.rule for one in result.differences] == ["unit-active"]


@settings(deadline=None, max_examples=30)
@given(st.permutations(range(len(CASES))).map(lambda order: order[:12]))
def test_changes_at_once_are_each_found_and_always_in_the_same_order(chosen: list[int]) -> None:
    cases = [
        case for index in chosen if (case := CASES[index]) and case[3].startswith(("file-", "sysctl", "container-"))
    ]
    found = readings(PLAN)
    states = {host: copy.deepcopy(dict(reading.state or {})) for host, reading in found.items()}
    for host, change, *_ in cases:
        change(states[host])
    forward = compare(PLAN, {host: Reading(state, {}) for host, state in states.items()}, TODAY)
    backward = compare(PLAN, {host: Reading(states[host], {}) for host in reversed(states)}, TODAY)
    assert forward == backward
    assert {(case[0], case[2]) for case in cases} == {(one.host, one.place) for one in forward.differences}


def test_two_runs_give_the_same_report_but_for_the_times() -> None:
    first, second = (
        as_json(report(compare(PLAN, readings(PLAN), TODAY), {}, at)) for at in ("2026-11-21T03", "2026-11-22T03")
    )
    assert first.replace("2026-11-21", "2026-11-22") == second
    assert json.loads(first)["exit_code"] == 0


def test_the_text_names_the_remedy_and_takes_no_control_characters() -> None:
    found = changed(PLAN, "titan", put("driver", "590.44\x1b[2J"))
    text = as_text(report(compare(PLAN, found, TODAY), {}, "2026-11-21T03:00:00Z"))
    assert "remedy: install driver 580" in text
    assert "\x1b" not in text
    assert text.splitlines()[-1].startswith("drift: not everything is as declared: 3 hosts, 1 warning, 1 hint")


def test_a_driver_that_may_freeze_is_no_drift_while_the_memory_guard_is_on() -> None:
    found = changed(PLAN, "titan", put("driver", "580.178.04"))
    assert PLAN["hosts"]["titan"]["memory_guard"]["enabled"]
    assert compare(PLAN, found, TODAY).verdict == "clean"
    off = copy.deepcopy(PLAN)
    off["hosts"]["titan"]["memory_guard"]["enabled"] = False
    assert compare(off, found, TODAY).verdict == "drift"


@pytest.mark.parametrize(("count", "blocks"), [(5, 5), (6, 1), (None, 1)])
def test_a_host_that_was_never_converged_is_one_finding_in_the_text(count: int | None, blocks: int) -> None:
    """Each missing file was four lines."""

    def change(state: dict[str, Any]) -> None:
        there = [path for path, found in state["files"].items() if found["kind"] != "absent"]
        state["files"] |= {path: {"kind": "absent"} for path in there[:count]}

    document = report(compare(PLAN, changed(PLAN, "titan", change), TODAY), {}, "2026-11-21T03:00:00Z")
    text = as_text(document)
    assert text.count("    have: no such file") == blocks
    missing = [one for one in document["findings"] if one["have"] == "no such file"]
    assert len(missing) == (count or len(missing)) >= 5
    assert (f"{len(missing)} files, folders and links" in text) == (blocks == 1)


def test_what_is_locked_is_compared_and_not_what_a_host_noted() -> None:
    """A host that was taken over notes the image and the seal that it has."""
    plan = copy.deepcopy(PLAN)
    plan["hosts"]["titan"]["images"][0]["lock"] = {"digest": None, "identity": "sha256:" + "c" * 64}
    plan["hosts"]["titan"]["models"][0]["lock"] = {"revision": "1" * 40, "seal": "2" * 64}
    found = [(one.place, one.rule) for one in compare(plan, readings(plan), TODAY).differences]
    assert (f"image {IMAGE}", "image-other") in found
    assert (f"model {MODEL}", "model-other") in found


@pytest.mark.parametrize(
    ("aspect", "found", "is_different"),
    [
        ("pids-limit", None, False),  # the kernel has no controller for it, which Docker says by leaving it out
        ("memory-limit", None, False),
        ("pids-limit", 99, True),
        ("memory-limit", 99, True),
        ("read-only", None, True),
        ("network", None, True),
        ("dropped", None, True),
    ],
)
def test_of_a_container_a_limit_alone_may_be_left_out(aspect: str, found: Any, is_different: bool) -> None:
    plan = copy.deepcopy(PLAN)
    (service,) = plan["hosts"]["titan"]["services"]
    service["container"]["memory_limit"] = 64 << 30
    container = service["container"]["name"]
    states = changed(plan, "titan", put("running", container, aspect, found))
    rules = {one.rule for one in compare(plan, states, TODAY).differences}
    assert rules == ({f"container-{aspect}"} if is_different else set())
