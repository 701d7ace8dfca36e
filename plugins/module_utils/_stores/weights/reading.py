# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the models on a host: which are there, whether their files are as when they were verified, and their bytes.

The bytes are read by rota, some each night."""

import hashlib
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..._base.foreign_files import content_of
from ..._base.layout import CACHES
from ..._base.received import parsed
from ..._host.probe.parts import Part, Run
from ..transfer.places import Places
from .access import closed_to_containers, writable
from .cache import Cache, repository_folder
from .records import ModelRecords, Record
from .source import MOST_INDEX

_BLOCK = 1 << 22
INDEX = "model.safetensors.index.json"


def read_models(places: Places, wanted: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """``{models: {repository: {revision, seal, changed, gone, broken, access, closed}}, others: [repository]}``.

    wanted: ``{repository, revision}``, revision None for what ``main`` stands for. revision is None where nothing is
    recorded, broken the reason why a record can't be trusted, access what others than root may write, closed what a
    container can't read. others: models in the cache that are not wanted.
    """
    records = ModelRecords(places)
    models = {model["repository"]: _model(places, records, model) for model in wanted}
    mine = {repository_folder(name) for name in models}
    present = {path.name for path in (places.models / "hub").glob("models--*") if path.is_dir()}
    others = sorted(name.removeprefix("models--").replace("--", "/") for name in present - mine)
    return {"models": models, "others": others}


def _model(places: Places, records: ModelRecords, wanted: Mapping[str, Any]) -> dict[str, Any]:
    revision = wanted["revision"] or Cache(places.models, wanted["repository"]).main()
    nothing: dict[str, Any] = {
        "revision": None,
        "seal": None,
        "changed": [],
        "gone": [],
        "broken": "",
        "access": [],
        "closed": [],
    }
    if revision is None:
        return nothing
    if broken := records.broken(wanted["repository"], revision):
        return nothing | {"revision": revision, "broken": broken}
    found = records.of(wanted["repository"], revision)
    if not found:
        return nothing
    record = found[0]
    folder = Cache(places.models, wanted["repository"]).folder
    snapshot = Cache(places.models, wanted["repository"]).snapshot(revision)
    changed = records.changed_files(record)
    gone = [path for path in changed if not (snapshot / path).exists()]
    return {
        "revision": revision,
        "seal": record.manifest.seal,
        "changed": sorted({*changed} - {*gone}),
        "gone": sorted(gone),
        "broken": "",
        "access": writable(places.models, folder),
        "closed": [str(path) for path in closed_to_containers(places.models, folder)],
    }


def due(sizes: Mapping[str, int], seen: Mapping[str, int], today: int, days: int) -> list[str]:
    """The files to read tonight so that each one is read at least every ``days`` days, longest unseen first.

    sizes: bytes by file. seen: the day that each was last read. A night reads what is due, and of the rest its share of
    all bytes, so that the nights are alike and one that fell out is made up for.
    """
    share = math.ceil(sum(sizes.values()) / days)
    chosen: list[str] = []
    planned = 0
    already = sum(size for file, size in sizes.items() if seen.get(file) == today)
    for file in sorted(sizes, key=lambda file: (seen.get(file, -1), file)):
        overdue = file in seen and seen[file] + days <= today
        if seen.get(file) == today or not (overdue or planned + already < share):
            continue
        chosen.append(file)
        planned += sizes[file]
    return chosen


def read_deeply(
    places: Places,
    wanted: Iterable[Mapping[str, object]],
    seen: Mapping[str, int],
    today: int,
    days: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """``{good: [file], bad: {file: sha256 as read}, left: [file]}``; a file is ``repository/path``.

    Ends after ``seconds``, with what it did not come to in ``left``; with 0 it reads nothing.
    """
    if not seconds:
        return {"good": [], "bad": {}, "left": []}
    records = ModelRecords(places)
    known: dict[str, tuple[Path, str, int]] = {}
    for model in wanted:
        for record in _records(places, records, model):
            snapshot = Cache(places.models, record.manifest.repository).snapshot(record.manifest.revision)
            for file in record.manifest.files:
                known[f"{record.manifest.repository}/{file.path}"] = (snapshot / file.path, file.sha256, file.size)
    chosen = due({name: size for name, (_, _, size) in known.items()}, seen, today, days)
    deadline = clock() + seconds
    good, bad, left = [], {}, []
    for name in chosen:
        path, wanted_sum, _size = known[name]
        found = sha256_of(path, deadline, clock)
        if found is None:
            left.append(name)
        elif found == wanted_sum:
            good.append(name)
        else:
            bad[name] = found
    return {"good": good, "bad": bad, "left": left}


def _records(places: Places, records: ModelRecords, model: Mapping[str, Any]) -> list[Record]:
    revision = model["revision"] or Cache(places.models, model["repository"]).main()
    return records.of(model["repository"], revision)[:1] if revision else []


def sha256_of(path: Path, deadline: float, clock: Callable[[], float]) -> str | None:
    """The sum of a file as it lies on the disk; None when the time is up; the reason where it can't be read.

    What is read is not kept in the page cache: on GB10 it would be taken from the GPU.
    """
    whole = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while block := stream.read(_BLOCK):
                if clock() > deadline:
                    return None
                whole.update(block)
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return whole.hexdigest()


def _places(ask: Mapping[str, Any]) -> Places:
    return Places(Path(ask["folder"]), Path(ask["models_folder"]))


def _deep(_run: Run, ask: Mapping[str, Any]) -> dict[str, Any]:
    deep = ask["deep"]
    return read_deeply(_places(ask), ask["models"], deep["seen"], deep["today"], deep["days"], deep["seconds"])


def read_changing(entries: Iterable[Mapping[str, object]], places: Places) -> list[str]:
    """The models that have to be brought, or brought anew, by the same look as before their staging.

    entries: as the plan has them. Neither other hosts nor the hub are asked.
    """
    # what only a converge asks for; a drift check need not load it
    from ..._base.staging import Progress  # noqa: PLC0415
    from .hub import Silent  # noqa: PLC0415
    from .store import ModelStore, Wanted  # noqa: PLC0415

    wanted = [Wanted.from_plan({**entry, "peers": []}) for entry in entries]
    steps = ModelStore(places, Silent("", places.downloads), Progress()).examine(wanted)
    return [step.wanted.repository for step in steps if step.changes]


def _changing(_run: Run, ask: Mapping[str, Any]) -> list[str]:
    return read_changing(ask["models"], replace(_places(ask), caches=CACHES))


# What a converge asks besides; its questions are the plan's own entries.
BEFORE_CHANGE: Mapping[str, Part] = {"models_changing": _changing}
READS: Mapping[str, Part] = {"models": lambda _run, ask: read_models(_places(ask), ask["models"]), "deep": _deep}


def indexed_bytes(index: Path) -> int | None:
    """The sum of the tensors' bytes, as a checkpoint's index says; None without one, or where it has no figure."""
    try:
        size = parsed(content_of(index, MOST_INDEX), MOST_INDEX, "it")["metadata"]["total_size"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return int(size) if isinstance(size, int | float) and 0 < size < 1 << 60 else None
