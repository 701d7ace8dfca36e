# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our transfer against BitTorrent (aria2), casync and a registry (Debian's docker-registry, skopeo), in one run.

    cd tests && ../.venv/bin/python -m bench.rivals [--hosts 4]

It needs root and `apt-get install aria2 casync docker-registry skopeo`.

Each host is a network namespace with one link of 160 Mbit/s to a switch; bytes are those of the links, headers and all.
Nobody encrypts here: ours goes over SSH otherwise, which adds a hundredth, and a core's ciphers. The image has a base
and a fat layer with 9 % of new content, of which every host has the version before; the model is new to all.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .content import MB, archive, fat_layer, layer, noise

RATE = "160mbit"
SOURCE = "10.99.0.10"
PORT = 7000
_BRIDGE = "gb10rivals"
HERE = Path(__file__).resolve().parent
MODEL = 128 * MB
# The part of the image or model after which a receiver is killed.
CUT = 0.5


class Links:
    """Namespaces ``rv0`` (the source) to ``rvN`` on a switch, each with a link of ``rate`` (words of tc(8))."""

    def __init__(self, hosts: int, rate: str = RATE) -> None:
        self._rate = rate
        self.names = [f"rv{number}" for number in range(hosts + 1)]

    def __enter__(self) -> Links:
        run("ip", "link", "add", _BRIDGE, "type", "bridge")
        run("ip", "link", "set", _BRIDGE, "up")
        for number, name in enumerate(self.names):
            run("ip", "netns", "add", name)
            run("ip", "link", "add", f"v{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", f"v{name}", "master", _BRIDGE, "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "address", "add", f"{address(number)}/24", "dev", "eth0")
            shape = ("root", "tbf", "rate", self._rate, "burst", "256k", "latency", "50ms")
            run("tc", "qdisc", "add", "dev", f"v{name}", *shape)
            run("tc", "-n", name, "qdisc", "add", "dev", "eth0", *shape)
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", _BRIDGE], check=False)

    def bytes(self, number: int, direction: str) -> int:
        shown = json.loads(run("ip", "-n", self.names[number], "-s", "-j", "link", "show", "eth0"))
        count: int = shown[0]["stats64"][direction]["bytes"]
        return count


def address(number: int) -> str:
    return f"10.99.0.{10 + number}"


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


class Contest:
    """One way of bringing something from rv0 to all others."""

    def __init__(self, links: Links, folder: Path) -> None:
        self.links, self.folder = links, folder
        self._running: list[subprocess.Popen[bytes]] = []
        self._log = (folder / "log").open("wb")

    def start(self, number: int, *words: str | Path) -> subprocess.Popen[bytes]:
        command = ["ip", "netns", "exec", self.links.names[number], *map(str, words)]
        process = subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True)
        self._running.append(process)
        return process

    def stop(self) -> None:
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._log.close()


Receiver = Callable[[int], Sequence[str | Path]]
Line = dict[str, Any]


def measured(contest: Contest, name: str, size: int, receive: Receiver, has: Callable[[int], bool], cut: bool) -> Line:
    """What it took: all hosts receive at once. cut: the last one is killed (-9) halfway and begins again."""
    hosts = range(1, len(contest.links.names))
    before = [contest.links.bytes(number, "rx" if number else "tx") for number in (0, *hosts)]
    began, used = time.monotonic(), cpu()
    receivers = {number: contest.start(number, *receive(number)) for number in hosts}
    if cut:
        last = hosts[-1]
        while contest.links.bytes(last, "rx") - before[last] < CUT * size:
            time.sleep(0.02)
        os.killpg(receivers[last].pid, signal.SIGKILL)
        receivers[last].wait()
        receivers[last] = contest.start(last, *receive(last))
    for number, receiver in receivers.items():
        while receiver.poll() is None and not has(number):
            time.sleep(0.05)
        if not has(number):
            log = (contest.folder / "log").read_text("utf-8", "replace")
            contest.stop()
            raise RuntimeError(f"{name}: {contest.links.names[number]} has not got it\n{log[-2000:]}")
    seconds = time.monotonic() - began
    after = [contest.links.bytes(number, "rx" if number else "tx") for number in (0, *hosts)]
    sent, *received = [(b - a) / size for a, b in zip(before, after, strict=True)]
    contest.stop()
    return {
        "name": name + (", one receiver killed halfway" if cut else ""),
        "sent by the source, of the size": round(sent, 3),
        "received by a host at most, of the size": round(max(received), 3),
        "seconds": round(seconds, 1),
        "processor seconds": round(cpu() - used, 1),
    }


def cpu() -> float:
    """Of all that has ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# Ours


def ours(contest: Contest, name: str, content: Path, old: Path | None, cut: bool) -> Line:
    """A chain, as the plan makes it: each host asks the one before it, then those before that, at last the source."""
    sha256, size = digest(content), content.stat().st_size
    folders = [contest.folder / str(number) for number in range(len(contest.links.names))]
    for folder in folders:
        (folder / "layers").mkdir(parents=True)
    paths = f"PYTHONPATH={HERE.parent}:{HERE.parents[1] / 'collections'}"
    node = ("env", paths, sys.executable, "-m", "bench.rival_node")
    kind = "layer" if old else "blob"
    for number in range(len(folders)):
        given = (kind, str(content)) if number == 0 else ()
        contest.start(number, *node, "serve", folders[number], str(PORT), *given)
    time.sleep(3)

    def receive(number: int) -> Sequence[str | Path]:
        peers = ",".join(address(other) for other in range(number - 1, -1, -1))
        return (*node, "receive", folders[number], sha256, peers, *([old] if old else []))

    return measured(contest, name, size, receive, lambda number: (folders[number] / "done").exists(), cut)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# BitTorrent


def bittorrent(contest: Contest, name: str, content: Path, cut: bool) -> Line:
    size = content.stat().st_size
    torrent = contest.folder / "it.torrent"
    torrent.write_bytes(metainfo(content, f"http://{SOURCE}:6969/announce"))
    options = ("--enable-dht=false", "--enable-peer-exchange=false", "--bt-enable-lpd=false", "--seed-ratio=0.0",
               "--check-integrity=true", "--file-allocation=none", "--summary-interval=0", "--listen-port=6881-6889",
               "--bt-tracker-interval=2", "--bt-request-peer-speed-limit=100M", "--no-conf=true")  # fmt: skip
    contest.start(0, sys.executable, "-m", "bench.rival_node", "track", "6969")
    time.sleep(2)
    contest.start(0, "aria2c", *options, f"--dir={content.parent}", torrent)
    time.sleep(3)
    folders = [contest.folder / str(number) for number in range(len(contest.links.names))]

    def receive(number: int) -> Sequence[str | Path]:
        finished = f"--on-bt-download-complete={contest.folder / f'hook{number}'}"
        return ("aria2c", *options, f"--dir={folders[number]}", finished, torrent)

    for number, folder in enumerate(folders):
        folder.mkdir()
        hook = contest.folder / f"hook{number}"
        hook.write_text(f"#!/bin/sh\n: > {folder}/done\n")
        hook.chmod(0o755)
    return measured(contest, name, size, receive, lambda number: (folders[number] / "done").exists(), cut)


def metainfo(content: Path, announce: str) -> bytes:
    pieces = []
    with content.open("rb") as file:
        while piece := file.read(MB):
            pieces.append(hashlib.sha1(piece, usedforsecurity=False).digest())
    info = {"length": content.stat().st_size, "name": content.name, "piece length": MB, "pieces": b"".join(pieces)}
    return bencode({"announce": announce, "info": info})


def bencode(value: Any) -> bytes:
    match value:
        case int():
            return b"i%de" % value
        case bytes():
            return b"%d:%s" % (len(value), value)
        case str():
            return bencode(value.encode())
        case _:
            return b"d" + b"".join(bencode(key) + bencode(value[key]) for key in sorted(value)) + b"e"


# casync


def casync(contest: Contest, name: str, content: Path, old: Path, cut: bool) -> Line:
    store, index = contest.folder / "store.castr", contest.folder / "it.caibx"
    run("casync", "make", f"--store={store}", str(index), str(content))
    contest.start(0, sys.executable, "-m", "http.server", "--directory", contest.folder, "--bind", SOURCE, "8000")
    time.sleep(2)

    def receive(number: int) -> Sequence[str | Path]:
        url, target = f"http://{SOURCE}:8000", contest.folder / f"{number}.tar"
        words = f"casync extract --store={url}/store.castr --seed={old} {url}/it.caibx {target} && : > {target}.done"
        return ("sh", "-c", words)

    done = [contest.folder / f"{number}.tar.done" for number in range(len(contest.links.names))]
    return measured(contest, name, content.stat().st_size, receive, lambda number: done[number].exists(), cut)


# A registry


def registry(contest: Contest, name: str, images: Sequence[Path], size: int, cut: bool) -> Line:
    """The images lie in a registry at the source; each host has the first of them in an OCI layout."""
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(contest.folder / "registry")}},
        "http": {"addr": f"{SOURCE}:5000"},
    }
    (contest.folder / "registry.yml").write_text(json.dumps(settings))
    contest.start(0, "docker-registry", "serve", contest.folder / "registry.yml")
    time.sleep(2)
    policy = ("--insecure-policy", "--tmpdir", str(contest.folder))
    netns = ("ip", "netns", "exec", contest.links.names[0], "skopeo", *policy, "copy", "--dest-tls-verify=false")
    for version, image in enumerate(images, 1):
        run(*netns, f"docker-archive:{image}", f"docker://{SOURCE}:5000/it:{version}")

    def copy(number: int, version: int) -> tuple[str, ...]:
        source = f"docker://{SOURCE}:5000/it:{version}"
        shared = ("--dest-shared-blob-dir", str(contest.folder / f"blobs{number}"))
        return ("skopeo", *policy, "copy", "--src-tls-verify=false", *shared, source,
                f"oci:{contest.folder / str(number)}:it")  # fmt: skip

    for number in range(1, len(contest.links.names)):
        run("ip", "netns", "exec", contest.links.names[number], *copy(number, 1))

    def receive(number: int) -> Sequence[str | Path]:
        return ("sh", "-c", f"{' '.join(copy(number, 2))} && : > {contest.folder}/{number}.done")

    done = [contest.folder / f"{number}.done" for number in range(len(contest.links.names))]
    return measured(contest, name, size, receive, lambda number: done[number].exists(), cut)


def main() -> int:
    parser = argparse.ArgumentParser(description="Our transfer against aria2, casync and a registry.")
    parser.add_argument("--hosts", type=int, default=4, help="receivers (default: %(default)s)")
    hosts = parser.parse_args().hosts
    missing = [tool for tool in ("aria2c", "casync", "docker-registry", "skopeo") if shutil.which(tool) is None]
    if missing:
        parser.error(f"not found: {', '.join(missing)}; apt-get install aria2 casync docker-registry skopeo")
    os.chdir(HERE.parent)
    with tempfile.TemporaryDirectory(prefix="gb10-rivals-") as scratch, Links(hosts) as links:
        folder = Path(scratch)
        base = layer({"base": noise("base", 120 * MB)})
        fat = [fat_layer(version) for version in "12"]
        layers, images = [folder / "1.tar", folder / "2.tar"], [folder / "image1.tar", folder / "image2.tar"]
        for path, image, tar in zip(layers, images, fat, strict=True):
            path.write_bytes(tar)
            image.write_bytes(archive("it:1", [base, tar]))
        model = folder / "model.bin"
        model.write_bytes(noise("model", MODEL))
        size = images[1].stat().st_size
        print(json.dumps({"receivers": hosts, "image": size, "its fat layer": len(fat[1]), "new in it": 12 * MB}))
        for contest, cut in contests(links, folder):
            show(ours(contest("ours-model"), f"model to {hosts}: ours", model, None, cut))
            show(bittorrent(contest("bt-model"), f"model to {hosts}: aria2", model, cut))
            show(bittorrent(contest("bt-image"), f"image to {hosts}: aria2, the archive", images[1], cut))
            show(registry(contest("registry"), f"image to {hosts}: registry, whole layers", images, size, cut))
            if not cut:
                name = f"image's layer to {hosts}"
                show(ours(contest("ours-image"), f"{name}: ours, over its old version", layers[1], layers[0], cut))
                show(casync(contest("casync"), f"{name}: casync, over its old version", layers[1], layers[0], cut))
    return 0


def show(line: Line) -> None:
    print(json.dumps(line), flush=True)


def contests(links: Links, folder: Path) -> Iterator[tuple[Callable[[str], Contest], bool]]:
    for cut in (False, True):

        def contest(name: str, cut: bool = cut) -> Contest:
            place = folder / f"{name}-{cut}"
            place.mkdir()
            return Contest(links, place)

        yield contest, cut


if __name__ == "__main__":
    sys.exit(main())
