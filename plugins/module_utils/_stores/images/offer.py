# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings an image's missing layers from other hosts: whole, or as the difference to a layer that is here."""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from ..._base.received import DIGEST, SIZE, checked, parsed
from ..._base.schema import Spec
from ..._base.staging import Progress, require_space
from ..transfer.fetch import Transfer, Wish
from ..transfer.offer import Sources
from ..transfer.parts import cut_tar
from ..transfer.route import Route
from ..transfer.spool import Incoming
from .archive import MOST_LAYERS, Layer, layers_of
from .identity import Identity, identity_from_config

# Below, the difference to an old layer is not worth reading that layer for.
_LEAST_FOR_DIFFERENCE = 8 << 20
_BLOCK = 1 << 20
_MOST_ANSWER = 8 << 20
_LAYER: Spec = {
    "type": "map",
    "options": {
        "diff_id": DIGEST,
        "digest": DIGEST,
        "size": SIZE,
        "compression": {"type": "str", "required": True, "choices": ["", "gzip", "zstd"]},
    },
}
_ANSWER: Spec = {
    "type": "map",
    "options": {
        "config": {"type": "str", "required": True},
        "layers": {"type": "list", "required": True, "max": MOST_LAYERS, "elements": _LAYER},
    },
}


@dataclass(frozen=True)
class Offer:
    """An image that another host has. layers: as that host keeps them, lowest first."""

    config: bytes
    layers: tuple[Layer, ...]

    @classmethod
    def from_answer(cls, answer: bytes) -> "Offer":
        """ValueError for what is no image."""
        value = checked(_ANSWER, parsed(answer, _MOST_ANSWER, "its answer"), "its answer")
        try:
            config = base64.b64decode(value["config"], validate=True)
        except ValueError:
            raise ValueError("its answer: the config is no base64") from None
        if layers_of(config, "its config") != [layer["diff_id"] for layer in value["layers"]]:
            raise ValueError("its config names other layers than it offers")
        return cls(config, tuple(Layer(**layer) for layer in value["layers"]))

    @property
    def identity(self) -> Identity:
        return identity_from_config(json.loads(self.config))


class Fetch:
    """The way of an image's layers to this host, into ``folder``. what: the image, for messages."""

    def __init__(self, what: str, sources: Sources, folder: Path, progress: Progress) -> None:
        self._what = what
        self._sources = sources
        self._folder = folder
        self._progress = progress

    def layers(self, layers: Sequence[Layer], old: Sequence[Callable[[], IO[bytes]]]) -> list[Layer]:
        """Fetch the layers; they come as offered, or uncompressed where that is less to send.

        old: open uncompressed tars of layers that are here and may resemble them.
        """
        route = Route(self._sources.peers, self._what, notes=self._progress.notes)
        chosen = [_uncompressed(layer) if old and may_resemble(layer) else layer for layer in layers]
        with Transfer(route, self._folder, self._progress, self._sources.streams, self._sources.connect) as transfer:
            self._progress.start(f"{self._what}, asking how its layers are made", 0)
            transfer.begin([self._wish(*pair) for pair in zip(layers, chosen, strict=True)])
            for tar in old if any(map(may_resemble, layers)) else ():
                self._progress.start(f"{self._what}, reading a layer that is here", 0)
                transfer.take_from(cut_tar(tar().read))
            for index, layer in enumerate(layers):
                if chosen[index] != layer and transfer.missing_bytes(_hex(layer.diff_id)) > layer.size:
                    transfer.drop(_hex(layer.diff_id))
                    transfer.begin([self._wish(layer, layer)])
                    chosen[index] = layer
            require_space(self._folder, transfer.missing_bytes(), self._what)
            self._progress.start(f"{self._what} from {self._sources.peers[0].host}", transfer.missing_bytes())
            paths = transfer.finish()
        return [replace(layer, size=paths[_hex(layer.digest)].stat().st_size) for layer in chosen]

    def chunks(self, layer: Layer) -> Iterator[bytes]:
        """A layer's bytes as received."""
        with Incoming(self._folder, _hex(layer.digest)).data.open("rb") as stream:
            while block := stream.read(_BLOCK):
                yield block

    def _wish(self, offered: Layer, chosen: Layer) -> Wish:
        return Wish(
            _hex(chosen.digest),
            f"{self._what}, layer {chosen.digest}",
            packed=offered.digest if chosen != offered else None,
        )


def may_resemble(layer: Layer) -> bool:
    """Whether a layer is worth being brought as a difference, or being the base of one."""
    return layer.size >= _LEAST_FOR_DIFFERENCE and layer.compression in ("", "gzip")


def _uncompressed(layer: Layer) -> Layer:
    return Layer(layer.diff_id, layer.diff_id, layer.size) if layer.compression else layer


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
