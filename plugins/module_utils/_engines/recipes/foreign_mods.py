# SPDX-License-Identifier: GPL-3.0-or-later
"""Patches of an image ("mods") that lie beside another project's recipe: a file of data becomes an overlay, a script
that needs no network a step of an image that a host builds itself. Nothing of them runs on the controller."""

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from ..._base import worded
from ..._base.findings import Finding

SCRIPT = "run.sh"
_SILENT = re.compile(r"\s*(#.*|set -\w+( pipefail)?|echo\b[^$`;&|<>()]*)?")
_COPY = re.compile(
    r"\s*cp (?P<file>(?!\.)[\w.-]+\.(jinja|json)) \"?\$\{?WORKSPACE_DIR\}?/(?P<name>(?!\.)[\w.-]+)\"?\s*"
)
_NETWORK = re.compile(r"\b(curl|wget|pip3?|uv|apt(-get)?|git\s+(clone|fetch|pull)|hf|https?:)\b")
_PATH = re.compile(r"(?!\.)[A-Za-z0-9_.-]+(/(?!\.)[A-Za-z0-9_.-]+)*")


def made(
    recipe: dict[str, Any], findings: list[Finding], mods: Mapping[str, Mapping[str, str]], name: str
) -> tuple[list[Finding], dict[str, str]]:
    """Change a recipe that was imported, so that it has what was made of its mods; what is left to say of it, and the
    files to be written below the recipe's folder, by path. mods: the texts of their folders, in the author's order."""
    files: dict[str, str] = {}
    steps: dict[str, Mapping[str, str]] = {}
    done: dict[str, str] = {}
    for mod, texts in mods.items():
        lines = [line for line in texts.get(SCRIPT, "").splitlines() if not _SILENT.fullmatch(line)]
        copies = [found for line in lines if (found := _COPY.fullmatch(line)) and found["file"] in texts]
        if lines and len(copies) == len(lines):
            for file, text in ((copy["name"], texts[copy["file"]]) for copy in copies):
                files[f"overlays/{file}"] = text
                kept: dict[str, Any] = {"target": f"/overlays/{file}", "file": file, "sha256": _sum(text)}
                kept |= {"reason": f"the recipe's mods/{mod} puts it into the image", "source": f"mods/{mod}"}
                recipe["overlays"].append(kept)
                if any(finding.found.startswith(f"chat-template {file},") for finding in findings):
                    recipe["flags"]["chat-template"] = f"/overlays/{file}"
                    done[f"chat-template {file},"] = "its file is an overlay"
            done[f"{mod} patches"] = "its files are overlays"
        elif lines and not _NETWORK.search("\n".join(lines)) and all(map(_PATH.fullmatch, texts)):
            steps[mod] = texts
            done[f"{mod} patches"] = f"builds/{name} makes an image with it"
    return [*_reported(findings, done, name)], files | (_build(recipe, steps, name) if steps else {})


def _build(recipe: dict[str, Any], steps: Mapping[str, Mapping[str, str]], name: str) -> dict[str, str]:
    """The folder of a build over the recipe's image, a step for each mod."""
    image = recipe["image"]
    lines = [f"FROM {image['reference']}", "ENV WORKSPACE_DIR=/workspace"]
    for mod in steps:
        lines += [f"COPY {mod} /workspace/mods/{mod}", f"WORKDIR /workspace/mods/{mod}", f"RUN bash {SCRIPT}"]
    texts = {f"{mod}/{path}": text for mod, of in steps.items() for path, text in of.items()}
    dockerfile = "\n".join([*lines, "WORKDIR /", ""])
    build = {
        "summary": f"{image['reference']} with {', '.join(steps)}",
        "note": "made by an import; nobody of this project has built it",
        "dockerfile": _sum(dockerfile),
        "files": {path: _sum(text) for path, text in texts.items()},
        "bases": {image.pop("reference"): image.pop("digest")},
        "sources": [*recipe["sources"]],
    }
    image |= {"build": name, "digest": None}
    texts |= {"Dockerfile": dockerfile, "build.yml": json.dumps(build, indent=1) + "\n"}
    return {f"builds/{name}/{path}": text for path, text in texts.items()}


def _sum(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _reported(findings: list[Finding], done: Mapping[str, str], name: str) -> Iterator[Finding]:
    """The findings; of what was made, a hint."""
    for one in findings:
        how = next((how for begins, how in done.items() if one.found.startswith(begins)), "")
        yield worded.hint("import-mod/made", f"{name}.mods", found=one.found, how=how) if how else one
