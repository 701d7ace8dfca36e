# SPDX-License-Identifier: GPL-3.0-or-later
"""Images: the ones that were staged, and no others behind their names."""

from collections.abc import Mapping
from typing import Any

from ..._base.reading import Image
from ..._base.slice import StoredImage
from ..._base.subject import Differences, DriftContext, Questions, Subject
from .reading import READS


def _questions(asked: Questions) -> Mapping[str, Any]:
    return {"images": sorted({image["reference"] for image in asked.slice["images"]})}


def _differences(view: DriftContext) -> Differences:
    """Each image by its identity (layers and what a container inherits), whatever Docker's store."""
    present = view.state["images"]
    if present is None:
        return
    for image in view.slice["images"]:
        reference = image["reference"]
        if wrong := _wrong(image, present[reference]):
            rule, expected, found = wrong
            # an image of a registry's tag is taken as it is, until its digest is pinned
            ours = rule == "image-missing" or image["digest"] or image["lock"] or image["source"]["kind"] != "registry"
            remedy = "" if ours else f"pin the digest in the recipe or service, then {view.converge()}"
            yield view.difference(
                "error",
                rule,
                f"image {reference}",
                found=found,
                expected=expected,
                remedy=remedy,
                reason="a name can be given to another image at any time",
            )


def _wrong(wanted: StoredImage, have: Image | None) -> tuple[str, str, str] | None:
    """(rule, expected, found) of the first thing that is wrong with an image."""
    if have is None:
        return "image-missing", "in Docker's store", "no such image"
    lock, recorded = wanted["lock"], have["recorded"]
    if lock and lock["identity"] != have["identity"]:
        expected = f"the image that was staged first, as locked ({_short(lock['identity'])})"
        return "image-other", expected, f"another one ({_short(have['identity'])}), {have['layers']} layers"
    if recorded and recorded["identity"] != have["identity"]:
        expected = f"the image that was staged ({_short(recorded['identity'])})"
        return "image-other", expected, f"another one ({_short(have['identity'])}), {have['layers']} layers"
    digest = wanted["digest"]
    known = {*have["digests"], *([recorded["digest"]] if recorded else [])}
    if digest and digest not in known:
        return "image-digest", digest, ", ".join(sorted(filter(None, known))) or "an image without a digest"
    return None


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


IMAGES = Subject("images", questions=_questions, read=READS, differences=_differences)
