# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""``python3 -m gb10_rank FILE``: supervise the rank that FILE describes until the owner stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from .head import Head
from .host import RankError
from .report import RUN, Report
from .service import read_key, read_service
from .worker import Worker

EXIT_BAD_PLAN = 3


async def supervise(file: Path) -> int:
    _note_the_beginning(file.stem)
    service = read_service(file)
    secret = Path(service.secret_file).read_bytes().strip() if service.secret_file else b""
    key = read_key(service.endpoint.key_file if service.endpoint else None)
    report = Report(service, [secret.decode("utf-8", "replace"), key])
    rank = Worker(service, report, secret) if service.rank else Head(service, report, secret, key)
    running = asyncio.ensure_future(rank.run())
    for told in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(told, running.cancel)
    return await running


def _note_the_beginning(name: str, folder: Path = RUN) -> None:
    """Before anything is read: the role `vllm` restarts a service of which a file is newer."""
    stamp = folder / name / "started"
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.touch()


def main() -> None:
    try:
        status = asyncio.run(_bounded(Path(sys.argv[1])))
    except (OSError, ValueError, RankError) as problem:
        print(f"gb10.fleet: {problem}", flush=True)
        status = EXIT_BAD_PLAN
    sys.exit(status)


async def _bounded(file: Path) -> int:
    status = await supervise(file)
    sys.stdout.flush()
    # asyncio would wait for threads that still ask the dead endpoint
    os._exit(status)


if __name__ == "__main__":
    main()
