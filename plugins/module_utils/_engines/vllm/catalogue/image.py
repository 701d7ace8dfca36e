# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of a vLLM that lies in a container image: taken out of a container that is never started."""

import json
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...._base import own_files
from ...._base.findings import FleetError, refusal
from ...._base.sizes import size
from .options import read_options
from .registries import read_registries, read_variables
from .releases import Release
from .source import Source, Tree
from .store import store
from .version import parse


def extract(files: Mapping[str, str], version: str) -> Release:
    """What a package knows. files: path to text, paths from the package's parent, e.g. ``vllm/envs.py``.

    FleetError if it doesn't look like vLLM's package.
    """
    source = Source(files)
    options = {option.name: option for option in read_options(source)}
    variables = {variable.name: variable for variable in read_variables(source)}
    if not options or not variables:
        raise refusal(
            "catalogue-not-vllm",
            f"vLLM package {version}",
            found=f"{len(options)} options and {len(variables)} variables read",
            expected="vllm/entrypoints/cli/serve.py and vllm/envs.py as the releases since 0.11.0 have them",
            remedy="give the directory that holds `vllm`, e.g. .../site-packages",
            kind="catalogue",
        )
    return Release(version, options, variables, read_registries(source))


def extract_tree(root: Path, version: str) -> Release:
    """The same for a directory that holds the package `vllm`, e.g. ``.../site-packages``."""
    return extract(Tree(root), version)


# A number that no rule's range holds, for builds without a usable one.
_NO_NUMBER = "0.0.0"
# What is read of an image at most: of one file, and of all. vLLM 0.32.0 has 2,642 of them, 39 MB, the largest 0.3 MB.
_FILE_BYTES, _ALL_BYTES = 8 << 20, 256 << 20
_PYTHONS = ("3.12", "3.13", "3.11", "3.10", "3.14")


def catalogue_of_folder(folder: Path) -> dict[str, Any]:
    """{version, catalogue} of a directory that holds the package `vllm`, or of the package itself."""
    root = folder.parent if folder.name == "vllm" and (folder / "envs.py").exists() else folder
    file = root / "vllm" / "_version.py"
    version = _version(file.read_text("utf-8", "replace") if file.exists() else "")
    return _answer(version, store([extract_tree(root, _number(version))]))


def catalogue_of_image(docker: str, reference: str, package: str | None, cache: Path | None) -> dict[str, Any]:
    """{version, catalogue, image_id} of an image that the engine has; FleetError says what was missing.

    package: the package's folder in the image, else the usual places are tried. cache: where answers are kept by id.
    """
    inspected = _inspect(docker, reference)
    identity = str(inspected["Id"])
    kept = cache / (identity.replace(":", "-") + ".json") if cache else None
    known = own_files.look(kept, _parse)[0] if kept else None
    if known:
        return {**known, "image_id": identity}
    files = _files(docker, identity, [package] if package else _places(inspected))
    version = _version(files.get("vllm/_version.py", ""))
    answer = _answer(version, store([extract(files, _number(version))]))
    if kept:
        own_files.replace_file(kept, json.dumps(answer).encode())
    return {**answer, "image_id": identity}


def _answer(version: str | None, catalogue: Mapping[str, object]) -> dict[str, Any]:
    return {"version": version, "catalogue": catalogue}


def _parse(content: bytes) -> dict[str, Any]:
    answer = json.loads(content)
    return _answer(answer["version"], {**answer["catalogue"]})


def _version(text: str) -> str | None:
    """The version that setuptools-scm wrote into `vllm/_version.py`."""
    match = re.search(r"^(?:__version__ = )?version = ['\"]([^'\"]+)", text, re.MULTILINE)
    return match[1] if match else None


def _number(version: str | None) -> str:
    build = parse(version) if version else None
    return ".".join(map(str, build.release)) if build else _NO_NUMBER


def _inspect(docker: str, reference: str) -> Mapping[str, Any]:
    done = _run([docker, "image", "inspect", reference])
    if done.returncode:
        raise _refused(
            reference,
            found=_last_line(done.stderr),
            expected="an image that the engine has",
            remedy="pull or load it first",
        )
    found: Mapping[str, Any] = json.loads(done.stdout)[0]
    return found


def _places(inspected: Mapping[str, Any]) -> list[str]:
    """Where images keep Python packages: a virtual environment that they name, then the usual folders."""
    variables = dict(entry.partition("=")[::2] for entry in inspected.get("Config", {}).get("Env") or ())
    environment = variables.get("VIRTUAL_ENV")
    homes = [f"{environment}/lib/python{version}/site-packages" for version in _PYTHONS if environment]
    homes += [f"/usr/local/lib/python{version}/dist-packages" for version in _PYTHONS]
    homes += [f"/usr/local/lib/python{version}/site-packages" for version in _PYTHONS]
    homes += [f"/opt/venv/lib/python{version}/site-packages" for version in _PYTHONS]
    homes += ["/usr/lib/python3/dist-packages", "/opt/vllm", "/workspace/vllm", "/app/vllm"]
    return [home + "/vllm" for home in homes]


def _files(docker: str, image: str, places: Sequence[str]) -> dict[str, str]:
    """The package's Python files out of a container made for it, which is removed again."""
    created = _run([docker, "create", "--network", "none", "--entrypoint", "true", image])
    if created.returncode:
        raise _refused(
            image,
            found=_last_line(created.stderr),
            expected="a container made from it",
            remedy="see what the engine says",
        )
    container = created.stdout.strip()
    try:
        for place in places:
            files = dict(_copied(docker, f"{container}:{place}"))
            if files:
                return files
    finally:
        _run([docker, "rm", "--volumes", container])
    tried = ", ".join(places[:3]) + (", ..." if len(places) > 3 else "")
    raise _refused(image, found="no package vllm", expected=f"one in {tried}", remedy="give its folder as package")


def _copied(docker: str, source: str) -> Iterator[tuple[str, str]]:
    """The Python files of a folder, as the engine streams them; nothing where there is no such folder."""
    left = _ALL_BYTES
    with subprocess.Popen([docker, "cp", source, "-"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as copying:
        try:
            with tarfile.open(fileobj=copying.stdout, mode="r|") as stream:
                for member in stream:
                    file = stream.extractfile(member) if member.name.endswith(".py") and member.isfile() else None
                    if file is not None:
                        left -= member.size
                        if member.size > _FILE_BYTES or left < 0:
                            copying.kill()
                            raise _too_large(source, member)
                        path = member.name.removeprefix("./")
                        yield "vllm/" + path.split("/", 1)[-1], file.read().decode("utf-8", "replace")
        except tarfile.ReadError:
            return


def _too_large(place: str, member: tarfile.TarInfo) -> FleetError:
    return _refused(
        place,
        found=f"{member.name[:200]!r} of {size(member.size)}",
        expected=f"Python files of at most {size(_FILE_BYTES)} each and {size(_ALL_BYTES)} in all, as vLLM has them",
        remedy="use an image that you trust; write the release into the recipe's `image.release` to have none read",
    )


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        return subprocess.CompletedProcess(words, 127, "", f"{words[0]}: {error.strerror}")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no answer"


def _refused(place: str, *, found: str, expected: str, remedy: str) -> FleetError:
    return refusal("catalogue-image", place, found=found, expected=expected, remedy=remedy, kind="catalogue")
