# SPDX-License-Identifier: GPL-3.0-or-later
"""Who runs this, by which release and commits; and which of a host's commits this clone lacks."""

import json
import re
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import yaml

from ..module_utils._base.gb10 import ROOT
from ..module_utils._base.own_files import replace_file
from ..module_utils._base.staging import account
from ..module_utils._plan.preflight.earlier import FORM, Lag, goes_back, later_form
from ._git import git
from ._screen import refusal

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def this_run(inventory: Path) -> dict[str, str]:
    """What a host keeps of the run that changed it last. inventory: its folder."""
    return {
        "form": FORM,
        "release": _release(),
        # an installed collection may lie in a repository that is not its own
        "commit": _head(ROOT) if (ROOT / ".git").exists() else "",
        "inventory_commit": _head(inventory),
        "person": person(),
        "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def person() -> str:
    return f"{account()}@{socket.gethostname()}"


def lag(folder: Path, commit: str) -> Lag:
    """How this clone stands to a commit that a host names: it has it, is behind it, went another way, or lacks it."""
    if not _COMMIT.fullmatch(commit) or not (head := _head(folder)) or head == commit:
        return "has it"
    if git(folder, ["rev-parse", "--is-shallow-repository"]).strip() != "false":
        return "has it"  # as a job of a CI has it: nothing can be known
    if not git(folder, ["rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"]):
        return "lacks it"
    base = git(folder, ["merge-base", commit, "HEAD"]).strip()
    return "has it" if base == commit else "behind" if base == head else "another way"


def refuse_older(
    run: Mapping[str, str], inventory: Path, lasts: Mapping[str, Mapping[str, str] | None], *, dry: bool = True
) -> None:
    """A run that would undo on any host what the last one there did, or reads what a later release keeps beside the
    inventory. lasts: by host what it keeps of that one."""
    form = inventory / ".fleet" / "form"
    kept = form.read_text("ascii", "replace")[:9].strip() if form.is_file() else ""
    lines = [of.sentence() for of in later_form(str(form), kept)]
    if not kept and not dry and form.parent.is_dir():
        replace_file(form, f"{FORM}\n".encode())
    for host, last in lasts.items():
        folders = {"commit": ROOT, "inventory_commit": inventory}
        lags = {key: lag(folder, (last or {}).get(key, "")) for key, folder in folders.items()}
        lines += [finding.sentence() for finding in goes_back(host, run, last or {}, lags)]
    if lines:
        raise refusal("\n".join(lines), "refused, as named above: nothing was changed")


def _head(folder: Path) -> str:
    return git(folder, ["rev-parse", "HEAD"]).strip()


def _release() -> str:
    if (manifest := ROOT / "MANIFEST.json").is_file():
        return str(json.loads(manifest.read_text("utf-8"))["collection_info"]["version"])
    return str(yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))["version"])
