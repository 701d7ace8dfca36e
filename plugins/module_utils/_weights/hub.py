# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""One model from the hub by the hub's own tool, ``hf``: it resumes, uses many streams, and knows gated models."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gb10.fleet.plugins.module_utils._transfer.staging import Progress, refusal
from ansible_collections.gb10.fleet.plugins.module_utils._weights.cache import Cache, repository_folder

_LOOK_SECONDS = 1


@dataclass(frozen=True)
class Hub:
    """Downloads into a cache of its own beside the store, so that nothing unverified is visible in the store.

    command: the ``hf`` program. staging: that cache, on the store's filesystem; it stays when a download breaks, and
    the next one goes on from there. token_file: holds the token for gated models; its content appears nowhere else.
    """

    command: str
    staging: Path
    token_file: Path | None = None

    def download(self, repository: str, revision: str | None, size: int | None, progress: Progress) -> Path:
        """Bring one revision (``main`` without one) and return its folder in the staging cache.

        size: expected bytes, for the progress. Raises FleetError with the last words of ``hf``.
        """
        if shutil.which(self.command) is None:
            raise refusal(
                "hf-missing",
                self.command,
                "there is no such program",
                "the hub's tool",
                "run with the host that this one fetches it from, or name a tool that is there in model_store_hf",
            )
        self.staging.mkdir(parents=True, exist_ok=True)
        cache = Cache(self.staging, repository)
        progress.start(f"model {repository} from the hub", size or 0)
        arguments = ["download", repository, "--revision", revision or "main", "--cache-dir", str(self.staging / "hub")]
        with tempfile.TemporaryFile() as said:
            with subprocess.Popen(
                [self.command, *arguments], stdout=said, stderr=subprocess.STDOUT, env=self._environment()
            ) as process:
                while process.poll() is None:
                    progress.reach(_bytes_below(cache.folder / "blobs"))
                    time.sleep(_LOOK_SECONDS)
            if process.returncode:
                said.seek(0)
                raise self._failed(arguments, said.read().decode(errors="replace"))
        return cache.folder

    def forget(self, repository: str) -> None:
        """Remove what a finished download left in the staging cache."""
        shutil.rmtree(self.staging / "hub" / repository_folder(repository), ignore_errors=True)

    def _environment(self) -> dict[str, str]:
        environment = {
            **os.environ,
            "HF_HOME": str(self.staging),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_UPDATE_CHECK": "1",
            "NO_COLOR": "1",
        }
        if self.token_file:
            environment["HF_TOKEN_PATH"] = str(self.token_file)
        return environment

    def _failed(self, arguments: list[str], said: str) -> Exception:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        lines = [line for line in lines if "Error" in line] or lines
        return refusal(
            "hub-download",
            f"hf {' '.join(arguments)}",
            lines[-1] if lines else "failed without a word",
            "the model's files",
            "for a gated model give model_store_token_file; what has come is kept, run again to go on",
        )


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*")) if folder.is_dir() else 0
