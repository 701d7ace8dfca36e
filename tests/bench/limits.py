# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gateway's limits for senders cost a request: HAProxy with the shipped file, and with one that lacks them.

Both run at once on this machine, and are asked in turns. `python -m bench.limits` in tests prints the medians; it needs
haproxy and openssl, no lab.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.clients import clients_map

from .ends import ask
from .gateway import _ENGINE, _KEY, _NAME, _PORT, part_of

_LIMIT = re.compile(r"stick-table|track-sc\d|sc\d_|sc-(?:inc|set)-|set-priority-class")
_ROUNDS, _REQUESTS = 15, 200


def without_limits(text: str) -> str:
    """HAProxy's file without what counts a sender's connections and requests."""
    return "".join(line for line in text.splitlines(True) if not _LIMIT.search(line))


def written(folder: Path, port: int, limited: bool) -> Path:
    """The files of a gateway below a folder; its sockets are there, too."""
    part = part_of()
    (folder / "keys").mkdir(parents=True)
    contents = {path: file["content"] for path, file in part["files"].items()}
    contents[part["clients"]["path"]] = clients_map(json.dumps({"bench": _KEY}))
    theirs = "|".join(map(re.escape, (layout.GATEWAY_BODIES_STATUS, layout.GATEWAY_STATUS, layout.GATEWAY)))
    for path, text in contents.items():
        here = re.sub(theirs, str(folder), text).replace(f":::{_PORT}", f":::{port}")
        here = re.sub(r" +(user|group) haproxy\n", "", here)
        (folder / Path(path).name).write_text(here if limited else without_limits(here), "utf-8")
    key = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
           "2", "-subj", f"/CN={_NAME}", "-addext", f"subjectAltName=DNS:{_NAME}", "-keyout", "tls.crt.key", "-out",
           "tls.crt")  # fmt: skip
    subprocess.run(key, cwd=folder, check=True, capture_output=True)
    return folder / "haproxy.cfg"


def main() -> None:
    haproxy = shutil.which("haproxy", path="/usr/sbin:/usr/bin") or sys.exit("this machine has no haproxy")
    ways: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as root:
        started = [subprocess.Popen([sys.executable, str(Path(__file__).with_name("ends.py")), "serve", str(_ENGINE)])]
        try:
            for name, port in (("limited", _PORT), ("unlimited", _PORT + 1)):
                folder = Path(root, name)
                command = [haproxy, "-db", "-f", str(written(folder, port, name == "limited"))]
                started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
                ways[name] = {"port": port, "certificate": str(folder / "tls.crt"), "name": _NAME, "key": _KEY}
                ways[name]["pid"] = started[-1].pid
            time.sleep(5)  # until their checks have seen the engine
            task = {"ways": ways, "rounds": _ROUNDS, "requests": _REQUESTS, "streams": 8, "tokens": 20, "gap_s": 0.02}
            measured = ask(task)
        finally:
            for process in started:
                process.kill()
                process.wait()
    for what in ("request", "connection"):
        rounds = {way: [one for one in measured if (one["way"], one["what"]) == (way, what)] for way in ways}
        for figure, unit in (("cpu_ms", "ms of processor"), ("median_ms", "ms")):
            both = [
                [one[figure] / (one["count"] if figure == "cpu_ms" else 1) for one in rounds[way]] for way in rounds
            ]
            more = statistics.median(mine - other for mine, other in zip(*both, strict=True))
            limited, plain = map(statistics.median, both)
            print(f"{what}: {limited:.4f} with limits, {plain:.4f} without, {more:+.4f} in pairs ({unit})")


if __name__ == "__main__":
    main()
