# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk that every host starts from: a Debian root built once by mmdebstrap, kept in the user's cache.

All hosts of all labs mount the same tree read-only below their own layers.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import kernel
from .console import announce
from .errors import LabError
from .requirements import DEBIAN_KEYS

SUITE = "trixie"
# Said aloud, since a machine that isn't Debian does not trust Debian's keys by itself.
KEYRING = f"--keyring={DEBIAN_KEYS}"
_FILES = Path(__file__).resolve().parent / "image"
_PACKAGES, _POOL, _HOOK = _FILES / "packages.txt", _FILES / "pool.txt", _FILES / "customize.sh"
# /dev is a tmpfs on the hosts.
_UNPACK = ("tar", "--extract", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--exclude=./dev/*")
_OPTIONS = (
    "--variant=minbase",
    KEYRING,
    # A real host has its package lists; --check needs them.
    "--skip=cleanup/apt/lists",
    '--aptopt=Acquire::Languages "none"',
    *(f"--dpkgopt=path-exclude=/usr/share/{unwanted}/*" for unwanted in ("man", "doc", "locale")),
)


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gb10-lab"


def identity() -> str:
    """Another package list, hook, option or suite is another base."""
    digest = hashlib.sha256(repr((SUITE, _OPTIONS, _UNPACK)).encode())
    for file in (_PACKAGES, _POOL, _HOOK):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def layers(*, docker: bool) -> tuple[Path, ...]:
    """What a host's disk begins with, the uppermost first: the base, and above it Docker where a host has it already.

    Built if it isn't there. Two builds at once: the second waits for the first.
    """
    cache = cache_directory()
    root = cache / f"base-{identity()}"
    above = root.with_name(f"{root.name}-docker")
    wanted = (above, root) if docker else (root,)
    if not all(layer.is_dir() for layer in wanted):
        # Closed to others: below it lie programs that run with their owner's rights (setuid), and that owner is root.
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _only_one(cache):
            if not root.is_dir():
                _build(root)
                _remove_others(root)
            if docker and not above.is_dir():
                _install_docker(root, above)
    return wanted


def hold(root: Path | str) -> None:
    """Until this process and its children end, the base is in use. (The descriptor is meant to stay open.)"""
    fcntl.flock(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), fcntl.LOCK_SH)


def _remove_others(current: Path) -> None:
    """Bases of older lists that no lab holds, and what was built upon them."""
    for other in current.parent.glob("base-*/"):
        handle = os.open(other, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(BlockingIOError):
            if other != current:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(other)
        os.close(handle)


@contextlib.contextmanager
def _only_one(cache: Path) -> Iterator[None]:
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            announce("another lab builds the base image; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(root: Path) -> None:
    """mmdebstrap's tar goes straight into the tree; the tree gets its name when all of it is there."""
    part = root.with_name(root.name + ".part")
    log_path = root.with_name("base.log")
    scratch = root.with_name("scratch")
    scratch.mkdir(exist_ok=True)
    remove_tree(part)
    part.mkdir()
    announce(f"building the base image: Debian {SUITE} by mmdebstrap, about a minute; log: {log_path}")
    started = time.monotonic()
    try:
        with log_path.open("w") as log:
            _debian_into(part, scratch, log_path, log.fileno())
        part.rename(root)
    finally:
        remove_tree(part)
        scratch.rmdir()
    announce(f"base image built in {time.monotonic() - started:.0f} s: {root}")


def _install_docker(root: Path, above: Path) -> None:
    """What apt adds to the base, from the pool that hosts have, as a layer of its own."""
    part = above.with_name(above.name + ".part")
    log_path = above.with_name("docker.log")
    remove_tree(part)
    for name in ("upper", "work", "root"):
        (part / name).mkdir(parents=True)
    # userxattr: hosts read the marks of what is replaced from there.
    script = (
        'mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work,userxattr" overlay "$2/root"'
        ' && cd "$2/root" && mount --rbind /dev dev && mount -t proc proc proc && mount -t tmpfs tmpfs run'
        " && exec chroot . apt-get install --yes docker.io"
    )
    unshared = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh", str(root), str(part))
    try:
        with log_path.open("w") as log:
            environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
            if subprocess.run(unshared, stdout=log, stderr=log, env=environment, check=False).returncode:
                raise LabError(f"Docker could not be installed upon the base image; the log: {log_path}")
        (part / "upper").rename(above)
    finally:
        remove_tree(part)


def _debian_into(part: Path, scratch: Path, log_path: Path, log: int) -> None:
    environment = os.environ | {"TMPDIR": str(scratch), "LC_ALL": "C.UTF-8"}
    with (
        _process(_mmdebstrap_command(), stdout=subprocess.PIPE, stderr=log, env=environment) as mmdebstrap,
        _process(_UNPACK, stdin=mmdebstrap.stdout, stderr=log, cwd=part) as tar,
    ):
        if mmdebstrap.stdout:
            mmdebstrap.stdout.close()  # it is tar's alone: if tar dies, mmdebstrap shall notice
        ended_with = [process.wait() for process in (mmdebstrap, tar)]
    if ended_with != [0, 0]:
        last = "".join(f"\n    {line}" for line in log_path.read_text(errors="replace").splitlines()[-8:])
        raise LabError(
            f"mmdebstrap could not build the base image; the end of {log_path}:{last}\n"
            "Can this machine reach its Debian mirror (apt-get update)?"
        )


@contextlib.contextmanager
def _process(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Ends with the block or with us at the latest; a terminal's Ctrl-C reaches only us."""
    process = subprocess.Popen(
        command,
        start_new_session=True,
        preexec_fn=kernel.die_with_parent,  # noqa: PLW1509  (there are no threads)
        **options,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _mmdebstrap_command() -> list[str]:
    """Builds on a private tmpfs (dpkg's fsyncs cost nothing there), in mount and process namespaces of its own.

    Whatever ends it, no mount, process or temporary file outlives it.
    """
    packages = ",".join(name for line in _PACKAGES.read_text().splitlines() if (name := line.partition("#")[0].strip()))
    on_tmpfs = 'mount -t tmpfs -o size=3g,mode=755 gb10-lab "$TMPDIR" && exec "$@"'
    return [
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", on_tmpfs, "sh"),
        *("mmdebstrap", *_OPTIONS, f"--include={packages}", f'--customize-hook="{_HOOK}" "$1" "{_POOL}"', SUITE, "-"),
    ]


def remove_tree(path: Path) -> None:
    """Like ``rm -rf``; the work directories of overlayfs have no permission bits at all, which root doesn't mind."""
    if path.is_dir():
        shutil.rmtree(path)
