# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings a host's models to what its plan says: examine all of them first, then link, copy or download what is missing.

A revision is there when its manifest is sealed, its snapshot is published, and no file changed since it was verified.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..._base.findings import Finding, FleetError, host_error
from ..._base.own_files import Note, replace_file
from ..._base.received import SHA256, checked, parsed
from ..._base.schema import Spec
from ..._base.sizes import size
from ..._base.staging import Progress, require_space
from ..._base.staging import refusal as host_refusal
from ..._facts.models.stored import files_of, repository_of
from ..transfer.fetch import Transfer, Wish
from ..transfer.offer import Sources
from ..transfer.peer import Peer
from ..transfer.places import Places
from ..transfer.route import Route
from ..transfer.spool import Incoming
from .access import (
    others_decide,
    require_model,
    require_own_files,
    require_place,
    require_readable_model,
    require_readable_source,
)
from .cache import Cache, can_link, repository_folder, take_in
from .hub import Hub
from .manifest import File, Manifest, git_sum, hash_file, revision_of_content
from .records import ModelRecords, Record
from .source import Source, SourceFile, read_source

# A manifest of the most files, each with a long name.
_MOST_OFFER = 8 << 20
_OFFER: Spec = {"type": "map", "options": {"manifest": {"type": "map", "required": True}, "seal": SHA256}}


@dataclass(frozen=True)
class Wanted:
    """One entry of ``model_store_plan``. repository: or one file of it, `_facts.models.stored`. revision: the pin, else
    the locked one, or none. path: of a folder, an owner's or a bundle's. size: bytes, if known. peers: hosts to fetch
    it from, nearest first, the origin last. seal: what it is locked to, or none. is_main: it is looked for as ``main``,
    so that must stand for it. renew: take what its source gives now."""

    repository: str
    revision: str | None
    source: Literal["hub", "path", "host", "bundle"]
    path: Path | None = None
    size: int | None = None
    peers: tuple[Peer, ...] = ()
    seal: str | None = None
    is_main: bool = False
    renew: bool = False

    @classmethod
    def from_plan(cls, entry: Mapping[str, Any], present_hosts: Sequence[str] = ()) -> "Wanted":
        """present_hosts: hosts of this run, see ``Peer``."""
        source, pin = entry["source"], entry.get("revision")
        path = Path(source["path"]) if source.get("path") else None
        peers = tuple(Peer.from_plan(peer, present_hosts) for peer in entry.get("peers") or ())
        lock = entry.get("lock") or {}
        # of an owner's folder, the content alone says which revision it is
        revision = pin or (None if source["kind"] == "path" else lock.get("revision"))
        return cls(
            entry["repository"],
            revision,
            source["kind"],
            path,
            entry.get("bytes"),
            peers,
            lock.get("seal"),
            not pin,
            bool(entry.get("renew")),
        )


@dataclass(frozen=True)
class ModelStep:
    """What one wanted model needs on this host.

    here: the one that is here. source: files to be taken in. manifest: what hosts offer, none as long as they can't
    be asked. moved: bytes; None where only others know.
    """

    wanted: Wanted
    found: str
    action: Literal["nothing", "link", "copy", "download", "fetch"]
    here: Manifest | None = None
    source: Source | None = None
    manifest: Manifest | None = None
    moved: int | None = 0

    @property
    def changes(self) -> bool:
        return self.action != "nothing"

    def words(self) -> str:
        """The state to come, for a person."""
        match self.action:
            case "link" if self.here:
                return f"{self.found}, to be linked again, no bytes"
            case "link":
                return f"to be linked from {self.source.folder if self.source else ''}, no bytes"
            case "copy":
                return f"to be copied from {self.wanted.path} (another filesystem), {size(self.moved or 0)}"
            case "fetch":
                amount = "size not known yet" if self.moved is None else size(self.moved)
                return f"to be fetched from {self.wanted.peers[-1].host}, {amount}"
            case "download":
                amount = "size not known: the hub did not report it" if self.moved is None else size(self.moved)
                return f"to be downloaded from the hub, revision {self.wanted.revision or 'main'}, {amount}"
        return self.found


class DamagedError(FleetError):
    """Files of a place on this host are not what their own names or notes say, or not what is locked.

    files: those that are known to be wrong.
    """

    def __init__(self, folder: Path, *findings: Finding, files: Iterable[SourceFile] = ()) -> None:
        super().__init__(*findings)
        self.folder, self.files = folder, tuple(files)


class ModelStore:
    """The models of one host.

    hub: brings what no place on this host has. streams: how many at once from other hosts. note: see
    `_base.own_files.read`.
    """

    def __init__(
        self, places: Places, hub: Hub, progress: Progress, streams: int = 4, note: Note | None = None
    ) -> None:
        self._streams = streams
        self._places = places
        self._records = ModelRecords(places, note)
        self._root = places.models
        self._hub = hub
        self._progress = progress
        self._damaged: set[Path] = set()

    def examine(self, wanted: Iterable[Wanted]) -> list[ModelStep]:
        """What each model needs. Changes nothing; raises one FleetError that names every obstacle."""
        steps: list[ModelStep] = []
        obstacles: list[Finding] = []
        for each in wanted:
            try:
                steps.append(self._step(each))
            except FleetError as error:
                obstacles += error.findings
        try:
            require_space(self._root, sum(step.moved or 0 for step in steps), "the models")
        except FleetError as error:
            obstacles += error.findings
        if obstacles:
            raise FleetError(*obstacles)
        return steps

    def apply(self, step: ModelStep) -> Manifest:
        """Do one step and seal what came of it; a step of nothing returns the manifest that is there."""
        wanted, source = step.wanted, step.source
        if step.here:
            if step.changes:
                Cache(self._root, wanted.repository).publish(step.here)
            return step.here
        if step.action == "fetch":
            manifest = step.manifest or self._offered(wanted)
            if manifest:
                return self._fetch(wanted, manifest)
        if source is None and wanted.source == "bundle":
            raise host_refusal(
                "model-folder",
                str(wanted.path),
                found="there is no such folder",
                expected=f"model {wanted.repository} of the bundle",
                remedy="run the whole site.yml with -e bundle=, which brings it there",
            )
        if source is None:
            folder = self._hub.download(wanted.repository, wanted.revision, step.moved, self._progress)
            source = read_source(folder, wanted.revision, files_of(wanted.repository))
        manifest = self._adopt(wanted, source)
        self._hub.forget(wanted.repository)
        return manifest

    def instead(self, wanted: Wanted, error: DamagedError) -> ModelStep:
        """How to bring a model whose files on this host are damaged: what is ours goes, a user's own is passed over.

        Raises the error for an owner's folder, which nobody else has, and for a download that comes damaged again.
        """
        if wanted.path or error.folder in self._damaged:
            raise error
        self._damaged.add(error.folder)
        for file in error.files:
            if file.real.is_relative_to(self._root):
                file.real.unlink()
        self._progress.note(f"{error}: it is brought anew")
        step = self._step(wanted)
        require_space(self._root, step.moved or 0, f"model {wanted.repository}")
        return step

    def _step(self, wanted: Wanted) -> ModelStep:
        if wanted.renew:
            return self._step_to_renew(wanted)
        pinned = self._records.of(wanted.repository, wanted.revision) if wanted.revision else []
        source = None if pinned else self._source_at_hand(wanted)
        others = self._records.revisions(wanted.repository)
        found = f"absent, beside revision {', '.join(others)}" if others else "absent"
        for record in pinned or self._records_as_is(wanted, source):
            wrong = self._wrong(wanted, record)
            if not wrong:
                cache, revision = Cache(self._root, wanted.repository), record.manifest.revision
                require_readable_model(self._root, cache.folder)
                is_linked = not wanted.is_main or cache.is_main(revision)
                found = f"present, revision {revision}"
                return ModelStep(wanted, found, "nothing" if is_linked else "link", here=record.manifest)
            found = f"revision {record.manifest.revision}, but {wrong}"
        return self._step_to_bring(wanted, found, source or self._source_at_hand(wanted))

    def _wrong(self, wanted: Wanted, record: Record) -> str:
        """Why a revision that is here won't do, or an empty string."""
        if wanted.seal not in (None, record.manifest.seal):
            return f"sealed {record.manifest.seal}, not {wanted.seal} as locked"
        if changed := self._records.changed_files(record):
            return f"changed since it was verified: {', '.join(changed)}"
        main = Cache(self._root, wanted.repository).main()
        if wanted.is_main and wanted.revision and main != wanted.revision:
            return f"main stands for {main}"
        return ""

    def _step_to_renew(self, wanted: Wanted) -> ModelStep:
        """Whatever is here, what the source gives now; nothing where that is what is here."""
        found = "to be asked for anew"
        step = self._step_to_fetch(wanted, found) if wanted.peers else None
        if step is None or step.action == "download":
            wanted = replace(wanted, renew=False, revision=self._hub.main(wanted.repository))
            step = self._step_to_download(wanted, found)
        elif step.manifest:
            wanted = replace(wanted, renew=False, revision=step.manifest.revision, seal=step.manifest.seal)
        for record in self._records.of(wanted.repository, wanted.revision) if wanted.revision else ():
            if not self._wrong(wanted, record):
                return ModelStep(wanted, f"present, revision {wanted.revision}", "nothing", here=record.manifest)
        return step

    def _step_to_bring(self, wanted: Wanted, found: str, source: Source | None) -> ModelStep:
        if source is None and wanted.source == "bundle":
            return ModelStep(wanted, found, "copy", moved=wanted.size)  # its files are about to be brought here
        if source is None and (wanted.source == "host" or wanted.peers):
            return self._step_to_fetch(wanted, found)
        if source is None:
            return self._step_to_download(wanted, found)
        if can_link(source.files[0].real, Cache(self._root, wanted.repository).folder):
            require_readable_source(source)
            return ModelStep(wanted, found, "link", source=source)
        return ModelStep(wanted, found, "copy", source=source, moved=source.size)

    def _step_to_download(self, wanted: Wanted, found: str) -> ModelStep:
        missing = self._hub.missing_bytes(wanted.repository, wanted.revision, wanted.size)
        return ModelStep(wanted, found, "download", moved=missing)

    def _step_to_fetch(self, wanted: Wanted, found: str) -> ModelStep:
        """One host of the fleet downloads, the others fetch it from there.

        What hosts of this run lack they may be about to get; if nobody gets it, who may download does.
        """
        sources = self._sources(wanted)
        try:
            manifest = sources.look(*_question(wanted))
        except FleetError:
            if not sources.in_this_run:
                if wanted.source == "host":
                    raise
                return self._step_to_download(wanted, found)
            manifest = None
        moved = sum(self._missing_bytes(wanted, file) for file in manifest.files) if manifest else wanted.size
        return ModelStep(wanted, found, "fetch", manifest=manifest, moved=moved)

    def _missing_bytes(self, wanted: Wanted, file: File) -> int:
        """Of a file that is to be fetched; less what an earlier run brought."""
        if Cache(self._root, wanted.repository).blob(file.sha256).exists():
            return 0
        return Incoming(self._places.files_in, file.sha256).missing_bytes(file.size)

    def _sources(self, wanted: Wanted) -> Sources:
        return Sources(wanted.peers, self._streams)

    def _offered(self, wanted: Wanted) -> Manifest | None:
        """What the hosts have, once they have it; none if it is to be downloaded after all."""
        self._progress.start(f"model {wanted.repository}", 0)
        try:
            return self._sources(wanted).wait(*_question(wanted), self._progress.report)
        except FleetError:
            if wanted.source == "host":
                raise
            return None

    def _fetch(self, wanted: Wanted, manifest: Manifest) -> Manifest:
        """Bring the files that are not here from other hosts, each under its own name as soon as it is proved."""
        what = f"model {wanted.repository}"
        cache, route = Cache(self._root, wanted.repository), Route(wanted.peers, what, notes=self._progress.notes)
        missing = {file.sha256: file for file in manifest.files if not self._is_good(cache.blob(file.sha256), file)}
        with Transfer(route, self._places.files_in, self._progress, self._streams) as transfer:
            self._progress.start(f"{what}, asking how its files are made", 0)
            transfer.begin([Wish(file.sha256, f"{what}, {file.path}") for file in missing.values()])
            require_space(self._root, transfer.missing_bytes(), what)
            self._progress.start(f"{what} from {wanted.peers[0].host}", transfer.missing_bytes())
            for sha256, path in transfer.finish().items():
                take_in(path, missing[sha256], cache.blob(sha256))
                transfer.drop(sha256)
        cache.publish(manifest)
        self._records.seal(manifest, None)
        return manifest

    def _is_good(self, blob: Path, file: File) -> bool:
        """Whether a file of the store is what its name says: it is read for that."""
        return blob.exists() and hash_file(blob, file.path)[0].sha256 == file.sha256

    def _source_at_hand(self, wanted: Wanted) -> Source | None:
        """Files on this host: the owner's folder, or what was downloaded into the store or into root's own cache."""
        if wanted.source == "bundle" and not (wanted.path and wanted.path.is_dir()):
            return None
        if wanted.path:
            if wanted.source == "path":
                require_place(wanted.path, wanted.path.resolve())
            source = read_source(wanted.path, wanted.revision, files_of(wanted.repository))
            require_own_files(source)
            if wanted.source == "path":
                require_model(wanted.path, source)
            return source
        own, repository = self._root / "hub", repository_of(wanted.repository)
        # one file of it may lie alone in the store, or among all others, here or in a cache
        found = [(own, wanted.repository)] if wanted.repository != repository else []
        for hub, name in (*found, *((hub, repository) for hub in (own, *self._places.user_caches()))):
            folder = hub / repository_folder(name)
            if any(folder.glob("blobs/*.incomplete")):
                continue
            with contextlib.suppress(FleetError):
                source = read_source(folder, wanted.revision, files_of(wanted.repository))
                if not source.has_weights or source.folder in self._damaged:
                    continue
                if hub != own and (problem := others_decide(hub, source)):
                    self._progress.note(
                        f"{folder} is passed over: {problem}; as an owner's folder (source.path) it may"
                    )
                    continue
                return source
        return None

    def _records_as_is(self, wanted: Wanted, source: Source | None) -> list[Record]:
        """Sealed revisions that fulfil a wish without a pin: of a folder that did not change since, or ``main``."""
        records = self._records.of(wanted.repository) if not wanted.revision else []
        if wanted.path and source:
            return [record for record in records if record.source == source.signature()]
        main = Cache(self._root, wanted.repository).main()
        return [record for record in records if record.manifest.revision == main]

    def _adopt(self, wanted: Wanted, source: Source) -> Manifest:
        cache = Cache(self._root, wanted.repository)
        files = self._hashed(wanted, source)
        revision = wanted.revision or source.revision or revision_of_content(files)
        manifest = Manifest(wanted.repository, revision, files)
        self._require_locked(wanted, source, manifest)
        if wanted.path and wanted.revision and not wanted.seal:
            self._require_of_the_hub(wanted, source, files)
        self._progress.start(f"model {wanted.repository} into the store", manifest.size)
        for real, file in zip(source.files, files, strict=True):
            take_in(real.real, file, cache.blob(file.sha256), self._progress.add)
        cache.publish(manifest)
        self._records.seal(manifest, source)
        return manifest

    def _require_locked(self, wanted: Wanted, source: Source, manifest: Manifest) -> None:
        """Refuse files that are not what the fleet's lock says, wherever they come from."""
        if wanted.seal not in (None, manifest.seal):
            found = host_error(
                "lock-differs",
                str(source.folder),
                found=f"revision {manifest.revision}, seal {manifest.seal}",
                expected=f"{wanted.repository}, seal {wanted.seal}, as locked",
                remedy=f"bring those files; if the new files are wanted, on all hosts: -e relock={wanted.repository}",
            )
            raise DamagedError(source.folder, found)

    def _require_of_the_hub(self, wanted: Wanted, source: Source, files: Sequence[File]) -> None:
        """Refuse an owner's folder that is not the pinned revision, by the hub's own sums, where the hub tells them."""
        sums = self._hub.sums(wanted.repository, str(wanted.revision))
        if sums is None:
            self._progress.note(
                f"{source.folder} is believed to be {wanted.repository}, revision {wanted.revision}: neither the lock "
                "nor the hub says its sums"
            )
            return
        findings = {
            known: finding
            for known, file in zip(source.files, files, strict=True)
            for finding in _not_of_the_hub(source.folder / known.path, known, file, sums.get(known.path))
        }
        if findings:
            raise DamagedError(source.folder, *findings.values(), files=findings)

    def _hashed(self, wanted: Wanted, source: Source) -> tuple[File, ...]:
        """The sums of all files, several at a time; compared with the hub's own where it left them."""
        self._progress.start(f"model {wanted.repository}, reading {source.folder}", source.size)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            read = list(pool.map(lambda file: hash_file(file.real, file.path, self._progress.add), source.files))
        for _, recipe in read:
            replace_file(self._places.recipes / f"{recipe.sha256}.recipe", recipe.pack())
        files = tuple(file for file, _ in read)
        findings = {
            known: finding
            for known, file in zip(source.files, files, strict=True)
            for finding in _differences(source.folder / known.path, known, file)
        }
        if findings:
            raise DamagedError(source.folder, *findings.values(), files=findings)
        return files


def _question(wanted: Wanted) -> tuple[str, dict[str, Any], Callable[[bytes], Manifest]]:
    request = {"model": wanted.repository, "revision": wanted.revision}
    return f"model {wanted.repository}", request, partial(offered_manifest, wanted)


def offered_manifest(wanted: Wanted, answer: bytes) -> Manifest:
    """What a host offers; ValueError if it is not what was asked for, or not what it says it is."""
    value = checked(_OFFER, parsed(answer, _MOST_OFFER, "its answer"), "its answer")
    manifest = Manifest.from_map(value["manifest"], "its manifest")
    offered = (manifest.repository, manifest.revision, manifest.seal)
    expected = (wanted.repository, wanted.revision or manifest.revision, wanted.seal or value["seal"])
    if offered == expected and manifest.seal == value["seal"]:
        return manifest
    found, wished = ("{} {}, sealed {}".format(*words) for words in (offered, expected))
    raise ValueError(f"a manifest of {found}; expected {wished}")


def _not_of_the_hub(path: Path, known: SourceFile, file: File, hub_sum: str | None) -> Sequence[Finding]:
    if hub_sum is not None:
        return _differences(path, replace(known, hub_sum=hub_sum), file)
    return [
        host_error(
            "model-file",
            str(path),
            found="a file that the pinned revision does not have",
            expected="that revision's files alone",
            remedy="take it away; or write revision: null in the service's model, so that it is believed",
        )
    ]


def _differences(path: Path, known: SourceFile, file: File) -> Sequence[Finding]:
    if known.hub_sum is None:
        return []
    kind, found = (
        ("sha256", file.sha256) if len(known.hub_sum) == len(file.sha256) else ("git's sum", git_sum(known.real))
    )
    if found == known.hub_sum:
        return []
    return [
        host_error(
            "model-file",
            str(path),
            found=f"{file.size} bytes, {kind} {found}",
            expected=f"{known.hub_sum}, says the hub",
            remedy="it is damaged or was edited: download it again (a patch belongs into the recipe's overlays)",
        )
    ]
