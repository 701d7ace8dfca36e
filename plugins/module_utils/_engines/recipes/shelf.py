# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of ``fleet_recipe_sources``: what became of each file of a source, kept beside the inventory until the source
is taken at another commit."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NotRequired, TypedDict

from ..._base import own_files, worded
from ..._base.findings import Finding, error
from ..._base.forms import forms
from ..._base.place import Place
from ..._base.received import checked, one_line
from ..._base.schema import check
from ..declaration import RecipeData
from .foreign import import_recipe
from .formats import own_name, read_text
from .recipe import Recipe, parse

VARIABLE, FOLDER = "fleet_recipe_sources", ".fleet/shelf"
_FORMS = forms("recipe_sources")
SOURCES = _FORMS["sources"]
_MOST_NAME, _MOST_WORDS = 80, 200


class RecipeSource(TypedDict):
    """A folder of recipes that others keep."""

    name: str
    git: NotRequired[str]
    path: NotRequired[str]
    commit: NotRequired[str]
    folder: str


class Kept(TypedDict):
    """What was taken of a source. left_out: a few words for each thing of a recipe that is not carried over. refused:
    why a file is no recipe of ours."""

    url: str
    commit: str | None
    folder: str
    recipes: dict[str, RecipeData]
    left_out: dict[str, list[str]]
    refused: dict[str, str]


def read_sources_of(written: object) -> tuple[list[RecipeSource], list[Finding]]:
    """The variable, each source with its name; none where something is wrong with it."""
    sources, findings = check(SOURCES, [] if written is None else written, Place(variable=VARIABLE))
    for index, source in enumerate(() if findings else sources):
        place = Place(variable=VARIABLE).below(index)
        source.setdefault(
            "name", own_name(PurePosixPath(url_of(source)).name.removesuffix(".git")).replace(".", "-")[:31]
        )
        if ("git" in source) == ("path" in source):
            findings.append(worded.error("source-where", place, found="both" if "git" in source else "neither"))
        elif "git" in source and "commit" not in source:
            findings.append(worded.error("source-commit", place.below("commit")))
        if not source["name"] or source["name"] in [other["name"] for other in sources[:index]]:
            findings.append(worded.error("source-name", place.below("name"), found=source["name"] or "no name"))
    return ([] if findings else sources), findings


def none_named() -> Finding:
    return worded.error("source-none", Place(variable=VARIABLE))


def url_of(source: Mapping[str, Any]) -> str:
    return str(source.get("git") or source.get("path") or "")


def take(
    source: RecipeSource, files: Mapping[str, bytes], refused: Mapping[str, str], when: str, before: Kept | None
) -> Kept:
    """Each file as a recipe of ours. files, refused: by path what was read, and why the others were not. when: today.
    before: what was taken of this source the last time; what has not changed keeps its day."""
    url, commit, folder = url_of(source), source.get("commit"), source["folder"]
    kept: Kept = {"url": url, "commit": commit, "folder": folder, "refused": {**refused}, "recipes": {}, "left_out": {}}
    for file, name in _names(source["name"], sorted(files)):
        recipe, findings = _imported(files[file], name)
        wrong = [finding for finding in findings if finding.severity == "error"]
        if recipe is None or name in kept["recipes"]:
            why = wrong[0].sentence() if wrong else f"another file is called {name}"
            kept["refused"][file] = one_line(why, _MOST_WORDS)
            continue
        digest = hashlib.sha256(files[file]).hexdigest()
        recipe["origin"] = {"url": url, "commit": commit, "file": file, "sha256": digest, "when": when}
        earlier = before["recipes"][name].get("origin") if before and name in before["recipes"] else None
        if earlier and earlier == {**recipe["origin"], "when": earlier["when"]}:
            recipe["origin"] = earlier
        recipe["sources"] = [f"{url}, {file}" + (f", commit {commit[:12]}" if commit else "")]
        kept["recipes"][name] = recipe
        lost = [finding for finding in findings if finding.severity == "warning" and finding.rule.startswith("import-")]
        kept["left_out"][name] = [*dict.fromkeys(_short(finding, name) for finding in lost)]
    return kept


def _names(source: str, files: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each file with its recipe's name: the source's and the file's, with its folders where two files are alike."""
    stems = [own_name(PurePosixPath(file).stem) for file in files]
    for file, stem in zip(files, stems, strict=True):
        path = stem if stems.count(stem) == 1 else own_name(str(PurePosixPath(file).with_suffix("")))
        yield file, f"{source}-{path}"[:_MOST_NAME].rstrip("-.")


def _imported(content: bytes, name: str) -> tuple[RecipeData | None, list[Finding]]:
    try:
        return import_recipe(read_text(content.decode()), name)
    except ValueError as cause:
        found = "bytes that are no UTF-8" if isinstance(cause, UnicodeDecodeError) else str(cause)
        return None, [error("recipe-unreadable", name, found=found, expected="a recipe in YAML", remedy="see the file")]


def _short(finding: Finding, name: str) -> str:
    place = finding.at.thing.removeprefix(f"{name}.")
    bare = finding.rule in ("import-left-out", "import-secret") or not finding.found
    return one_line(place if bare else f"{place}: {finding.found}", 60)


def file_of(folder: Path, name: str) -> Path:
    """folder: of the inventory. name: of a source."""
    return folder / FOLDER / f"{name}.json"


def read_kept(folder: Path, name: str, note: Callable[[str], None] | None = None) -> Kept | None:
    """What was taken of a source; None where it never was, or the file is damaged, which is set aside."""
    return own_files.read(
        file_of(folder, name), lambda content: checked(_FORMS["kept"], json.loads(content), name), note
    )


def is_current(kept: Kept | None, source: RecipeSource) -> bool:
    wanted = (url_of(source), source.get("commit"), source["folder"])
    return kept is not None and wanted == (kept["url"], kept["commit"], kept["folder"])


def usable(kept: Mapping[str, Kept], folder: Path) -> tuple[dict[str, Recipe], list[Finding]]:
    """The recipes of sources, by name, and what a plan is to know of them."""
    recipes: dict[str, Recipe] = {}
    findings: list[Finding] = []
    for source, one in kept.items():
        for name, data in one["recipes"].items():
            path = file_of(folder, source)
            recipe, problems = parse(data, Place(recipe=name, thing=str(path)))
            findings += problems
            if recipe is not None and recipe["name"] == name:
                recipes.setdefault(name, Recipe(name, recipe, path))
    return recipes, findings


def on_shelf(
    folder: Path, written: object, note: Callable[[str], None] | None = None
) -> tuple[dict[str, Recipe], list[Finding]]:
    """The recipes that plans find, by name, and which sources have to be fetched first. written: the variable."""
    sources = {source["name"]: source for source in read_sources_of(written)[0]}
    kept = {name: one for name in sources if (one := read_kept(folder, name, note))}
    recipes, findings = usable(kept, folder)
    for name, source in sources.items():
        if not is_current(kept.get(name), source):
            place = Place(variable=VARIABLE)
            if name in kept:
                findings.append(worded.warning("recipe-source/other", place, name=name))
            else:
                findings.append(worded.warning("recipe-source/none", place, name=name))
    return recipes, findings
