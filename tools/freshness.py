#!/usr/bin/env python3
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is new, what has changed and what is broken, in one command on a machine with internet.

    python tools/freshness.py                          engines, images and models of the shipped recipes
    python tools/freshness.py --recipes DIR            of your recipes, too
    python tools/freshness.py --sources SOURCES.yml    fleet_recipe_sources, too
    python tools/freshness.py --state FILE             compares with what FILE kept of the last run, and renews it

It asks the package index, the images' registries, the hub and git servers; it changes no data of the collection. Each
line begins with `new`, `changed`, `broken` (gone, or its page has another form) or `unknown` (no answer). Exit status:
1 where something is broken.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._base.received import one_line  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp import catalogue as llama_cpp  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.shelf import read_sources_of  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.sglang import catalogue as sglang  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.trtllm import catalogue as trtllm  # noqa: E402
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import load  # noqa: E402

_SECONDS, _MOST = 20, 32 << 20
_MANIFESTS = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        "oci.image.index.v1",
        "docker.distribution.manifest.list.v2",
        "oci.image.manifest.v1",
        "docker.distribution.manifest.v2",
    )
)


class NoAnswerError(Exception):
    """In words. status: of HTTP, 0 where none came. broken: an answer that this program can no longer read."""

    def __init__(self, words: str, status: int = 0, *, broken: bool = False) -> None:
        super().__init__(words)
        self.status = status
        self.broken = broken

    def line(self, what: str, *gone: int) -> str:
        return f"{'broken' if self.broken or self.status in gone else 'unknown'} {what}: {self}"


def within(answer: object, *keys: str) -> str:
    """A text in an answer. NoAnswerError where it isn't there: then the form of the page has changed."""
    found = answer
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, str) or not found:
        raise NoAnswerError(f"the form of its answer has changed: no {'.'.join(keys)}", broken=True)
    return one_line(found, 120)


class Web:
    """elsewhere: addresses that stand for others, for tests and mirrors."""

    def __init__(self, elsewhere: Mapping[str, str]) -> None:
        self.elsewhere = elsewhere

    def ask(self, url: str, headers: Mapping[str, str] | None = None) -> tuple[bytes, Mapping[str, str]]:
        for usual, other in self.elsewhere.items():
            url = other + url.removeprefix(usual) if url.startswith(usual) else url
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, headers=dict(headers or {})), timeout=_SECONDS
            ) as one:
                content = one.read(_MOST + 1)
                if len(content) > _MOST:
                    raise NoAnswerError("an answer without end")
                return content, {name.lower(): value for name, value in one.headers.items()}
        except urllib.error.HTTPError as problem:
            found = {name.lower(): value for name, value in problem.headers.items()}
            if problem.code == 401 and "www-authenticate" in found and "Authorization" not in (headers or {}):
                return self.ask(url, {**(headers or {}), "Authorization": f"Bearer {self._token(found)}"})
            raise NoAnswerError(f"HTTP {problem.code}", problem.code) from None
        except (OSError, ValueError) as problem:
            raise NoAnswerError(one_line(str(problem), 120)) from None

    def _token(self, headers: Mapping[str, str]) -> str:
        """What a registry gives to everybody; no password is sent."""
        asked = dict(re.findall(r'(\w+)="([^"]*)"', headers["www-authenticate"]))
        if not asked.get("realm", "").startswith(("https://", *self.elsewhere.values())):
            raise NoAnswerError("a registry that asks for a password", 401)
        words = "&".join(f"{key}={quote(asked[key])}" for key in ("service", "scope") if key in asked)
        answer = self.json(f"{asked['realm']}?{words}")
        return str(answer.get("token") or answer.get("access_token") or "")

    def json(self, url: str) -> dict[str, Any]:
        try:
            found = json.loads(self.ask(url)[0])
        except (ValueError, RecursionError):
            raise NoAnswerError("no JSON") from None
        return found if isinstance(found, dict) else {"all": found}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:4])


def engines(web: Web) -> Iterator[str]:
    """Releases that the catalogues lack."""
    known = {
        "vllm": max(map(str, load().releases), key=numbers),
        "sglang": sglang.NEWEST,
        "tensorrt-llm": trtllm.NEWEST,
    }
    for package, ours in known.items():
        try:
            theirs = within(web.json(f"https://pypi.org/pypi/{package}/json"), "info", "version")
        except NoAnswerError as problem:
            yield problem.line(package)
            continue
        if numbers(theirs) > numbers(str(ours)):
            yield f"new {package} {theirs}; the catalogue ends at {ours}"
    try:
        tag = within(web.json("https://api.github.com/repos/ggml-org/llama.cpp/releases/latest"), "tag_name")
    except NoAnswerError as problem:
        yield problem.line("llama.cpp")
        return
    ours = str(getattr(llama_cpp, "NEWEST", ""))
    if tag != ours:
        yield f"new llama.cpp {tag}; the catalogue has {ours or 'options of an earlier build'}"


def registry(name: str) -> str:
    """Where an image's registry answers about it."""
    host, _, path = name.partition("/")
    if "." not in host:
        host, path = "registry-1.docker.io", name if "/" in name else f"library/{name}"
    return f"https://{host}/v2/{path}"


def digest_of(web: Web, reference: str) -> str:
    name, _, tag = reference.rpartition(":")
    _, headers = web.ask(f"{registry(name)}/manifests/{tag}", {"Accept": _MANIFESTS})
    return within(headers, "docker-content-digest")


def tags(web: Web, references: Iterable[str]) -> Iterator[str]:
    """Newer tags of the same form as those that recipes take: v0.34.0 beside v0.33.0, and no v0.34.0-cpu."""
    taken: dict[tuple[str, str], list[str]] = {}
    for reference in references:
        name, _, tag = reference.rpartition(":")
        if len(numbers(tag)) > 1:
            taken.setdefault((name, re.sub(r"\d+", "1", tag)), []).append(tag)
    listed: dict[str, list[str]] = {}
    for (name, form), ours in sorted(taken.items()):
        try:
            if name not in listed:
                answer = web.json(f"{registry(name)}/tags/list").get("tags")
                if not isinstance(answer, list) or not answer:
                    raise NoAnswerError("the form of its answer has changed: no tags", broken=True)
                listed[name] = [tag for tag in answer if isinstance(tag, str) and tag == one_line(tag, 128)]
        except NoAnswerError as problem:
            yield problem.line(f"tags of {name}")
            continue
        newest = max([*ours, *(tag for tag in listed[name] if re.sub(r"\d+", "1", tag) == form)], key=numbers)
        if newest not in ours:
            yield f"new tag {newest} of {name}; recipes take {max(ours, key=numbers)}"


def images(web: Web, recipes: Mapping[str, Any], kept: dict[str, str]) -> Iterator[str]:
    by_reference: dict[str, set[str]] = {}
    for recipe in recipes.values():
        image = recipe.data["image"]
        if image.get("reference") and not image.get("build"):
            by_reference.setdefault(image["reference"], set()).add(image.get("digest") or "")
    for reference, pinned in sorted(by_reference.items()):
        try:
            digest = digest_of(web, reference)
        except NoAnswerError as problem:
            yield problem.line(f"image {reference}", 404)
            continue
        pins, before = pinned - {""}, kept.get(reference)
        if pins and digest not in pins:
            yield f"changed image {reference}: {digest}; recipes pin {', '.join(sorted(pins))}"
        elif not pins and before and before != digest:
            yield f"changed image {reference}: {digest}; the last run found {before}"
        kept[reference] = digest
    yield from tags(web, by_reference)


def models(web: Web, recipes: Mapping[str, Any], kept: dict[str, str]) -> Iterator[str]:
    by_name: dict[str, set[str]] = {}
    for recipe in recipes.values():
        for one in (recipe.data["model"], recipe.data["model"].get("draft") or {}):
            if "/" in one.get("repository", "") and one.get("source", "hub") == "hub":
                by_name.setdefault(one["repository"], set()).add(one.get("revision") or "")
    for repository, pinned in sorted(by_name.items()):
        try:
            head = within(web.json(f"https://huggingface.co/api/models/{quote(repository)}"), "sha")
        except NoAnswerError as problem:
            yield problem.line(f"model {repository}", 401, 404)  # the hub says 401 of what is not there
            continue
        pins, before = pinned - {""}, kept.get(repository)
        if pins and head not in pins:
            yield f"changed model {repository}: {head}; recipes pin {', '.join(sorted(pins))}"
        elif not pins and before and before != head:
            yield f"changed model {repository}: {head}; the last run found {before}"
        kept[repository] = head


def sources(written: object) -> Iterator[str]:
    """Newer commits of fleet_recipe_sources; git runs nothing of them."""
    found, findings = read_sources_of(written)
    for finding in findings:
        yield f"broken source: {finding.sentence()}"
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https", "GIT_ASKPASS": "false"}
    for source in found:
        if "git" not in source:
            continue
        command = ["git", "-c", "credential.helper=", "ls-remote", "--", source["git"], "HEAD"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
        except subprocess.TimeoutExpired:
            yield f"unknown source {source['name']}: no answer"
            continue
        head = done.stdout.split()[:1]
        if done.returncode or not head:
            yield f"broken source {source['name']}: {one_line(done.stderr.strip()[-120:] or 'it has no branch', 120)}"
        elif head[0] != source.get("commit"):
            yield f"new commit {one_line(head[0], 40)} of source {source['name']}; declared is {source.get('commit')}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="What is new, what has changed and what is broken.")
    parser.add_argument("--recipes", type=Path, metavar="DIR", action="append", default=[])
    parser.add_argument("--sources", type=Path, metavar="FILE", help="a YAML file with fleet_recipe_sources")
    parser.add_argument("--state", type=Path, metavar="FILE", help="what the last run found")
    parser.add_argument("--elsewhere", metavar="URL=URL", action="append", default=[], help="a mirror of an address")
    given = parser.parse_args(arguments)
    web = Web(dict(one.split("=", 1) for one in given.elsewhere))
    library, _ = load_all([*given.recipes, SHIPPED_RECIPES])
    kept: dict[str, dict[str, str]] = {"images": {}, "models": {}}
    if given.state and given.state.is_file():
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            read = json.loads(given.state.read_text("utf-8"))
            kept = {part: {str(key): str(value) for key, value in read[part].items()} for part in kept if part in read}
            kept = {"images": {}, "models": {}} | kept
    lines = [
        *engines(web),
        *images(web, library.recipes, kept["images"]),
        *models(web, library.recipes, kept["models"]),
    ]
    if given.sources:
        written = yaml.safe_load(given.sources.read_text("utf-8"))
        lines += sources(written.get("fleet_recipe_sources") if isinstance(written, dict) else written)
    if given.state:
        given.state.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
    order = ("broken", "changed", "new", "unknown")
    for line in sorted(lines, key=lambda one: order.index(one.split()[0])):
        print(line)
    print(f"{len(lines)} lines" if lines else "nothing new")
    return 1 if any(line.startswith("broken") for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
