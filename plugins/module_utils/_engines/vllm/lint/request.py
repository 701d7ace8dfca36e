# SPDX-License-Identifier: GPL-3.0-or-later
"""What the linter takes, checked: from a written map to a `Launch`. Every problem is a finding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...._base import worded
from ...._base.findings import Finding, FleetError
from ...._base.forms import forms
from ...._base.place import Place, keys_of
from ...._base.schema import Spec, check, options_of
from ...._facts.models.facts import model_of
from ..catalogue.releases import STORED, Catalogue, Release
from ..catalogue.version import parse
from ..rules.launch import Group, Host, Launch, Service
from ..text.command import SHELLS, find_vllm, read_command
from ..text.docker_command import Bind, split_docker_command
from ..text.image_facts import FAMILIES, Image, image_of

MOST_WORDS = 2000
# What is known beside the command and its model, by the key that has it.
_FACTS = {"host": Host, "group": Group, "service": Service}
INPUT = forms(
    "lint",
    most_words={"max": MOST_WORDS, "expected": f"a list of {MOST_WORDS} words at most"},
    family={"type": "str", "choices": [*FAMILIES]},
    catalogue=STORED,
    **{name: Spec(type="map", options=options_of(kind)) for name, kind in _FACTS.items()},
)["launch"]


@dataclass(frozen=True)
class Request:
    """A launch to be checked. releases: what its vLLM is, or lies between; none where it isn't known.

    own: the image is a release's own build, not a fork of it. place: what to put before every place. reported: when
    somebody saw just this launch run; empty where nobody did.
    """

    launch: Launch
    releases: tuple[Release, ...]
    own: bool = True
    silence: Mapping[str, str] = field(default_factory=dict)
    place: str = ""
    reported: str = ""


def read_request(written: object, catalogue: Catalogue) -> tuple[Request | None, list[Finding]]:
    """The launch that a map describes, as far as it can be read, and what is wrong with the map itself."""
    checked, findings = check(INPUT, written, "lint")
    if not isinstance(checked, Mapping):
        return None, _as_catalogue(findings)
    parts = {key: checked[key] for key in checked if not _is_invalid(key, findings)}
    docker, problems = _docker(parts.get("command"))
    findings += problems
    words = {**docker, **{key: value for key, value in parts.items() if value is not None}}
    if not {"argv", "command", "env"} & set(checked):
        findings.append(worded.error("lint-input/argv", Place(variable="lint", option="argv")))
    image = _image(words.get("image"))
    version = words.get("vllm_version") or (image.vllm if image else None)
    releases, notes = _releases(version, words.get("catalogue"), catalogue)
    launch = _launch(words, image, version, releases, catalogue)
    own = image is None or "catalogue" in words or (image.family in ("upstream", "ngc") and version is not None)
    request = Request(
        launch, releases, own, words.get("silence", {}), words.get("place", ""), words.get("reported", "")
    )
    return request, [*_as_catalogue(findings), *notes]


def _is_invalid(key: str, findings: Sequence[Finding]) -> bool:
    """Whether something is wrong with a part; environment and facts are used as far as they are right."""
    return key != "env" and any(keys_of(finding.option)[:1] == [key] for finding in findings)


def _as_catalogue(findings: Sequence[Finding]) -> list[Finding]:
    return [replace(finding, kind="catalogue") for finding in findings]


def _docker(command: Any) -> tuple[dict[str, Any], list[Finding]]:
    if command is None:
        return {}, []
    try:
        taken = split_docker_command(command if isinstance(command, str) else [str(word) for word in command])
    except FleetError as error:
        return {}, _as_catalogue(error.findings)
    mounts = [{"source": bind.source, "target": bind.target, "read_only": bind.read_only} for bind in taken.mounts]
    found = {"argv": list(taken.argv), "env": taken.env, "image": taken.image, "mounts": mounts}
    return {**found, "container": taken.options, "entrypoint": taken.entrypoint}, []


def _image(written: object) -> Image | None:
    if isinstance(written, str):
        return image_of(written) if written else None
    if not isinstance(written, Mapping):
        return None
    image = image_of(str(written["reference"]))
    given = {key: written[key] for key in ("digest", "family", "vllm") if written.get(key)}
    return replace(image, **given)


def _launch(
    words: Mapping[str, Any],
    image: Image | None,
    version: str | None,
    releases: Sequence[Release],
    catalogue: Catalogue,
) -> Launch:
    argv = tuple(map(str, words.get("argv", ())))
    entrypoint = words.get("entrypoint")
    if entrypoint is not None and entrypoint.rsplit("/", 1)[-1] in SHELLS and argv[:1] != (entrypoint,):
        found = find_vllm((entrypoint, *argv))
    else:
        found = find_vllm(argv)
    release = releases[0] if releases else None
    command = read_command(found.words, release or catalogue.newest, catalogue.any_options)
    mounts = words.get("mounts")
    container = words.get("container")
    return Launch(
        argv,
        _environment(words.get("env")),
        found,
        command,
        release,
        version,
        image,
        entrypoint,
        None if mounts is None else tuple(Bind(**mount) for mount in ({"source": "", **mount} for mount in mounts)),
        container,
        model_of(words.get("model") or {}, command.model),
        _facts(Host, words.get("host")),
        _facts(Group, words.get("group")),
        _facts(Service, words.get("service")),
    )


def _environment(written: object) -> dict[str, str]:
    """The variables as text: what should have been quoted still is what the container gets."""
    given = written.items() if isinstance(written, Mapping) else ()
    return {str(name): str(value) for name, value in given if value is not None}


def _facts(kind: type[object], written: object) -> Any:
    """A facts class from its checked map; lists become tuples."""
    given = written.items() if isinstance(written, Mapping) else ()
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in given})


def _releases(version: str | None, own: object, catalogue: Catalogue) -> tuple[tuple[Release, ...], list[Finding]]:
    """The releases to check against, and the findings about them."""
    if isinstance(own, Mapping):
        return _own_catalogue(own)
    build = parse(version) if version else None
    if build is None:
        return (), []
    releases = catalogue.nearest(build.text)
    newest, oldest = parse(catalogue.releases[-1]), parse(catalogue.releases[0])
    notes = []
    if newest is not None and build.release > newest.release:
        nearest = releases[0].version
        notes = [worded.catalogue_warning("catalogue-newer-version", "image", version=build.text, nearest=nearest)]
    elif oldest is not None and build.release < oldest.release:
        nearest = releases[0].version
        notes = [worded.catalogue_warning("catalogue-older-version", "image", version=build.text, nearest=nearest)]
    elif len(releases) > 1:
        notes = [_between(build.text, releases)]
    return releases, notes


def _own_catalogue(written: Mapping[str, object]) -> tuple[tuple[Release, ...], list[Finding]]:
    """The image's own names, as `gb10.fleet.vllm_catalogue_info` returns them."""
    try:
        return (Catalogue(written).newest,), []
    except ValueError as error:
        place = Place(variable="lint", option="catalogue")
        return (), [worded.catalogue_error("lint-input/catalogue", place, found=str(error))]


def _between(version: str, releases: Sequence[Release]) -> Finding:
    between = " and ".join(release.version for release in releases)
    return worded.catalogue_hint("catalogue-between-releases", "image", version=version, between=between)
