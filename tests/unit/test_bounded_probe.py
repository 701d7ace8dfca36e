# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe beside odd and hostile answers: no file, list or program makes it large, slow or blind."""

from __future__ import annotations

import os
import resource
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe import files, machine, nvidia_smi, parts
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.parts import UnreadableError, bounded_run
from ansible_collections.gb10.fleet.plugins.module_utils._on_host import textfile
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.health import reading
from unit.test_health import NOW, START, STOP, wtmp

# A pattern that looks at each place for the whole rest takes minutes for one of these, and holds all other readings up.
ODD = {
    "newlines": "\n" * 200_000,
    "a line": "x" * 200_000,
    "spaces": " " * 200_000,
    "tabs in lines": "\t\t\t\t\n" * 50_000,
    "letters of the words": "linux set default docker kill nvme NVRM: Xid (dhcp iface " * 4_000,
    "nulls": "\0" * 200_000,
    "indented": "".join(f"{' ' * (number % 999)}a : b\n" for number in range(400)),
    "numbers": "0x" + "f" * 100_000 + " " + "9" * 100_000,
}
READERS: dict[str, Callable[[str], object]] = {
    "nvidia-smi": lambda text: (nvidia_smi.trouble(0, text, text), nvidia_smi.shown(f"\nGPU 0\n{text}")),
    "its figures": lambda text: [*textfile.gpu(text)],
    "GRUB": lambda text: machine.boot_menu(text, text),
    "sudo": machine.asks_password,
    "DGX OS": machine.dgx_release,
    "CDI": machine.named_libraries,
    "a watchdog": reading.ends_engines,
    "a panic": reading._PANIC.search,
    "a network file": lambda text: (files._GIVES_ADDRESSES.search(text), files.claims(text, {"a": "02:00"})),
    "the kernel": lambda text: textfile.kinds([(1.0, text[:8192])] * 20, 2.0),
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("reader", READERS)
def test_no_text_takes_long(reader: str, odd: str) -> None:
    began = time.process_time()
    READERS[reader](ODD[odd])
    assert time.process_time() - began < 1


def test_a_program_that_prints_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_OUTPUT", 1 << 16)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for words in (["yes"], ["sh", "-c", "yes >&2"]):
        began = time.monotonic()
        with pytest.raises(UnreadableError, match="prints more than"):
            bounded_run(20)(words)
        assert time.monotonic() - began < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize(
    "words",
    [
        "import time; time.sleep(60)",
        "import os, time; os.fork(); time.sleep(60)",  # a child keeps its output open
        "import os, time; os.close(1); os.close(2); time.sleep(60)",
        "import os, time; os.fork() and os._exit(0); time.sleep(60)",  # it ends, and its child stays
        "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)",
    ],
)
def test_no_program_is_waited_for_longer_than_its_limit(words: str) -> None:
    began = time.monotonic()
    with pytest.raises(UnreadableError, match="did not end within"):
        bounded_run(0.5)([sys.executable, "-c", words])
    assert time.monotonic() - began < 3


def test_what_a_program_prints_is_whole() -> None:
    code, out, err = bounded_run(20)([sys.executable, "-c", "import sys; print('é' * 300000); sys.exit('no')"])
    assert (code, len(out), err) == (1, 300_001, "no\n")
    with pytest.raises(FileNotFoundError):
        bounded_run(1)(["/no/such/program"])


def test_a_large_file_in_a_declared_place_is_compared_by_its_sum(tmp_path: Path) -> None:
    place = tmp_path / "large"
    with place.open("wb") as file:
        file.truncate(300 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (found,) = files.read_files(
        [{"path": str(place), "sha256": "0" * 64, "secret": False, "salted": False}], ""
    ).values()
    assert found["kind"] == "file" and len(found["sha256"]) == 64 and "text" not in found
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize("size", [400, 384])
@pytest.mark.parametrize("rest", [0, 1, 17, 200, 383])
def test_a_record_that_was_cut_off_hides_no_other(tmp_path: Path, size: int, rest: int) -> None:
    """The host lost its power while it wrote, which is what its starts are read for."""
    file = tmp_path / "wtmp"
    for logins in (0, 1, 7, 9001):
        many = ((7, b"owner", 20.0),) * logins
        file.write_bytes(wtmp(size, *many, (*START, 3), (*START, 2), (*STOP, 1.1), (*START, 1)) + b"\x07" * rest)
        read = reading.boots([reading._tail(file)], NOW)
        assert [(round(boot["days_ago"]), boot["cut_off"]) for boot in read] == [(3, True), (2, False), (1, False)]


def test_the_newest_of_many_records_of_a_kernels_end_are_read(tmp_path: Path) -> None:
    for number in range(reading._MOST_FILES + 50):
        record = tmp_path / f"{1_790_000_000 + number}" / "dmesg.txt"
        record.parent.mkdir()
        record.write_text(f"<0>[ 1.0] Kernel panic - not syncing: number {number}\n")
        os.utime(record, (number, number))
    assert f"number {reading._MOST_FILES + 49}" in {why.rpartition(": ")[2] for _at, why in reading.panics([tmp_path])}


@pytest.mark.parametrize("kind", ["fifo", "folder", "missing", "binary", "large"])
def test_an_odd_file_is_empty_or_cut(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "odd"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "binary":
        place.write_bytes(b"\x7fELF" + struct.pack("<Q", 7))
    elif kind == "large":
        place.write_text("x" * (5 << 20))
    began = time.monotonic()
    for text in (machine._text(place), reading._text(place)):
        assert len(text) <= 1 << 20
    assert time.monotonic() - began < 2
