# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads files: what they are, their sums, owners and modes. Opens nothing that it was not asked for, writes nothing."""

import grp
import hashlib
import hmac
import json
import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ..._base.owned import matches, require_pattern
from ..settings.json_settings import merged
from .parts import Part

# More than any part has: what is beyond is found when these are gone.
_MOST = 10_000


def find_owned(patterns: Iterable[str]) -> list[str]:
    """The regular files and links that match, by path. ValueError for a pattern that is too wide."""
    found: set[str] = set()
    for pattern in patterns:
        require_pattern(pattern)
        folder = Path(pattern).parent
        if _is_plain(folder):
            below = _all_below(folder) if pattern.endswith("/**") else _files_of(folder)
            found |= {path for path in below if matches(pattern, path)}
    return sorted(found)[:_MOST]


def _is_plain(folder: Path) -> bool:
    """Whether each folder on the way is one, and no link to elsewhere."""
    try:
        return all(stat.S_ISDIR(part.lstat().st_mode) for part in (folder, *folder.parents))
    except OSError:
        return False


def _files_of(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        yield from (entry.path for entry in entries if entry.is_symlink() or entry.is_file(follow_symlinks=False))


def _all_below(folder: Path) -> Iterator[str]:
    for path, _folders, _files in os.walk(folder):  # which enters no link
        yield from _files_of(Path(path))


# Larger files are compared by their sums alone.
TEXT_LIMIT = 1 << 16
PROFILES = "/etc/NetworkManager/system-connections"
# Files by which other programs than netplan configure interfaces: systemd-networkd and ifupdown.
OTHER_NETWORKS = ("etc/systemd/network/*.network", "etc/network/interfaces", "etc/network/interfaces.d/*")
_GIVES_ADDRESSES = re.compile(
    r"(?mi)^[ \t]*(address\s*=|dhcp\s*=\s*(?!no|false)\w|iface\s+\S+\s+inet6?\s+(static|dhcp|auto))"
)
NETPLAN_FOLDERS = ("/lib/netplan", "/etc/netplan", "/run/netplan")


def read_files(wanted: Sequence[Mapping[str, Any]], salt: str) -> dict[str, dict[str, Any]]:
    """wanted: ``{path, sha256, secret, salted}``. A text of another sum than wanted comes along, unless it is secret.

    Of a file that is salted, the salted digest and its size come.
    """
    found = {item["path"]: _file(Path(item["path"]), item["sha256"], item["secret"]) for item in wanted}
    for item in wanted:
        if item["salted"] and found[item["path"]]["kind"] == "file":
            content = Path(item["path"]).read_bytes()
            found[item["path"]] |= {"salted": salted(content, salt), "size": len(content)}
    return found


def salted(content: bytes, salt: str) -> str:
    """What distinguishes two secrets for those who know the salt, and nothing to others."""
    return hmac.digest(salt.encode(), content, "sha256").hex()


def _file(path: Path, wanted: str | None, secret: bool) -> dict[str, Any]:
    """``{kind, mode, owner, group, sha256, target, text, why}``, what applies.

    kind: absent, file, folder, link, other, or unreadable with the reason in why.
    """
    try:
        return _readable(path, wanted, secret)
    except (FileNotFoundError, NotADirectoryError):
        return {"kind": "absent"}
    except OSError as error:
        return {"kind": "unreadable", "why": str(error)}


def _readable(path: Path, wanted: str | None, secret: bool) -> dict[str, Any]:
    status = path.lstat()
    found = {"mode": f"{stat.S_IMODE(status.st_mode):04o}", **_owner(status.st_uid, status.st_gid)}
    if stat.S_ISLNK(status.st_mode):
        return {"kind": "link", "target": str(path.readlink())}
    if stat.S_ISDIR(status.st_mode):
        return {"kind": "folder", **found}
    if not stat.S_ISREG(status.st_mode):
        return {"kind": "other", **found}
    if wanted is None:
        return {"kind": "file", **found}
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        content = b"" if digest == wanted else file.read(TEXT_LIMIT + 1)
    shown = {"text": content.decode("utf-8", "replace")} if digest != wanted and _showable(content, secret) else {}
    return {"kind": "file", **found, "sha256": digest, **shown}


def _showable(content: bytes, secret: bool) -> bool:
    return not secret and len(content) <= TEXT_LIMIT and b"\0" not in content


def _owner(uid: int, gid: int) -> dict[str, str]:
    try:
        owner = pwd.getpwuid(uid).pw_name
    except KeyError:
        owner = str(uid)
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:
        group = str(gid)
    return {"owner": owner, "group": group}


def read_json(wanted: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any] | None]:
    """JSON files that others also write, as far as they are ours: ``{key: value}``; None where there is no such file.

    wanted: ``{path, keys}``, the values of these keys; with ``original`` and ``settings`` each key that differs from
    the original with the settings merged into it, as ``[want, have]``; with ``names_of`` only the names below that key,
    since its values are secret.
    """
    return {item["path"]: _json(item) for item in wanted}


def _json(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    document = _document(Path(entry["path"]))
    if document is None:
        return None
    if entry.get("names_of"):
        return {entry["names_of"]: sorted(document.get(entry["names_of"]) or {})}
    if entry.get("original"):
        want = merged(_document(Path(entry["original"])) or {}, entry["settings"])
        pairs = {key: [want.get(key), document.get(key)] for key in sorted({*want, *document})}
        return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    return {key: document.get(key) for key in entry["keys"]}


def _document(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text) if text.strip() else {}
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{path} holds no JSON: {error}; mend it, or move it away") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path} holds no JSON map")
    return document


def read_netplan(interfaces: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every netplan file, profile of NetworkManager's own and file of other programs, with the interfaces that it names
    or matches, and the first line that does.

    interfaces: name -> MAC address, may be empty.
    """
    paths = [path for folder in NETPLAN_FOLDERS for path in sorted(Path(folder).glob("*.yaml"))]
    paths += [path for path in sorted(Path(PROFILES).glob("*")) if path.is_file()]
    others = [path for pattern in OTHER_NETWORKS for path in sorted(Path("/").glob(pattern)) if path.is_file()]
    # a file that only brings a link up is in nobody's way
    paths += [path for path in others if _GIVES_ADDRESSES.search(path.read_text("utf-8", "replace"))]
    found = [(path, claims(path.read_text("utf-8", "replace"), interfaces)) for path in paths]
    return [{**_file(path, None, True), "path": str(path), "claims": [*lines], "lines": lines} for path, lines in found]


def claims(text: str, interfaces: Mapping[str, str]) -> dict[str, int]:
    """The interfaces that a netplan text speaks of, by name, by a pattern of names, by MAC address or by the driver;
    and the first line that does.

    By words, since Python alone has no YAML: a comment does not count.
    """
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = {word.rstrip(":") for word in re.findall(r"[\w*?:.@-]+", line.split("#", 1)[0])}
        patterns = [word for word in words if "*" in word or "?" in word]
        addresses = {word.lower() for word in words if word.count(":") == 5}
        # by the driver of the adapter, mlx5_core
        all_of_it = any(word.startswith("mlx5") for word in words)
        for name, mac in interfaces.items():
            named = all_of_it or name in words or mac.lower() in addresses
            if named or any(fnmatchcase(name, pattern) for pattern in patterns):
                lines.setdefault(name, number)
    return dict(sorted(lines.items()))


READS: Mapping[str, Part] = {
    "files": lambda _run, ask: read_files(ask["files"], ask["salt"]),
    "json": lambda _run, ask: read_json(ask["json"]),
    "owned": lambda _run, ask: find_owned(ask["owned"]),
}
