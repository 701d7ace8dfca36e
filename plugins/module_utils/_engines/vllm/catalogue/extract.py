# SPDX-License-Identifier: GPL-3.0-or-later
"""From a vLLM package to its catalogue: static, standard library only, a second or two per release.

The same function reads a release's source archive and the `vllm` directory inside an image whose build is unknown.
"""

from collections.abc import Mapping
from pathlib import Path

from ...._base.findings import refusal
from .options import read_options
from .registries import read_registries, read_variables
from .releases import Release
from .source import Source, Tree


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
