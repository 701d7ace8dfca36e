# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine shows of itself before it is declared, as a type: its answer is checked by it once."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from ..._base.reading import Platform
from ..._base.received import LINE
from ..._base.schema import Spec
from ..._base.typed import Limits, spec_of

_Line = Annotated[str, Limits(max=200, pattern=LINE, expected="a line of text")]
_Name = Annotated[str, Limits(max=64, pattern=r"[A-Za-z0-9_][A-Za-z0-9_.-]*", expected="a name")]
_Address = Annotated[str, Limits(pattern=r"[0-9.]{7,15}/[0-9.]{1,15}", expected="an address with its prefix")]


class Half(TypedDict):
    carrier: bool
    mtu: int
    addresses: list[_Address]


class Seen(TypedDict):
    """A frame that came by a half of this host from a half of another one."""

    half: _Name
    host: _Name
    far: _Name


class Claim(TypedDict):
    """A netplan file, or a profile of NetworkManager's, that speaks for a half."""

    path: _Line
    claims: list[_Name]


class Serving(TypedDict):
    """A vLLM that runs here: `SERVED` of its options, and nothing else of its command line."""

    model: _Line
    options: dict[_Name, _Line]


class Reading(TypedDict):
    platform: Platform
    memory_kib: Annotated[int, Limits(min=1 << 20, max=1 << 40)]
    free_bytes: Annotated[int, Limits(min=0, max=1 << 60)]
    management: Annotated[list[_Name], Limits(max=16)]
    networks: dict[_Line, list[_Address]]
    halves: dict[_Name, Half]
    seen: Annotated[list[Seen], Limits(max=4096)]
    claims: Annotated[list[Claim], Limits(max=256)]
    serving: Annotated[list[Serving], Limits(max=64)]


FORM: Spec = {"type": "map", "options": {"reading": {**spec_of(Reading), "required": True}}}

# Of a command line only these options leave the host: another one may hold a key.
SERVED = (
    "max-model-len",
    "max-num-seqs",
    "node-rank",
    "nnodes",
    "port",
    "served-model-name",
    "tensor-parallel-size",
)


def serving(command: Sequence[str]) -> dict[str, Any] | None:
    """A `Serving` of a process's command line; None of any other program."""
    words = [*command]
    at = next((at for at, word in enumerate(words[:4]) if word == "serve"), 0)
    if not at or words[at - 1].rpartition("/")[2] != "vllm":
        return None
    options: dict[str, str] = {}
    for word, after in zip(words[at:], [*words[at + 1 :], ""], strict=True):
        name, is_set, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name.replace("_", "-") in SERVED:
            options[name.replace("_", "-")] = value if is_set else after
    named = words[at + 1] if len(words) > at + 1 and not words[at + 1].startswith("-") else ""
    if "headless" in {word.removeprefix("--") for word in words[at:]} or options.get("node-rank", "0") != "0":
        options["node-rank"] = options.get("node-rank", "1")
    kept = {name: value for name, value in options.items() if re.fullmatch(LINE, value) and len(value) <= 200}
    return {"model": named, "options": kept} if named and re.fullmatch(LINE, named) and len(named) <= 200 else None


def maker(reading: Mapping[str, Any]) -> str:
    """What its firmware calls a machine, in one line."""
    vendor, product = ((reading["platform"][key] or "").replace("_", " ") for key in ("vendor", "product"))
    text = " ".join((product if product.startswith(vendor) else f"{vendor} {product}").split())
    return "".join(one for one in text if one.isprintable())[:60] or "unknown maker"
