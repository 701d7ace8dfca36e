# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the programs of the field that fetch: skopeo, apt, pip."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..._base import worded
from ..._base.received import one_line


def run(
    arguments: Sequence[str], what: str, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> bytes:
    """What a program prints. what: it is for, in messages. environment: besides this process's. Raises FleetError."""
    try:
        done = subprocess.run(
            [*arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env={**os.environ, **(environment or {})},
            cwd=folder,
        )
    except FileNotFoundError:
        package = arguments[0].split("/")[-1]
        raise worded.refusal("bundle-program/run", arguments[0], what=what, package=package) from None
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        found = one_line("; ".join(words[-3:]) or f"{arguments[0]} failed without a word", 600)
        raise worded.refusal("bundle-fetch/run", what, found=found, first_argument=Path(arguments[0]).name)
    return done.stdout
