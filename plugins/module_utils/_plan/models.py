# SPDX-License-Identifier: GPL-3.0-or-later
"""The recipe of a service: the one that it names, or one for the model that it names, found or derived."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from .._base import worded
from .._base.findings import Finding
from .._base.place import Place
from .._engines.declaration import RecipeData, ServiceData
from .._engines.recipes.derive import derive
from .._engines.recipes.recipe import Library
from .._facts.models.gguf_files import named_model


def chosen_recipe(settings: ServiceData, place: Place, library: Library) -> tuple[RecipeData | None, list[Finding]]:
    """A service's recipe, or why there is none. settings: a checked service. place: its own."""
    if settings["recipe"] is not None:
        named, findings = library.find(settings["recipe"], place.below("recipe"))
        return (named.data if named else None), findings
    repository, file = settings["model"]["repository"], settings["model"].get("file")
    found = library.of_model(repository, len(settings["hosts"]), file)
    if found is not None:
        return found.data, []
    checkpoint = library.checkpoints.get(repository)
    if checkpoint is None:
        return None, [*_at(library.unread.get(repository, ()), place)] or [_unread(repository, place)]
    # what the owner names himself is his to answer for
    recipe, findings = derive(
        checkpoint,
        file=file,
        names_image="reference" in settings["image"],
        names_template="chat-template" in settings["flags"],
    )
    return recipe, [*_at(findings, place)]


def _at(findings: Iterable[Finding], place: Place) -> Iterator[Finding]:
    return (replace(finding, at=finding.at.within(place.below("model"))) for finding in findings)


def _unread(repository: str, place: Place) -> Finding:
    return worded.error("model-unread", place.below("model"), repository=repository)


def wanted_files(services: object) -> dict[str, str]:
    """The GGUF files or their sizes that services name, by repository. services: as of `unread_models`."""
    written = services.values() if isinstance(services, Mapping) else ()
    named = [named_model(demand.get("model")) for demand in written if isinstance(demand, Mapping)]
    return {
        str(model_entry.get("repository")): model_entry["file"]
        for model_entry in named
        if isinstance(model_entry.get("file"), str)
    }


def unread_models(services: object, library: Library) -> dict[str, str | None]:
    """The models that have to be read before they can be planned, each with the commit that its service wants.

    services: ``fleet_services`` as written; what is wrong with it is another's finding.
    """
    wanted: dict[str, str | None] = {}
    for service in services.values() if isinstance(services, Mapping) else ():
        if not isinstance(service, Mapping) or service.get("recipe") is not None:
            continue
        named = named_model(service.get("model"))
        repository, file = named.get("repository"), named.get("file")
        if not isinstance(repository, str) or repository.count("/") != 1:
            continue
        known = library.of_model(repository, 1, file if isinstance(file, str) else None)
        if known is None and repository not in library.checkpoints:
            revision = named.get("revision")
            wanted[repository] = revision if isinstance(revision, str) else None
    return dict(sorted(wanted.items()))
