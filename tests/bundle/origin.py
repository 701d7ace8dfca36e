# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The internet of a bundle, on this machine's loopback: Debian's own docker-registry, an imitation of the hub, and
Debian's mirror as this machine reaches it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import hub_server
from lab.vllm import images

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "gb10-lab/tiny"
IMAGE = "gb10-lab/vllm-stand-in"
# The hosts' release: that of the lab's base image.
SUITE = "trixie"
_CONFIG = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {root}}}, delete: {{enabled: true}}}}
http: {{addr: "{address}", secret: only-here}}
"""


@contextlib.contextmanager
def registry(folder: Path) -> Iterator[str]:
    """A registry on loopback, empty; its name."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    folder.mkdir()
    (folder / "config.yml").write_text(_CONFIG.format(root=folder / "content", address=address))
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(["docker-registry", "serve", str(folder / "config.yml")], stdout=log, stderr=log) as server,
    ):
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(tuple(address.split(":")), 1):
                    break
                time.sleep(0.1)
            yield address
        finally:
            server.terminate()


def push(address: str, variant: str = "") -> str:
    """The stand-in's image in the registry; its reference there. variant: one with another top layer."""
    facts = images.ensure_image(images.STAND_IN, images.default_directory(), variant)
    reference = f"{address}/{IMAGE}:{variant or 'one'}"
    words = ["skopeo", "copy", "--dest-tls-verify=false", f"docker-archive:{facts['path']}", f"docker://{reference}"]
    subprocess.run(words, check=True, capture_output=True)
    return reference


@contextlib.contextmanager
def hub() -> Iterator[hub_server.Hub]:
    """The lab's tiny model as the hub has it."""
    folder = Path(str(images.ensure_model("tiny", images.default_directory())["path"]))
    with hub_server.serving(hub_server.Hub(REPOSITORY, COMMIT, hub_server.folder_of(folder))) as server:
        yield server


def home(folder: Path, address: str) -> dict[str, str]:
    """Variables of an owner whose skopeo takes the registry although it has no TLS."""
    config = folder / ".config" / "containers"
    config.mkdir(parents=True)
    (config / "registries.conf").write_text(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')
    return {"HOME": str(folder)}


def apt_sources(file: Path) -> Path:
    """This machine's own mirror of Debian, with the hosts' release."""
    listed = [*Path("/etc/apt").glob("sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    mirrors = [found for one in listed for found in re.findall(r"https?://\S+/debian/?(?=\s|$)", one.read_text())]
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    file.write_text(f"Types: deb\nURIs: {mirrors[0]}\nSuites: {SUITE}\nComponents: main\nSigned-By: {key}\n")
    return file


def programs() -> list[str]:
    """What this needs and this machine lacks."""
    wanted = ("skopeo", "docker-registry", "gpg", "gpgv", "apt-get")
    return [name for name in wanted if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
