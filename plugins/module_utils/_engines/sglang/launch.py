# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of each rank: the same program on each host, which meets the others at the head's address."""

from collections.abc import Iterator, Mapping, Sequence

from ..._base import layout, worded
from ..._base.findings import Finding
from ..._base.layers import Layer, Value, merge
from ..interface import Launch
from ..options import first_of, words_of
from ..placed import Host, Placed
from ..ports import ranks_port
from . import catalogue
from .catalogue import DRAFT, PIPELINE, TENSOR

# The option that a model needs for what it is asked, by the recipe's kind.
KINDS = {"chat": None, "embed": "is-embedding"}
# What only the rank that answers clients gets.
_OF_THE_ENDPOINT = ("config", "ssl-certfile", "ssl-keyfile")


def flags(placed: Placed, written: Sequence[Layer]) -> dict[str, Value]:
    """The written options, and what follows from the placement."""
    asked = {name: value.value for name, value in merge(written).items()}
    layers = [*written, _from_placement(placed)]
    if first_of(asked, TENSOR) is None and first_of(asked, PIPELINE) is None and placed.is_group:
        layers.append(Layer("computed", {TENSOR[0]: len(placed.hosts)}, {TENSOR[0]: "one GPU a host"}))
    return merge(layers)


def _from_placement(placed: Placed) -> Layer:
    values, reasons = placed.endpoint("config", ("ssl-certfile", "ssl-keyfile"))
    values |= {
        "enable-metrics": True,
        "model-path": "{model_path}",
        "served-model-name": placed.settings.get("served_name") or placed.model["repository"],
    }
    reasons |= {
        "enable-metrics": "what its supervisor sees that it lives by",
        "model-path": "the staged files",
        "served-model-name": "the model's name for clients",
    }
    if mode := KINDS.get(placed.recipe["kind"]):
        values[mode], reasons[mode] = True, "the recipe's kind"
    return Layer("computed", values, reasons)


def launch(placed: Placed, flags: Mapping[str, Value], rank: int) -> Launch:
    """A rank that is not the head answers on its port that it is there (engine.py, launch_dummy_health_check_server):
    to its own host alone."""
    values = placed.filled(flags)
    if placed.stored_draft:
        own = [name for name in DRAFT if name in values]
        revision = placed.model["draft"]["revision"]
        values |= dict.fromkeys(own, layout.model_folder(placed.stored_draft, revision, layout.IN_MODELS))
        values.pop("speculative-draft-model-revision", None)
    if placed.is_group:
        address = f"{placed.addresses[0]}:{ranks_port(placed.port)}"
        values |= {"nnodes": len(placed.hosts), "node-rank": rank, "dist-init-addr": address}
    if rank:
        values = {name: value for name, value in values.items() if name not in _OF_THE_ENDPOINT} | {"host": "127.0.0.1"}
    words = [*words_of(values)]
    if placed.image["entrypoint"] is not None:
        return Launch(words, placed.image["entrypoint"])
    return Launch(["-m", "sglang.launch_server", *words], "python3")


def group_layers(placed: Placed, host: Host) -> list[Layer]:
    """The variables of a host's place in the group: those of its fabric, and its own address."""
    return [placed.in_group(host, "SGLANG_HOST_IP")] if placed.is_group else []


def problems(placed: Placed) -> Iterator[Finding]:
    """What can't be, alone or over hosts, before flags are decided."""
    kind = placed.recipe["kind"]
    if kind not in KINDS:
        yield worded.error("sglang-kind", placed.place.below("kind"), found=kind, kinds=", ".join(KINDS))
    release = catalogue.load().get(placed.image["release"] or "")
    if placed.tls and release is not None and "ssl-certfile" not in release.options:
        yield worded.error("sglang-tls", placed.place.below("tls"), version=release.version)
