# SPDX-License-Identifier: GPL-3.0-or-later
"""A bound for the memory that a host's answer takes of the controller while it comes.

Ansible's connections collect all that a host sends before anybody may look at it, and have no limit of their own.
A task runs in a process of its own, so that what is bounded is one task of one host.
"""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

_STATUS = Path("/proc/self/status")


@contextlib.contextmanager
def bounded(more: int) -> Iterator[None]:
    """MemoryError for who takes ``more`` bytes than this process has now. Without Linux' figures there is no bound."""
    try:
        [has] = [line for line in _STATUS.read_text("ascii", "replace").splitlines() if line.startswith("VmData:")]
    except (OSError, ValueError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = (int(has.split()[1]) << 10) + more
    known = [most, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(known), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
