# SPDX-License-Identifier: GPL-3.0-or-later
"""By what names the stores of hosts, their peers and the lock know models: a repository whole, ``org/name``, or one
GGUF file of it with its further parts, ``org/name/Q4_K_M/model-00001-of-00003.gguf``.

Each such file is a model of its own, with a manifest, a seal, a revision and a folder of its own: a repository has the
same model in twenty sizes, of which services want one each.
"""

import re

from ..._base.schema import Spec

_STEP = "[A-Za-z0-9_][A-Za-z0-9_.-]*"
_REPOSITORY = "[A-Za-z0-9_.-]{1,128}/[A-Za-z0-9_.-]{1,128}"
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_MOST_PARTS = 999
# The folder of a cache spells a slash as "--", so that no name may have that; its length is a file system's.
_SPELT = "(?!.*--)"
_OTHER_PART = r"(?!.*-(?!00001-of-00(?!000)\d{3}\.)\d{5}-of-\d{5}\.gguf)"
_PATH = rf"{_SPELT}{_OTHER_PART}{_STEP}(/{_STEP})*\.gguf"

# A file below its repository. Every part of one that is split is found from the first.
GGUF: Spec = {
    "type": "str",
    "max": 140,
    "pattern": _PATH,
    "expected": "a file of the model's repository that ends in .gguf, of one that is split the first part; of letters, "
    "digits and _.- alone, without --",
}
STORED: Spec = {
    "type": "str",
    "required": True,
    "max": 400,
    "pattern": rf"{_REPOSITORY}(/{_PATH})?",
    "expected": "the hub's id, organisation/name, or one GGUF file of it, organisation/name/FILE.gguf",
}


def stored_name(repository: str, file: str | None = None) -> str:
    """file: below the repository; None for all of it."""
    return f"{repository}/{file}" if file else repository


def repository_of(name: str) -> str:
    """The hub's id in a name that fits `STORED`."""
    return "/".join(name.split("/", 2)[:2])


def files_of(name: str) -> list[str] | None:
    """The files of its repository that a name which fits `STORED` stands for; None for all of them."""
    repository = repository_of(name)
    return None if name == repository else shards_of(name.removeprefix(f"{repository}/"))


def shards_of(file: str) -> list[str]:
    """All files of a model that is split, by the name of its first one; a file alone for one that is not.

    Raises ValueError for a name of another part than the first.
    """
    found = _SHARD.fullmatch(file)
    if found is None:
        return [file]
    count = int(found["count"])
    if int(found["number"]) != 1 or not 0 < count <= _MOST_PARTS:
        raise ValueError(f"{file} is not the first of its parts, {found['stem']}-00001-of-{found['count']}.gguf")
    return [f"{found['stem']}-{number:05}-of-{found['count']}.gguf" for number in range(1, count + 1)]
