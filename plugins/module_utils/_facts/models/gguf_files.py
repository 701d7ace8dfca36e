# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GGUF file of a repository a name means: ``org/name:Q4_K_M`` as llama-server's own ``-hf`` has it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .stored import GGUF, shards_of

# A model as a service writes it in one word.
NAMED = r"[\w.-]+/[\w.-]+(:[\w.-]+|(/[\w.-]+)+\.gguf)?"
# What llama-server takes where no size is named (common/download.cpp).
_USUAL = "Q4_K_M"
_PROJECTOR, _NO_MODEL = re.compile(r"mmproj", re.IGNORECASE), re.compile(r"mmproj|imatrix", re.IGNORECASE)
_SIZE = re.compile(r"(?:^|[-._/])((?:UD-)?(?:I?Q\d|TQ\d|MXFP4|NVFP4|BF16|FP?16|FP?32)\w*)$", re.IGNORECASE)
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")


def named_model(written: object) -> dict[str, Any]:
    """``model`` of a service as a map: organisation/name, and behind a colon a GGUF file's size, or behind a slash the
    file."""
    if not isinstance(written, str):
        return dict(written) if isinstance(written, Mapping) else {}
    repository, _, size = written.partition(":")
    organisation, _, rest = repository.partition("/")
    name, _, file = rest.partition("/")
    return {"repository": f"{organisation}/{name}", **({"file": file or size} if file or size else {})}


def whole_files(sizes: Mapping[str, int]) -> dict[str, int]:
    """The GGUF files of a repository that are there whole, by the name of their first part, with all parts' bytes."""
    found = {}
    for name in sizes:
        if re.fullmatch(str(GGUF["pattern"]), name) and len(name) <= GGUF["max"]:
            parts = shards_of(name)
            if all(part in sizes for part in parts):
                found[name] = sum(sizes[part] for part in parts)
    return found


def projector_file(files: Mapping[str, int]) -> str | None:
    """The file that makes tokens of pictures: of several the one in 16 bits, whose kind is known best."""
    names = sorted(name for name in files if _PROJECTOR.search(name))
    return min(names, key=lambda name: ("f16" not in name.lower().replace("bf16", ""), name), default=None)


def size_name(file: str) -> str:
    """How a model's file is packed, as Q4_K_M, by its name; empty where that does not say."""
    found = _SIZE.search(_SHARD.sub("", file.removesuffix(".gguf")))
    return found[1].upper() if found else ""


def meant(files: Mapping[str, int], wanted: str | None) -> list[str]:
    """The model's files that a name may mean; one where it is clear. wanted: a file, a size, or nothing."""
    models = [name for name in sorted(files) if not _NO_MODEL.search(name)]
    if wanted in models or (wanted is None and len(models) == 1):
        return [wanted or models[0]]
    size = (wanted or _USUAL).upper()
    exact = [name for name in models if size_name(name) == size]
    return exact or [name for name in models if wanted and size_name(name) == f"UD-{size}"]


def sizes_to_name(files: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """What a person can write behind the repository, a size where it is one file's alone; each with that file."""
    models = [name for name in files if not _NO_MODEL.search(name)]
    names = [size_name(name) for name in models]
    for name in sorted(models, key=files.__getitem__):
        yield size_name(name) if size_name(name) and names.count(size_name(name)) == 1 else name, name
