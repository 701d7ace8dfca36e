# SPDX-License-Identifier: GPL-3.0-or-later
"""The standard cache layout of huggingface_hub, in which vLLM finds a model offline, and how files get into it.

``<root>/hub/models--ORG--NAME/{blobs/<sum>, snapshots/<revision>/<path> -> ../../blobs/<sum>, refs/main}``. Everything
lies below one folder, so that one mount makes it all visible in a container: a link that left the folder would be
broken in there. A file from elsewhere is therefore hard-linked (no bytes) or, from another filesystem, copied.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..._base.own_files import replace_file
from ..._base.staging import existing_parent, refusal
from .manifest import File, Manifest

_BLOCK = 1 << 20
# A commit; or a name, where an owner's tool wrote one.
_REVISION = re.compile(r"[\w.+-]{1,100}")


@dataclass(frozen=True)
class Cache:
    """One model's folder in the cache. root: what ``HF_HOME`` is set to. repository: or one file of it,
    `_facts.models.stored`, which has a folder of its own."""

    root: Path
    repository: str

    @property
    def folder(self) -> Path:
        return self.root / "hub" / repository_folder(self.repository)

    def blob(self, sha256: str) -> Path:
        return self.folder / "blobs" / sha256

    def snapshot(self, revision: str) -> Path:
        return self.folder / "snapshots" / revision

    def main(self) -> str | None:
        """The revision that ``main`` stands for, if any."""
        return read_main(self.folder)

    def is_main(self, revision: str) -> bool:
        """Whether ``main`` is this revision, by its reference and by the link that an engine's options name."""
        link = self.folder / "main"
        return self.main() == revision and link.is_symlink() and str(link.readlink()) == f"snapshots/{revision}"

    def publish(self, manifest: Manifest) -> None:
        """Make a revision visible whose blobs are all there: under a partial name first, then under its own."""
        final = self.snapshot(manifest.revision)
        partial = final.with_name(f".{final.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        for file in manifest.files:
            link = partial / file.path
            if not link.parent.resolve().is_relative_to(partial.resolve()):
                raise refusal(
                    "model-file",
                    str(link),
                    found="it would lie outside of its snapshot",
                    expected=f"a file below {partial}",
                    remedy="look at what the manifest's host has",
                )
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(self.blob(file.sha256), final / Path(file.path).parent))
        if final.exists():
            shutil.rmtree(final)
        partial.rename(final)
        replace_file(self.folder / "refs" / "main", manifest.revision.encode())
        self._link_main(manifest.revision)

    def forget_main(self) -> None:
        """``main`` stands for nothing any more."""
        (self.folder / "refs" / "main").unlink()
        (self.folder / "main").unlink(missing_ok=True)

    def _link_main(self, revision: str) -> None:
        """A path to the files of ``main``: `_base.layout.model_folder` of a model without a pin."""
        link = self.folder / ".main.partial"
        link.unlink(missing_ok=True)
        link.symlink_to(f"snapshots/{revision}")
        link.rename(self.folder / "main")


def read_main(folder: Path) -> str | None:
    """The revision that a cache's ``refs/main`` names, None where it names none; others write it, too."""
    reference = folder / "refs" / "main"
    text = reference.read_bytes().decode("utf-8", "replace").strip() if reference.is_file() else ""
    return text if _REVISION.fullmatch(text) else None


def repository_folder(repository: str) -> str:
    """``org/name`` as the cache spells it; of one file of it, ``models--org--name--FILE.gguf``."""
    return "models--" + repository.replace("/", "--")


def take_in(real: Path, file: File, blob: Path, counted: Callable[[int], None] = lambda count: None) -> None:
    """Put a file's bytes at ``blob``: by a hard link where possible, else by a copy that is checked while it is made.

    Raises FleetError when the copied bytes have another sum than ``file`` says.
    """
    if blob.exists() and blob.samefile(real):
        return
    blob.parent.mkdir(parents=True, exist_ok=True)
    partial = blob.with_name(f"{blob.name}.incomplete")
    partial.unlink(missing_ok=True)
    if can_link(real, blob.parent):
        os.link(real, partial)
    else:
        _copy(real, file, partial, counted)
    partial.replace(blob)


def _copy(real: Path, file: File, partial: Path, counted: Callable[[int], None]) -> None:
    whole = hashlib.sha256()
    with real.open("rb") as source, partial.open("wb") as target:
        while piece := source.read(_BLOCK):
            whole.update(piece)
            target.write(piece)
            counted(len(piece))
        target.flush()
        os.fsync(target.fileno())
    if whole.hexdigest() != file.sha256:
        partial.unlink()
        raise refusal(
            "model-file",
            str(real),
            found=f"sha256 {whole.hexdigest()}",
            expected=file.sha256,
            remedy="it changes while it is read",
        )


def can_link(file: Path, folder: Path) -> bool:
    """Whether a hard link is possible: within one mount (two bind mounts of one filesystem are two)."""
    return _mount(file) == _mount(existing_parent(folder))


def _mount(path: Path) -> str:
    """The number of the mount that ``path`` lies on (proc(5), mountinfo: number first, mount point fifth)."""
    deepest, found = -1, ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        point = Path(fields[4].encode().decode("unicode_escape"))
        # Of two mounts on one point the later line is on top.
        if path.resolve().is_relative_to(point) and len(point.parts) >= deepest:
            deepest, found = len(point.parts), fields[0]
    return found
