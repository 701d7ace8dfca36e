# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back of a host: what is noted before a change, what is found and undone afterwards, and who needs it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.layout import MARK
from ansible_collections.gb10.fleet.plugins.module_utils._host.netplan import judge
from ansible_collections.gb10.fleet.plugins.module_utils._host.settings import kernel_settings
from ansible_collections.gb10.fleet.plugins.module_utils._host.settings.json_settings import both, merged, restored
from ansible_collections.gb10.fleet.plugins.module_utils._operations.undo import record, survey
from ansible_collections.gb10.fleet.plugins.module_utils._operations.undo.dependents import removal
from ansible_collections.gb10.fleet.plugins.modules import host_files, json_settings, netplan_apply
from hypothesis import given
from hypothesis import strategies as st

MAPS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | st.integers(0, 3), max_size=3),
    max_leaves=8,
)


@given(MAPS, MAPS, MAPS)
def test_keys_of_a_json_file_come_back(before: dict[str, Any], ours: dict[str, Any], later: dict[str, Any]) -> None:
    now = merged(merged(before, ours), later)
    assert restored(now, before, both(ours, later)) == before


def written(capsys: pytest.CaptureFixture[str], module: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    with patch_module_args(dict(arguments)), pytest.raises(SystemExit):
        module.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def undo(*paths: str) -> list[str]:
    """Of files and keys alone: this machine is no host of a fleet."""
    known, why = record.read()
    assert known is not None and why == ""
    steps = [*survey._files(survey.RemovalOrder(paths), known), *survey._json(known["json"])]
    steps += survey._made(known["folders"], [step.place for step in steps])
    for step in steps:
        step.act()
    return [step.place for step in steps]


def test_files_and_links_are_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_files, "OWNER", tmp_path.owner())
    (tmp_path / "theirs").write_text("theirs\n")
    (tmp_path / "theirs").chmod(0o640)
    (tmp_path / "link").symlink_to("/theirs")
    files = {str(tmp_path / name): {"mode": "0644", "content": "ours\n"} for name in ("theirs", "new/deep/file")}
    for text in ("ours\n", "ours, later\n"):
        for file in files.values():
            file["content"] = text
        links = {str(tmp_path / "link"): "/ours", str(tmp_path / "gb10-x"): "/ours"}
        assert written(capsys, host_files, {"files": files, "links": links})["changed"]
    assert str(tmp_path / "gb10-x") in undo(str(tmp_path / "gb10-x"))
    assert (tmp_path / "theirs").read_text() == "theirs\n"
    assert (tmp_path / "theirs").stat().st_mode & 0o777 == 0o640
    assert str((tmp_path / "link").readlink()) == "/theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "theirs"]
    assert undo() == []


def test_check_mode_notes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, undo_record: Path
) -> None:
    monkeypatch.setattr(host_files, "OWNER", tmp_path.owner())
    arguments = {"files": {str(tmp_path / "a"): {"mode": "0644", "content": "x"}}, "_ansible_check_mode": True}
    assert written(capsys, host_files, arguments)["changed"]
    assert not undo_record.exists()


def test_a_json_file_gets_its_very_bytes_back_or_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs, new = tmp_path / "theirs.json", tmp_path / "new.json"
    theirs.write_text('{"a":1, "b": {"c": 2}}')
    for path in (theirs, new):
        for settings in ({"a": 2}, {"b": {"c": 3, "d": 4}}):
            written(capsys, json_settings, {"path": str(path), "settings": settings})
    undo()
    assert theirs.read_text() == '{"a":1, "b": {"c": 2}}'
    assert not new.exists()


def test_what_an_owner_has_changed_meanwhile_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "daemon.json"
    path.write_text('{"a": 1}')
    written(capsys, json_settings, {"path": str(path), "settings": {"a": 2, "ours": True}})
    path.write_text(json.dumps(json.loads(path.read_text()) | {"theirs": 7}))
    undo()
    assert json.loads(path.read_text()) == {"a": 1, "theirs": 7}


def test_a_record_that_is_late_takes_nothing_of_ours_for_an_owners(tmp_path: Path) -> None:
    record._LIBRARY.mkdir()
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_text("# Managed by gb10.fleet: ...")
    theirs.write_text("x")
    record.remember_file(ours)
    record.remember_file(theirs)
    record.remember("kernel", {"vm.swappiness": "1"})
    record.remember_json(theirs, {"a": None})
    known, _why = record.read()
    assert known is not None and known["late"]
    assert known["files"][str(ours)] is None and known["files"][str(theirs)] is not None
    assert (known["kernel"], known["json"]) == ({}, {})
    [sentence] = survey.stays(known, (), ["vm.swappiness"])
    assert "kept no record" in sentence and "vm.swappiness" in sentence


def test_a_damaged_record_is_late(undo_record: Path) -> None:
    undo_record.write_text('{"late": false}')
    assert record.read() == (None, "it has no 'files'")
    assert record.begin()["late"]


def test_an_owners_file_that_names_us_comes_back(tmp_path: Path) -> None:
    """Whose it is, is a question only where we were there before the record."""
    theirs = tmp_path / "theirs"
    theirs.write_text("# read by gb10.fleet\n")
    record.remember_file(theirs)
    theirs.write_text("ours\n")
    assert undo() == [str(theirs)]
    assert theirs.read_text() == "# read by gb10.fleet\n"


def test_a_json_file_of_ours_that_is_gone_is_nothing_to_undo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new.json"
    written(capsys, json_settings, {"path": str(path), "settings": {"a": 1}})
    path.unlink()
    assert undo() == []


def test_the_record_is_for_root_alone(undo_record: Path) -> None:
    record.begin()
    assert undo_record.stat().st_mode & 0o777 == 0o600


def test_of_nothing_nothing_is_noted(undo_record: Path) -> None:
    record.remember("kernel", {})
    assert not undo_record.exists()
    record.remember("kernel", {"vm.swappiness": "60"})
    assert undo_record.exists()


def test_of_a_pair_of_kernel_values_the_one_that_holds_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def path(key: str) -> Path:
        return tmp_path / key

    monkeypatch.setattr(kernel_settings, "sysctl_path", path)
    for key, value in {"vm.dirty_bytes": "0", "vm.dirty_ratio": "20", "vm.swappiness": "60"}.items():
        path(key).write_text(f"{value}\n")
    wanted = kernel_settings.Wanted({"vm.dirty_bytes": 1, "vm.swappiness": 1})
    before = kernel_settings.before_us(wanted, {"vm.dirty_bytes": "0", "vm.swappiness": "60"})
    assert before == {"vm.dirty_bytes": "0", "vm.dirty_ratio": "20", "vm.swappiness": "60"}
    assert kernel_settings.unlike_before(before) == {}
    path("vm.dirty_bytes").write_text("1\n")
    path("vm.dirty_ratio").write_text("0\n")
    path("vm.swappiness").unlink()  # as of an interface that is gone
    assert list(kernel_settings.unlike_before(before).items()) == [("vm.dirty_ratio", "0"), ("vm.dirty_bytes", "1")]
    for name in kernel_settings.unlike_before(before):
        kernel_settings.put_back({name: before[name]}, lambda _command: (0, "", ""))
    assert kernel_settings.unlike_before(before) == {}


def test_what_a_renderer_sets_on_an_interface_is_noted_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sets disable_ipv6, which our own settings find only afterwards; what was known first stays."""
    monkeypatch.setattr(netplan_apply, "sysctl_path", lambda key: tmp_path / key)
    key = "net.ipv6.conf.enp1s0f1np1.disable_ipv6"
    (tmp_path / key).write_text("0\n")
    link = {"mtu": 1500, "addr_info": [{"family": "inet", "local": "10.0.0.1", "prefixlen": 24}]}
    netplan_apply._remember([{"ifname": "enp1s0f1np1", **link}, {"ifname": "enP2p1s0f1np1", **link}])
    record.remember("kernel", {key: "1", "vm.swappiness": "60"})
    known, _why = record.read()
    assert known is not None and known["kernel"] == {key: "0", "vm.swappiness": "60"}
    assert known["links"]["enP2p1s0f1np1"] == {"mtu": 1500, "addresses": ["10.0.0.1/24"]}


def test_what_was_moved_aside_for_netplan_comes_back() -> None:
    ours, path = f"{MARK}\nnetwork: {{}}\n".encode(), "/etc/netplan/40-cx7.yaml"
    first, second = (f"{judge.MOVED}/50-theirs.yaml.{digest}" for digest in ("aaaaaaaa", "bbbbbbbb"))
    named = f"{judge.MOVED}/40-cx7.yaml.cccccccc"
    files = {path: ours, "/etc/netplan/01.yaml": b"x", first: b"first", second: b"second", named: b"nvidia's"}
    decision = judge.decide_back(judge.Host(files, {}, []), lambda _files: {}, path, [first, second, named], None)
    assert decision.files == {path: b"nvidia's", "/etc/netplan/50-theirs.yaml": b"first"}
    assert judge.decide_back(judge.Host({path: b"theirs"}, {}, []), lambda _files: {}, path, [], None).files == {}


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        ("/etc/gb10-fleet/x", True),
        ("/etc/systemd/system/gb10-drift.timer", True),
        ("/etc/sysctl.d/99-zz-gb10-fleet.conf", True),
        ("/etc/systemd/system/default.target", False),
        ("/etc/docker/daemon.json", False),
        ("/etc/gb10-fleet-of-mine.d/x", False),
    ],
)
def test_what_bears_our_name_is_ours(path: str, is_own: bool) -> None:
    assert layout.is_own(path) == is_own


def fleet(**changes: Any) -> dict[str, Any]:
    """a and b serve `pair`; a has the gateway, m the monitoring; c serves `solo`."""
    bare = {"images": [], "models": [], "fabric": {"interfaces": []}}
    plan: dict[str, Any] = {
        "hosts": {name: dict(bare) for name in "abcm"},
        "services": {"pair": {"hosts": ["a", "b"]}, "solo": {"hosts": ["c"]}},
        "gateway": None,
        "monitoring": None,
    }
    return plan | changes


MODELS = [{"model": "m1", "services": ["pair"]}, {"model": "m2", "services": ["solo"]}]
GATEWAY = {"hosts": ["a"], "models": MODELS}
TWICE = {"hosts": ["m"], "models": [{"model": "m1", "services": ["pair", "solo"]}]}
TAKEN = [{"kind": "host", "host": "c"}, {"kind": "build", "host": "c"}]


@pytest.mark.parametrize(
    ("changes", "leaving", "errors", "warnings"),
    [
        ({}, ["c"], [], []),
        ({}, ["a"], ["pair has a rank there, and others on b"], []),
        ({}, ["a", "b"], [], []),
        ({"gateway": GATEWAY}, ["a", "b"], ["its gateway is the only one, and leads to solo"], []),
        # what it leads to goes along
        ({"gateway": GATEWAY | {"models": MODELS[:1]}}, ["a", "b"], [], []),
        ({"gateway": GATEWAY}, ["c"], ["m2, which the gateway on a offers, is served nowhere else"], []),
        ({"gateway": TWICE}, ["c"], [], ["the gateway on m loses solo; others serve m1"]),
        ({"monitoring": {"host": "m", "hosts": ["a", "m"]}}, ["m"], ["it watches a"], []),
        ({"monitoring": {"host": "m", "hosts": ["c", "m"]}}, ["c"], [], ["m collects from it"]),
        ({"monitoring": {"host": "m", "hosts": ["m"]}}, ["m"], [], []),
        ({}, ["a", "b", "c", "m"], [], []),
    ],
)
def test_who_needs_a_host(changes: dict[str, Any], leaving: list[str], errors: list[str], warnings: list[str]) -> None:
    found = removal(fleet(**changes), leaving, ",".join(leaving), False)
    for kind, expected in (("errors", errors), ("warnings", warnings)):
        assert len(found[kind]) == len(expected), found
        assert all(words in sentence for words, sentence in zip(expected, found[kind], strict=True)), found


def test_a_group_that_is_taken_out_is_retired_by_the_line_that_is_shown() -> None:
    [shown] = removal(fleet(), ["a"], "a", False)["errors"]
    assert "add -e retire=pair to site.yml" in shown and "-l a,b; or give pair other hosts" in shown


@pytest.mark.parametrize("source", TAKEN)
def test_a_source_and_a_cable_are_named(source: dict[str, str]) -> None:
    plan = fleet()
    plan["hosts"]["b"] |= {
        "images": [{"reference": "r", "source": source}],
        "fabric": {"interfaces": [{"peers": [{"host": "c"}]}]},
    }
    found = removal(plan, ["c"], "c", False)
    assert "b takes r from it" in found["errors"][0] and "b has a cable to it" in found["warnings"][0]


@pytest.mark.parametrize(
    ("named", "check", "refused"), [("", False, 1), ("c", False, 0), ("a", False, 1), ("", True, 0)]
)
def test_a_host_has_to_be_named(named: str, check: bool, refused: int) -> None:
    errors = removal(fleet(), ["c"], named, check)["errors"]
    assert len(errors) == refused
    assert all("-e remove=c" in sentence for sentence in errors)


def test_the_probe_of_the_lab_is_a_shell_script() -> None:
    script = Path(__file__).parents[2] / "extensions" / "molecule" / "cluster" / "tests" / "first_state.sh"
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0


def test_a_unit_that_rests_and_will_start_again_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removal takes what runs, and what the next boot would start; what does neither is left as it is."""
    install = "[Install]\nWantedBy=multi-user.target\n"
    for name, text in (("runs", ""), ("rests", install), ("off", install), ("static", "")):
        (tmp_path / f"gb10-{name}.service").write_text(text)
    (tmp_path / "gb10-x.slice").write_text(install)
    monkeypatch.setattr(survey.layout, "UNITS", str(tmp_path))
    done: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str, str]:
        """IMITATED: systemctl of a host, where `is-enabled` says yes of a static unit too."""
        done.append(command)
        if "show" in command:
            return 0, "active\n" if "runs" in command[-1] else "inactive\n", ""
        if "disable" in command:
            return 0, "", ""
        return int("off" in command[-1] or "runs" in command[-1]), "", ""

    steps = [*survey.running(run)]
    assert [(step.place, step.found) for step in steps] == [
        ("gb10-rests.service", "is enabled"),
        ("gb10-runs.service", "runs"),
    ]
    for step in steps:
        step.act()
    assert [command for command in done if "disable" in command] == [
        ["systemctl", "disable", "--now", f"gb10-{name}.service"] for name in ("rests", "runs")
    ]


# What of ours is on a host ----------------------------------------------------------------------------------------

Commands = list[list[str]]


@pytest.fixture
def done() -> Commands:
    """Commands that were run, all with success."""
    return []


@pytest.fixture
def run(done: Commands) -> survey.Run:
    def ran(command: list[str]) -> tuple[int, str, str]:
        done.append(command)
        return 0, "", ""

    return ran


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host's folders, with some of ours in each."""
    for name in ("state", "config", "library", "compiled", "units", "prometheus"):
        (tmp_path / name).mkdir()
    for name in ("STATE", "CONFIG", "LIBRARY", "COMPILED", "UNITS"):
        monkeypatch.setattr(layout, name, str(tmp_path / name.lower()))
    for name in ("UNDO", "INSTALLED"):
        monkeypatch.setattr(layout, name, str(tmp_path / "config" / name.lower()))
    monkeypatch.setattr(survey, "_RECORDS", (layout.UNDO, layout.INSTALLED))
    monkeypatch.setattr(survey, "_STATE_FOLDERS", (str(tmp_path / "prometheus"),))
    monkeypatch.setattr(survey, "PACKAGES", tmp_path / "backups/packages")
    monkeypatch.setattr(survey, "_PACKAGES", tmp_path / "dpkg")
    for name in ("hf", "models", "images", "clients", "drift"):
        (tmp_path / "state" / name / "deep").mkdir(parents=True)
    for name in ("services", "installed"):
        (tmp_path / "config" / name).mkdir()
    (tmp_path / "config" / "undo").write_text("{}")
    return tmp_path


def of(root: Path, steps: Iterable[survey.RemovalStep]) -> list[survey.RemovalStep]:
    """Not what this machine has."""
    return [step for step in steps if step.place.startswith(str(root))]


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (("models", "images", "data"), {"state/clients", "state/hf", "state/images", "state/models", "prometheus"}),
        (("models",), {"state/hf", "state/models"}),
        (("data",), {"state/clients", "prometheus"}),
        ((), set()),
    ],
)
def test_folders_of_ours_go_but_what_is_kept(root: Path, keep: tuple[str, ...], left: set[str]) -> None:
    """With all that is in them; the records go later, when nothing is left to be undone."""
    for step in of(root, survey._folders(keep)):
        step.act()
    there = {str(path.relative_to(root)) for path in root.glob("*")} - {"config", "state", "units"}
    there |= {str(path.relative_to(root)) for folder in ("state", "config") for path in (root / folder).glob("*")}
    assert there == {"config/undo", "config/installed"} | left
    assert (root / "state").exists() == any(name.startswith("state/") for name in left)
    assert of(root, survey._folders(keep)) == []


def test_an_owners_file_in_our_folders_is_kept_and_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "BACKUPS", root / "backups")
    monkeypatch.setattr(layout, "SERVICES", str(root / "config" / "services"))
    ours, theirs = root / "config" / "services" / "tiny.json", root / "config" / "services" / "notes.txt"
    for file in (ours, theirs, root / "config" / "README"):
        file.write_text(file.name)
    steps = of(root, [*survey._of_owner([str(ours)]), *survey._folders(())])
    for step in steps:
        step.act()
    assert {path.name: path.read_text() for path in (root / "backups").iterdir()} == {
        "services-notes.txt": "notes.txt",
        "config-README": "README",
    }
    words = f"{theirs}: is none of ours, before: kept as {root / 'backups' / 'services-notes.txt'}"
    assert words in [f"{step.place}: {step.found}, before: {step.before}" for step in steps]
    assert of(root, survey._of_owner([str(ours)])) == []


def test_locks_that_a_run_leaves_are_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gb10-busy", "gb10-full"):
        (tmp_path / name).mkdir()
    for name in ("gb10-a.lock", f"gb10-busy/{survey.LOCKS.name}", f"gb10-full/{survey.LOCKS.name}", "gb10-full/x"):
        (tmp_path / name).touch()
    monkeypatch.setattr(survey, "Path", lambda path: tmp_path if path == "/run" else Path(path))
    assert sorted(path.name for path in survey.locks()) == ["gb10-a.lock", "gb10-busy"]


GIVEN = "192.168.100.10/24"


@pytest.mark.parametrize(
    ("has", "before", "commands"),
    [
        ([GIVEN], {"addresses": [], "mtu": 1500}, ["address delete 192.168.100.10/24 dev rail"]),
        ([GIVEN], None, ["address delete 192.168.100.10/24 dev rail"]),
        ([GIVEN], {"addresses": [GIVEN], "mtu": 1500}, []),
        (["10.0.0.1/8"], {"addresses": [], "mtu": 1500}, []),
        ([], {"addresses": [], "mtu": 9000}, ["link set dev rail mtu 9000"]),
    ],
    ids=["ours", "ours, of a late record", "was there before", "the owner's", "another MTU"],
)
def test_an_interface_is_as_it_was(
    has: list[str],
    before: dict[str, Any] | None,
    commands: list[str],
    run: survey.Run,
    done: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    split = [address.split("/") for address in has]
    shown = [{"family": "inet", "local": address, "prefixlen": int(length)} for address, length in split]
    lo = {"ifname": "lo", "mtu": 65536, "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]}
    links = [{"ifname": "rail", "mtu": 1500, "addr_info": shown}, lo]
    monkeypatch.setattr(survey, "read_links", lambda: links)
    for step in survey._links({"rail": GIVEN}, {"rail": before} if before else {}, run):
        step.act()
    assert done == [["ip", *command.split()] for command in commands]


def test_a_folder_that_was_made_stays_with_what_somebody_put_in(tmp_path: Path) -> None:
    full, ours = tmp_path / "full", tmp_path / "ours"
    for folder in (full / "deep", ours / "deep"):
        folder.mkdir(parents=True)
    (full / "deep" / "theirs").touch()
    (ours / "deep" / "file").touch()
    (ours / "link").symlink_to("nowhere")
    going = {str(ours / "deep" / "file"), str(ours / "link")}
    folders = [str(path) for path in (full, full / "deep", ours, ours / "deep", tmp_path / "none")]
    assert [step.place for step in survey._made(folders, going)] == [str(ours / "deep"), str(ours)]
    assert [*survey._made(folders, set())] == []


def test_containers_of_ours_go_and_no_others(run: survey.Run, done: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey.shutil, "which", lambda _name: "/usr/bin/docker")
    names = "gb10-service-tiny theirs gb10-client-chat"

    def docker(command: list[str]) -> tuple[int, str, str]:
        return (0, names, "") if "ps" in command else run(command)

    for step in survey._containers(docker):
        step.act()
    removed = ["docker", "rm", "--force", "--volumes"]
    assert done == [[*removed, "gb10-client-chat"], [*removed, "gb10-service-tiny"]]
    assert [*survey._containers(lambda _command: (1, names, "no daemon"))] == []


def test_what_systemd_reads_by_an_order_alone_is_read_anew() -> None:
    was = {"content": "", "mode": "644"}
    paths = {
        "/etc/systemd/system.conf.d/none.conf": ("daemon-reexec",),
        "/etc/systemd/system/none.d/x": ("daemon-reload",),
    }
    for path, command in paths.items():
        [step] = survey._files(survey.RemovalOrder(), {"files": {path: was}})
        assert step.then == (("systemctl", *command),)
    [step] = survey._files(survey.RemovalOrder(), {"files": {"/etc/none": was}})
    assert step.then == ()


def test_units_of_another_inventory_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    units = [{"unit": f"gb10-{name or 'old'}", "inventory": name} for name in ("", "lab", "other")]
    monkeypatch.setattr(survey, "read_units", lambda: units)
    assert survey.foreign("lab") == ["gb10-other (other)"]


def test_what_stays_by_choice_is_named_with_its_remedy(root: Path) -> None:
    (root / "config" / "installed" / "zstd").touch()
    known = {"late": False, "kernel": {}}
    packages, models = survey.stays(known, ["models"], ["vm.swappiness"])
    assert "apt-get remove zstd" in packages
    assert models == f"models stay, with {root}/state/hf, {root}/state/models: -e models=true removes them"
    (root / "config" / "installed" / "zstd").unlink()
    shutil.rmtree(root / "state")
    assert survey.stays(known, ["models", "images"], []) == []
    [late] = survey.stays(None, (), ["vm.swappiness"])
    assert "vm.swappiness stay as they are" in late


def test_packages_are_named_after_a_second_removal_too(root: Path) -> None:
    """The second converge finds them there, and brings none."""
    for name in ("zstd", "perftest", "gone"):
        (root / "config" / "installed" / name).touch()
    survey.leave()
    assert not (root / "config").exists()
    (root / "dpkg").mkdir()
    (root / "dpkg" / "zstd.list").touch()
    (root / "dpkg" / "perftest:arm64.list").touch()
    (root / "dpkg" / "gone-too.list").touch()
    [packages] = survey.stays({"late": False, "kernel": {}}, (), ())
    assert packages.endswith("apt-get remove perftest zstd takes them away")
