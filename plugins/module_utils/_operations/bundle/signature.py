# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle's own key: GnuPG makes it, signs by it, and gpgv, which apt brings, checks."""

import subprocess
import tempfile
from pathlib import Path

from ..._base import worded

_GPG = ("gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "")


def new_key(name: str) -> tuple[bytes, bytes]:
    """A key that can sign and nothing else, without an end: the secret and the public part, as GnuPG exports them.

    Ed25519, which apt takes from every release that DGX OS comes with (sqv and gpgv alike).
    """
    with tempfile.TemporaryDirectory(prefix="gb10-") as home:
        _gpg(home, "--quick-generate-key", name, "ed25519", "sign", "never")
        return _gpg(home, "--export-secret-keys"), _gpg(home, "--export")


def public_part(secret: bytes) -> bytes:
    with tempfile.TemporaryDirectory(prefix="gb10-") as home:
        _gpg(home, "--import", given=secret)
        return _gpg(home, "--export")


def signed(secret: bytes, content: bytes, clear: bool) -> bytes:
    """A signature of the content; clear: the content with it, as apt's InRelease."""
    with tempfile.TemporaryDirectory(prefix="gb10-") as home:
        _gpg(home, "--import", given=secret)
        return _gpg(home, *(("--clearsign",) if clear else ("--detach-sign",)), given=content)


def require_signed(file: Path, content: bytes, signature: bytes, key: bytes) -> None:
    """Refuse a file whose signature is not of the content, by the public key."""
    with tempfile.TemporaryDirectory(prefix="gb10-") as folder:
        names = [str(Path(folder, name)) for name in ("key.gpg", "signature", "content")]
        for name, part in zip(names, (key, signature, content), strict=True):
            Path(name).write_bytes(part)
        try:
            done = subprocess.run(["gpgv", "--keyring", *names], capture_output=True, check=False)
        except FileNotFoundError:
            raise _no_program("gpgv") from None
    if done.returncode:
        raise worded.refusal("bundle-signature", str(file), found=_last(done.stderr))


def _gpg(home: str, *arguments: str, given: bytes = b"") -> bytes:
    try:
        done = subprocess.run([*_GPG, "--homedir", home, *arguments], input=given, capture_output=True, check=False)
    except FileNotFoundError:
        raise _no_program("gpg") from None
    if done.returncode:
        raise worded.refusal("bundle-key/gpg", f"gpg {arguments[0]}", found=_last(done.stderr))
    return done.stdout


def _no_program(name: str) -> Exception:
    return worded.refusal("bundle-program/no-program", name, name=name)


def _last(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it failed without a word"
