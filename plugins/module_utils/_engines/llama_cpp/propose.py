# SPDX-License-Identifier: GPL-3.0-or-later
"""How llama-server would serve a model without a recipe: by its file in a repository, and what the hub says of it."""

from collections.abc import Iterator
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._base.gb10 import fact
from ..._base.place import Place
from ..._base.sizes import size
from ..._facts.models.checkpoint import Checkpoint
from ..._facts.models.gguf_files import projector_file, size_name
from ..._facts.models.purpose import CHAT, TASKS
from ..interface import Proposal
from .launch import KINDS, SLOTS

# By the repository's name, where the hub says no task.
_NAMES = {"rerank": "rerank", "embed": "embed", "bge-": "embed", "gte-": "embed"}
_LENGTH = 16384
# A text that is embedded or ranked has to fit into one batch (tools/server/server-context.cpp).
_TEXT = 8192


def propose(checkpoint: Checkpoint) -> tuple[Proposal, list[Finding]]:
    """A checkpoint (`_facts.models.checkpoint`) with the ``file`` that is wanted."""
    files, file, named = checkpoint["gguf"], checkpoint["file"], checkpoint["repository"].lower()
    kind = TASKS.get(checkpoint["task"] or "") or next((_NAMES[part] for part in _NAMES if part in named), CHAT)
    native = (checkpoint["config"].get("gguf") or {}).get("context") or _LENGTH
    length = min(native, _LENGTH if kind == CHAT else _TEXT)
    values: dict[str, tuple[Any, str]] = {"ctx-size": (length * SLOTS, f"{SLOTS} slots of {length} tokens")}
    if kind != CHAT:
        values |= dict.fromkeys(("batch-size", "ubatch-size"), (length, "each text is computed whole"))
    eye = projector_file(files) if kind == CHAT else None
    return Proposal(
        kind=kind,
        image={key: fact("llama_cpp_image", key) for key in ("reference", "digest", "family", "release")},
        flags={name: value for name, (value, _) in sorted(values.items())},
        reasons={name: reason for name, (_, reason) in sorted(values.items())},
        model={
            "file": file,
            "weights_bytes": files[file] + (files[eye] if eye else 0),
            **({"mmproj": eye} if eye else {}),
        },
    ), [*_chosen(checkpoint)] if kind in KINDS else []


def _chosen(checkpoint: Checkpoint) -> Iterator[Finding]:
    if checkpoint["unnamed"]:
        file = checkpoint["file"]
        remedy = f"write model: {checkpoint['repository']}:{size_name(file)}, or another one"
        gguf = size(checkpoint["gguf"][file])
        at = Place(thing=f"model {checkpoint['repository']}")
        yield worded.hint("model-gguf-usual", at, remedy=remedy, file=file, gguf=gguf)
