# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes: how one model is served well on GB10, as data; what is wrong with one; which ones there are.

Recipes live in folders, the user's own before the shipped one. Beside the YAML files a folder may hold ``configs/``
with models' config.json files, ``overlays/`` with small files that are mounted over those of an image or a model, and
``builds/`` with a folder for each image that a host builds itself.
"""

import difflib
import fnmatch
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, did_you_mean, error, warning
from ..._base.foreign_files import content_of
from ..._base.place import Place
from ..._base.schema import UNSHOWN, check, describe
from ..._base.yaml_text import read_yaml
from ..._facts.builds.build import DOCKERFILE, Build
from ..._facts.builds.build import read as read_build
from ..._facts.models.checkpoint import Checkpoint
from ..._facts.models.facts import config_name, drafter_config
from ..._facts.models.gguf import of_another_size
from ..._facts.models.gguf_files import meant
from ..._stores.weights.reading import indexed_bytes
from ..declaration import ImageData, ModelData, OverlayData, RecipeData
from ..engine import Engine
from ..interface import EngineSpec
from ..normal_form import normal_reasons
from ..registry import DEFAULT, ENGINES
from .spec import recipe_spec

# What nobody sets by hand whatever the engine, each with what to do instead.
_PLANNED_ENV = {"HF_HOME": "take it out; to take weights from a folder of the host, write model.source {path: FOLDER}"}
_SHOWN = re.compile(rf'([^\\{UNSHOWN}]|\\["\\nt])*')
# Bytes of an author's files: the largest that are shipped have a hundredth of it.
_MOST_RECIPE = _MOST_CONFIG = _MOST_OVERLAY = 4 << 20
_MOST_BUILD_FILE = 1 << 20
_SECRETS = dict.fromkeys(("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"), "give the token to model_store")

_TAKE = "write a number in its plain form, or take it out"
_MEND = "correct the file"
_FETCH = "take config.json from the model's repository"


def parse(
    data: object, place: Place, engines: Mapping[str, Engine] = ENGINES
) -> tuple[RecipeData | None, list[Finding]]:
    """Return a recipe with its defaults filled in, and all that is wrong with it; None when it can't be used.

    data: the file's content as YAML gives it. place: the file, for the findings. engines: by the names that recipes
    write.
    """
    engine, findings = _engine(data, place, engines)
    if findings:
        return None, findings
    recipe, findings = check(recipe_spec(engine.spec), data, place)
    if not findings:
        recipe["reasons"] = normal_reasons(recipe["reasons"], recipe["flags"])
        findings = [
            *flag_problems(recipe["flags"], place.below("flags"), engine.spec),
            *environment_problems(recipe["env"], place.below("env"), engine.spec),
            *([] if engine.spec.single_files else _draft_problems(recipe, place, engine.draft(recipe["flags"]))),
            *_overlay_problems(recipe, place),
            *image_problems(recipe["image"], place.below("image")),
            *_reason_problems(recipe, place),
            *_known_bad(recipe, place),
            *_left_out(recipe, place),
        ]
    usable = not any(finding.severity == "error" for finding in findings)
    return (recipe if usable else None), findings


def _engine(data: object, place: Place, engines: Mapping[str, Engine]) -> tuple[Engine, list[Finding]]:
    """What serves the recipe, and what says that the file is of no use before its shape is looked at."""
    written = data if isinstance(data, Mapping) else {}
    name = written.get("engine", DEFAULT)
    findings = []
    if not isinstance(name, str) or name not in engines:
        found = f'"{name}"' if isinstance(name, str) else describe(name)
        remedy = did_you_mean(str(name)[:80], engines)
        at = place.below("engine")
        unknown = worded.error("recipe-engine", at, found=found, remedy=remedy, engines=", ".join(sorted(engines)))
        findings, name = [unknown], DEFAULT
    image = written.get("image")
    findings += old_image_keys(image if isinstance(image, Mapping) else {}, place.below("image"))
    return engines[name], findings


def old_image_keys(image: Mapping[Any, Any], place: Place) -> Iterator[Finding]:
    """The key that ``release`` had before 0.2."""
    for name in (name for name in ENGINES if name in image):
        found = f"the old name of {place.below('release').text}"
        yield worded.error("recipe-old-key", place.below(name), found=found, image=str(image[name])[:40])


def flag_problems(flags: Mapping[str, object], place: Place, engine: EngineSpec) -> Iterator[Finding]:
    """What a schema can't say about flags of a recipe, a service or a host."""
    for name, value in flags.items():
        where = place.below(name)
        planned = name if name in engine.planned_flags else _abbreviated(name, engine, engine.planned_flags)
        if not _is_json(value):
            yield worded.error("recipe-flag-value/flag-problems-hold", where, remedy=_TAKE)
        elif planned is not None:
            found, remedy = "set by hand", engine.planned_flags[planned]
            found += "" if planned == name else f", as an abbreviation of {planned}"
            yield error("recipe-planned-flag", where, found=found, expected="left to the plan", remedy=remedy)
        elif _is_secret(name.split("-"), value):
            yield _secret(where)
        elif isinstance(value, list) and any(isinstance(item, str) and item.startswith("-") for item in value):
            yield worded.error("recipe-flag-value/flag-problems", where)
        elif value == []:
            yield worded.error("recipe-flag-value/flag-problems-empty", where)
        elif name not in engine.calculated_flags and (whole := _abbreviated(name, engine, engine.calculated_flags)):
            yield worded.error("recipe-abbreviated-flag", where, whole=whole)
        elif name in engine.calculated_flags and value is not None:
            yield from check(engine.calculated_flags[name], value, where)[1]


def _abbreviated(name: str, engine: EngineSpec, options: Iterable[str]) -> str | None:
    """The first of these options that argparse may take a name for."""
    return next((option for option in sorted(options) if option.startswith(name)), None) if engine.abbreviates else None


_SECRET_WORD = re.compile("apikey|auth|credentials?|key|pass(phrase|wd|word)?|pwd|secret|token", re.IGNORECASE)
_NO_SECRET = re.compile(r"/.*|\d{0,6}|true|false", re.IGNORECASE)


def _is_secret(words: Iterable[str], value: object) -> bool:
    """Whether a flag or a variable is named like a secret, and holds more than a path or a switch."""
    named = any(map(_SECRET_WORD.fullmatch, words))
    return named and isinstance(value, str) and not _NO_SECRET.fullmatch(value)


def _secret(place: Place) -> Finding:
    """The value is not repeated: findings are printed and kept."""
    return worded.error("recipe-secret", place)


def planned_env(engine: EngineSpec) -> dict[str, str]:
    """Variables that follow from the placement, by pattern, each with what to do instead of setting it."""
    return {**_PLANNED_ENV, **engine.planned_env}


def secrets(engine: EngineSpec) -> dict[str, str]:
    """Variables that hold a secret, each with what to do instead."""
    return {**_SECRETS, **engine.secrets}


def environment_problems(environment: Mapping[str, object], place: Place, engine: EngineSpec) -> Iterator[Finding]:
    """What the plan decides, and secrets, which `docker inspect` would show."""
    for pattern, remedy in sorted(planned_env(engine).items()):
        for name in fnmatch.filter(environment, pattern):
            where = place.below(name)
            yield error("recipe-planned-env", where, found="set by hand", expected="left to the plan", remedy=remedy)
    for name, remedy in sorted(secrets(engine).items()):
        if name in environment:
            found = "a secret in the environment"
            yield error("recipe-secret", place.below(name), found=found, expected="a file", remedy=remedy)
    for name in sorted(name for name in environment if name != name.upper() and not name.endswith("_proxy")):
        found, remedy = "a variable in small letters, which does nothing", f"write {name.upper()}"
        yield warning("recipe-env-name", place.below(name), found=found, expected="capitals", remedy=remedy)
    for name, value in sorted(environment.items()):
        if name not in secrets(engine) and _is_secret(name.split("_"), value):
            yield _secret(place.below(name))


def image_problems(image: ImageData, place: Place) -> Iterator[Finding]:
    """An image has a name of its own, or is built, and then its inputs name it."""
    named = [key for key in ("reference", "build") if image.get(key)]
    if len(named) != 1:
        yield worded.error("recipe-image", place, found=" and ".join(named) or "neither reference nor build")
    elif named == ["build"]:
        for key in ("digest", "identity"):
            if image.get(key):
                expected = "nothing: what goes into a build names it"
                yield error("recipe-image", place.below(key), found="a pin", expected=expected, remedy="take it out")


def _draft_problems(recipe: RecipeData, place: Place, wanted: str | None) -> Iterator[Finding]:
    """wanted: the draft model that the flags ask for."""
    declared = recipe["model"].get("draft", {}).get("repository")
    if wanted != declared:
        found = f"{declared or 'nothing'}, while speculative-config asks for {wanted or 'no draft model'}"
        remedy = f'write "{wanted}"' if wanted else "take it out"
        yield worded.error("recipe-draft", place.below("model", "draft", "repository"), found=found, remedy=remedy)


def _overlay_problems(recipe: RecipeData, place: Place) -> Iterator[Finding]:
    for index, overlay in enumerate(recipe["overlays"]):
        where = place.below("overlays", index)
        kinds = [kind for kind in ("json_merge", "model_file", "file") if kind in overlay]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "no content"
            yield worded.error("recipe-overlay/overlay-problems", where, found=found)
        elif kinds == ["json_merge"] and overlay["target"].startswith("/"):
            expected = "a file below the model's folder, such as config.json"
            at = where.below("target")
            yield worded.error("recipe-overlay/overlay-problems-name", at, found=overlay["target"], expected=expected)


def _reason_problems(recipe: RecipeData, place: Place) -> Iterator[Finding]:
    for key in sorted(recipe["reasons"].keys() - recipe["flags"].keys() - recipe["env"].keys()):
        expected = "a key of flags or env"
        yield worded.error("recipe-reason", place.below("reasons", key), expected=expected)


def _known_bad(recipe: RecipeData, place: Place) -> Iterator[Finding]:
    status = recipe["status"]
    if status["state"] == "known-bad":
        where, found = place.below("status", "state"), f"known-bad, says {status['by']}"
        expected, remedy, reason = "a recipe that works", "use another recipe", status.get("note", "")
        yield warning("recipe-known-bad", where, found=found, expected=expected, remedy=remedy, reason=reason)
    if ended := status.get("ended"):
        yield worded.hint(
            "recipe-ended", place.below("status", "ended"), when=ended["when"], successor=ended["successor"]
        )


def _left_out(recipe: Mapping[str, Any], place: Place) -> Iterator[Finding]:
    left_out = recipe["status"].get("left_out")
    if left_out:
        at = place.below("status", "left_out")
        things, first = f"{len(left_out)} {'thing' if len(left_out) == 1 else 'things'}", left_out[0]
        if "origin" in recipe:
            yield worded.warning("recipe-left-out/origin", at, things=things, first=first, name=recipe["name"])
        else:
            yield worded.warning("recipe-left-out/own", at, things=things, first=first)


def _is_json(value: object) -> bool:
    """Whether JSON holds it, and no text in it holds what a terminal obeys; a template has several lines."""
    try:
        return _SHOWN.fullmatch(json.dumps(value, allow_nan=False, ensure_ascii=False)) is not None
    except (ValueError, TypeError, RecursionError):
        return False


# --- what lies on the disk -------------------------------------------------------------------------------------------


# From here on a name is another one with a slip of the pen.
_SLIP = 0.85


@dataclass(frozen=True)
class Recipe:
    """A usable recipe and the file that it comes from."""

    name: str
    data: RecipeData
    path: Path


@dataclass(frozen=True)
class Library:
    """All usable recipes by name, and the folders they were looked for in, the first ones preferred.

    checkpoints: of models that were read once, by repository (`_facts.models.checkpoint`). unread: why others could not
    be.
    """

    recipes: Mapping[str, Recipe]
    folders: Sequence[Path]
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
    unread: Mapping[str, Sequence[Finding]] = field(default_factory=dict)

    def of_model(self, repository: str, hosts: int, file: str | None = None) -> Recipe | None:
        """The recipe for a model that a service names without one: of several one that works, that was shown on so many
        hosts, the owner's own before the shipped, and the newest. file: its GGUF file or size, where it is named."""
        found = [recipe for recipe in self.recipes.values() if recipe.data["model"]["repository"] == repository]
        if file is not None:
            found = [item for item in found if meant({item.data["model"].get("file", ""): 0}, file)]

        def rank(recipe: Recipe) -> tuple[bool, bool, int]:
            bad = recipe.data["status"]["state"] == "known-bad"
            return bad, hosts not in recipe.data["host_counts"], _place_of(recipe.path, self.folders)

        found.sort(key=lambda item: (item.data["status"]["when"] or "", item.name), reverse=True)
        return min(found, key=rank, default=None)

    def config_of(self, model: ModelData, place: Place) -> tuple[Mapping[str, Any] | None, list[Finding]]:
        """config.json of a service's model: the one that is named, what was read of the model, or that of its base
        model, whose shapes it has; None without."""
        if model["config"]:
            return self.config(model["config"], place)
        if file := model.get("file"):
            return self._header_of(file, self._checkpoint(model)), []
        found = self._checkpoint(model)
        read = found["config"] if found else None
        of_base = config_name(model["repository"]) if read is None else None
        return self.config(of_base, place) if of_base and self._beside("configs", f"{of_base}.json") else (read, [])

    @staticmethod
    def _header_of(file: str, read: Checkpoint | None) -> Mapping[str, Any] | None:
        """What was read of a GGUF file, or of the same model in another size; None without."""
        header = read["config"] if read else {}
        if read is None or "gguf" not in header or header.get("file") == file:
            return header if "gguf" in header else None
        size, of_read = (read["gguf"].get(name, 0) for name in (file, str(header.get("file"))))
        return {**header, "gguf": of_another_size(header["gguf"], size / of_read)} if size and of_read else None

    def config_of_draft(self, model: ModelData, place: Place) -> tuple[Mapping[str, Any] | None, list[Finding]]:
        """config.json of the model that drafts for a service's, as named, or that of a drafter that is known; None
        without."""
        draft = model.get("draft", {})
        known = drafter_config(draft.get("repository"))
        name = draft.get("config") or (known if known and self._beside("configs", f"{known}.json") else None)
        return self.config(name, place) if name else (None, [])

    def weights_of(self, recipe: str, model: ModelData) -> int | None:
        """The weights' bytes of a service's model: by the index beside its recipe, as written, or as read.

        recipe: its name; empty where the model isn't the recipe's own.
        """
        size: int | None = (self.weights_bytes(recipe) if recipe else None) or model["weights_bytes"]
        found = self._checkpoint(model)
        return size or (found["weights_bytes"] if found else None)

    def _checkpoint(self, model: ModelData) -> Checkpoint | None:
        """What was read of a model, unless another commit is wanted."""
        found = self.checkpoints.get(model["repository"])
        wanted = model.get("revision")
        return found if found and (wanted is None or found["revision"] in (None, wanted)) else None

    def find(self, name: str, place: Place) -> tuple[Recipe | None, list[Finding]]:
        """The recipe that a service names at ``place``, or why there is none."""
        if name in self.recipes:
            return self.recipes[name], []
        folders = ", ".join(map(str, self.folders))
        of_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", name)
        stem = re.sub(r"\.ya?ml$", "", name.rpartition("/")[2])
        is_file = name.rpartition("/")[2] != stem
        remedy = f"write model: {name} instead of recipe" if of_hub and not is_file else self._instead(stem[:80])
        remedy = f'write "{stem}", and keep its file in one of these folders' if is_file else remedy
        remedy = f'write "{stem}"' if stem in self.recipes else remedy
        return None, [worded.error("recipe-unknown", place, remedy=remedy, name=name, folders=folders)]

    def _instead(self, name: str) -> str:
        """A recipe of another model is no slip of the pen, however alike their names are."""
        parts = re.split(r"[\s_-]+", name.strip().lower())
        is_part = any(all(part in recipe for part in parts) for recipe in self.recipes)
        if is_part or difflib.get_close_matches("-".join(parts), self.recipes, n=1, cutoff=_SLIP):
            return did_you_mean(name, self.recipes)
        return "docs/reference/models.md lists the recipes; or write model: organisation/name, as the hub has it"

    def config(self, name: str, place: Place) -> tuple[dict[str, Any] | None, list[Finding]]:
        """A model's config.json from ``configs/``, or why there is none."""
        path = self._beside("configs", f"{name}.json")
        if path is None:
            known = {file.stem for folder in self.folders for file in (folder / "configs").glob("*.json")}
            return None, [worded.error("recipe-config", place, remedy=did_you_mean(name, known), name=name)]
        try:
            config = json.loads(content_of(path, _MOST_CONFIG))
        except (OSError, ValueError, RecursionError) as cause:
            return None, [
                error("recipe-config", str(path), found=f"unreadable: {cause}", expected="a JSON object", remedy=_FETCH)
            ]
        if not isinstance(config, dict):
            return None, [
                error("recipe-config", str(path), found=describe(config), expected="a JSON object", remedy=_FETCH)
            ]
        return config, []

    def weights_bytes(self, recipe: str) -> int | None:
        """The size in ``configs/<recipe>.index.json``, the checkpoint's own index; None without one."""
        path = self._beside("configs", f"{recipe}.index.json")
        return None if path is None else indexed_bytes(path)

    def overlay(self, overlay: OverlayData, place: Place) -> tuple[Path | None, list[Finding]]:
        """The file in ``overlays/`` that an overlay names, with its sha256 checked if it is known, or what is wrong."""
        path = self._beside("overlays", overlay["file"])
        if path is None:
            folder = self.folders[0] / "overlays"
            where = f"; it comes from {overlay['where']}" if "where" in overlay else ""
            remedy = f"put it there{where}"
            return None, [
                worded.error(
                    "recipe-overlay-missing/overlay", place, expected=str(folder), remedy=remedy, file=overlay["file"]
                )
            ]
        try:
            found = hashlib.sha256(content_of(path, _MOST_OVERLAY)).hexdigest()
        except (OSError, ValueError) as cause:
            return None, [
                worded.error(
                    "recipe-overlay-missing/overlay-read", place, path=path, cause=cause, most_overlay=_MOST_OVERLAY
                )
            ]
        if overlay["sha256"] not in (None, found):
            where = f"{path} with sha256 {overlay['sha256']}"
            remedy = "put the right file there, or write its sha256 if you trust it"
            return None, [
                error("recipe-overlay-changed", place, found=f"sha256 {found}", expected=where, remedy=remedy)
            ]
        return path, []

    def build(self, name: str, place: Place) -> tuple[Build | None, list[Finding]]:
        """The build that an image names at ``place``, the folder ``builds/<name>`` read whole; or why there is none."""
        path = self._beside("builds", f"{name}/build.yml")
        if path is None:
            known = {file.parent.name for folder in self.folders for file in (folder / "builds").glob("*/build.yml")}
            found, expected = f'no build "{name}"', f"{self.folders[0] / 'builds' / name}/build.yml"
            remedy = did_you_mean(name, known)
            return None, [error("build-unknown", place, found=found, expected=expected, remedy=remedy)]
        try:
            data = read_yaml(content_of(path, _MOST_RECIPE).decode("utf-8"))
        except (OSError, ValueError) as cause:
            unreadable = error("build-unreadable", str(path), found=str(cause), expected="a YAML map", remedy=_MEND)
            return None, [unreadable]
        named = data.get("files") if isinstance(data, Mapping) else None
        paths = [DOCKERFILE, *(str(item) for item in (named if isinstance(named, Mapping) else ()))]
        texts = {path: text for path in paths if (text := self._text(f"{name}/{path}")) is not None}
        build, findings = read_build(name, data, texts, str(path.parent))
        arguments = build.data["arguments"].items() if build else ()
        where = Place(thing=str(path), option="arguments")
        findings += [_secret(where.below(key)) for key, value in arguments if _is_secret(key.split("_"), value)]
        return (None if any(finding.severity == "error" for finding in findings) else build), findings

    def _text(self, name: str) -> str | None:
        """A file of a build; None where it isn't there, or is no text of a size that a plan carries."""
        path = self._beside("builds", name)
        try:
            return content_of(path, _MOST_BUILD_FILE).decode("utf-8") if path else None
        except (OSError, ValueError):
            return None

    def _beside(self, kind: str, name: str) -> Path | None:
        """A file in one of the folders. A link that leaves its folder is none: what it names would reach the host, and
        the container of whoever wrote the recipe."""
        candidates = ((folder / kind / name, folder.resolve()) for folder in self.folders)
        return next((path for path, home in candidates if path.is_file() and path.resolve().is_relative_to(home)), None)


def _place_of(path: Path, folders: Sequence[Path]) -> int:
    return next((index for index, folder in enumerate(folders) if path.parent == folder), len(folders))


def load_all(folders: Sequence[Path], engines: Mapping[str, Engine] = ENGINES) -> tuple[Library, list[Finding]]:
    """Read every recipe of the folders. A recipe with an error is left out and says why; the others are usable.

    A name that two folders have is the first folder's: that is how a user replaces a shipped recipe.
    """
    findings: list[Finding] = []
    recipes: dict[str, Recipe] = {}
    for folder in folders:
        if not folder.is_dir():
            findings.append(worded.error("recipe-folder", str(folder)))
        for path in sorted([*folder.glob("*.yml"), *folder.glob("*.yaml")]):
            recipe, problems = load(path, engines)
            findings += problems
            if recipe and recipe.name not in recipes:
                recipes[recipe.name] = recipe
            elif recipe and recipes[recipe.name].path.parent == folder:
                found, place = f"also in {recipes[recipe.name].path.name}", Place(recipe=path.stem, thing=str(path))
                findings.append(
                    error("recipe-duplicate", place, found=found, expected="one file a recipe", remedy="remove one")
                )
    return Library(recipes, tuple(folders)), findings


def load(path: Path, engines: Mapping[str, Engine] = ENGINES) -> tuple[Recipe | None, list[Finding]]:
    """Read one recipe's file; never raises for what the file holds."""
    place = Place(recipe=path.stem, thing=str(path))
    try:
        data = read_yaml(content_of(path, _MOST_RECIPE).decode("utf-8"))
    except (OSError, ValueError) as cause:
        return None, [
            error("recipe-unreadable", place, found=str(cause), expected="a YAML map", remedy="correct the file")
        ]
    recipe, findings = parse(data, place, engines)
    if recipe and recipe["name"] != path.stem:
        expected = f'"{path.stem}", the file\'s name'
        findings.append(worded.error("recipe-name", place.below("name"), expected=expected, recipe=recipe["name"]))
        return None, findings
    return (Recipe(recipe["name"], recipe, path) if recipe else None), findings
