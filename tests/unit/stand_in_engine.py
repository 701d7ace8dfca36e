# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine that nobody has: what the plan does for it, no word of vLLM's can have decided."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Finding, error
from ansible_collections.gb10.fleet.plugins.module_utils._base.layers import Layer, Value, merge
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.engine import Engine
from ansible_collections.gb10.fleet.plugins.module_utils._engines.interface import (
    EMPTY_POOL,
    EngineSpec,
    Example,
    Facts,
    KeyFile,
    Launch,
    ServiceSizing,
)
from ansible_collections.gb10.fleet.plugins.module_utils._engines.memory.boots import BootLog
from ansible_collections.gb10.fleet.plugins.module_utils._engines.memory.budget import Share
from ansible_collections.gb10.fleet.plugins.module_utils._engines.memory.estimate import Demand
from ansible_collections.gb10.fleet.plugins.module_utils._engines.observed import Observed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.placed import Host, Placed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.ports import ranks_port
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.probes import Joined, Metrics, Probes, Request

PROBES = Probes(
    health="/ready",
    proof=Request("/echo", {"text": "gb10"}, ["echo", 0]),
    metrics=Metrics("/stats", ["echo_work"], ["echo_words", "echo_marks"], ["echo_busy"], ["echo_queue"], ["echo_kv"]),
    patience_s=60,
    exit_words={"7": "its echo faded"},
    shared_memory=["echo-"],
    joined=Joined(["echo-peers"], r"^peer \d+ up$", 30),
)


@dataclass(frozen=True)
class Blind:
    """Nothing is known of its memory."""

    demand: Demand
    key: str = "none"

    def demand_on(self, host: str, observed: Observed) -> Demand:
        return self.demand

    def pool(self, placed: Placed, shares: Sequence[Share]) -> tuple[dict[str, Any], list[Finding]]:
        return dict(EMPTY_POOL), []

    def requested_bytes(self, flags: Mapping[str, Value], total: int) -> int | None:
        return None


class Echo(Engine):
    spec = EngineSpec(
        name="echo",
        title="Echo",
        families=("plain",),
        calculated_flags={"ctx": {"type": "int", "min": 1}},
        planned_flags={"listen": "take it out"},
        planned_env={"ECHO_NODE": "take it out; it is the rank"},
        secrets={"ECHO_KEY": "write api_key_file in the service"},
        workload={"max_model_len": "ctx"},
        key=KeyFile("/run/secrets/echo.key", "%s\n"),
        caches={"echo": "/root/.cache/echo"},
        boot_lines=r"room for \d+ marks",
    )

    def default_layers(self) -> tuple[Layer, Layer]:
        return Layer("default", {"threads": 20}), Layer("default", {"ECHO_OFFLINE": "1"})

    def image_facts(self, reference: str) -> dict[str, str | None]:
        return {"reference": reference, "family": "plain", "release": "1.0.0"}

    def problems(self, placed: Placed) -> Iterable[Finding]:
        return ()

    def flags(self, placed: Placed, written: Sequence[Layer]) -> dict[str, Value]:
        return merge([*written, Layer("computed", {"listen": f"0.0.0.0:{placed.port}"})])

    def group_problems(self, placed: Placed) -> Iterable[Finding]:
        if len(placed.hosts) > 2:
            yield error("echo-hosts", placed.place, found=str(len(placed.hosts)), expected="two", remedy="name two")

    def group_layers(self, placed: Placed, host: Host) -> list[Layer]:
        if not placed.is_group:
            return []
        return [Layer("fabric", {"ECHO_NODE": str(placed.members[host.name].address)})]

    def served_name(self, placed: Placed, flags: Mapping[str, Value]) -> str:
        return str(placed.settings.get("served_name") or placed.name)

    def sequences(self, flags: Mapping[str, Value]) -> int:
        return int(flags["threads"].value)

    def launch(self, placed: Placed, flags: Mapping[str, Value], rank: int) -> Launch:
        words = [f"{name}={value}" for name, value in placed.filled(flags).items()]
        peer = [f"head={placed.addresses[0]}:{ranks_port(placed.port)}"] if rank else []
        return Launch(["echo-server", *words, *peer])

    def probes(self, placed: Placed, flags: Mapping[str, Value]) -> Probes:
        return PROBES

    def warm_up(self, placed: Placed, flags: Mapping[str, Value]) -> list[Request]:
        return []

    def example(self, kind: str, model: str) -> Example:
        return Example("/echo", {"text": f"{kind} by {model}"}, [["louder"], ["echo", 0]])

    def boot(self, log: str) -> BootLog:
        found = re.search(r"room for (\d+) marks", log)
        return BootLog(kv_cache_tokens=int(found[1]) if found else None)

    def ranks_of(self, fingerprint: str) -> int | None:
        return fingerprint.count("+") + 1 if fingerprint.startswith("echo:") else None

    def size(self, placed: Placed, observed: Observed) -> tuple[ServiceSizing, list[Finding]]:
        return Blind(
            Demand(
                service=placed.name,
                requested=lambda total, share: int(total * share),
                ranks=len(placed.hosts),
                enforce_eager=True,
                max_num_seqs=1,
                max_num_batched_tokens=1,
                vocab_size=0,
                weights_bytes=placed.model["weights_bytes"],
                calibration=None,
                kv_bytes=None,
            )
        ), []

    def memory_flags(self, placed: Placed, shares: Sequence[Share]) -> Layer:
        return Layer("computed", {"mem": min(share.footprint.low for share in shares)})

    def request(self, facts: Facts) -> dict[str, Any] | None:
        return None

    def judge(self, request: Mapping[str, Any], place: Place) -> Sequence[Finding]:
        raise AssertionError("this engine judges no launch")
