# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Images and weights: the same bytes that were staged and verified, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._drift.difference import SITE, Difference, View


def of_images(view: View) -> Iterator[Difference]:
    """Each image by its identity (layers and what a container inherits), whatever Docker's store."""
    found = view.state["images"]
    for image in view.slice["images"] if found is not None else ():
        reference = image["reference"]
        if said := _image(image, found[reference]):
            rule, want, have = said
            # an image of a registry's tag is taken as it is, until its digest is pinned
            ours = rule == "image-missing" or image["digest"] or image["source"]["kind"] != "registry"
            remedy = (
                view.converge(SITE) if ours else f"pin the digest in the recipe or service, then {view.converge(SITE)}"
            )
            yield Difference(
                view.host, f"image {reference}", rule, want, have, "error", remedy, repairs=SITE if ours else "",
                reason="a name can be given to another image at any time",
            )  # fmt: skip


def _image(wanted: Mapping[str, Any], have: Mapping[str, Any] | None) -> tuple[str, str, str] | None:
    """(rule, want, have) of the first thing that is wrong with an image."""
    if have is None:
        return "image-missing", "in Docker's store", "no such image"
    recorded = have["recorded"]
    if recorded and recorded["identity"] != have["identity"]:
        want = f"the image that was staged ({_short(recorded['identity'])})"
        return "image-other", want, f"another one ({_short(have['identity'])}), {have['layers']} layers"
    digest = wanted["digest"]
    known = {*have["digests"], *([recorded["digest"]] if recorded else [])}
    if digest and digest not in known:
        return "image-digest", digest, ", ".join(sorted(filter(None, known))) or "an image without a digest"
    return None


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def of_models(view: View) -> Iterator[Difference]:
    """Each model's files as they were when they were verified; and, of those read tonight, each byte."""
    found = view.state["models"]
    if found is None:
        return
    for model in view.slice["models"]:
        name = model["repository"]
        have = found["models"][name]
        if have["broken"]:
            yield Difference(
                view.host, f"model {name}", "model-record", "a sealed manifest", have["broken"], "error",
                view.converge(SITE), repairs=SITE,
                reason="nobody can tell any more whether its files are what was verified",
            )  # fmt: skip
        yield from (_differs(view, name, *said) for said in _model(model, have))
    for name in sorted({*found["others"]} - {*view.settings["expect"]["models"]}):
        yield Difference(
            view.host, f"model {name}", "model-undeclared", "nobody declared it", "its files are in the cache", "hint",
            "remove it with the tasks file prune.yml of model_store, or declare it: fleet_drift.expect.models",
        )  # fmt: skip
    for name, digest in sorted((view.state["deep"] or {"bad": {}})["bad"].items()):
        yield Difference(
            view.host, f"weights {name}", "model-bytes", "the bytes that were verified", f"sha256 {digest[:12]}",
            "error",
            f"move the file away and run {view.converge(SITE)}; look at the disk: sudo smartctl -a /dev/nvme0",
            reason="its size and time are as before: the disk or memory changed it",
        )  # fmt: skip


def _model(wanted: Mapping[str, Any], have: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    if have["revision"] is None:
        yield "model-missing", wanted["revision"] or "a verified revision", "none"
    if have["gone"]:
        yield "model-file-missing", "all files of the revision", f"missing: {_some(have['gone'])}"
    if have["changed"]:
        yield "model-file-changed", "files as they were verified", f"another size or time: {_some(have['changed'])}"


def _differs(view: View, name: str, rule: str, want: str, have: str) -> Difference:
    return Difference(view.host, f"model {name}", rule, want, have, "error", view.converge(SITE), repairs=SITE)


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
