# SPDX-License-Identifier: GPL-3.0-or-later
"""A service placed on hosts: a recipe, what the owner writes otherwise, and each flag and variable with its origin."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._base import layout, worded
from .._base.addresses import is_loopback
from .._base.findings import Finding, hint, warning
from .._base.gb10 import default_layer
from .._base.layers import Layer, Value, merge
from .._base.place import Place
from .._base.schema import check
from .._base.sizes import quantity
from .._engines.declaration import DraftData, ImageData, ModelData, RecipeData, ServiceData
from .._engines.engine import Engine
from .._engines.environment import Slices, group_environment
from .._engines.placed import Host, Overlays, Placed
from .._engines.recipes.overlays import plan_overlays
from .._engines.recipes.recipe import Library, environment_problems, flag_problems, image_problems, old_image_keys
from .._engines.recipes.spec import MODEL, image_spec
from .._engines.registry import ENGINES
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


def place(
    name: str,
    settings: ServiceData,
    recipe: RecipeData,
    hosts: Sequence[Host],
    library: Library,
    fabric: Slices,
    engines: Mapping[str, Engine] = ENGINES,
) -> tuple[Placed | None, list[Finding]]:
    """Put a checked service's own words over its recipe's and decide its flags and variables; None where that can't be.

    fabric: the plan's fabric slices by host. engines: by the names that recipes write.
    """
    where, engine = Place(service=name), engines[recipe["engine"]]
    findings = [*old_image_keys(settings["image"], where.below("image"))]
    if findings:
        return None, findings
    written, findings = image_of(recipe["image"], settings["image"], where.below("image"), engine)
    image, wrong = check(image_spec(engine.spec), written, where.below("image"))
    findings += wrong or image_problems(image, where.below("image"))
    if not findings and "build" in image:
        image, findings = _built(image, hosts[0].name, library, where.below("image"))
    model, wrong = check(MODEL, model_of(recipe["model"], settings["model"]), where.below("model"))
    findings += wrong
    if any(finding.severity == "error" for finding in findings):
        return None, findings
    another = is_another_model(recipe["model"], settings["model"])
    if another:
        findings.append(
            worded.hint(
                "service-model-of-another",
                where.below("model", "repository"),
                repository=model["repository"],
                recipe_repository=recipe["model"]["repository"],
            )
        )
        recipe, wrong = without_its_model(recipe, where.below("model", "repository"))
        findings += wrong
    if "weights_bytes" not in settings["model"]:
        model = {**model, "weights_bytes": library.weights_of("" if another else recipe["name"], model)}
    findings += flag_problems(settings["flags"], where.below("flags"), engine.spec)
    findings += environment_problems(settings["env"], where.below("env"), engine.spec)
    for host in hosts:
        at_host = Place(host=host.name, service=name, variable="fleet_host", option=f"services.{name}")
        findings += flag_problems(host.own(name, "flags"), at_host.below("flags"), engine.spec)
        findings += environment_problems(host.own(name, "env"), at_host.below("env"), engine.spec)
    config, wrong = library.config_of(model, where.below("model", "config"))
    findings += wrong
    placed = Placed(name, engine, settings, recipe, hosts, image, model, config)
    findings += [
        *engine.problems(placed),
        *_host_count(placed),
        *_proposed_clock(placed),
        *_without_tls(placed),
        *_open_paths(placed),
        *_without_aliases(placed),
    ]
    findings += [*_without_files(placed), *_without_traces(placed), *_without_key(placed)]
    overlays, wrong = _overlays(placed, library)
    findings += wrong
    if any(finding.severity == "error" for finding in findings):
        return None, findings
    own = {**recipe["env"], **settings["env"], **hosts[0].own(name, "env")}
    members, of_group = group_environment(fabric, settings["hosts"], where.below("hosts"), written=own)
    wrong = [finding for finding in of_group if finding.severity == "error"]
    findings += [finding for finding in of_group if finding.severity != "error"]
    placed = replace(placed, overlays=overlays, members=members, flags=_flags(placed))
    values = {name: decided.value for name, decided in placed.flags.items()}
    # where an option names it, options decide; one that is loaded by its file is what is declared
    drafted = placed.model if engine.spec.single_files else with_draft(placed.model, engine.draft(values))
    drafter, unread = library.config_of_draft(drafted, where.below("model", "draft", "config"))
    findings += unread
    placed = replace(placed, model=drafted, drafter=drafter)
    placed = replace(placed, adapters=engine.adapters(values))
    if placed.is_group:
        wrong += engine.group_problems(placed)
    if wrong:
        return None, [*findings, *wrong]
    environments = {host.name: _environment(placed, host) for host in hosts}
    return replace(placed, environments=environments, isolation=_isolation(placed)), findings


def _built(image: ImageData, first: str, library: Library, place: Place) -> tuple[ImageData, list[Finding]]:
    """An image that a host builds: named by its inputs; ``source`` says which host, else the service's first."""
    build, findings = library.build(str(image["build"]), place.below("build"))
    if build is None:
        return image, findings
    source = {"host": first} if image["source"] == "registry" else image["source"]
    return {**image, "reference": build.reference, "build": build.order, "source": source}, findings


def _overlays(placed: Placed, library: Library) -> tuple[Overlays, list[Finding]]:
    where = Place(recipe=placed.recipe["name"])
    on_host, in_container = (placed.model_folder(home) for home in (layout.MODELS, layout.IN_MODELS))
    folder, written = placed.overlay_folder, placed.recipe["overlays"]
    overlays, findings = plan_overlays(written, library, where, folder, on_host, in_container)
    own = placed.engine.overlays(placed)
    return Overlays([*overlays.files, *own.files], [*overlays.mounts, *own.mounts], overlays.shipped), findings


def _host_count(placed: Placed) -> Iterator[Finding]:
    """The recipe says on how many hosts it was seen. Whether a model can be divided so, its shape says, which an engine
    reads in config.json: without one nobody knows."""
    known = placed.recipe["host_counts"]
    if len(placed.hosts) not in known:
        of_shape = placed.config is not None
        yield (hint if of_shape else warning)(
            "service-host-count",
            placed.place.below("hosts"),
            found=f"{len(placed.hosts)} hosts, divided by the model's shape"
            if of_shape
            else f"{len(placed.hosts)} hosts, and no model.config to see whether the model divides so",
            expected=" or ".join(map(str, known)) + ": nobody has shown the recipe on another number",
            remedy="compare answers and speed with the recipe's own number of hosts, then write host_counts into a "
            "recipe of your own",
        )


def _proposed_clock(placed: Placed) -> Iterator[Finding]:
    """What its recipe was run with; a host whose owner declared another clock, or null, keeps that."""
    proposed = placed.recipe.get("gpu", {}).get("clock_max_mhz")
    free = [host.name for host in placed.hosts if "clock_max_mhz" not in host.settings.get("gpu", {})]
    if proposed and free:
        at, source = Place(service=placed.name, variable="fleet_host", option="gpu.clock_max_mhz"), proposed["source"]
        yield worded.hint("gpu-clock-proposed", at, hosts=", ".join(free), clock=proposed["value"], source=source)


def _without_tls(placed: Placed) -> Iterator[Finding]:
    if placed.tls and placed.engine.spec.tls is None:
        yield worded.error("service-tls-engine", placed.place.below("tls"), title=placed.engine.spec.title)


def _open_paths(placed: Placed) -> Iterator[Finding]:
    """A gateway passes on a list of routes, and is alone to reach the endpoint."""
    reached = not (placed.settings.get("readiness") or is_loopback(placed.settings["listen"]))
    if placed.key_file and reached and placed.engine.spec.open_paths:
        paths = ", ".join(placed.engine.spec.open_paths)
        yield worded.hint(
            "service-open-paths", placed.place.below("listen"), title=placed.engine.spec.title, paths=paths
        )


def _without_traces(placed: Placed) -> Iterator[Finding]:
    if placed.tracing and not placed.engine.spec.trace_headers:
        yield worded.error("service-tracing-engine", placed.place.below("tracing"), title=placed.engine.spec.title)


def _without_key(placed: Placed) -> Iterator[Finding]:
    if placed.key_file and not placed.engine.spec.key.target:
        yield worded.error("service-key-engine", placed.place.below("api_key_file"), title=placed.engine.spec.title)


def _without_files(placed: Placed) -> Iterator[Finding]:
    """Files of a model that only some engines load alone."""
    model = placed.model
    files = {"file": model.get("file"), "mmproj": model.get("mmproj"), "draft.file": model.get("draft", {}).get("file")}
    for key, file in files.items():
        if file and not placed.engine.spec.single_files:
            at = placed.place.below("model", *key.split("."))
            yield worded.error("service-model-file", at, file=file, title=placed.engine.spec.title)


def _without_aliases(placed: Placed) -> Iterator[Finding]:
    if placed.settings.get("aliases") and not placed.engine.spec.aliases:
        found = f"{', '.join(placed.settings['aliases'])} for {placed.name}, whose engine knows one name of a model"
        at = Place(variable="fleet_gateway", option="aliases")
        yield worded.error("input-gateway-alias/without-aliases", at, found=found, spec=placed.engine.spec.title)


def _flags(placed: Placed) -> dict[str, Value]:
    """The engine's options by name: GB10 < recipe < service < the head's host < what follows from the placement."""
    recipe, settings, engine = placed.recipe, placed.settings, placed.engine
    written = [
        engine.default_layers()[0],
        Layer("recipe", _counted(recipe["flags"], engine), recipe["reasons"]),
        Layer("service", {**engine.spec.workload_flags(settings["workload"]), **_counted(settings["flags"], engine)}),
        Layer("host", _counted(placed.head.own(placed.name, "flags"), engine)),
    ]
    return engine.flags(placed, written)


def _counted(flags: Mapping[str, object], engine: Engine) -> dict[str, Any]:
    """Options, with those that the plan calculates with as plain numbers."""
    known = {name: quantity(value) for name, value in flags.items() if name in engine.spec.calculated_flags}
    return {**flags, **{name: number for name, number in known.items() if number is not None}}


def _isolation(placed: Placed) -> dict[str, Value]:
    """What the container may do: GB10 < recipe < service."""
    written: dict[str, Any] = {"recipe": placed.recipe["container"], "service": placed.settings["container"]}
    return merge(
        [
            default_layer("container"),
            *(
                Layer(
                    origin,
                    {key: exception["value"] for key, exception in written[origin].items()},
                    {key: exception["reason"] for key, exception in written[origin].items()},
                )
                for origin in ("recipe", "service")
            ),
        ]
    )


def _environment(placed: Placed, host: Host) -> dict[str, Value]:
    """Variables of the container on one host: those of its group < GB10 < recipe < service < host < the placement."""
    engine = placed.engine
    written = [
        *engine.group_layers(placed, host),
        engine.default_layers()[1],
        Layer("recipe", placed.recipe["env"], placed.recipe["reasons"]),
        Layer("service", placed.settings["env"]),
        Layer("host", host.own(placed.name, "env")),
    ]
    models = Layer(
        "computed",
        {"HF_HOME": layout.IN_MODELS, "HF_MODULES_CACHE": layout.IN_MODEL_CODE},
        {
            "HF_HOME": "where the host's models are mounted",
            "HF_MODULES_CACHE": "where transformers copies a model's own code to: the models are mounted read-only",
        },
    )
    return merge([*written, models, engine.variables(placed, merge(written))])
