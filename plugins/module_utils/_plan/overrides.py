# SPDX-License-Identifier: GPL-3.0-or-later
"""A recipe's image and model with what a service writes otherwise. Another image or another model is another thing:
what the recipe says of its own does not hold for it."""

from collections.abc import Mapping
from typing import Any

from .._base import worded
from .._base.findings import Finding
from .._base.place import Place
from .._engines.declaration import DraftData, ImageData, ModelData, RecipeData
from .._engines.engine import Engine
from .._facts.models.gguf_files import meant


def image_of(
    recipe: ImageData, own: Mapping[str, object], place: Place, engine: Engine
) -> tuple[dict[str, Any], list[Finding]]:
    """``image`` of a service. A reference other than the recipe's decides family and release by what its name is known
    for; what is neither known nor written is an error.

    recipe: its ``image``. own: the service's, as written. place: of the service's.
    """
    reference = own.get("reference")
    if own.get("build", recipe.get("build")) != recipe.get("build"):
        # of another build nothing is known but what the service writes; what is missing, its schema says
        return dict(own), []
    if not isinstance(reference, str) or reference == recipe.get("reference"):
        return {**recipe, **own}, []
    found = {**engine.image_facts(reference), **own}
    missing = [key for key in ("family", "release") if key not in found]
    if not missing:
        return found, []
    keys = " and ".join(f"image.{key}" for key in missing)
    families = ", ".join(engine.spec.families)
    return {"family": engine.spec.families[-1], **found}, [
        worded.error(
            "service-image",
            place.below("reference"),
            reference=reference,
            missing=" and ".join(missing),
            keys=keys,
            of_recipe=recipe.get("reference") or recipe["build"],
            families=families,
            engine=engine.spec.name,
        )
    ]


def is_another_model(recipe: ModelData, own: Mapping[str, object]) -> bool:
    """Whether a service serves another repository than its recipe's. recipe, own: the ``model`` of each."""
    return bool(own.get("repository", recipe["repository"]) != recipe["repository"])


def model_of(recipe: ModelData, own: Mapping[str, object]) -> dict[str, Any]:
    """``model`` of a service. Of another repository nothing is known but what the service writes. A size in place of a
    file means the recipe's, where that is so packed."""
    file, wanted = recipe.get("file", ""), own.get("file")
    if isinstance(wanted, str) and meant({file: 0}, wanted):
        own = {**own, "file": file}
    return dict(own) if is_another_model(recipe, own) else {**recipe, **own}


def without_its_model(recipe: RecipeData, place: Place) -> tuple[RecipeData, list[Finding]]:
    """A recipe that serves another model: without what was measured of its own. What it lays over files of its own
    model has nothing to lie on."""
    rest: RecipeData = {**recipe, "memory": {"calibrations": []}, "measured": []}
    of_model = [
        overlay for overlay in recipe["overlays"] if "model_file" in overlay or not overlay["target"].startswith("/")
    ]
    files = [overlay.get("model_file", overlay["target"]) for overlay in of_model]
    if not files:
        return rest, []
    found = f"another model than {recipe['model']['repository']}, whose {', '.join(files)} the recipe changes"
    return rest, [worded.error("service-model-overlay", place, found=found, name=recipe["name"])]


def with_draft(model: ModelData, wanted: str | None) -> ModelData:
    """The model with the draft model that the decided flags ask for, so that both are staged; without one that they
    don't. wanted: its repository."""
    declared = model.get("draft")
    rest = model.copy()
    rest.pop("draft", None)
    if wanted is None:
        return rest
    if declared and declared["repository"] == wanted:
        return {**rest, "draft": declared}
    unknown: DraftData = {"repository": wanted, "revision": None, "seal": None, "config": None, "weights_bytes": None}
    return {**rest, "draft": unknown}
