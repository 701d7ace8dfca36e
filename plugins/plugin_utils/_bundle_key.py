# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle's key and what a site knows of bundles, kept beside the inventory.

The public key travels with the inventory, which is how the closed room knows whose bundle it is. The first bundle that
is used counts where none came along.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..module_utils._base import worded
from ..module_utils._base.findings import FleetError
from ..module_utils._base.own_files import look, replace_file
from ..module_utils._operations.bundle.folder import Bundle
from ..module_utils._operations.bundle.manifest import KEY
from ..module_utils._operations.bundle.signature import new_key, public_part
from ._kept_secret import keep

_SECRET, _PUBLIC, _USED = ".fleet/keys/bundle.key", ".fleet/bundle.gpg", ".fleet/bundle.json"


def kept_key(inventory: Path) -> tuple[bytes, bytes]:
    """The bundle's key, secret and public, made where there is none. Raises FleetError where only the public one is."""
    secret, public = inventory / _SECRET, inventory / _PUBLIC
    if public.exists() and not secret.exists():
        raise worded.refusal("bundle-key/kept-key", str(secret), public=public)
    if not secret.exists():
        keep(secret, new_key("gb10.fleet bundle")[0])
    try:
        part = public_part(secret.read_bytes())
    except FleetError as problem:
        raise worded.refusal("bundle-key/damaged", str(secret), public=public) from problem
    if not public.exists():  # lost, or a run ended between the two
        replace_file(public, part)
    if public.read_bytes() != part:
        raise worded.refusal("bundle-key/other-part", str(public), secret=secret)
    return secret.read_bytes(), part


def trusted_key(inventory: Path) -> Path | None:
    """The public key that a site's bundles are signed by; None as long as it has used none."""
    public = inventory / _PUBLIC
    return public if public.exists() else None


def used(inventory: Path) -> tuple[int, Path]:
    """The serial of the newest bundle that the site was converged from, 0 for none, and the file that says so."""
    file = inventory / _USED
    serial, why = look(file, lambda content: int(json.loads(content)["serial"]))
    if why:
        raise worded.refusal("bundle-record", str(file), found=why)
    return serial or 0, file


def note_used(inventory: Path, bundle: Bundle) -> None:
    """Keep whose bundle this site is converged from, and which one."""
    manifest: Mapping[str, Any] = bundle.manifest
    serial, file = used(inventory)
    if trusted_key(inventory) is None:
        replace_file(inventory / _PUBLIC, (bundle.folders[0] / KEY).read_bytes())
    if manifest["serial"] != serial:
        replace_file(file, (json.dumps({"serial": manifest["serial"]}) + "\n").encode())
