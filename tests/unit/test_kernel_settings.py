"""The running kernel's settings: what differs, what is refused, and that a value not taken is not called set."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import fact
from ansible_collections.gb10.fleet.plugins.module_utils._host.settings import kernel_settings as settings
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.host_tuning.subject import host_tuning

LIVE = {"vm.swappiness": "60", "vm.dirty_bytes": "0", "nvme0n1/queue/read_ahead_kb": "128", "swap": "/swap.img"}
SWAPS = "Filename\tType\tSize\tUsed\tPriority\n"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (settings.Wanted({}), {}),
        (settings.Wanted({"vm.swappiness": 60}), {}),
        (settings.Wanted({"vm.swappiness": 1, "vm.dirty_bytes": 0}), {"vm.swappiness": "1"}),
        (settings.Wanted({"vm.swappiness": " 60\t"}), {}),
        (settings.Wanted({}, read_ahead_kb=8192), {"nvme0n1/queue/read_ahead_kb": "8192"}),
        (settings.Wanted({}, read_ahead_kb=128), {}),
        (settings.Wanted({}, swap=False), {"swap": "off"}),
        (settings.Wanted({}, swap=True), {}),
    ],
)
def test_only_what_differs_is_written(wanted: settings.Wanted, expected: dict[str, str]) -> None:
    assert wanted.differing(LIVE) == expected


@pytest.mark.parametrize(("swap", "expected"), [(True, {"swap": "on"}), (False, {}), (None, {})])
def test_without_any_swap(swap: bool | None, expected: dict[str, str]) -> None:
    assert settings.Wanted({}, swap=swap).differing(LIVE | {"swap": "off"}) == expected


@pytest.mark.parametrize(
    ("swaps", "areas"),
    [
        (SWAPS, "off"),
        (SWAPS + "/swap.img file\t16777212\t0\t-2\n", "/swap.img"),
        (SWAPS + "/swap.img file\t16777212\t0\t-2\n/dev/zram0 partition\t8\t0\t100\n", "/swap.img, /dev/zram0"),
    ],
)
def test_swap_areas(swaps: str, areas: str) -> None:
    assert settings.swap_areas(swaps) == areas


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("vm.swappiness", "/proc/sys/vm/swappiness"),
        ("net.ipv4.conf.all.arp_ignore", "/proc/sys/net/ipv4/conf/all/arp_ignore"),
        ("net.ipv4.conf.eth0/1.arp_ignore", "/proc/sys/net/ipv4/conf/eth0.1/arp_ignore"),
    ],
)
def test_the_file_of_a_key(key: str, path: str) -> None:
    assert settings.sysctl_path(key) == Path(path)


def test_a_pair_of_which_the_kernel_zeroes_one_is_refused() -> None:
    (finding,) = settings.contradictions({"vm.dirty_bytes": 1, "vm.dirty_ratio": 10, "vm.dirty_background_bytes": 1})
    assert finding.place == "sysctl.vm.dirty_ratio"
    assert "vm.dirty_bytes" in finding.found + finding.remedy


def test_all_unknown_keys_are_named_at_once() -> None:
    with pytest.raises(FleetError) as caught:
        settings.read_live({"vm.swappiness": 1, "vm.swapiness": 1, "vm.nonsense": 1})
    assert [finding.place for finding in caught.value.findings] == ["sysctl.vm.nonsense", "sysctl.vm.swapiness"]


def test_a_value_that_the_kernel_rounded_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key = tmp_path / "key"
    monkeypatch.setattr(settings, "sysctl_path", lambda _name: key)
    monkeypatch.setattr(settings, "read_live", lambda _sysctl: {"vm.dirty_bytes": "8192", "swap": "off"})
    with pytest.raises(FleetError, match="it says '8192' now"):
        settings.write_live(settings.Wanted({"vm.dirty_bytes": 1}), {"vm.dirty_bytes": "1"}, lambda _argv: (0, "", ""))
    assert key.read_text() == "1\n"


class Kernel(dict[str, str]):
    """Settings by their keys, of which it takes even values alone, and one can't be read."""

    def path(self, key: str) -> SimpleNamespace:
        def read_text(**_encoding: str) -> str:
            if key not in self or key == "vm.write_only":
                number = errno.EACCES if key in self else errno.ENOENT
                raise OSError(number, os.strerror(number))
            return self[key]

        def write_text(value: str, **_encoding: str) -> None:
            if not value.strip().isdecimal():
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            self[key] = str(int(value) // 2 * 2)

        return SimpleNamespace(read_text=read_text, write_text=write_text)


@pytest.mark.parametrize(
    ("sysctl", "rule", "typed", "after"),
    [
        ({"vm.swapiness": "1"}, "tuning-unreadable", {"vm.swapiness": None}, "60"),
        ({"vm.swapiness": "2"}, "tuning-unreadable", {"vm.swapiness": None, "vm.swappiness": "2"}, "2"),
        ({"vm.write_only": "1"}, "tuning-unreadable", {"vm.write_only": None}, "60"),
        ({"vm.swappiness": "one"}, "tuning-refused", {"vm.swappiness": "2"}, "2"),
        ({"vm.swappiness": "one"}, "tuning-refused", {"vm.swappiness": None}, "60"),
        ({"vm.swappiness": "5"}, "tuning-refused", {"vm.swappiness": "4"}, "4"),
    ],
)
def test_the_remedies_of_what_a_kernel_does_not_take(
    monkeypatch: pytest.MonkeyPatch, sysctl: dict[str, str], rule: str, typed: dict[str, str | None], after: str
) -> None:
    """Correct the key, write a value that it takes, or null: typed into fleet_host, and the finding is gone."""
    kernel = Kernel({"vm.swappiness": "60", "vm.write_only": ""} | dict.fromkeys(fact("host_tuning", "sysctl"), "60"))
    monkeypatch.setattr(settings, "sysctl_path", kernel.path)

    def run(own: dict[str, str | None]) -> None:
        declared = {"host_tuning": {"sysctl": dict.fromkeys(fact("host_tuning", "sysctl")) | own}}
        planned = host_tuning(declared)["sysctl"]
        wanted = settings.Wanted(planned)
        settings.write_live(wanted, wanted.differing(settings.read_live(planned)), lambda _words: (0, "", ""))

    with pytest.raises(FleetError) as caught:
        run({**sysctl})
    [found] = caught.value.findings
    assert found.rule == rule
    assert all(
        word in found.remedy for word in ("null", "correct the key" if "read" in rule else "a value that it takes")
    )
    kernel["vm.swappiness"] = "60"
    run(sysctl | typed)
    assert kernel["vm.swappiness"] == after


@pytest.mark.parametrize("typed", [None, False])
def test_the_remedy_of_swap_that_stays(monkeypatch: pytest.MonkeyPatch, typed: bool | None) -> None:
    """null leaves it as it is."""
    monkeypatch.setattr(settings, "read_live", lambda _sysctl: {"swap": "/swap.img"})
    wanted = settings.Wanted({}, swap=host_tuning({"host_tuning": {"swap": typed}}).get("swap"))  # type: ignore[arg-type]
    with contextlib.nullcontext() if typed is None else pytest.raises(FleetError, match="or null to leave it"):
        settings.write_live(wanted, wanted.differing({"swap": "/swap.img"}), lambda _words: (255, "", "swapoff failed"))


def test_a_swapoff_that_fails_gives_the_reason() -> None:
    def swapoff(_argv: list[str]) -> tuple[int, str, str]:
        return 255, "", "swapoff: /swap.img: Cannot allocate memory\n"

    with pytest.raises(FleetError, match="Cannot allocate memory"):
        settings.write_live(settings.Wanted({}, swap=False), {"swap": "off"}, swapoff)


# Of a Spark that serves, in kB: 8.1 GiB lie in swap, and 13.3 GiB are available.
SERVING = "MemTotal: 127600752 kB\nMemAvailable: 13945856 kB\nSwapTotal: 16777212 kB\nSwapFree: 8290872 kB\n"


@pytest.mark.parametrize(
    ("meminfo", "ran"),
    [
        (SERVING, []),
        (SERVING.replace("MemAvailable: 13945856", "MemAvailable: 23945856"), [["swapoff", "--all"]]),
        (SERVING.replace("SwapFree: 8290872", "SwapFree: 16777212"), [["swapoff", "--all"]]),
    ],
)
def test_swap_stays_on_while_what_lies_in_it_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, meminfo: str, ran: list[list[str]]
) -> None:
    file = tmp_path / "meminfo"
    file.write_text(meminfo)
    monkeypatch.setattr(settings, "_MEMINFO", file)
    monkeypatch.setattr(settings, "read_live", lambda _sysctl: {"swap": "off"})
    commands: list[list[str]] = []

    def swapoff(argv: list[str]) -> tuple[int, str, str]:
        commands.append(argv)
        return 0, "", ""

    wanted = settings.Wanted({}, swap=False)
    with contextlib.nullcontext() if ran else pytest.raises(FleetError, match="swap-does-not-fit"):
        settings.write_live(wanted, {"swap": "off"}, swapoff)
    assert commands == ran
