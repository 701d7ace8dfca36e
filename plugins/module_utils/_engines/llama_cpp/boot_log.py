# SPDX-License-Identifier: GPL-3.0-or-later
"""What `llama-server` logs of its memory while it starts, with --log-verbosity 4."""

import re

from ..memory.boots import BootLog
from .catalogue import load

_BUFFER = re.compile(r"(?<!\S)(\S{1,64}?)(?:\[\S{1,64}\])? +(model|KV|compute|output) buffer size = +([\d.]+) MiB")
# Of the projector (tools/mtmd/clip.cpp).
_PROJECTOR = re.compile(
    r"^.*(?:load_hparams: model size: +(?P<model>[\d.]+) MiB"
    r"|reserve_compute_meta: +\S+ compute buffer size = +(?P<compute>[\d.]+) MiB).*",
    re.MULTILINE,
)
# What follows is of the model that drafts.
_DRAFT = ": loading draft model "
_CELLS = re.compile(r"llama_kv_cache: size = [^\n(]*\( *(\d+) cells, +\d+ layers, +\d+/(\d+) seqs\)")
_BUILD = re.compile(r"print_info: build (\d+)")


def buffers(log: str) -> dict[tuple[str, str], float]:
    """MiB by (device, kind), of kinds model, KV and compute, of the model and the one that drafts for it together. What
    is printed twice of one is set up twice and counts once, but for caches of several kinds of layers."""
    found: dict[tuple[str, str], float] = {}
    for part in _PROJECTOR.sub("", log).split(_DRAFT):
        own: dict[tuple[str, str], float] = {}
        for device, kind, mib in _BUFFER.findall(part):
            before = own.get((device, kind), 0.0) if kind == "KV" else 0.0
            own[device, kind] = before + float(mib)
        for key, mib in own.items():
            found[key] = found.get(key, 0.0) + mib
    return found


def of_projector(log: str) -> dict[str, float]:
    """MiB of its model, and of what it computes a picture in, as far as they are printed."""
    return {kind: float(mib) for match in _PROJECTOR.finditer(log) for kind, mib in match.groupdict().items() if mib}


def parse_boot_log(log: str) -> BootLog:
    """The head's own part of the weights: what RPC servers hold is in their hosts' memory."""
    own = [mib for (device, kind), mib in buffers(log).items() if kind == "model" and not device.startswith("RPC")]
    own += [mib for kind, mib in of_projector(log).items() if kind == "model"]
    cells = [int(count) * int(streams) for count, streams in _CELLS.findall(log)]
    build = _BUILD.search(log)
    return BootLog(
        weights_gib=round(sum(own) / 1024, 4) if own else None,
        kv_cache_tokens=max(cells, default=None),
        release=_release(int(build[1])) if build else None,
    )


def _release(build: int) -> str | None:
    """The release of a build, where it is catalogued."""
    return next((release.version for release in load().values() if release.build == build), None)
