# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two bare lab hosts and their cable, which see the tiny model and an image."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.fixtures import Fleet, need_lab
from lab.vllm import images

HOSTS = ("spark-2", "spark-3")


@contextmanager
def two_hosts(kind: images.Kind, place: Path) -> Iterator[tuple[Fleet, str]]:
    """The lab below ``place``, and the image's name; it ends with whoever asked for it."""
    need_lab()
    folder = images.default_directory()
    images.ensure_model("tiny", folder)
    facts = images.ensure_image(kind, folder)
    fleet = Fleet(place / "lab")
    wired = ("--hosts", ",".join(HOSTS), "--cable", "spark-2:1=spark-3:1")
    fleet.lab("up", "--docker", *wired, "--share", f"{folder}:/srv/lab")
    try:
        yield fleet, facts["reference"]
    finally:
        fleet.lab("down")
