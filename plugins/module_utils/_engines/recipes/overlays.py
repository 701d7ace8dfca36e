# SPDX-License-Identifier: GPL-3.0-or-later
"""A recipe's overlays, decided: which small files a host gets, and what is mounted over the image and the model.

The stores are never edited: every overlay is a file of its own, mounted read-only over the one that it replaces.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ..._base.findings import Finding, error
from ..._base.gb10 import SHIPPED_RECIPES
from ..._base.place import Place
from ..declaration import OverlayData
from ..placed import Overlays
from .recipe import Library


def plan_overlays(
    overlays: Sequence[OverlayData],
    library: Library,
    place: Place,
    folder: str,
    model_on_host: str,
    model_in_container: str,
) -> tuple[Overlays, list[Finding]]:
    """Decide a service's overlays. folder: on the host, for this service's files alone. place: for the findings."""
    planned, findings = Overlays(), list[Finding]()
    for index, overlay in enumerate(overlays):
        target = str(PurePosixPath(model_in_container) / overlay["target"])  # an absolute target stays as it is
        source = f"{folder}/{index}-{PurePosixPath(target).name}"
        if "model_file" in overlay:
            source = f"{model_on_host}/{overlay['model_file']}"
        elif "json_merge" in overlay:
            original = f"{model_on_host}/{overlay['target']}"
            planned.files.append({"path": source, "original": original, "json_merge": overlay["json_merge"]})
        else:
            path, problems = library.overlay(overlay, place.below("overlays", index))
            content, unread = _content(path, place.below("overlays", index))
            findings += [*problems, *unread]
            if content is None:
                continue
            planned.files.append({"path": source, "content": content})
            if path and path.is_relative_to(SHIPPED_RECIPES):
                planned.shipped.append(target)
        planned.mounts.append({"source": source, "target": target, "read_only": True})
    return planned, findings


def _content(path: Path | None, place: Place) -> tuple[str | None, list[Finding]]:
    if path is None:
        return None, []
    try:
        return path.read_text(encoding="utf-8"), []
    except (OSError, UnicodeDecodeError) as cause:
        found = f"{path} can't be read as text: {cause}"
        return None, [
            error("recipe-overlay-missing", place, found=found, expected="a text file", remedy="put it there")
        ]
