# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetches files from other hosts in parallel streams; each part is checked before it is kept and passed on."""

import contextlib
import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._base.staging import Progress
from .parts import Part, Recipe, unpack
from .peer import Connect, Connection, Peer, PeerAbsentError, PeerError, PeerLateError, over_ssh
from .route import Route
from .spool import Incoming, filling

# A request asks for what takes about this long: enough to keep a fast link busy, and little enough that the next host
# in a chain does not wait for long behind a slow one.
_REQUEST_SECONDS = 0.2
_LEAST_BYTES = 1 << 20
_MOST_BYTES = 16 << 20
# A stream this fast is on a link that carries more of them, and keeps a core busy with ciphers. On a slower link they
# only take from each other: of four streams on 40 Mbit/s, a fifth of what was sent was lost and sent again (measured).
_ONE_STREAM = 150e6
# Small parts: no request names more of them.
_MOST_PARTS = 4096


@dataclass(frozen=True)
class Wish:
    """A file to fetch. place: how a person knows it. packed: of an uncompressed layer, the digest by which the source
    keeps it compressed."""

    sha256: str
    place: str
    packed: str | None = None


class Asker:
    """One thread's conversations: a connection to each peer that it asked."""

    def __init__(self, route: Route, connect: Connect) -> None:
        self._route = route
        self._connect = connect
        self._open: dict[Peer, Connection] = {}

    def ask(self, request: dict[str, Any], good: Callable[[Peer, bytes], bool]) -> tuple[Peer, bytes, bool]:
        """Ask along the route until a peer gives what is ``good``: who, what, and whether it was still getting more.

        Raises FleetError when nobody does. A peer that is late made this wait for some seconds.
        """
        while True:
            peer = self._route.choose()
            try:
                connection = self._connection(peer)
                answer = connection.ask(request)
            except PeerLateError:
                self._route.late(peer)
            except PeerAbsentError as error:
                self._route.absent(peer, str(error))
            except PeerError as error:
                self._open.pop(peer).close()
                self._route.lost(peer, str(error))
            else:
                if good(peer, answer):
                    return peer, answer, connection.coming

    def _connection(self, peer: Peer) -> Connection:
        if peer not in self._open:
            self._open[peer] = self._connect(peer)
        return self._open[peer]

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()


class _File:
    """One file of a transfer. missing: numbers of the parts that are to be fetched; left: how many did not come yet."""

    def __init__(self, wish: Wish, incoming: Incoming, recipe: Recipe) -> None:
        self.wish = wish
        self.incoming = incoming
        self.recipe = recipe
        self.look()

    def look(self) -> None:
        self.missing = [index for index, mark in enumerate(self.incoming.marks()) if not mark]
        self.left = len(self.missing)

    def bytes_in(self, indexes: Iterable[int]) -> int:
        return sum(self.recipe.parts[index].length for index in indexes)


class _Todo:
    """The parts that are to be fetched, file by file from the first to the last, for several threads."""

    def __init__(self, files: Iterable[_File]) -> None:
        self._lock = threading.Lock()
        self._parts = deque((file, index) for file in files for index in file.missing)

    def take(self, budget: int) -> tuple[_File, list[int]] | None:
        """The next parts of one file: at least one, then as many as fit into ``budget`` bytes."""
        with self._lock:
            if not self._parts:
                return None
            file, first = self._parts.popleft()
            taken = [first]
            budget -= file.recipe.parts[first].length
            while self._parts and self._parts[0][0] is file and len(taken) < _MOST_PARTS:
                budget -= file.recipe.parts[self._parts[0][1]].length
                if budget < 0:
                    break
                taken.append(self._parts.popleft()[1])
            return file, taken

    def finished(self, file: _File, indexes: Sequence[int]) -> bool:
        """Note parts that are in place; whether they were the file's last."""
        with self._lock:
            file.left -= len(indexes)
            return file.left == 0


class Transfer:
    """Some files on their way into ``folder``, all named from the start, so that other hosts know what will come here.

    Use it as a context: leaving it lets others know that nothing more comes.
    """

    def __init__(
        self, route: Route, folder: Path, progress: Progress, streams: int, connect: Connect = over_ssh
    ) -> None:
        self._route = route
        self._folder = folder
        self._progress = progress
        self._streams = streams
        self._connect = connect
        self._files: list[_File] = []
        self._open = contextlib.ExitStack()

    def __enter__(self) -> "Transfer":
        self._open.enter_context(filling(self._folder))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def begin(self, wishes: Sequence[Wish]) -> None:
        """Get the recipes and make room. What an earlier transfer brought is kept."""
        with contextlib.closing(Asker(self._route, self._connect)) as asker:
            for wish in wishes:
                incoming = Incoming(self._folder, wish.sha256)
                recipe = incoming.recipe() or self._recipe(asker, wish)
                incoming.begin(recipe)
                self._files.append(_File(wish, incoming, recipe))

    def _recipe(self, asker: Asker, wish: Wish) -> Recipe:
        def good(peer: Peer, answer: bytes) -> bool:
            with contextlib.suppress(ValueError):
                if unpack(answer).sha256 == wish.sha256:
                    return True
            self._route.damaged(peer, f"the recipe of {wish.place}")
            return False

        _, answer, _ = asker.ask({"recipe": wish.sha256, "packed": wish.packed}, good)
        return unpack(answer)

    def missing_bytes(self, sha256: str | None = None) -> int:
        """What is to be fetched, of one file or of all."""
        return sum(file.bytes_in(file.missing) for file in self._files if sha256 in (None, file.wish.sha256))

    def drop(self, sha256: str) -> None:
        """Do without a file after all."""
        for file in [file for file in self._files if file.wish.sha256 == sha256]:
            self._files.remove(file)
            file.incoming.forget()

    def take_from(self, cut: Iterable[tuple[bytes, bool]]) -> None:
        """Take the parts that something on this host has in common with the files: a cut, see
        ``_stores.transfer.parts``."""
        wanted: dict[bytes, list[tuple[_File, int]]] = {}
        for file in self._files:
            for index in file.missing:
                wanted.setdefault(file.recipe.parts[index].sha256, []).append((file, index))
        for content, named in cut:
            if named and wanted:
                for file, index in wanted.pop(hashlib.sha256(content).digest(), ()):
                    file.incoming.write([(index, file.recipe.parts[index], content)])
        for file in self._files:
            file.look()

    def finish(self) -> dict[str, Path]:
        """Fetch what is missing; the files, verified, by their sha256."""
        todo = _Todo(self._files)
        self._route.restart()
        with ThreadPoolExecutor(1) as prover, ThreadPoolExecutor(self._streams) as pool:

            def prove(file: _File) -> None:
                proofs[file.wish.sha256] = prover.submit(file.incoming.verified, file.wish.place)

            proofs: dict[str, Future[Path]] = {}
            for file in self._files:
                if not file.left:
                    prove(file)
            more = threading.Event()
            workers = [pool.submit(self._first_stream, todo, prove, more)]
            workers += [pool.submit(self._further_stream, todo, prove, more) for _ in range(self._streams - 1)]
            for worker in workers:
                worker.result()
        return {sha256: proof.result() for sha256, proof in proofs.items()}

    def _first_stream(self, todo: _Todo, prove: Callable[[_File], None], more: threading.Event) -> None:
        """Fetch until nothing is left. more: is set when further streams may help."""
        try:
            for rate in self._stream(todo, prove):
                if rate > _ONE_STREAM and not more.is_set():
                    self._route.streams = self._streams
                    more.set()
        finally:
            more.set()

    def _further_stream(self, todo: _Todo, prove: Callable[[_File], None], more: threading.Event) -> None:
        more.wait()
        for _ in self._stream(todo, prove):
            pass

    def _stream(self, todo: _Todo, prove: Callable[[_File], None]) -> Iterator[float]:
        """Requests of a size that suits the link, until nothing is left to do; the bytes a second of each."""
        budget = _LEAST_BYTES
        with contextlib.closing(Asker(self._route, self._connect)) as asker:
            while batch := todo.take(budget):
                file, indexes = batch
                seconds = self._bring(asker, file, indexes)
                budget = min(_MOST_BYTES, budget * 2) if seconds < _REQUEST_SECONDS else max(_LEAST_BYTES, budget // 2)
                if todo.finished(file, indexes):
                    prove(file)
                yield file.bytes_in(indexes) / seconds

    def _bring(self, asker: Asker, file: _File, indexes: list[int]) -> float:
        """Fetch some parts of a file and keep them; the seconds that it took."""
        began = time.monotonic()
        parts = [file.recipe.parts[index] for index in indexes]

        def good(peer: Peer, answer: bytes) -> bool:
            if all(hashlib.sha256(content).digest() == part.sha256 for part, content in _split(answer, parts)):
                return True
            self._route.damaged(peer, file.wish.place)
            return False

        peer, answer, coming = asker.ask({"read": file.wish.sha256, "ranges": _ranges(parts)}, good)
        seconds = time.monotonic() - began
        self._route.delivered(peer, len(answer), seconds, coming)
        contents = _split(answer, parts)
        file.incoming.write((index, *each) for index, each in zip(indexes, contents, strict=True))
        self._progress.add(len(answer))
        return seconds


def _split(answer: bytes, parts: Iterable[Part]) -> Iterator[tuple[Part, bytes]]:
    start = 0
    for part in parts:
        yield part, answer[start : start + part.length]
        start += part.length


def _ranges(parts: Iterable[Part]) -> list[tuple[int, int]]:
    """Neighbouring parts as one (offset, length)."""
    ranges: list[tuple[int, int]] = []
    for part in parts:
        if ranges and sum(ranges[-1]) == part.offset:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + part.length)
        else:
            ranges.append((part.offset, part.length))
    return ranges
