# SPDX-License-Identifier: GPL-3.0-or-later
"""The local CA and its certificates, as files beside the inventory."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ..module_utils._base import worded
from ..module_utils._base.findings import Finding, FleetError
from ..module_utils._base.own_files import replace_file
from ..module_utils._base.staging import held
from ._certificates import Pair, authority, described, is_issued, issued, new_key
from ._kept_secret import keep, make_folder

_PATIENCE_S = 60


@dataclass(frozen=True)
class Made:
    """ca: the file of the CA's certificate, its key beside it. now: UTC. ca_days, certificate_days: how long new ones
    hold. renewed_days: how long before its end one is made anew."""

    ca: Path
    now: datetime
    ca_days: int
    certificate_days: int
    renewed_days: int

    def bring(self, inventory: str, services: Iterable[Mapping[str, Any]], *, dry: bool) -> list[str]:
        """Make what is missing, ends soon or names something else; the certificates' files that were written.

        services: ``tls`` of each service's slice. dry: write nothing.
        """
        if dry:
            return [str(file) for file in self._missing(services)]
        make_folder(self.ca.parent)
        with held(self.ca.parent / ".lock", "making certificates", _PATIENCE_S):
            missing, key = self._missing(services), self.ca.with_suffix(".key")
            if self.ca in missing:
                keep(key, new_key())
                made = authority(key.read_bytes(), inventory, self.now, self.ca_days)
                replace_file(self.ca, made, 0o644)
            for service in services:
                if Path(service["certificate"]["source"]) in missing:
                    self._issue(service)
            return [str(file) for file in missing]

    def _missing(self, services: Iterable[Mapping[str, Any]]) -> list[Path]:
        problem = next(ca_problems(self.ca, self.now), None)
        if problem is not None:
            raise FleetError(problem)
        least = self.certificate_days + self.renewed_days
        found = (
            []
            if self.ca.exists() and self._counts(described(self.ca.read_text("ascii", "replace"), self.now), least)
            else [self.ca]
        )
        found += [Path(service["certificate"]["source"]) for service in services if not self._holds(service)]
        if found and self.ca.exists() and not (key := self.ca.with_suffix(".key")).exists():
            lost = f"{key} is lost, and {', '.join(map(str, found))} must be made"
            raise FleetError(worded.error("input-tls-ca", str(self.ca), found=lost, parent=self.ca.parent))
        return found

    def _holds(self, service: Mapping[str, Any]) -> bool:
        try:
            texts = [Path(service[kind]["source"]).read_text("ascii", "replace") for kind in ("certificate", "key")]
            ca = self.ca.read_text("ascii", "replace")
        except FileNotFoundError:
            return False
        read = described(texts[0], self.now, texts[1])
        fits = read.get("of_key", False) and sorted(read["names"]) == sorted(service["names"])
        return fits and self._counts(read, self.renewed_days) and is_issued(texts[0], ca)

    @staticmethod
    def _counts(read: Mapping[str, Any], least: float) -> bool:
        """Whether it holds now and for long enough: one that a clock of the future made does not hold yet."""
        return bool(read["days_until"] <= 0 and read["days_left"] > least)

    def _issue(self, service: Mapping[str, Any]) -> None:
        """The key first: a certificate whose key is another's is made again by the next run."""
        by = Pair(self.ca.read_bytes(), self.ca.with_suffix(".key").read_bytes())
        pair = issued(by, service["names"], self.now, self.certificate_days)
        certificate, key = (Path(service[kind]["source"]) for kind in ("certificate", "key"))
        make_folder(key.parent)
        replace_file(key, pair.key, 0o600)
        replace_file(certificate, pair.certificate, 0o644)


def ca_problems(ca: Path, now: datetime) -> Iterator[Finding]:
    """Why the CA beside the inventory can't be gone on with; nothing where none was made yet."""
    key = ca.with_suffix(".key")
    if not ca.exists() and not key.exists():
        return
    try:
        # one that was cut off between the two files goes on; one without its key is good until it must issue
        own = key.read_text("ascii", "replace") if key.exists() else None
        text = ca.read_text("ascii", "replace") if ca.exists() else authority(str(own).encode(), "", now, 1).decode()
        read = described(text, now, own)
        found = read.get("why") or ("" if read.get("of_key", True) else "its key belongs to another certificate")
    except (TypeError, ValueError):
        found = f"{key} holds no key"
    except OSError as problem:
        found = f"{problem.filename or ca} can't be read ({problem.strerror})"
    if found:
        yield worded.error("input-tls-ca", str(ca), found=found, parent=ca.parent)
