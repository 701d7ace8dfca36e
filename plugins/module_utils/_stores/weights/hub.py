# SPDX-License-Identifier: GPL-3.0-or-later
"""One model from the hub by the hub's own tool, ``hf``: it resumes, uses many streams, and knows gated models."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ..._base.findings import did_you_mean, first_of
from ..._base.received import ANYTHING, SIZE, Unread, checked, is_list, is_map, matching, one_line, words_of
from ..._base.staging import Progress, refusal
from ..._facts.models.stored import GGUF, files_of, repository_of
from .cache import Cache, repository_folder
from .hub_api import NO_PAGE, HubApi, HubError, commit_of

_LOOK_SECONDS = 1
# A host's own token is not used for the hub: the owner names the file of his.
_NO_TOKEN = Path(os.devnull)

# What the tool's last words have in them, what was expected then, and what to do.
_CAUSES = (
    (
        ("Access denied", "401", "403"),
        "a model that the hub gives to the owner of the token",
        "ask for access on the model's page there, and name the file with the token in model_store_token_file",
    ),
    (
        ("not found in model", "Model '"),
        "a model and a revision that the hub has",
        "correct model.repository or model.revision in the recipe; of a private one, name the file with the token in "
        "model_store_token_file",
    ),
    (
        ("too large to be downloaded",),
        "files of up to 50 GB, which is what the hub gives over HTTP",
        "download it there by hand (hf download --local-dir), and name that folder as model.source.path",
    ),
    (
        ("No space left",),
        "room for the model",
        "free some on the models' filesystem and run again: what has come is kept",
    ),
)
_OTHERWISE = (
    "the model's files",
    "see to that host's way to the hub (DNS, route, HTTPS_PROXY) and run again: what has come is kept",
)


@dataclass(frozen=True)
class Hub:
    """Downloads into a cache of its own beside the store, so that nothing unverified is visible in the store.

    command: the ``hf`` program. staging: that cache, on the store's filesystem; it stays when a download breaks, and
    the next one goes on from there. token_file: holds the token for gated models; its content appears nowhere else.
    """

    command: str
    staging: Path
    token_file: Path | None = None

    def missing_bytes(self, model: str, revision: str | None, known: int | None) -> int | None:
        """What a download has to bring, less what an earlier one brought.

        known: the revision's size for when the hub can't be asked; None if that is not known either. Raises FleetError
        for a file that the hub does not have.
        """
        size = self._size(model, revision) or known
        return None if size is None else max(0, size - _bytes_below(self._folder(model) / "blobs"))

    def main(self, model: str) -> str | None:
        """The commit that ``main`` is at this moment, by the hub's API; None when it does not answer."""
        return commit_of(self._asked(model, None))

    def sums(self, model: str, revision: str) -> dict[str, str] | None:
        """The sum of each file of a revision, sha256 or of a small one git's; None when the hub does not tell them."""
        return hub_sums(self._asked(model, revision))

    def _size(self, model: str, revision: str | None) -> int | None:
        """Bytes of the model's files in a revision, by the hub's API; None when it does not answer."""
        try:
            page = self._asked(model, revision)["siblings"]
            sizes = {
                one_line(words_of(file["rfilename"]), None): int(checked(SIZE, file["size"], "it")) for file in page
            }
        except (ValueError, KeyError, TypeError):
            return None
        wanted = files_of(model) or [*sizes]
        if absent := [file for file in wanted if file not in sizes]:
            of_kind = [file for file in sizes if re.fullmatch(str(GGUF["pattern"]), file)]
            raise refusal(
                "hub-download",
                f"{repository_of(model)}, revision {revision or 'main'}",
                found=f"it has no {first_of(absent)}",
                expected=f"a file that it has: {first_of(of_kind) if of_kind else 'there is no GGUF file'}",
                remedy=did_you_mean(absent[0], of_kind),
            )
        return sum(sizes[file] for file in wanted)

    def _asked(self, model: str, revision: str | None) -> Unread:
        """What the hub's API says of a revision, of ``main`` without one. The token is not lent in check mode."""
        lent = self.token_file if self.token_file and self.token_file.exists() else _NO_TOKEN
        try:
            return HubApi.of_environment(lent).model(repository_of(model), revision)
        except HubError:
            return NO_PAGE

    def download(self, model: str, revision: str | None, missing: int | None, progress: Progress) -> Path:
        """Bring one revision (``main`` without one) and return its folder in the staging cache.

        model: by its name in the store, `_facts.models.stored`: of one file nothing else is brought. missing: bytes
        that are to come, for the progress. Raises FleetError with the last words of ``hf``.
        """
        if shutil.which(self.command) is None:
            raise refusal(
                "hf-missing",
                self.command,
                found="there is no such program",
                expected="the hub's tool",
                remedy="run with the host that this host fetches it from, or name a tool that is there in "
                "model_store_hf",
            )
        self.staging.mkdir(parents=True, exist_ok=True)
        folder = self._folder(model)
        blobs = folder / "blobs"
        bytes_before = _bytes_below(blobs)
        progress.start(f"model {model} from the hub", missing or 0)
        what = [repository_of(model), *(files_of(model) or ())]
        arguments = ["download", *what, "--revision", revision or "main", "--cache-dir", str(folder.parent)]
        with tempfile.TemporaryFile() as output:
            with subprocess.Popen(
                [self.command, *arguments], stdout=output, stderr=subprocess.STDOUT, env=self._environment()
            ) as process:
                try:
                    while process.poll() is None:
                        progress.reach(_bytes_below(blobs) - bytes_before)
                        time.sleep(_LOOK_SECONDS)
                except BaseException:
                    process.kill()  # or it would be waited for, to the end of the download
                    raise
            if process.returncode:
                output.seek(0)
                raise self._failed(arguments, output.read().decode(errors="replace"))
        return folder

    def forget(self, model: str) -> None:
        """Remove what a finished download left in the staging cache."""
        shutil.rmtree(Cache(self.staging, model).folder, ignore_errors=True)

    def _folder(self, model: str) -> Path:
        """Where the tool puts it. Each file has a cache of its own, so that what came of it is counted alone."""
        folder, repository = Cache(self.staging, model).folder, repository_of(model)
        return folder if model == repository else folder / repository_folder(repository)

    def _environment(self) -> dict[str, str]:
        environment = {
            **os.environ,
            "HF_HOME": str(self.staging),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_UPDATE_CHECK": "1",
            # Xet begins a file anew after a break; over HTTP the tool goes on where it stopped (up to 50 GB a file).
            "HF_HUB_DISABLE_XET": "1",
            "NO_COLOR": "1",
        }
        if self.token_file:
            environment["HF_TOKEN_PATH"] = str(self.token_file)
        return environment

    def _failed(self, arguments: list[str], output: str) -> Exception:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        lines = [line for line in lines if "Error" in line] or lines
        last = lines[-1] if lines else "failed without a word"
        known = (words for marks, *words in _CAUSES if any(mark in last for mark in marks))
        expected, remedy = next(known, _OTHERWISE)
        return refusal("hub-download", f"hf {' '.join(arguments)}", found=last, expected=expected, remedy=remedy)


class Silent(Hub):
    """One that is not asked: what it has is not known."""

    def _asked(self, model: str, revision: str | None) -> Unread:
        return NO_PAGE


def _bytes_below(folder: Path) -> int:
    sizes = 0
    for path in folder.glob("*"):
        # the tool may have just given it its final name
        with contextlib.suppress(FileNotFoundError):
            sizes += path.stat().st_size
    return sizes


def hub_sums(page: Unread) -> dict[str, str] | None:
    """Of what the hub's API says of a revision, the sum of each file: sha256, or of a small one git's."""
    found: dict[str, str] = {}
    siblings = page.get("siblings")
    for file in siblings if is_list(siblings) else ():
        if not is_map(file):
            return None
        large = file.get("lfs")
        known = matching("[0-9a-f]+", large.get("sha256") if is_map(large) else file.get("blobId"))
        if known is None or (name := matching(ANYTHING, file.get("rfilename"))) is None:
            return None
        found[name] = known
    return found or None
