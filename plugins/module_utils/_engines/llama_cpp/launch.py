# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs in the container of a rank: `llama-server`, and on the other hosts of a group `rpc-server`."""

import json
from collections.abc import Iterator, Mapping, Sequence

from ..._base import layout
from ..._base.layers import Layer, Value, merge
from ..._base.sizes import quantity
from ..interface import Launch
from ..placed import Placed
from ..ports import ranks_port
from . import catalogue
from .catalogue import PROGRAMS

SLOTS = 4
# How a draft model drafts, unless an option says another way: without one it is loaded and not asked.
DRAFTS = "draft-simple"
# The option that a model needs for what it is asked, by the recipe's kind.
KINDS = {"chat": None, "embed": "embedding", "rerank": "rerank"}


def flags(placed: Placed, written: Sequence[Layer]) -> dict[str, Value]:
    """The written options, and what follows from the placement."""
    layers = [*written, _context(placed, merge(written)), _from_placement(placed)]
    if "draft" in placed.model:
        layers = [Layer("computed", {"spec-type": DRAFTS}, {"spec-type": "the way of model.draft"}), *layers]
    if placed.is_group:
        layers = [_even_split(placed), *layers]
    return merge(layers)


def slots(decided: Mapping[str, object]) -> int:
    """Requests that it works on at once."""
    return quantity(decided.get("parallel")) or SLOTS


def _context(placed: Placed, written: Mapping[str, Value]) -> Layer:
    """The whole cache, which llama-server divides by its slots, for requests of the workload's length."""
    length = quantity(placed.settings["workload"].get("max_model_len"))
    own = {*placed.settings["flags"], *placed.head.own(placed.name, "flags")}
    if length is None or "ctx-size" in own:
        return Layer("computed", {})
    many = slots({name: value.value for name, value in written.items()})
    return Layer("computed", {"ctx-size": length * many}, {"ctx-size": f"{many} slots of {length} tokens"})


def _even_split(placed: Placed) -> Layer:
    """By itself it divides layers by the memory that happens to be free at the start."""
    name, even = "tensor-split", ",".join("1" for _ in placed.hosts)
    return Layer("computed", {name: even}, {name: "the same number of layers on each host, whatever is free there"})


def _from_placement(placed: Placed) -> Layer:
    settings, model = placed.settings, placed.model
    names = [settings.get("served_name") or model["repository"], *settings.get("aliases", ())]
    values, reasons = placed.endpoint("api-key-file", ("ssl-cert-file", "ssl-key-file"))
    values |= {
        "alias": ",".join(dict.fromkeys(names)),
        "metrics": True,
        "model": f"{{model_path}}/{model.get('file')}",
        "offline": True,
    }
    reasons |= {
        "alias": "the model's name for clients",
        "metrics": "what its supervisor sees that it lives by",
        "model": "the staged file",
        "offline": "weights are staged and verified before; a start never downloads",
    }
    if mode := KINDS.get(placed.recipe["kind"]):
        values[mode], reasons[mode] = True, "the recipe's kind"
    if placed.stored_projector:
        folder = layout.model_folder(placed.stored_projector, model["revision"], layout.IN_MODELS)
        values["mmproj"], reasons["mmproj"] = f"{folder}/{model['mmproj']}", "the staged file"
    if placed.stored_draft:
        draft = model["draft"]
        folder = layout.model_folder(placed.stored_draft, draft["revision"], layout.IN_MODELS)
        values["spec-draft-model"], reasons["spec-draft-model"] = f"{folder}/{draft['file']}", "the staged file"
    return Layer("computed", values, reasons)


def launch(placed: Placed, flags: Mapping[str, Value], rank: int) -> Launch:
    """The head calls the other ranks, each at its address in the group: an RPC server asks nobody who he is."""
    port = ranks_port(placed.port)
    if rank:
        words = ["--host", placed.addresses[rank], "--port", str(port), "--cache"]
        # It handles no signal, and a container's first process is spared those: it would be waited for in vain.
        return Launch(words, _program(placed, "rpc-server"), stop_signal="SIGKILL")
    values = placed.filled(flags)
    if placed.is_group:
        values["rpc"] = ",".join(f"{address}:{port}" for address in placed.addresses[1:])
    return Launch([*words_of(values)], _program(placed, "llama-server"))


def _program(placed: Placed, name: str) -> str:
    """An image's entrypoint may be a script or a server: each rank names its program."""
    written = placed.image["entrypoint"]
    folder = PROGRAMS[placed.image["family"]] if written is None else str(written).rpartition("llama-server")[0]
    return folder + name


def words_of(values: Mapping[str, object]) -> Iterator[str]:
    """Options as arguments, sorted by name, for a process and not for a shell.

    True is the bare option, False its ``--no-`` form, or on and off where it takes these; a list its items with commas
    between them, a map one JSON argument, None nothing.
    """
    known = catalogue.newest().options
    for name, value in sorted(values.items()):
        option = known.get(name)
        if value is None:
            continue
        if not isinstance(value, bool):
            yield from (f"--{name}", _as_text(value))
        elif option is not None and {"on", "off"} <= {*option.choices}:
            yield from (f"--{name}", "on" if value else "off")
        else:
            yield f"--{name}" if value else f"--no-{name}"


def _as_text(value: object) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
