# SPDX-License-Identifier: GPL-3.0-or-later
"""Models of a bundle: the hub's own tool brings them into a model store of the bundle's, which verifies and seals them
as on a host; then their files go by their sums."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..._base import worded
from ..._base.received import Foreign, Unread, is_map, words_of
from ..._base.staging import Progress
from ..._facts.models.stored import repository_of
from ..._stores.transfer.places import Places
from ..._stores.weights.cache import Cache
from ..._stores.weights.hub import Hub, hub_sums
from ..._stores.weights.hub_api import NO_PAGE, HubApi, HubError, commit_of
from ..._stores.weights.manifest import Manifest, git_sum
from ..._stores.weights.store import ModelStore, Wanted
from .folder import Target
from .manifest import weight


def held(wanted: Mapping[str, Any], before: Iterable[Mapping[str, Any]], target: Target) -> dict[str, Any] | None:
    """The entry of an earlier run for a model that need not be brought, its files named; None for any other.

    before: the entries of earlier runs. A model without a pinned or locked revision is the one that the hub's ``main``
    is by now.
    """
    revision = wanted["revision"] or (wanted["lock"] or {}).get("revision")
    revision = revision or commit_of(_asked(wanted["repository"], None))
    for model in before:
        if (model["repository"], model["revision"]) == (wanted["repository"], revision):
            files = {
                weight(file["sha256"]): {"bytes": file["size"], "sha256": file["sha256"]} for file in model["files"]
            }
            if _is_of_the_hub(model, lambda sha256: target.folder / weight(sha256)) and all(
                target.holds(path, file["bytes"], file["sha256"]) for path, file in files.items()
            ):
                target.files |= files
                return dict(model)
    return None


def _is_of_the_hub(model: Mapping[str, Any], place: Callable[[str], Path]) -> bool:
    """Whether the files are those of the revision by the hub's own sums, where it can be asked.

    place: where a file of that sha256 lies; one that only an earlier bundle has is what that one says.
    """
    sums = hub_sums(_asked(model["repository"], model["revision"]))
    return sums is None or all(
        file["path"] in sums and _is_sum(sums[file["path"]], file["sha256"], place) for file in model["files"]
    )


def _is_sum(hub_sum: str, sha256: str, place: Callable[[str], Path]) -> bool:
    if len(hub_sum) == len(sha256):
        return hub_sum == sha256
    path = place(sha256)
    return not path.is_file() or git_sum(path) == hub_sum


def fetch(
    wanted: Mapping[str, object], hf: str, token_file: Path | None, target: Target, work: Path, progress: Progress
) -> dict[str, Any]:
    """The manifest's entry of a model, whose files are held from then on. wanted: an entry of the plan.

    hf: the hub's tool. work: a folder for what is under way; it stays where a download breaks.
    """
    places = Places(work / "notes", work / "hf")
    store = ModelStore(places, Hub(hf, places.downloads, token_file), progress)
    (step,) = store.examine([Wanted.from_plan({**wanted, "peers": []})])
    manifest = store.apply(step)
    entry = {"repository": manifest.repository, "revision": manifest.revision, "files": _files(manifest)}
    if not _is_of_the_hub(entry, Cache(places.models, manifest.repository).blob):
        # a folder of before, on a medium that somebody else had meanwhile
        shutil.rmtree(work)
        raise worded.refusal("bundle-fetch/fetch", f"model {manifest.repository}", revision=manifest.revision)
    for file in manifest.files:
        target.put(weight(file.sha256), Cache(places.models, manifest.repository).blob(file.sha256))
    shutil.rmtree(Cache(places.models, manifest.repository).folder)
    shutil.rmtree(places.folder)
    return {
        **entry,
        "seal": manifest.seal,
        "licence": _licence(_asked(manifest.repository, manifest.revision)),
        "origin": f"{HubApi.of_environment().address}/{repository_of(manifest.repository)}",
    }


def _files(manifest: Manifest) -> list[dict[str, Any]]:
    return [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in manifest.files]


def _asked(repository: str, revision: str | None) -> Unread:
    try:
        return HubApi.of_environment().model(repository_of(repository), revision)
    except HubError:
        return NO_PAGE


def _licence(page: Unread) -> Foreign | None:
    """By the model's card, as the hub's page says it."""
    card = page.get("cardData")
    found = card.get("license") if is_map(card) else None
    return words_of(found)[:1024] if found else None
