# SPDX-License-Identifier: GPL-3.0-or-later
"""``python3 -m gb10_rank.supervise FILE``: supervise the rank that FILE describes until the owner stops it."""

import asyncio
import os
import signal
import sys
import traceback
from pathlib import Path

from .head import Head
from .report import RUN, Report, mark_start
from .service import read_key, read_secret, read_service
from .worker import Worker

EXIT_BAD_PLAN = 3
EXIT_BROKEN = 1


async def supervise(file: Path) -> int:
    """The unit's exit status. Only what the plan has to mend is final (RestartPreventExitStatus)."""
    began_ns = mark_start(RUN / file.stem)  # before anything is read
    try:
        service = read_service(file)
        secret = read_secret(service.secret_file)
        key = read_key(service.endpoint.key_file, service.endpoint.key_form) if service.endpoint else ""
    except (OSError, ValueError) as problem:
        print(f"gb10.fleet: {problem}; site.yml writes the files of a service and starts it again", flush=True)
        return EXIT_BAD_PLAN
    token = service.token.derived(secret) if service.token else ""
    report = Report(service, [secret.decode("utf-8", "replace"), token, key], began_ns=began_ns)
    pulse = asyncio.ensure_future(report.pulse())
    rank: Worker | Head = Worker(service, report, secret) if service.rank else Head(service, report, secret, key)
    running = asyncio.ensure_future(rank.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, rank.stop, running.cancel)
    try:
        return await running
    finally:
        pulse.cancel()


def main() -> None:
    asyncio.run(_bounded(Path(sys.argv[1])))


async def _bounded(file: Path) -> None:
    try:
        status = await supervise(file)
    except Exception:
        # a mistake of this program: systemd starts it again
        traceback.print_exc()
        status = EXIT_BROKEN
    sys.stdout.flush()
    # asyncio would wait for threads that still ask the dead endpoint
    os._exit(status)


if __name__ == "__main__":
    main()
