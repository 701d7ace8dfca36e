# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of a bundle: apt's own solver names them and what they need, for the hosts' architecture.

apt runs with folders, sources and a list of installed packages of its own, which is empty: a host may lack anything,
and what it has is left as it is. Recommended packages are in it as apt installs them by default: Debian's Docker has
its client only so.
"""

import email
import hashlib
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote

from ..._base import worded
from .folder import Target
from .manifest import DEBS, PACKAGES, RELEASE
from .programs import run
from .signature import signed

_LINE = re.compile(r"'(?P<uri>[^']+)' (?P<file>\S+) \d+ \S*")
# Of a machine-readable debian/copyright (Debian's copyright-format 1.0).
_LICENCE = re.compile(r"^License:[ \t]*(\S.*)$", re.MULTILINE)
_MOST_COPYRIGHT = 4 << 20


@dataclass(frozen=True)
class Package:
    """stanza: of the repository that it comes from, whose signature apt checked."""

    name: str
    version: str
    origin: str
    stanza: Mapping[str, str]

    @property
    def path(self) -> str:
        return f"{DEBS}/{self.name}_{self.version.replace(':', '%3a')}_{self.stanza['Architecture']}.deb"


def fetch(
    names: Sequence[str],
    architecture: str,
    sources: str,
    target: Target,
    work: Path,
    before: Iterable[Mapping[str, str | None]],
    secret: bytes,
) -> list[dict[str, str | None]]:
    """The manifest's entries of packages with their closure, held from then on, in a repository signed by ``secret``.

    sources: text of a file of apt's sources. before: the entries of earlier bundles, which say the licences of
    packages that need not be brought.
    """
    environment = _settings(work, architecture, sources)
    what = "the packages of the hosts"
    run(["apt-get", "update", "--error-on=any"], what, environment)
    closure = [*_closure(names, what, environment)]
    downloads = work / "archives"
    downloads.mkdir(parents=True, exist_ok=True)
    missing = [package for package in closure if not _held(package, target)]
    if missing:
        wanted = [f"{item.name}:{item.stanza['Architecture']}={item.version}".replace(":all=", "=") for item in missing]
        run(["apt-get", "download", *wanted], what, environment, downloads)
    licences = {entry["file"]: entry["licence"] for entry in before}
    for package in closure:
        file = downloads / package.path.rpartition("/")[2]
        if package in missing:
            target.put(package.path, file)
            licences[package.path] = _licences(file)
        else:
            target.files[package.path] = {"bytes": int(package.stanza["Size"]), "sha256": package.stanza["SHA256"]}
    for file in downloads.glob("*.deb"):
        file.unlink()
    index = "\n".join(_stanza(package) for package in closure).encode()
    known = target.known(PACKAGES)
    if known and known["sha256"] == hashlib.sha256(index).hexdigest() and target.known(RELEASE):
        target.name(PACKAGES)
        target.name(RELEASE)
    else:
        target.write(PACKAGES, index)
        target.write(RELEASE, signed(secret, _release(index, architecture).encode(), clear=True))
    return [
        {
            "name": package.name,
            "version": package.version,
            "file": package.path,
            "licence": licences.get(package.path),
            "origin": package.origin,
        }
        for package in closure
    ]


def _settings(work: Path, architecture: str, sources: str) -> dict[str, str]:
    """An apt of its own: its folders below ``work``. The variable makes apt read that before this machine's own."""
    for folder in ("etc", "none", "lists/partial", "cache/archives/partial", "state"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    (work / "state" / "status").write_text("")
    (work / "etc" / "bundle.sources").write_text(sources.strip() + "\n")
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures::": architecture,
        "APT::Install-Recommends": "true",
        "APT::Sandbox::User": "root",
        "APT::Get::Assume-Yes": "true",
        "Acquire::Languages": "none",
        "Dir::Etc::Parts": f"{work}/none",
        "Dir::Etc::Main": "/dev/null",
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": f"{work}/etc",
        "Dir::Etc::PreferencesParts": f"{work}/none",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::State": f"{work}/state",
        "Dir::State::status": f"{work}/state/status",
        "Dir::State::Lists": f"{work}/lists",
        "Dir::Cache": f"{work}/cache",
    }
    file = work / "apt.conf"
    file.write_text("#clear APT::Architectures;\n" + "".join(f'{key} "{value}";\n' for key, value in settings.items()))
    return {"APT_CONFIG": str(file), "LC_ALL": "C"}


def _closure(names: Sequence[str], what: str, environment: Mapping[str, str]) -> Iterator[Package]:
    """By the solver, in the order of their names; each package's stanza by apt-cache."""
    printed = run(["apt-get", "install", "--print-uris", "--quiet=2", *names], what, environment).decode()
    origins = {}
    for line in printed.splitlines():
        if found := _LINE.match(line):
            name, version, _ = unquote(found["file"]).removesuffix(".deb").split("_")
            origins[name, version] = found["uri"]
    if not origins:
        return
    shown = run(["apt-cache", "show", *(f"{name}={version}" for name, version in origins)], what, environment)
    stanzas = {}
    for text in shown.decode().split("\n\n"):
        stanza = {**email.message_from_string(text.strip())}
        if "Package" in stanza:
            stanzas[stanza["Package"], stanza["Version"]] = stanza
    for name, version in sorted(origins):
        if not {"SHA256", "Size", "Architecture"} <= {*(stanza := stanzas.get((name, version), {}))}:
            raise worded.refusal("bundle-fetch/closure", f"package {name} {version}")
        yield Package(name, version, origins[name, version], stanza)


def _held(package: Package, target: Target) -> bool:
    return target.holds(package.path, int(package.stanza["Size"]), package.stanza["SHA256"])


def _stanza(package: Package) -> str:
    fields = {**package.stanza, "Filename": f"./{package.path.removeprefix(f'{DEBS}/')}"}
    return "".join(f"{key}: {value}\n" for key, value in fields.items())


def _release(index: bytes, architecture: str) -> str:
    """A flat repository's Release (Debian wiki, DebianRepository/Format)."""
    fields = {
        "Origin": "gb10.fleet",
        "Label": "gb10.fleet bundle",
        "Suite": "bundle",
        "Date": formatdate(usegmt=True),
        "Architectures": f"{architecture} all",
        "SHA256": f"\n {hashlib.sha256(index).hexdigest()} {len(index)} Packages",
    }
    return "".join(f"{key}: {value}\n" for key, value in fields.items())


def _licences(file: Path) -> str | None:
    """The names of licences in a package's own copyright file; None where that is not machine-readable."""
    content = run(["dpkg-deb", "--fsys-tarfile", str(file)], f"package {file.name}")
    names: dict[str, None] = {}
    with tarfile.open(fileobj=BytesIO(content)) as tar:
        for member in tar:
            if re.fullmatch(r"\./usr/share/doc/[^/]+/copyright", member.name) and member.isreg():
                stream = tar.extractfile(member)
                text = stream.read(_MOST_COPYRIGHT).decode(errors="replace") if stream else ""
                names |= dict.fromkeys(name.strip() for name in _LICENCE.findall(text))
    return ", ".join(names)[:1024] or None
