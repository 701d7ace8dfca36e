# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's secrets as one encrypted file beside the inventory: what is in it, and whether it is of today."""

import hashlib
import hmac
import io
import json
import tarfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePath, PurePosixPath
from typing import Any

from .._base.plan import Plan
from .drift.managed import managed_files

FILE, RECORD, KEY = ".fleet/escrow.age", ".fleet/escrow.json", ".fleet/keys/escrow.key"
# All that lies there is secret, or belongs to a secret.
FOLDERS = (".fleet/keys", ".fleet/ca", ".fleet/certificates", ".fleet/publisher")
FORM, MOST = 1, 32 << 20


def authorities(plan: Plan) -> set[str]:
    return {source for host in plan["hosts"].values() if (source := host["tls"]["source"])}


def secrets_of(plan: Plan) -> set[str]:
    """The files of the controller that hosts' secrets are made of, the local CA's key, and Phoenix' key for spans."""
    files = [file for mine in plan["hosts"].values() for file in managed_files(mine)]
    found = {file.source for file in files if file.secret and file.source}
    found |= {spans for mine in plan["hosts"].values() if (spans := (mine["phoenix"] or {}).get("spans", ""))}
    return found | {str(PurePath(source).with_suffix(".key")) for source in authorities(plan)}


def may_hold(name: str, named: Collection[str]) -> bool:
    """Whether an escrow may bring this file. name, named: from the inventory's folder on; named: by the plan."""
    path = PurePosixPath(name)
    inside = not path.is_absolute() and ".." not in path.parts and str(path) == name
    return inside and (name in named or name.startswith(tuple(f"{folder}/" for folder in FOLDERS)))


def packed(files: Mapping[str, bytes]) -> bytes:
    """A tar archive that is the same for the same files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            tar.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def unpacked(archive: bytes, named: Collection[str]) -> dict[str, bytes]:
    """The files that an escrow may bring; all others are left out. ValueError for what is no archive."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            members = [member for member in tar.getmembers() if member.isreg() and may_hold(member.name, named)]
            return {member.name: stream.read() for member in members if (stream := tar.extractfile(member))}
    except tarfile.TarError as problem:
        raise ValueError(f"it holds no archive of files: {problem}") from None


def record(
    archive: bytes, names: Iterable[str], recipients: Iterable[str], key: bytes, sealed: bytes
) -> dict[str, Any]:
    """What git keeps beside the escrow. Its digest says nothing to who lacks the key: a password can't be guessed.

    sealed: the escrow itself. Of two admins' merged files one may be the other's.
    """
    to = sorted({*recipients})
    digest = hmac.new(key, b"\0".join([*(one.encode() for one in to), archive]), hashlib.sha256).hexdigest()
    its_own = hashlib.sha256(sealed).hexdigest()
    return {"form": FORM, "digest": digest, "files": sorted(names), "recipients": to, "sealed": its_own}


def parsed(text: bytes) -> dict[str, Any]:
    """A kept record. Raises any of the usual errors for what is none."""
    found = json.loads(text)
    return {**found, "files": [str(name) for name in found["files"]]}
