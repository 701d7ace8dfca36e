# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan that takes all from a bundle: the one place where a bundle is let in."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._base.findings import Finding, FleetError
from ..._base.plan import Plan
from .folder import Bundle
from .images import MOST_DOCUMENT, image_problems
from .locks import wheels_of
from .manifest import FILE, LAYOUT, blob, older, paths_of_image, paths_of_model, paths_of_packages
from .needs import image_in, lacking, model_in, needs
from .sources import from_bundle


def plan_from(
    plan: Plan, folders: Sequence[Path], hosts: Sequence[str], trusted: Path | None, newest: int, record: Path
) -> tuple[Plan, list[Finding]]:
    """The plan with the bundle in these folders as source; as it was, and why, where the bundle won't do.

    hosts: of this run. trusted: the file with the key that the site's bundles are signed by; None: the bundle's own.
    newest, record: the serial of the newest bundle that was used, and the file that says so. Raises FleetError for what
    is no bundle. Of the files' bytes, small ones alone are read; the others are looked for, each with its size.
    """
    bundle = Bundle.of(folders, trusted)
    file, manifest = str(folders[0] / FILE), bundle.manifest
    if problems := older(manifest, newest, file, str(record)):
        return plan, problems
    needed = needs(plan, hosts)
    problems = [*lacking(needed, manifest, file)]
    images = [held for wanted_image in needed.images if (held := image_in(manifest, wanted_image))]
    models = [held for wanted_model in needed.models if (held := model_in(manifest, wanted_model))]
    paths = {path for image in images for path in paths_of_image(image)}
    paths |= {path for model in models for path in paths_of_model(model)} | {*paths_of_packages(manifest)}
    paths |= {path for tool in needed.tools for path in wheels_of(tool, manifest)}
    problems += bundle.lacking(sorted({*paths, LAYOUT}))
    if not problems:
        for image in images:
            problems += image_problems(image, manifest["architecture"], lambda item: _document(bundle, item), file)
    return (plan, problems) if problems else (from_bundle(plan, manifest, hosts), [])


def _document(bundle: Bundle, digest: str) -> bytes:
    """A blob that is small. ValueError for one that is missing, too large, or can't be read."""
    file: Mapping[str, Any] | None = bundle.manifest["files"].get(blob(digest))
    if file is None or file["bytes"] > MOST_DOCUMENT:
        raise ValueError(f"{digest} is no document of the bundle")
    try:
        return b"".join(bundle.chunks(blob(digest)))
    except (OSError, EOFError, FleetError) as problem:
        raise ValueError(f"{digest} can't be read: {problem}") from None
