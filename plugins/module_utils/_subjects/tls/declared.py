# SPDX-License-Identifier: GPL-3.0-or-later
"""``tls`` of a service, and ``fleet_tls`` for all that have none: files on the controller, the owner's or ours."""

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from ..._base import secret_files, worded
from ..._base.addresses import is_address
from ..._base.findings import Finding
from ..._base.forms import forms
from ..._base.place import Place
from ..._base.schema import Spec
from ..._engines.declaration import Tls

LOCAL, NONE = "local", "none"
NAME_PATTERN = r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*"
_REACHED_BY: Spec = {
    "type": "str",
    "max": 253,
    "pattern": rf"{NAME_PATTERN}|[0-9a-fA-F:.]+",
    "expected": "a name or an address that leads clients to the service",
}
TLS = forms("tls", word={"type": "str", "choices": [LOCAL, NONE]}, reached_by=_REACHED_BY)["tls"]


class OwnTls(TypedDict, total=False):
    """``tls`` as a map."""

    certificate: str
    key: str
    names: list[str]


# Beside the inventory, in folders that no inventory plugin reads.
_AUTHORITY = ".fleet/ca/ca"
_MADE = ".fleet/certificates"
# Reached on the host itself, by its owner and by whatever watches it there.
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def authority(folder: Path) -> str:
    """The certificate of the local CA; its key lies beside it."""
    return str(folder / f"{_AUTHORITY}.crt")


def decide(
    name: str, place: Place, written: str | OwnTls | None, reached_by: Iterable[str], folder: Path
) -> Generator[Finding, None, Tls | None]:
    """``tls`` of what is called so; None without encryption.

    written: the checked ``tls``, at ``place``. reached_by: name and addresses of the head. folder: the inventory's.
    """
    if written is None or written == NONE:
        return None
    named: OwnTls = {} if isinstance(written, str) else written
    own = {key: str(folder / path) for key, path in named.items() if isinstance(path, str)}
    if len(own) == 1:
        (only,) = own
        yield worded.error("input-tls/decide", place, only=only)
        return None
    reached = [name for name in dict.fromkeys(reached_by) if re.fullmatch(NAME_PATTERN, name) or is_address(name)]
    names = list(named.get("names", ()))
    main = names[0] if names else ""
    if own:
        yield from _file_problems(place, own)
        return Tls(certificate=own["certificate"], key=own["key"], ca=None, names=names or reached[-1:], main=main)
    made = {key: str(folder / f"{_MADE}/{name}.{end}") for key, end in _ENDS.items()}
    every = [*dict.fromkeys([*names, *reached, *_LOOPBACK])]
    return Tls(certificate=made["certificate"], key=made["key"], ca=authority(folder), names=every, main=main)


_ENDS = {"certificate": "crt", "key": "key"}


def _file_problems(place: Place, own: Mapping[str, str]) -> Iterator[Finding]:
    for key, path in own.items():
        if not Path(path).is_file():
            yield worded.error("input-tls/file-problems", place.below(key), path=path, key=key, local=LOCAL)
        elif key == "key" and not secret_files.is_encrypted(Path(path)):
            yield from secret_files.others_may_read("input-tls", place.below(key), Path(path))
