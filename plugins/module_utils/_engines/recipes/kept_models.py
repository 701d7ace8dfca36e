# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints (`_facts.models.checkpoint`) that were read once, kept beside the inventory: plans need no hub from then
on."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..._base import own_files
from ..._base.findings import FleetError, error
from ..._base.own_files import replace_file
from ..._base.place import Place
from ..._facts.models.checkpoint import WANTED, Checkpoint, checkpoint_of, read_gguf, require, sizes_of
from ..._stores.weights.hub_api import HubApi, HubError

# Ansible reads no hidden folder as an inventory.
FOLDER = ".fleet/models"
_MOST_BYTES = 8 << 20


def file_of(folder: Path, repository: str) -> Path:
    """folder: of the inventory."""
    return folder / FOLDER / f"{repository.replace('/', '--')}.json"


def read_kept(folder: Path, note: Callable[[str], None] | None = None) -> dict[str, Checkpoint]:
    """All checkpoints that are kept, by repository; a damaged file is set aside.

    note: is given a sentence for a person; None for who may not change anything.
    """
    found = {}
    for path in sorted((folder / FOLDER).glob("*.json")):
        one = own_files.read(path, _parse, note)
        if one is not None and file_of(folder, one["repository"]) == path:
            found[one["repository"]] = one
    return found


def keep(folder: Path, checkpoint: Checkpoint) -> None:
    file = file_of(folder, checkpoint["repository"])
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, (json.dumps(checkpoint, indent=1, sort_keys=True) + "\n").encode())


def read_hub(api: HubApi, repository: str, revision: str | None = None, file: str | None = None) -> Checkpoint:
    """A model's checkpoint as the hub has it. file: the wanted GGUF file or size. Raises FleetError."""
    try:
        answer = api.model(repository, revision)
        commit, sizes = sizes_of(answer, repository)
        texts = {name: api.file(repository, commit, name, most) for name, most in WANTED.items() if name in sizes}
        header = read_gguf(sizes, file, lambda name: api.beginning(repository, commit, name))
    except HubError as problem:
        raise FleetError(_no_answer(api, repository, problem)) from None
    return checkpoint_of(repository, commit, sizes, texts, f"{api.address}, commit {commit[:12]}", answer, header)


def read_folder(folder: Path, repository: str, source: str) -> Checkpoint:
    """The checkpoint of a model whose files lie in a folder. source: in words. Raises FleetError."""
    try:
        sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
        texts = {}
        for name in WANTED.keys() & sizes.keys():
            if sizes[name] <= WANTED[name]:
                texts[name] = (folder / name).read_bytes()
        header = read_gguf(sizes, None, lambda name: _opened(folder / name))
    except OSError as problem:
        found = problem.strerror or str(problem)
        raise FleetError(
            error(
                "model-read",
                str(folder),
                found=found,
                expected="a folder with a model's config.json",
                remedy="correct the path",
            )
        ) from None
    return checkpoint_of(repository, None, sizes, texts, source, None, header)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Callable[[int], bytes]]:
    with path.open("rb") as stream:
        yield stream.read


def _parse(content: bytes) -> Checkpoint:
    if len(content) > _MOST_BYTES:
        raise ValueError(f"it has {len(content)} bytes; expected at most {_MOST_BYTES}")
    try:
        return require(json.loads(content), Place())
    except FleetError as problem:
        # nobody is to mend the file, so that its remedy is none
        wrong = problem.findings[0]
        raise ValueError(f"{wrong.place}: {wrong.found}".removeprefix(": ")) from None


def _no_answer(api: HubApi, repository: str, problem: HubError) -> Any:
    if problem.status in (401, 403, 404):
        expected = "a model that the hub gives to this user"
        remedy = "correct the name, or the revision; for a gated or private model set HF_TOKEN for this command"
    else:
        expected = "an answer, once: what it says is kept beside the inventory"
        remedy = (
            "run again where the hub can be reached (HTTPS_PROXY and HF_ENDPOINT count); or read it from a folder: "
            f"ansible-playbook gb10.fleet.recipe_new -e model={repository} -e recipe_new_folder=FOLDER (and -e "
            "recipe_new_host=HOST for one on a host)"
        )
    return error(
        "model-read", f"{api.address}, model {repository}", found=str(problem), expected=expected, remedy=remedy
    )
