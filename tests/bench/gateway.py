# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gateway adds to a request and to a streamed token, against the engine's own port in the same run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.backends import Endpoint, backends
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.clients import clients_map
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.declared import GATEWAY
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.plan import gateway_slice

from .figures import Figure
from .fleet import SOURCE, Fleet

_ENGINE, _PORT, _NAME, _KEY = 8999, 8443, "llm.lab", "key-of-this-benchmark-alone"
# Twenty tokens a second in each of 64 streams: more than one GB10 makes, and less than two cores' Python can read.
_TASK = {"rounds": 8, "requests": 100, "streams": 64, "tokens": 60, "gap_s": 0.05}


def part_of() -> Any:
    """The gateway's part of a slice, with an engine on its own host."""
    engine = Endpoint("bench", "bench", SOURCE, "127.0.0.1", _ENGINE, 256, "/health")
    offered, problems = backends([engine], {})
    assert not problems
    usual = {name: option["default"] for name, option in GATEWAY["options"].items() if "default" in option}
    declared = {"keys_file": "", "name": _NAME, "own_name": None, "port": _PORT, "redirect_port": None, "address": None}
    tls = {"certificate": "", "key": "", "ca": None, "names": [_NAME]}
    return gateway_slice({**usual, **declared, "tls": tls}, offered, "bench", SOURCE, "")


def prepare(fleet: Fleet) -> dict[str, Any]:
    """The gateway and an engine on the source host; the ways there, as ends.py takes them."""
    fleet.run(SOURCE, "apt-get -q update && apt-get -q -y install haproxy && systemctl disable --now haproxy")
    part = part_of()
    paths = {kind: part["tls"][kind]["path"] for kind in ("certificate", "key")}
    for folder, mode in part["folders"].items():
        fleet.run(SOURCE, f"mkdir -p -m {mode} {folder}")
    contents = {path: file["content"] for path, file in part["files"].items()}
    contents[part["clients"]["path"]] = clients_map(json.dumps({"bench": _KEY}))
    for path, content in contents.items():
        fleet.run(SOURCE, f"cat > {path}", stdin=content.encode())
    fleet.run(
        SOURCE,
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={_NAME}"
        f" -addext subjectAltName=DNS:{_NAME} -keyout {paths['key']} -out {paths['certificate']}",
    )
    fleet.run(SOURCE, "cat > /tmp/ends.py", stdin=Path(__file__).with_name("ends.py").read_bytes())
    fleet.run(SOURCE, f"systemd-run --unit bench-engine python3 /tmp/ends.py serve {_ENGINE}")
    fleet.run(SOURCE, f"systemctl daemon-reload && systemctl start {' '.join(part['units'])}")
    pid = int(fleet.run(SOURCE, f"pgrep -P $(systemctl show -P MainPID {layout.GATEWAY_UNIT})"))
    direct = {"port": _ENGINE, "certificate": None, "name": _NAME, "key": _KEY, "pid": None}
    through = {"port": _PORT, "certificate": paths["certificate"], "name": _NAME, "key": _KEY, "pid": pid}
    return {"direct": direct, "gateway": through}


def figures(fleet: Fleet) -> Iterator[Figure]:
    task = {"ways": prepare(fleet), **_TASK}
    measured = json.loads(fleet.run(SOURCE, "python3 /tmp/ends.py ask", stdin=json.dumps(task).encode()))
    rounds = {
        (way, what): [one for one in measured if (one["way"], one["what"]) == (way, what)]
        for way in ("direct", "gateway")
        for what in ("request", "connection", "stream", "streams")
    }
    for what, name, goal in (
        ("request", "a request over a kept connection", 1),
        ("connection", "a request over a new connection, with TLS's handshake", 10),
        ("stream", "a token of one stream", 1),
        ("streams", f"a token of {_TASK['streams']} streams", 1),
    ):
        direct, through = rounds["direct", what], rounds["gateway", what]
        added = [mine["median_ms"] - its["median_ms"] for mine, its in zip(through, direct, strict=True)]
        usual = statistics.median(one["median_ms"] for one in direct)
        yield Figure(f"gateway: added to {name}", statistics.median(added), usual, "ms, median", f"<= {goal}")
        late = [mine["p99_ms"] - its["p99_ms"] for mine, its in zip(through, direct, strict=True)]
        usual = statistics.median(one["p99_ms"] for one in direct)
        yield Figure(f"gateway: added to {name}, p99", statistics.median(late), usual, "ms", f"<= {10 * goal}")
    yield from _costs(rounds)


def _costs(rounds: Mapping[tuple[str, str], list[dict[str, Any]]]) -> Iterator[Figure]:
    direct, through = rounds["direct", "streams"], rounds["gateway", "streams"]
    lost = [100 * (1 - mine["a_second"] / its["a_second"]) for mine, its in zip(through, direct, strict=True)]
    rate = statistics.median(one["a_second"] for one in direct)
    yield Figure(f"gateway: throughput lost at {_TASK['streams']} streams", statistics.median(lost), None, "%", "<= 2")
    yield Figure(f"gateway: tokens a second at {_TASK['streams']} streams, direct", rate, None, "tokens/s", "<= 1280")
    for what, name in (("request", "a request"), ("connection", "a new connection"), ("streams", "a token")):
        spent = statistics.median(one["cpu_ms"] / one["count"] for one in rounds["gateway", what])
        yield Figure(f"gateway: CPU of {name}", spent, None, "ms", "<= 2")
