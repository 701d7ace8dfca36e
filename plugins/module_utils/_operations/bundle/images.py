# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of a bundle: skopeo copies their layers out of the registry, but for those that are held.

An OCI layout has no manifest of Docker's own form, as most registries have it. skopeo would write another configuration
for it, without what OCI does not know of (health check, shell), so that the image would be another one. Here the
configuration stays as it is, and the layout's manifest names it and the same layers. What the registry has for the
pinned digest is kept beside it, document by document, so that the digest can be followed to the layers.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, FleetError, error
from ..._base.received import DIGEST, Foreign, Unread, checked, is_map, one_line, parsed, words_of
from ..._stores.images.archive import digest_of, layers_of
from ..._stores.images.identity import Reference, identity_from_config, parse_reference
from .folder import Target, sum_of
from .manifest import blob
from .programs import run

MOST_DOCUMENT = 8 << 20
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
# Docker's media types of layers, and OCI's (image-spec 1.1, media-types.md, "Compatibility Matrix").
_LAYERS = {
    "application/vnd.docker.image.rootfs.diff.tar.gzip": "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd": "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar": "application/vnd.oci.image.layer.v1.tar",
}
_LICENCES = "org.opencontainers.image.licenses"

Document = Callable[[str], bytes]  # by its digest


def fetch(wanted: Mapping[str, Any], architecture: str, target: Target, work: Path) -> dict[str, Any]:
    """The manifest's entry of an image, whose blobs are held from then on. wanted: an entry of the plan.

    work: a folder for what is under way; it stays where a copy breaks, and the next one goes on from there.
    """
    reference = parse_reference(wanted["reference"])
    pin = wanted["digest"] or (wanted["lock"] or {}).get("digest")
    what = f"image {reference}"
    documents = _documents(reference, pin, what, architecture)
    digest, described = digest_of(documents[0]), json.loads(documents[-1])
    blobs, layout = work / "blobs", work / "layout"
    layout.mkdir(parents=True, exist_ok=True)
    _keep_whole(blobs, target)
    # skopeo takes a blob of that name for there; what is held is read when it is used
    for layer in described["layers"]:
        if target.holds(blob(layer["digest"]), layer["size"], layer["digest"].partition(":")[2]):
            _placeholder(blobs / layer["digest"].replace(":", "/"), layer["size"])
    source = f"docker://{reference.at(digest)}"
    choice = ["--override-os", "linux", "--override-arch", architecture]
    copied = ["copy", "--dest-oci-accept-uncompressed-layers", "--dest-shared-blob-dir", str(blobs), source]
    run(["skopeo", *choice, *copied, f"oci:{layout}:image"], what)
    config = run(["skopeo", *choice, "inspect", "--raw", "--config", source], what)
    manifest = documents[-1] if described.get("mediaType") == _MANIFEST else _as_oci(described)
    ours = json.loads(manifest)
    # small ones are in every bundle: what an image is, is judged by them
    small = {digest_of(content): content for content in (*documents, config, manifest)}
    for one, content in small.items():
        target.write(blob(one), content)
    for layer in dict.fromkeys(layer["digest"] for layer in ours["layers"]):
        _take(layer, blobs, target)
    parsed_config = json.loads(config)
    entry = {
        "reference": str(reference),
        "digest": digest,
        "identity": identity_from_config(parsed_config).digest,
        "manifest": digest_of(manifest),
        "documents": [*map(digest_of, (*documents, config))],
        "layers": [layer["digest"] for layer in ours["layers"]],
        "licence": ((parsed_config.get("config") or {}).get("Labels") or {}).get(_LICENCES),
        "origin": reference.at(digest),
    }
    if problems := image_problems(entry, architecture, small.__getitem__, "the registry"):
        raise FleetError(*problems)
    return entry


def _documents(reference: Reference, pin: str | None, what: str, architecture: str) -> list[bytes]:
    """What the registry has for a name: the document of its digest and, of a list, that for the architecture."""
    name = reference.at(pin) if pin else str(reference)
    documents = [run(["skopeo", "inspect", "--raw", f"docker://{name}"], what)]
    described = parsed(documents[0], MOST_DOCUMENT, what)
    if "manifests" in described:
        chosen = _for(described, architecture)
        if chosen is None:
            has = sorted({one_line(architecture) for _os, architecture, _digest in _platforms(described)})
            raise FleetError(worded.error("bundle-architecture", what, expected=architecture, has=", ".join(has)))
        documents.append(run(["skopeo", "inspect", "--raw", f"docker://{reference.at(chosen)}"], what))
    return documents


def _as_oci(manifest: Mapping[str, Any]) -> bytes:
    """A manifest of Docker's form (version 2, schema 2) in OCI's, of the same configuration and layers."""
    layers = [
        {**layer, "mediaType": _LAYERS.get(layer["mediaType"], layer["mediaType"])} for layer in manifest["layers"]
    ]
    config = {**manifest["config"], "mediaType": _CONFIG}
    return json.dumps(
        {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": layers}, sort_keys=True
    ).encode()


def _for(index: Unread, architecture: str) -> str | None:
    """The digest of a list's entry for Linux on the architecture."""
    for one, other, digest in _platforms(index):
        if one == "linux" and other == architecture:
            return str(checked(DIGEST, digest, "its digest"))
    return None


def _platforms(index: Unread) -> Iterator[tuple[Foreign, Foreign, Unread]]:
    """Of each of a list's images the system, the architecture and the digest, as it states them."""
    for manifest in index["manifests"]:
        platform = manifest.get("platform")
        if is_map(platform):
            yield words_of(platform.get("os")), words_of(platform.get("architecture")), manifest["digest"]


def _keep_whole(blobs: Path, target: Target) -> None:
    """Of what an earlier copy left, only what is what its name says, and is not held by now."""
    for path in (blobs / "sha256").glob("*"):
        if target.known(blob(f"sha256:{path.name}")) or sum_of(path)[1] != path.name:
            path.unlink()


def _placeholder(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.truncate(size)


def _take(digest: str, blobs: Path, target: Target) -> None:
    """A blob that skopeo brought, by its name, unless it is held."""
    path, sha256 = blobs / digest.replace(":", "/"), digest.partition(":")[2]
    if target.holds(blob(digest), path.stat().st_size, sha256):
        target.files[blob(digest)] = {"bytes": path.stat().st_size, "sha256": sha256}
    else:
        found = sum_of(path)[1]
        if found != sha256:
            path.unlink()
            raise FleetError(worded.error("bundle-fetch/take", f"blob {digest}", found=found))
        target.put(blob(digest), path)
    path.unlink()


def image_problems(entry: Mapping[str, Any], architecture: str, document: Document, file: str) -> list[Finding]:
    """What is wrong with a bundle's image: that it is not what its registry's digest names, or not of its identity.

    document: gives a small blob, whose bytes may be anything. file: the bundle's manifest, for messages.
    """
    try:
        found = _judged(entry, architecture, document)
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        found = one_line(f"its documents can't be read: {problem}")
    if not found:
        return []
    place = f"{file}: image {entry['reference']}"
    remedy = "make the bundle again; nothing of it was used"
    return [error("bundle-image", place, found=found, expected=f"what {entry['digest']} names", remedy=remedy)]


def _judged(entry: Mapping[str, Any], architecture: str, document: Document) -> str:
    """Why an image is not what its digest names; an empty string if it is."""

    def content(digest: str) -> Any:
        text = document(digest)
        if digest_of(text) != digest:
            raise ValueError(f"{digest} is not what its name says")
        return parsed(text, MOST_DOCUMENT, digest)

    described = content(entry["digest"])
    if "manifests" in described:
        chosen = _for(described, architecture)
        if chosen not in entry["documents"]:
            return f"nothing for {architecture}"
        described = content(str(chosen))
    ours = content(entry["manifest"])
    named = [[one["digest"] for one in (manifest["config"], *manifest["layers"])] for manifest in (described, ours)]
    if named[0] != named[1] or named[1][1:] != entry["layers"] or named[1][0] not in entry["documents"]:
        return "other layers or another configuration"
    config = document(named[1][0])
    if digest_of(config) != named[1][0] or len(layers_of(config, "its config")) != len(entry["layers"]):
        return "a configuration for other layers"
    image = identity_from_config(json.loads(config))
    if image.digest != entry["identity"]:
        return f"identity {image.digest}, not {entry['identity']}"
    return "" if image.architecture == architecture else f"built for {image.architecture}, not {architecture}"
