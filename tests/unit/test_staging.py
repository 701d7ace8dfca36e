# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Staging: lock, disk, progress and lease."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.own_files import replace_file
from ansible_collections.gb10.fleet.plugins.module_utils._base.sizes import GIB
from ansible_collections.gb10.fleet.plugins.module_utils._base.staging import (
    LEASE_SECONDS,
    LOCKS,
    Progress,
    held,
    is_held,
    progress_line,
    require_space,
)


@pytest.mark.parametrize(
    ("job", "line"),
    [
        ({"done": 0, "total": 2 * GIB, "seconds": 0}, "image x, 0 B of 2.0 GiB"),
        ({"done": GIB, "total": 2 * GIB, "seconds": 10}, "image x, 1.0 GiB of 2.0 GiB, 102.4 MiB/s, 10 s left"),
        ({"done": GIB, "total": 91 * GIB, "seconds": 1}, "image x, 1.0 GiB of 91.0 GiB, 1.0 GiB/s, 1 min 30 s left"),
        ({"done": 2 * GIB, "total": 2 * GIB, "seconds": 10}, "image x, 2.0 GiB in 10 s"),
        ({"done": GIB, "total": 0, "seconds": 10}, "image x, 1.0 GiB, 102.4 MiB/s, 10 s"),
        ({"done": 0, "total": 0, "seconds": 61, "message": "2 of 9 layers"}, "image x, 2 of 9 layers, 1 min 01 s"),
        (
            {"done": GIB, "total": 2 * GIB, "seconds": 9, "message": "it broke"},
            "image x, 1.0 GiB of 2.0 GiB, it broke, 9 s",
        ),
    ],
)
def test_progress_reports_bytes_rate_and_time_left(job: dict[str, int], line: str) -> None:
    assert progress_line({"what": "image x", **job}) == line


def test_progress_reaches_its_file(tmp_path: Path) -> None:
    seconds = iter([0.0, 0.0, 2.0, 2.0, 2.0])
    progress = Progress(tmp_path / "progress", lambda: next(seconds))
    progress.start("image x", 100)
    assert list(progress.counted(iter([b"12345"]))) == [b"12345"]
    assert json.loads((tmp_path / "progress").read_bytes()) == {
        "what": "image x",
        "done": 5,
        "total": 100,
        "began": 0.0,
        "seconds": 2.0,
        "pid": os.getpid(),
        "notes": [],
    }


def test_what_was_reported_holds_until_bytes_come(tmp_path: Path) -> None:
    seconds = iter(range(0, 99, 2))
    progress = Progress(tmp_path / "progress", lambda: float(next(seconds)))
    progress.start("image x", 100)
    progress.report("it broke")
    message = [json.loads((tmp_path / "progress").read_bytes()).get("message")]
    progress.add(1)
    message.append(json.loads((tmp_path / "progress").read_bytes()).get("message"))
    assert message == ["it broke", None]


def test_a_job_whose_controller_is_gone_ends(tmp_path: Path) -> None:
    file = tmp_path / "progress"
    file.touch()
    progress = Progress(file)
    progress.start("image x", 100)
    old = time.time() - LEASE_SECONDS - 1
    os.utime(file, (old, old))
    with pytest.raises(FleetError, match="controller-gone"):
        progress.start("image y", 100)


def test_a_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    program = (
        "import sys; from pathlib import Path\n"
        "from ansible_collections.gb10.fleet.plugins.module_utils._base.staging import held\n"
        "with held(Path(sys.argv[1]), 'moving images'): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as holder:
        assert holder.stdout and holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(FleetError, match=rf"held by process {holder.pid} of .*: moving images, since"),
            held(lock, "x"),
        ):
            pass
        holder.kill()
    with held(lock, "x"):
        pass


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with held(lock, "first"):
        waits: list[float] = []
        message: list[str] = []
        with pytest.raises(FleetError), held(lock, "second", 10, message.append, waits.append):
            pass
    assert sum(waits) == pytest.approx(10)
    assert f"waiting for process {os.getpid()} of " in message[0]
    assert "first, since" in message[0]


def test_who_only_looks_at_a_lock_keeps_nobody_out(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert not is_held(lock)
    with lock.open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_EX)
        with held(lock, "work", pause=lambda _: looking.close()):
            assert is_held(lock)
    assert not is_held(lock)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    replace_file(path, b"one", 0o600)
    replace_file(path, b"two", 0o600)
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["file"]


def test_room_is_asked_for_where_the_bytes_will_lie(tmp_path: Path) -> None:
    require_space(tmp_path / "not" / "there", 1000, "x")
    with pytest.raises(FleetError, match=r"free .* there"):
        require_space(tmp_path / "not" / "there", 10**18, "x")


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder, lock, victim: lock.symlink_to(victim),
        lambda folder, lock, victim: lock.hardlink_to(victim),
        lambda folder, lock, victim: lock.mkdir(),
        lambda folder, lock, victim: os.mkfifo(lock),
        lambda folder, lock, victim: folder.chmod(0o777),
        lambda folder, lock, victim: (lock.touch(), os.chown(lock, 65534, 65534)),
        lambda folder, lock, victim: (lock.touch(), os.chown(folder, 65534, 65534)),
    ],
    ids=["a link", "a second name", "a folder", "a pipe", "anybody's folder", "another's file", "another's folder"],
)
def test_a_lock_that_somebody_else_may_have_made_is_refused(tmp_path: Path, harm: Callable[..., object]) -> None:
    """SECURITY.md, "An account on a host": what it puts in root's way is neither written nor emptied."""
    folder, victim = tmp_path / "locks", tmp_path / "shadow"
    folder.mkdir()
    victim.write_text("root:*:20228")
    try:
        harm(folder, folder / "models.lock", victim)
    except PermissionError:
        pytest.skip("only root can give a file away")
    for _ in range(2):
        with pytest.raises(FleetError, match="staging-lock"), held(folder / "models.lock", "x"):
            pass
    with pytest.raises(FleetError, match="staging-lock"):
        is_held(folder / "models.lock")
    assert victim.read_text() == "root:*:20228"


def test_locks_lie_where_only_root_can_make_them(tmp_path: Path) -> None:
    assert Path("/run/gb10-fleet") == LOCKS.parent
    with held(tmp_path / "locks" / "models.lock", "x"):
        assert (tmp_path / "locks").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "locks" / "models.lock").stat().st_mode & 0o777 == 0o600


def test_two_writers_of_one_file_leave_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "authorized_keys"
    contents = [bytes([letter]) * 200_000 for letter in b"abcd"]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda content: replace_file(path, content), contents * 5))
    assert path.read_bytes() in contents
    assert [each.name for each in tmp_path.iterdir()] == ["authorized_keys"]
