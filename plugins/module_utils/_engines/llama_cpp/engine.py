# SPDX-License-Identifier: GPL-3.0-or-later
"""llama.cpp as an engine (`_engines.engine.Engine`)."""

from collections.abc import Iterable, Mapping, Sequence

from ..._base import worded
from ..._base.findings import Finding
from ..._base.gb10 import data_table, default_layer
from ..._base.layers import Layer, Value
from ..._facts.models.checkpoint import Checkpoint
from ..._on_host.rank.probes import Metrics, Others, Probes
from .. import openai
from ..engine import Engine
from ..interface import Proposal, ServiceSizing
from ..memory.budget import Share
from ..observed import Observed
from ..options import Judged
from ..placed import Host, Placed
from ..ports import ranks_port
from . import launch, propose, sizing
from .boot_log import parse_boot_log
from .catalogue import RPC_CACHE, SPEC, load
from .launch import KINDS, slots

# tools/server/server-context.cpp: n_decode_total moves with each batch of a prefill, and its one thread answers between
# two batches.
METRICS = Metrics(**data_table("llama_cpp_metrics"))
# A batch of 2048 tokens takes 48 s at the 43 tokens a second of a 397B model over two hosts (cluster owner's notes).
_STEP_S = 300
# It listens before anything is loaded.
_RPC_S = 60
# Answers have ended before it is asked to end, and an end in order takes seconds; one that waits for a lost RPC server
# waits for TCP, beyond `group.stop_s`. By a second signal it leaves at once (tools/server/server.cpp).
_INSIST_S = 10


class LlamaCpp(Engine):
    spec = SPEC
    judged_by = Judged("llama", "llama.cpp", "llama-server --help", load)
    flags = staticmethod(launch.flags)
    boot = staticmethod(parse_boot_log)
    at_once = staticmethod(slots)
    launch = staticmethod(launch.launch)  # last: it hides the module

    def default_layers(self) -> tuple[Layer, Layer]:
        return default_layer("llama_cpp_flags"), Layer("default", {})

    def propose(
        self, checkpoint: Checkpoint, names_image: bool, names_template: bool
    ) -> tuple[Proposal | None, list[Finding]]:
        return propose.propose(checkpoint)

    def problems(self, placed: Placed) -> Iterable[Finding]:
        if "file" not in placed.model:
            yield worded.error("llama-model-file/problems", placed.place.below("model", "file"))
        if placed.is_group and ":server" in placed.image["reference"] and placed.image["family"] == "upstream":
            where = placed.place.below("image")
            yield worded.error("llama-rpc-image", where, reference=placed.image["reference"], hosts=len(placed.hosts))
        draft = placed.model.get("draft")
        if draft and "file" not in draft:
            at = placed.place.below("model", "draft", "file")
            yield worded.error("llama-model-file/problems-draft", at, repository=draft["repository"])
        kind = placed.recipe["kind"]
        if kind not in KINDS:
            yield worded.error("llama-kind", placed.place.below("kind"), found=kind, kinds=", ".join(KINDS))

    def group_problems(self, placed: Placed) -> Iterable[Finding]:
        mode = placed.flags["split-mode"].value if "split-mode" in placed.flags else "layer"
        if mode != "layer":
            yield worded.error("llama-split-mode", placed.place.below("flags", "split-mode"), found=str(mode))

    def group_layers(self, placed: Placed, host: Host) -> list[Layer]:
        return []

    def variables(self, placed: Placed, written: Mapping[str, Value]) -> Layer:
        reason = "where an RPC server keeps the weights that it was sent, so that they travel once"
        return Layer("computed", {"LLAMA_CACHE": RPC_CACHE}, {"LLAMA_CACHE": reason})

    def served_name(self, placed: Placed, flags: Mapping[str, Value]) -> str:
        return str(flags["alias"].value).partition(",")[0]

    def probes(self, placed: Placed, flags: Mapping[str, Value]) -> Probes:
        return Probes(
            health="/health",
            proof=openai.request(placed.recipe["kind"], self.served_name(placed, flags), "gb10"),
            metrics=METRICS,
            patience_s=_STEP_S,
            exit_words={"134": "as llama.cpp does when it has lost an RPC server, or can't reach one"},
            others=Others(ranks_port(placed.port), _RPC_S) if placed.is_group else None,
            insist_s=_INSIST_S,
        )

    def size(self, placed: Placed, observed: Observed) -> tuple[ServiceSizing, list[Finding]]:
        sized, findings = sizing.size_service(placed, observed)
        return sized, [*findings, *sizing.slot_problems(placed)]

    def memory_flags(self, placed: Placed, shares: Sequence[Share]) -> Layer:
        return Layer("computed", {})
