# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the certificates that services show to everybody who connects."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from ..._host.probe.parts import Part

# A chain of a few certificates has a tenth of it.
_BYTES = 1 << 16


def read_certificates(paths: Iterable[str]) -> dict[str, str | None]:
    """Each one's text; None where there is none. A folder of secrets holds them, so that root alone can read them."""
    return {path: _text(Path(path)) for path in paths}


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return stream.read(_BYTES).decode("ascii", "replace")
    except OSError:
        return None


READS: Mapping[str, Part] = {"certificates": lambda _run, ask: read_certificates(ask["certificates"])}
