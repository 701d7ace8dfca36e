# SPDX-License-Identifier: GPL-3.0-or-later
"""Signs what is published, by OpenSSH's own program, and packs this collection for hosts that run it themselves."""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..module_utils._base.gb10 import ROOT
from ..module_utils._base.own_files import look, replace_file
from ..module_utils._operations.pull.published import MOST_BYTES, NAMESPACE, SIGNER
from ._kept_secret import make_folder

# What a run on a host reads of the collection. An installed one has MANIFEST.json, a clone galaxy.yml.
_CONTENT = ("plugins", "roles", "playbooks", "data", "recipes", "meta", "galaxy.yml", "MANIFEST.json")
_PACKED = "ansible_collections/gb10/fleet"
_SIGNED = b"-----END SSH SIGNATURE-----\n"


class KeygenError(Exception):
    """What ssh-keygen said, in a line."""


def made_key(key: Path, inventory: str) -> None:
    """A key pair without a passphrase, where there is none: a timer or a pipeline may publish."""
    if not key.exists():
        if not key.parent.exists():  # an owner's own folder stays as it is
            make_folder(key.parent)
        _keygen("-q", "-t", "ed25519", "-N", "", "-C", f"gb10.fleet {inventory}", "-f", str(key))
    public = _keygen("-y", "-f", str(key))
    if (look(public_of(key), bytes.split)[0] or [])[:2] != public.split()[:2]:  # lost or damaged
        replace_file(public_of(key), public, 0o644)


def public_of(key: Path) -> Path:
    return key.with_name(f"{key.name}.pub")


def signed(text: str, key: Path) -> bytes:
    """The file that a host fetches: OpenSSH's signature, and after it what was signed."""
    content = _keygen("-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), stdin=text.encode()) + text.encode()
    if len(content) > MOST_BYTES:
        raise KeygenError(f"a slice of {len(content)} bytes is more than a host takes, {MOST_BYTES}")
    return content


def before(file: Path, key: Path) -> dict[str, Any] | None:
    """What was published before; None where nothing was, or nothing that hosts would take now: it is written anew."""
    try:
        signature, end, text = file.read_bytes().partition(_SIGNED)
        found = json.loads(text) if _is_by(key, text, signature + end) else None
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def serials_of(published: Mapping[str, Mapping[str, Any] | None]) -> dict[str, int]:
    """By host the serial of what was published for it."""
    return {host: one["serial"] for host, one in published.items() if one and isinstance(one.get("serial"), int)}


def keep_serials(key: Path, serials: Mapping[str, int]) -> None:
    """Beside the key: gb10.fleet.pull tells each host the newest that it signed for it, so that none takes an older."""
    replace_file(key.with_name(f"{key.name}.serials"), json.dumps(serials, sort_keys=True).encode(), 0o644)


def _is_by(key: Path, text: bytes, signature: bytes) -> bool:
    """Whether hosts that know this key would take it, as their own program asks (roles/pull/files/gb10_pull.py)."""
    if not key.exists():
        return False  # another one will be made
    with tempfile.TemporaryDirectory() as folder:
        signers, file = Path(folder, "signers"), Path(folder, "signature")
        signers.write_text(f'{SIGNER} namespaces="{NAMESPACE}" {public_of(key).read_text("ascii")}')
        file.write_bytes(signature)
        try:
            _keygen(*("-Y", "verify", "-f", str(signers), "-I", SIGNER, "-n", NAMESPACE, "-s", str(file)), stdin=text)
        except KeygenError:
            return False
    return True


def forget_archives(folder: Path, key: Path, digest: str, hosts: Container[str]) -> None:
    """Remove the collections that no slice in the folder names any more. digest: of the one that the hosts' name."""
    others = [path for path in folder.glob("*.slice") if path.stem not in hosts]
    named = {digest, *((before(path, key) or {}).get("collection") for path in others)}
    for path in folder.glob("collection-*.tar.gz"):
        if path.name.removeprefix("collection-").removesuffix(".tar.gz") not in named:
            path.unlink()


def archive() -> tuple[str, bytes]:
    """This collection as a tar.gz, the same for the same files; and its SHA-256."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in _files():
            entry = tarfile.TarInfo(f"{_PACKED}/{path.relative_to(ROOT)}")
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                tar.addfile(entry, file)
    content = packed.getvalue()
    return hashlib.sha256(content).hexdigest(), content


def _files() -> Iterator[Path]:
    for name in _CONTENT:
        top = ROOT / name
        found = [top] if top.is_file() else sorted(path for path in top.rglob("*") if path.is_file())
        yield from (path for path in found if "__pycache__" not in path.parts)


def _keygen(*words: str, stdin: bytes = b"") -> bytes:
    try:
        done = subprocess.run(["ssh-keygen", *words], input=stdin, capture_output=True, check=False)
    except FileNotFoundError:
        raise KeygenError("there is no ssh-keygen on this machine; install openssh-client") from None
    if done.returncode:
        raise KeygenError(" ".join(done.stderr.decode(errors="replace").split())[:400])
    return done.stdout
