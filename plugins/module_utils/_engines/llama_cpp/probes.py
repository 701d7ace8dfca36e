# SPDX-License-Identifier: GPL-3.0-or-later
"""How a supervisor sees that `llama-server` loads, serves and lives."""

from ..._base.gb10 import data_table
from ..._on_host.rank.probes import Metrics, Others, Probes
from .. import openai
from ..placed import Placed
from ..ports import ranks_port

# tools/server/server-context.cpp: n_decode_total moves with each batch of a prefill, and its one thread answers between
# two batches.
_METRICS = Metrics(**data_table("llama_cpp_metrics"))
# A batch of 2048 tokens takes 48 s at the 43 tokens a second of a 397B model over two hosts (cluster owner's notes).
_STEP_S = 300
# It listens before anything is loaded.
_RPC_S = 60
# Answers have ended before it is asked to end, and an end in order takes seconds; one that waits for a lost RPC server
# waits for TCP, beyond `group.stop_s`. By a second signal it leaves at once (tools/server/server.cpp).
_INSIST_S = 10


def probes(placed: Placed, model: str) -> Probes:
    """model: its name for clients."""
    return Probes(
        health="/health",
        proof=openai.request(placed.recipe["kind"], model, "gb10"),
        metrics=_METRICS,
        patience_s=_STEP_S,
        exit_words={"134": "as llama.cpp does when it has lost an RPC server, or can't reach one"},
        others=Others(ranks_port(placed.port), _RPC_S) if placed.is_group else None,
        insist_s=_INSIST_S,
    )
