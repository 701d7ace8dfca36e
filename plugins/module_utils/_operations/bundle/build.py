# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a bundle: fetches what the plan needs and the folder lacks, one thing after the other, the manifest last."""

import contextlib
import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._base import worded
from ..._base.findings import FleetError
from ..._base.own_files import look
from ..._base.sizes import size
from ..._base.staging import Progress
from . import debs, images, models, wheels
from .folder import Target, write_whole
from .manifest import FILE, FORM, INDEX, KEY, LAYOUT, SIGNATURE, blob, dump, index_of, parse, paths_of_image
from .needs import Needs, image_in
from .signature import require_signed, signed

_LINE_SECONDS = 30
_FINISHED, _SIGNED = "models.json", "models.json.sig"


@dataclass(frozen=True)
class Order:
    """What a bundle is made by.

    architecture: the hosts', in Debian's words. python: their release of it. sources: of apt. work: a folder for what
    is under way. hf: the hub's tool. key: the bundle's, secret and public.
    """

    needs: Needs
    plan: str
    architecture: str
    python: str
    sources: str
    work: Path
    hf: str
    token_file: Path | None
    key: tuple[bytes, bytes]
    part_bytes: int | None


@dataclass(frozen=True)
class Made:
    """manifest: of the bundle, the one from before where all is as it says. new_bytes: written. dropped: paths that an
    earlier bundle in the folder had and this one has not."""

    manifest: Mapping[str, Any]
    changed: bool
    new_bytes: int
    dropped: list[str]


def build(
    order: Order,
    folder: Path,
    before: Mapping[str, object],
    base: Mapping[str, object] | None,
    show: Callable[[str], None],
) -> Made:
    """Make it, or leave it as it is where nothing is new. One run at a time works in a folder.

    before: the manifest that the folder has from before. base: of a bundle whose files this one need not hold."""
    _clear_of_links(order.work)
    order.work.mkdir(parents=True, exist_ok=True)
    with _alone(order.work):
        made = _build(order, Target(folder, before, base, order.part_bytes), before, base or before, show)
        shutil.rmtree(order.work)
    return made


def _build(
    order: Order, target: Target, before: Mapping[str, Any], known: Mapping[str, Any], show: Callable[[str], None]
) -> Made:
    """known: the manifest of a bundle whose entries still hold where their files are held."""
    found: dict[str, Any] = {
        "form": FORM,
        "plan": order.plan,
        "architecture": order.architecture,
        "part_bytes": order.part_bytes,
        "asked": [*order.needs.packages],
        "images": [],
        "models": [],
    }
    for wanted in order.needs.images:
        found["images"].append(_image(wanted, order, target, known, show))
    # of a run that was cut off, before it had a manifest
    finished = _finished(order)
    for wanted in order.needs.models:
        entry = models.held(wanted, [*finished, *known["models"]], target)
        if entry is None:
            with _watched(f"model {wanted['repository']} from the hub", order.work, show):
                progress = Progress(None)
                entry = models.fetch(wanted, order.hf, order.token_file, target, order.work / "models", progress)
            finished.append(entry)
            content = json.dumps(finished).encode()
            write_whole(order.work, _FINISHED, content)
            write_whole(order.work, _SIGNED, signed(order.key[0], content, clear=False))
        found["models"].append(entry)
    with _watched(f"packages: {', '.join(order.needs.packages)}, and what they depend on", order.work, show):
        found["packages"] = debs.fetch(
            order.needs.packages,
            order.architecture,
            order.sources,
            target,
            order.work / "debs",
            [*before["packages"], *known["packages"]],
            order.key[0],
        )
    tools = order.needs.tools
    found["tools"], found["wheels_by"] = {**tools}, wheels.chosen_by(order.architecture, order.python, tools)
    found["wheels"] = wheels.held(found["wheels_by"], known, target)
    with _watched("wheels, and the collection itself", order.work, show):
        if found["wheels"] is None:
            work = order.work / "wheels"
            found["wheels"] = wheels.fetch(order.architecture, order.python, tools, target, work)
        found["collection"] = wheels.collection(target, order.work)
    sizes = {path: file["bytes"] for path, file in target.files.items()}
    target.write(LAYOUT, b'{"imageLayoutVersion": "1.0.0"}')
    target.write(INDEX, index_of(found["images"], sizes))
    target.write(KEY, order.key[1])
    found["files"] = dict(sorted(target.files.items()))
    same = {**found, "serial": before["serial"]}
    dropped: list[str] = []
    if changed := same != before:
        manifest = {**found, "serial": max(int(time.time()), before["serial"] + 1)}
        content = dump(manifest)
        parse(content, FILE)  # what we write is what we take
        write_whole(target.folder, SIGNATURE, signed(order.key[0], content, clear=False))
        write_whole(target.folder, FILE, content)
        dropped = target.drop_unnamed()
    return Made(manifest if changed else before, changed or target.new_bytes > 0, target.new_bytes, dropped)


def _finished(order: Order) -> list[dict[str, Any]]:
    """The entries of models that were brought by a run that was cut off later; on a medium, as this site signed it."""

    def entries(content: bytes) -> list[dict[str, Any]]:
        require_signed(order.work / _FINISHED, content, (order.work / _SIGNED).read_bytes(), order.key[1])
        return [dict(entry) for entry in json.loads(content)]

    try:
        return look(order.work / _FINISHED, entries)[0] or []
    except FleetError:
        return []


def _clear_of_links(work: Path) -> None:
    """Take away a folder of before that leads out of itself: other programs write there, and follow links."""
    if work.is_symlink():
        work.unlink()
    inside = work.resolve()
    for parent, folders, names in os.walk(work):
        for name in (*folders, *names):
            path = Path(parent, name)
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                shutil.rmtree(work)
                return


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise worded.refusal("bundle-busy", str(folder)) from None
        yield
    finally:
        os.close(descriptor)


def _image(
    wanted: Mapping[str, Any], order: Order, target: Target, known: Mapping[str, object], show: Callable[[str], None]
) -> Mapping[str, Any]:
    """The image's entry: the earlier bundle's where its digest is pinned or locked and all of it is held."""
    pin = wanted["digest"] or (wanted["lock"] or {}).get("digest")
    before = image_in(known, {**wanted, "digest": pin}) if pin else None
    small = [*(before["documents"] if before else ()), *([before["manifest"]] if before else ())]
    here = all((target.folder / blob(digest)).is_file() for digest in small)
    if before and here and all(target.known(path) for path in paths_of_image(before)):
        for path in paths_of_image(before):
            target.name(path)
        return before
    with _watched(f"image {wanted['reference']} from its registry", order.work, show):
        return images.fetch(wanted, order.architecture, target, order.work / "images")


@contextlib.contextmanager
def _watched(what: str, work: Path, show: Callable[[str], None]) -> Iterator[None]:
    """Shows what is fetched, and now and then how much has come: the programs that fetch say nothing of it."""
    done = threading.Event()

    def look() -> None:
        while not done.wait(_LINE_SECONDS):
            show(f"{what}: {size(_bytes_below(work))} so far")

    show(what)
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _bytes_below(folder: Path) -> int:
    """As they are on the disk: what stands for a blob that is held has none."""
    count = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # it may just have got its final name
            count += path.lstat().st_blocks * 512
    return count


def summary(made: Made, folder: Path) -> str:
    """What a bundle holds, for a person."""
    manifest = made.manifest
    whole = sum(file["bytes"] for file in manifest["files"].values())
    counts = ", ".join(f"{len(manifest[kind])} {kind}" for kind in ("images", "models", "packages", "wheels"))
    state = f"{size(made.new_bytes)} of it new" if made.changed else "nothing new"
    return f"{folder}: serial {manifest['serial']}, {counts}, {size(whole)}, {state}"
