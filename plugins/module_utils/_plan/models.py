# SPDX-License-Identifier: GPL-3.0-or-later
"""The recipe of a service: the one that it names, or one for the model that it names, found or derived."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from .._base.findings import Finding, error
from .._base.place import Place
from .._engines.declaration import RecipeData, ServiceData
from .._engines.recipes.derive import derive
from .._engines.recipes.recipe import Library


def chosen_recipe(settings: ServiceData, place: Place, library: Library) -> tuple[RecipeData | None, list[Finding]]:
    """A service's recipe, or why there is none. settings: a checked service. place: its own."""
    if settings["recipe"] is not None:
        named, findings = library.find(settings["recipe"], place.below("recipe"))
        return (named.data if named else None), findings
    repository = settings["model"]["repository"]
    found = library.of_model(repository, len(settings["hosts"]))
    if found is not None:
        return found.data, []
    checkpoint = library.checkpoints.get(repository)
    if checkpoint is None:
        return None, [*_at(library.unread.get(repository, ()), place)] or [_unread(repository, place)]
    # what the owner names himself is his to answer for
    recipe, findings = derive(
        checkpoint, names_image="reference" in settings["image"], names_template="chat-template" in settings["flags"]
    )
    return recipe, [*_at(findings, place)]


def _at(findings: Iterable[Finding], place: Place) -> Iterator[Finding]:
    return (replace(one, at=one.at.within(place.below("model"))) for one in findings)


def _unread(repository: str, place: Place) -> Finding:
    return error(
        "model-unread",
        place.below("model"),
        found=f"no recipe for {repository}, and nothing is known of it",
        expected="a recipe, or what was read of the model once",
        remedy=f"ansible-playbook gb10.fleet.recipe_new -e model={repository}",
    )


def unread_models(services: object, library: Library) -> dict[str, str | None]:
    """The models that have to be read before they can be planned, each with the commit that its service wants.

    services: ``fleet_services`` as written; what is wrong with it is another's finding.
    """
    wanted: dict[str, str | None] = {}
    for service in services.values() if isinstance(services, Mapping) else ():
        if not isinstance(service, Mapping) or service.get("recipe") is not None:
            continue
        model = service.get("model")
        named: Mapping[Any, Any] = model if isinstance(model, Mapping) else {"repository": model}
        repository = named.get("repository")
        if not isinstance(repository, str) or repository.count("/") != 1:
            continue
        if library.of_model(repository, 1) is None and repository not in library.checkpoints:
            revision = named.get("revision")
            wanted[repository] = revision if isinstance(revision, str) else None
    return dict(sorted(wanted.items()))
