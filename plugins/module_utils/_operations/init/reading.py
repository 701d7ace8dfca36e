# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine shows of itself before it is declared, as a type: its answer is checked by it once."""

from typing import Annotated, TypedDict

from ..._base.reading import Platform
from ..._base.received import LINE, one_line
from ..._base.schema import Spec
from ..._base.typed import Limits, spec_of

_Line = Annotated[str, Limits(max=200, pattern=LINE, expected="a line of text")]
_Word = Annotated[str, Limits(max=4000, pattern=LINE, expected="a line of text")]
_Path = Annotated[str, Limits(max=400, pattern=r"/[\w./@+-]+", expected="a path")]
# What a person may paste into a shell.
_Plain = Annotated[str, Limits(max=200, pattern=r"[\w./@:+\\-]*", expected="a plain name or path")]
_DAEMON = (
    r"(sudo )?(docker( -H unix:///run/user/\d+/docker\.sock)?|"
    r"(runuser -u [\w.-]+ -- env XDG_RUNTIME_DIR=/run/user/\d+ )?podman)"
)
_CONTAINER_END = rf"({_DAEMON} update --restart=no [\w.-]+ && )?{_DAEMON} stop [\w.-]+"
_UNIT_END = (
    r"sudo (systemctl (--user -M [\w.-]+@ )?((disable|mask) --now|stop) [\w@.:\\-]+|docker service scale [\w.-]+=0)"
)
_End = Annotated[str, Limits(max=600, pattern=f"({_CONTAINER_END}|{_UNIT_END})?", expected="how a server is ended")]
_Name = Annotated[str, Limits(max=64, pattern=r"[A-Za-z0-9_][A-Za-z0-9_.-]*", expected="a name")]
_Address = Annotated[str, Limits(pattern=r"[0-9.]{7,15}/[0-9.]{1,15}", expected="an address with its prefix")]


class Half(TypedDict):
    """master: the bond or bridge that it is a part of, empty without."""

    master: _Line
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
    """An engine that serves here, without what may be a secret.

    words: of its command, behind the program. withheld: options and variables whose values stayed on the host.
    by: the command that shows its container; empty without one, hidden where neither Docker nor Podman does.
    closed: whether its container has a network of its own; published: {port inside: address:port of the host}.
    changed: files of its Python packages that its image has otherwise. ends: the command that ends it for good.
    over: {path in its container: file of the host that lies there, over its image's code}.
    returns: whether it comes back after a reboot. folder: of the host, with its weights; commit: theirs. paths: other
    files and folders of the host that its words name. release: of vLLM, as it says.
    """

    engine: Annotated[str, Limits(choices=["vllm", "sglang", "llama-cpp", "trtllm"])]
    words: Annotated[list[_Word], Limits(max=500)]
    withheld: Annotated[list[_Name], Limits(max=200)]
    env: dict[_Name, _Line]
    image: _Plain
    digest: Annotated[str, Limits(pattern="(sha256:[0-9a-f]{64})?", expected="a digest")]
    by: Annotated[str, Limits(max=200, pattern=f"(hidden|{_DAEMON})?", expected="a command of Docker or Podman")]
    closed: bool
    published: dict[_Name, _Line]
    changed: Annotated[list[_Line], Limits(max=64)]
    ends: _End
    over: dict[_Path, _Path]
    returns: bool
    folder: _Line
    commit: Annotated[str, Limits(pattern="([0-9a-f]{40})?", expected="a commit")]
    paths: Annotated[list[_Path], Limits(max=64)]
    release: Annotated[str, Limits(max=40, pattern=r"(\d+\.\d+\.\d+)?", expected="a release")]


class Ours(TypedDict):
    """A service of an inventory of this collection. model: its name for clients; port: theirs. A rank that answers no
    client has neither."""

    service: _Name
    inventory: _Plain
    model: _Line
    port: Annotated[int, Limits(min=0, max=65535)]


class Ray(TypedDict):
    """A member of a cluster of Ray or MPI: the address of its head."""

    head: _Line


class Reading(TypedDict):
    platform: Platform
    memory_kib: Annotated[int, Limits(min=1 << 20, max=1 << 40)]
    free_bytes: Annotated[int, Limits(min=0, max=1 << 60)]
    management: Annotated[list[_Name], Limits(max=16)]
    networks: dict[_Line, list[_Address]]
    halves: dict[_Name, Half]
    seen: Annotated[list[Seen], Limits(max=4096)]
    claims: Annotated[list[Claim], Limits(max=256)]
    addresses: Annotated[list[_Line], Limits(max=256)]
    serving: Annotated[list[Serving], Limits(max=64)]
    ours: Annotated[list[Ours], Limits(max=64)]
    ray: Annotated[list[Ray], Limits(max=16)]
    beside: dict[_Name, Annotated[int, Limits(min=0, max=1 << 40)]]


FORM: Spec = {"type": "map", "options": {"reading": {**spec_of(Reading), "required": True}}}


def maker(reading: Reading) -> str:
    """What its firmware calls a machine, in one line."""
    vendor, product = (one_line(reading["platform"][key] or "").replace("_", " ") for key in ("vendor", "product"))
    text = " ".join((product if product.startswith(vendor) else f"{vendor} {product}").split())
    return one_line(text, 60) or "unknown maker"
