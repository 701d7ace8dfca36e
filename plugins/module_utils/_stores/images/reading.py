# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the images behind names: their identities, and what was noted when they were brought."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._host.probe.parts import Part, Run, UnreadableError
from ..transfer.places import Places
from .identity import identity_from_inspect, parse_reference
from .records import ImageRecords


def read_identities(run: Run, references: Sequence[str]) -> dict[str, str | None]:
    """Each image's identity, the same in every store of Docker; None for one that isn't there."""
    found: dict[str, str | None] = {}
    for reference in references:
        try:
            code, out, _err = run(["docker", "image", "inspect", reference])
        except FileNotFoundError:
            code, out = 1, ""
        found[reference] = identity_from_inspect(json.loads(out)[0]).digest if code == 0 else None
    return found


def read_images(run: Run, references: Iterable[str], records: Path) -> dict[str, dict[str, Any] | None]:
    """``{id, identity, layers, digests, recorded}`` by reference, None where Docker has no such image.

    recorded: what ``image_store`` noted when it brought the image, ``{identity, digest}``; None without a note.
    """
    wanted = sorted(references)
    notes = ImageRecords(records)
    return {reference: _image(run, reference, notes) for reference in wanted}


def _image(run: Run, name: str, notes: ImageRecords) -> dict[str, Any] | None:
    code, out, err = run(["docker", "image", "inspect", name])
    if code != 0:
        if "No such image" in err:
            return None
        raise UnreadableError(err.strip())
    image = json.loads(out)[0]
    newest = notes.newest(parse_reference(name))
    return {
        "id": image["Id"],
        "identity": identity_from_inspect(image).digest,
        "layers": len(image["RootFS"].get("Layers") or []),
        "digests": sorted(known.partition("@")[2] for known in image.get("RepoDigests") or ()),
        "recorded": newest and {"identity": newest["identity"], "digest": newest["digest"]},
    }


def _asked(run: Run, ask: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
    return read_images(run, ask["images"], Places(Path(ask["folder"]), Path(ask["models_folder"])).image_records)


def read_changing(entries: Sequence[Mapping[str, object]], places: Places) -> list[str]:
    """The images that have to be brought, or brought anew, by the same look as before their staging.

    entries: as the plan has them. Other hosts are not asked.
    """
    # what only a converge asks for; a drift check need not load it
    from ..._base.staging import Progress  # noqa: PLC0415
    from .docker import Docker  # noqa: PLC0415
    from .step import Wanted  # noqa: PLC0415
    from .store import ImageStore  # noqa: PLC0415

    wanted = [Wanted.from_plan({**entry, "peers": []}) for entry in entries]
    steps = ImageStore(Docker(), places, Progress()).examine(wanted)
    return [str(step.wanted.reference) for step in steps if step.changes]


def _changing(_run: Run, ask: Mapping[str, Any]) -> list[str]:
    return read_changing(ask["images"], Places(Path(ask["folder"]), Path(ask["models_folder"])))


READS: Mapping[str, Part] = {"images": _asked}
# What a converge asks besides; its questions are the plan's own entries.
BEFORE_CHANGE: Mapping[str, Part] = {"images_changing": _changing}
