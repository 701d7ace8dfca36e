# SPDX-License-Identifier: GPL-3.0-or-later
"""How large a buffer ggml lays a graph's tensors into: its allocator, without the tensors.

A tensor goes into the smallest hole that holds it, else to the end, and its place is free once all who read it were
computed. Source: ggml 0.27.0, src/ggml-alloc.c (ggml_gallocr_alloc_graph_impl, ggml_dyn_tallocr_alloc).
"""

from dataclasses import dataclass, field

_ALIGNMENT = 64
_ENDLESS = 1 << 62


@dataclass(eq=False)
class Tensor:
    """size: bytes. sources: what it is computed of. whole: of a view, the tensor whose memory it shows. in_place: may
    take a source's memory. external: has memory of its own, as weights and caches have."""

    size: int
    sources: "tuple[Tensor, ...]" = ()
    whole: "Tensor | None" = None
    in_place: bool = False
    external: bool = False
    readers: int = field(default=0, init=False)
    views: int = field(default=0, init=False)
    offset: int | None = field(default=None, init=False)

    @property
    def has_place(self) -> bool:
        return self.offset is not None


WEIGHT = Tensor(0, external=True)


def leaf(size: int) -> Tensor:
    """What is set from outside before each run."""
    return Tensor(size)


def made(size: int, *sources: Tensor) -> Tensor:
    return Tensor(size, sources)


def changed(tensor: Tensor, *others: Tensor) -> Tensor:
    """Of the size of `tensor`, by an operation that may be done in its memory."""
    return Tensor(tensor.size, (tensor, *others), in_place=True)


def view(tensor: Tensor, size: int | None = None) -> Tensor:
    """Another shape of the same memory, or a part of it."""
    return Tensor(tensor.size if size is None else size, (tensor,), whole=tensor.whole or tensor)


def written(into: Tensor, rows: Tensor, places: Tensor) -> Tensor:
    """`into`, with rows written into it."""
    return Tensor(into.size, (rows, places, into), whole=into.whole or into)


class Graph:
    """Tensors in the order in which they are computed: each behind what it is computed of."""

    def __init__(self) -> None:
        self._nodes: list[Tensor] = []
        self._leaves: list[Tensor] = []
        self._seen: set[int] = set()

    def add(self, *tensors: Tensor) -> None:
        for tensor in tensors:
            if id(tensor) not in self._seen:
                self._seen.add(id(tensor))
                self.add(*tensor.sources)
                (self._nodes if tensor.sources else self._leaves).append(tensor)

    def bytes(self) -> int:
        """Of the buffer that they are laid into."""
        space = _Space()
        for tensor in self._leaves:
            _place(tensor, space)
        for node in self._nodes:
            if node.whole is not None:
                node.whole.views += 1
            for source in node.sources:
                source.readers += 1
        for node in self._nodes:
            _place(node, space)
            for source in node.sources:
                source.readers -= 1
                if source.readers or source.views:
                    continue
                freed = source
                if source.whole is not None:
                    freed = source.whole
                    freed.views -= 1
                if not freed.readers and not freed.views:
                    _free(freed, space)
        return space.reached


def _place(tensor: Tensor, space: "_Space") -> None:
    if tensor.has_place or tensor.external or tensor.whole is not None:
        return
    for source in tensor.sources if tensor.in_place else ():
        alone = source.readers == 1 and source.views == 0
        if source.has_place and alone and source.size == tensor.size:
            tensor.offset, source.offset = source.offset, None
            return
    tensor.offset = space.take(tensor.size)


def _free(tensor: Tensor, space: "_Space") -> None:
    if tensor.offset is not None:
        space.give(tensor.offset, tensor.size)
        tensor.offset = None


class _Space:
    """holes: `[offset, size]` in their order; the last one has no end. reached: the furthest byte that was taken."""

    def __init__(self) -> None:
        self.holes = [[0, _ENDLESS]]
        self.reached = 0

    def take(self, size: int) -> int:
        size = _aligned(size)
        fitting = [hole for hole in self.holes[:-1] if hole[1] >= size]
        # of holes that are equally small the last one
        hole = min(reversed(fitting), key=lambda item: item[1], default=self.holes[-1])
        offset = hole[0]
        hole[0], hole[1] = hole[0] + size, hole[1] - size
        if not hole[1]:
            self.holes.remove(hole)
        self.reached = max(self.reached, offset + size)
        return offset

    def give(self, offset: int, size: int) -> None:
        self.holes.append([offset, _aligned(size)])
        self.holes.sort()
        merged = [self.holes[0]]
        for hole in self.holes[1:]:
            if merged[-1][0] + merged[-1][1] == hole[0]:
                merged[-1][1] += hole[1]
            else:
                merged.append(hole)
        self.holes = merged


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
