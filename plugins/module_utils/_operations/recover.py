# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a lost controller, made again from what hosts were given of them."""

import base64
import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

from .._base import worded
from .._base.managed import Managed
from .._base.plan import Plan
from .._base.slice import Slice
from .._subjects.gateway.clients import clients_file, names_of
from .drift.managed import managed_files

_WORD = re.compile(r"[^\s\"'=]+")


def copies(slice_: Slice) -> list[dict[str, str]]:
    """The files of a host that were made from files of the controller: ``path`` and ``source``."""
    return [{"path": file.path, "source": file.source} for file in managed_files(slice_) if file.source]


def recovered(plan: Plan, read: Mapping[str, Iterable[Mapping[str, Any]]], key: str) -> dict[str, Any]:
    """``files``: the text of each file that hosts agree on; ``warnings``: what is lost of each, or with it.

    read: by host the results of ``ansible.builtin.slurp`` for `copies`. key: a new key of the gateway.
    """
    found: dict[str, dict[str, str]] = {}
    for host, results in read.items():
        files = {file.path: file for file in managed_files(plan["hosts"][host])}
        for result in results:
            file = files[result["item"]["path"]]
            with contextlib.suppress(ValueError):
                texts = found.setdefault(file.source, {})
                if text := source_text(file, base64.b64decode(result.get("content") or "").decode()):
                    texts[host] = text
    agreed = {source: next(iter(texts.values())) for source, texts in found.items() if len({*texts.values()}) == 1}
    warnings = []
    for source in sorted(found.keys() - agreed.keys()):
        if hosts := ", ".join(found[source]):
            warnings.append(worded.warning("recover-lost/hosts", source, path=source, hosts=hosts))
        else:
            warnings.append(worded.warning("recover-lost/file", source, path=source))
    for source in sorted(agreed):
        if plan["gateway"] and source == plan["gateway"]["clients"]:
            programs = [client["client"] for client in plan["clients"]] or ["recovered"]
            agreed[source], without = with_keys(agreed[source], programs, key)
            warnings.append(worded.warning("recover-clients", source, path=source, names=", ".join(without)))
        elif PurePath(source).parts[-3:] == (".fleet", "ca", "ca.crt"):
            warnings.append(worded.warning("recover-ca", source, path=source))
    return {"files": agreed, "warnings": [one.sentence() for one in warnings]}


def source_text(file: Managed, there: str) -> str:
    """The text of the controller's file; empty if the host keeps too little of it.

    there: the file of the host. A guess counts only if the host's file can be made from it again.
    """
    headers = (line.partition("=") for line in there.strip().split(","))
    sent = "\n".join(f"{unquote(name)}: {unquote(value)}" for name, _equals, value in headers)
    for guess in (there, *_WORD.findall(there), clients_file(there), sent):
        with contextlib.suppress(ValueError, LookupError):
            if guess.strip() and file.rendered(guess) == there:
                return f"{guess.strip()}\n"
    return ""


def with_keys(text: str, programs: Iterable[str], key: str) -> tuple[str, list[str]]:
    """The file of the gateway's clients with a new key for these, and the clients that have digests alone."""
    fresh = {name: f"{key}-{number}" for number, name in enumerate(programs)}
    rows = [line for line in text.splitlines() if line.split(":")[0].strip('"') not in fresh]
    rows += [f'"{name}": {made}' for name, made in fresh.items()]
    return "\n".join((*rows, "")), sorted(names_of(text) - {*fresh})
