# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may read and write a model's files: a container has to read them, and nobody but root may write those of a cache
that is taken for what a pin says."""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..._base import layout
from ..._base.findings import FleetError, first_of
from ..._base.staging import refusal
from .source import Source, is_noted

# What a folder of a model has beside its weights, by the endings and the names of files.
_OF_A_MODEL = re.compile(
    r"(license|notice|readme|use_policy|usage|copying|authors|citation|changelog|md5).*"
    r"|.*\.(bin|csv|gguf|gif|h5|html|index|ipynb|jinja|jpeg|jpg|json|jsonl|md|mlmodel"
    r"|model|mp3|mp4|msgpack|npy|npz|onnx|ot|pdf|png|proto|pt|pth|py|rst"
    r"|safetensors|sha256|sha256sum|sentencepiece|spm|svg|tekken|tiktoken|tsv|txt|vocab|wav|webm|webp|yaml|yml)",
    re.DOTALL,
)
# Whose files are no model's, whoever names them.
_SYSTEM = ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr")
_STATE = "/var"
_LEAST_STEPS = 2
_PRIVATE = (".ssh", ".gnupg", ".aws", ".azure", ".config", ".docker", ".kube", ".password-store", ".mozilla", ".fleet")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def container_reads(owner: int, group: int, mode: int) -> bool:
    """Whether root in a container may read a file, or list and enter a folder: without capabilities (CAP_DAC_OVERRIDE,
    CAP_DAC_READ_SEARCH) it has the rights of the file's mode alone, like everybody (path_resolution(7))."""
    needed = 0o5 if stat.S_ISDIR(mode) else 0o4
    shift = 6 if owner == 0 else 3 if group == 0 else 0
    return (mode >> shift) & needed == needed


def require_readable_source(source: Source) -> None:
    """Refuse a folder whose files are about to be linked and could not be read in a container."""
    closed = [*_closed(file.real for file in source.files)]
    if closed:
        raise _unreadable(source.folder, closed, f"sudo find -L {source.folder} {_OPEN_FILES}")


def require_readable_model(root: Path, folder: Path) -> None:
    """Refuse to go on with a model of the store that a container can't read. root: the store. folder: the model's."""
    closed = closed_to_containers(root, folder)
    if closed:
        top = closed[0] if folder.is_relative_to(closed[0]) else folder
        folders = "-type d -exec chown root '{}' + -exec chmod u+rwx '{}' +"
        raise _unreadable(folder, closed, f"sudo find {top} {folders} -o {_OPEN_FILES}")


# To root's group alone: an owner may have his reasons to close them to everybody else.
_OPEN_FILES = "-type f '!' -perm -o=r -exec chgrp root '{}' + -exec chmod ug+r '{}' +"


def closed_to_containers(root: Path, folder: Path) -> list[Path]:
    """The folders on the way to a model of the store and what is in it that a container can't read, outermost first."""
    return [*_closed(_whole(root, folder))]


def writable(root: Path, folder: Path) -> list[str]:
    """The folders on the way to a model of the store and what is in it that others than root may write, the outermost
    first.

    A file with a further name is also an owner's, in a folder of his own.
    """
    found = ((path, path.lstat()) for path in _whole(root, folder))
    return [
        str(path)
        for path, one in found
        if not stat.S_ISLNK(one.st_mode)
        and not (stat.S_ISREG(one.st_mode) and one.st_nlink > 1)
        and (one.st_uid != 0 or one.st_mode & _OTHERS_WRITE)
    ]


def _whole(root: Path, folder: Path) -> Iterator[Path]:
    inside = (Path(where) / name for where, folders, files in os.walk(folder) for name in (*folders, *files))
    for path in (root, folder.parent, folder, *sorted(inside)):
        if os.path.lexists(path):
            yield path


def _closed(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        found = path.lstat()
        if not stat.S_ISLNK(found.st_mode) and not container_reads(found.st_uid, found.st_gid, found.st_mode):
            yield path


def _unreadable(place: Path, closed: list[Path], command: str) -> FleetError:
    found = closed[0].stat()
    whose = f"user {found.st_uid}, group {found.st_gid}, mode {stat.S_IMODE(found.st_mode):04o}"
    return refusal(
        "model-unreadable",
        str(place),
        found=first_of(closed, f" ({whose})"),
        expected="files that a container can read: its root is bound by their mode, since it has no capabilities",
        remedy=command,
    )


def others_decide(cache: Path, source: Source) -> str:
    """Why others than this account (root) may decide what a model in a cache is, or an empty string.

    cache: the ``hub`` folder. source: of a model in it.
    """
    root = cache.resolve()
    snapshot = source.folder.resolve()
    for path in (snapshot, *(file.real for file in source.files)):
        if not path.is_relative_to(root):
            return f"{path} lies outside of it"
    names = {parent for file in source.files for parent in (snapshot / file.path).parents}
    reals = {path for file in source.files for path in (file.real, *file.real.parents)}
    for path in sorted(names | reals):
        if _others_write(path):
            return f"others than root may write {path}"
    return ""


def require_model(given: Path, source: Source) -> None:
    """Refuse an owner's folder that is no model's: a container gets all of its files.

    What `hf download` noted or keeps in a cache is what the hub has. given: the folder as it is named.
    """
    inside = _inside(source)
    for path in (inside, *(file.real for file in source.files if not file.real.is_relative_to(inside))):
        require_place(given, path)
    if not source.has_weights:
        raise _no_model(given, "there are no weights in it", "a model's files, with its weights")
    if inside != source.folder.resolve():
        return
    odd = [file.path for file in source.files if not (_is_of_a_model(file.path) or is_noted(source.folder, file.path))]
    if odd:
        raise _no_model(given, f"{first_of(odd)}, which no model has", "the files of a model and nothing else")


def require_place(given: Path, path: Path) -> None:
    """Refuse what no owner keeps models in. given: as it is named. path: what it leads to."""
    if problem := _no_place(path):
        raise _no_model(given, f"{path} {problem}", "a folder of an owner's data")


def _no_model(folder: Path, found: str, expected: str) -> FleetError:
    remedy = "name the model's own folder as source.path; or take out of it what is no part of the model"
    return refusal("model-folder", str(folder), found=found, expected=expected, remedy=remedy)


def _no_place(path: Path) -> str:
    """Why no model may lie there, or an empty string."""
    steps = path.parts[1:]
    if len(steps) < _LEAST_STEPS:
        return "is no folder of its own"
    if private := [step for step in steps if step in _PRIVATE]:
        return f"lies in {private[0]}"
    if steps[0] in _SYSTEM or (path.is_relative_to(_STATE) and not f"{path}/".startswith(layout.DATA)):
        return "is the system's"
    return ""


def _is_of_a_model(name: str) -> bool:
    last = name.rpartition("/")[2].lower()
    return _OF_A_MODEL.fullmatch(last) is not None


def _inside(source: Source) -> Path:
    """The folder that all files of a model lie in; of a cache, whose files lie beside its snapshots, the model's."""
    folder = source.folder.resolve()
    return folder.parent.parent if folder.parent.name == "snapshots" else folder


def require_own_files(source: Source) -> None:
    """Refuse an account's folder whose links lead to files of others: root would read them for him."""
    owner = source.folder.stat().st_uid
    inside = _inside(source)
    for file in source.files if owner else ():
        whose = file.real.stat().st_uid
        if whose != owner and not file.real.is_relative_to(inside):
            raise refusal(
                "model-file",
                str(source.folder / file.path),
                found=f"a link to {file.real}, a file of user {whose}",
                expected=f"a file in {inside}, or of user {owner}, the owner of the folder",
                remedy="copy that file into the folder, or give the folder to root",
            )


def _others_write(path: Path) -> bool:
    """Nobody replaces another's entry in a folder with the sticky bit, such as /tmp."""
    found = path.stat()
    is_sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    return found.st_uid not in (0, os.geteuid()) or bool(found.st_mode & _OTHERS_WRITE and not is_sticky)
