# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetches this host's slice of the plan, checks who signed it and that it is no older one, and converges to it.

Managed by gb10.fleet. One line in the journal and a report in the state folder. Exits with 0 converged, 2 refused
(nothing was changed), 1 unknown: the folder can't be reached, or the converge failed or ran out of time.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import hashlib
import http.client
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NAMESPACE, SIGNER = "gb10-fleet", "publisher"  # as `_operations.pull.published` has them
FORMAT = 1
CONVERGED, UNKNOWN, REFUSED = 0, 1, 2
_WORDS = {CONVERGED: "converged", UNKNOWN: "unknown", REFUSED: "refused"}
_MOST_BYTES = 64 << 20
_MOST_SERIAL = 1 << 53
_MOST_LINE = 300
_PATIENCE_S = 60
_LONGEST_S = 600  # a file of a few megabytes; a server that drips would hold the next tries back for hours
_SUMS = "sums.json"  # beside an unpacked collection: the SHA-256 of each of its files
_SIGNED = b"-----END SSH SIGNATURE-----\n"
_NAME = re.compile(r"ansible_collections/gb10/fleet/[\w./-]+")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RECAP = re.compile(r" : ok=\d+ +changed=(\d+) ")


class RefusedError(Exception):
    """Why what was fetched is not for this host to take."""


class UnknownError(Exception):
    """Why it can't be told, or done."""


# Deciding ---------------------------------------------------------------------------------------------------------


def opened(content: bytes) -> tuple[bytes, bytes]:
    """The slice's text and its signature, of the file that was fetched. Nothing is parsed before it is verified."""
    signature, end, text = content.partition(_SIGNED)
    if not end:
        raise RefusedError("it is no file that gb10.fleet.publish has written")
    return text, signature + end


def judged(text: bytes, host: str, inventory: str, newest: int) -> dict[str, Any]:
    """The slice, which was signed by whom we know, if it is this host's and not older than ``newest``."""
    try:
        slice_ = json.loads(text)
    except (ValueError, RecursionError):
        raise RefusedError("what was signed is no JSON") from None
    if not isinstance(slice_, dict) or slice_.get("format") != FORMAT:
        found = slice_.get("format") if isinstance(slice_, dict) else type(slice_).__name__
        raise RefusedError(f"its form is {found}, and this host reads {FORMAT}; run gb10.fleet.pull for it again")
    serial, collection = slice_.get("serial"), slice_.get("collection")
    if (slice_.get("inventory"), slice_.get("host")) != (inventory, host):
        raise RefusedError(
            f"it was signed for {slice_.get('host')} of {slice_.get('inventory')}; expected {host} of {inventory}"
        )
    if not isinstance(serial, int) or isinstance(serial, bool) or not 1 <= serial <= _MOST_SERIAL:
        raise RefusedError(f"its serial is {str(serial)[:40]!r}; expected a whole number up to {_MOST_SERIAL}")
    if serial < newest:
        raise RefusedError(
            f"its serial {serial} is older than {newest}, which this host had before; publish again, by the clock of "
            "the machine that published that; where that clock was wrong, with a new key"
        )
    if not isinstance(collection, str) or not _DIGEST.fullmatch(collection):
        raise RefusedError(f"it names the collection {str(collection)[:80]!r}; expected a SHA-256")
    if not isinstance(slice_.get("lock"), str) or not isinstance(slice_.get("units"), list):
        raise RefusedError("it has no lock or no units; publish it anew")
    result: dict[str, Any] = slice_
    return result


def outcome(code: int, output: str) -> tuple[int, str]:
    """How a converge ended, in a line: what it changed, or what stopped it."""
    changed = sum(int(count) for count in _RECAP.findall(output))
    if code == 0 and _RECAP.search(output):
        return CONVERGED, f"{changed} change{'s' * (changed > 1)}" if changed else "nothing had to be changed"
    lines = [line.strip() for line in output.splitlines()]
    why = [line for line in lines if line.startswith(("[ERROR]", "fatal:"))] or lines[-1:] or ["no output"]
    refused = "nothing was changed" in output and not changed
    return (REFUSED if refused else UNKNOWN), why[0].removeprefix("[ERROR]: ")


def printable(line: str) -> str:
    """For a terminal: a server's or Ansible's words, without what a terminal obeys."""
    return "".join(letter if letter.isprintable() else " " for letter in line)[:_MOST_LINE]


# Doing ------------------------------------------------------------------------------------------------------------


def fetched(where: str, name: str) -> bytes:
    """A file of the published folder; where: an address or a path."""
    address = f"{where.rstrip('/')}/{urllib.parse.quote(name)}" if "://" in where else Path(where, name).as_uri()
    try:
        with urllib.request.urlopen(address, timeout=_PATIENCE_S) as answer:
            promised, content = answer.headers.get("Content-Length", ""), bytearray()
            began = time.monotonic()
            while len(content) <= _MOST_BYTES and (part := answer.read1(1 << 16)):
                content += part
                if time.monotonic() - began > _LONGEST_S:
                    raise UnknownError(f"{address} is too slow: {len(content)} bytes in {_LONGEST_S} s")
    except (OSError, ValueError, http.client.HTTPException) as problem:  # urllib's errors are OSErrors
        raise UnknownError(f"{address} can't be read: {getattr(problem, 'reason', problem)}") from None
    if len(content) > _MOST_BYTES:
        raise RefusedError(f"{address} has more than {_MOST_BYTES} bytes")
    if promised.isdecimal() and len(content) < int(promised):
        raise UnknownError(f"{address} was cut off after {len(content)} of {promised} bytes")
    return bytes(content)


def verify(text: bytes, signature: bytes, signers: Path) -> None:
    """OpenSSH says whether one of the signers has signed it for us: ssh-keygen(1), ``-Y verify``."""
    with tempfile.NamedTemporaryFile(suffix=".sig") as file:
        file.write(signature)
        file.flush()
        words = ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", SIGNER, "-n", NAMESPACE, "-s", file.name]
        done = subprocess.run(words, input=text, capture_output=True, check=False)
    if done.returncode:
        reason = " ".join((done.stderr or done.stdout).decode(errors="replace").split())
        raise RefusedError(
            f"its signature is not by the key in {signers}, or it was cut off on its way: {reason[:300]}"
        )


def unpacked(settings: Mapping[str, Any], digest: str) -> Path:
    """The folder of the collection that a slice names, fetched where it is not here. Any other one is removed."""
    above = Path(settings["state"]) / "collections"
    folder = above / digest
    if not is_whole(folder):
        name = f"collection-{digest}.tar.gz"
        content = fetched(settings["from"], name)
        if hashlib.sha256(content).hexdigest() != digest:
            raise RefusedError(f"{name} has another content than its name says")
        above.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=above) as part:
            whole = Path(part, digest)
            with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
                for member in archive:
                    if not member.isfile() or not _NAME.fullmatch(member.name) or ".." in member.name.split("/"):
                        raise RefusedError(f"{name} holds {member.name!r}, which is no file of a collection")
                    file, packed = whole / member.name, archive.extractfile(member)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(packed.read() if packed else b"")
            (whole / _SUMS).write_text(json.dumps(sums(whole)), "utf-8")
            os.sync()  # a folder that is there is whole, whenever the power goes
            forget(folder)
            whole.rename(folder)
    for other in above.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return folder


def sums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of an unpacked collection, but for what Python compiled of it."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file != folder / _SUMS
    }


def is_whole(folder: Path) -> bool:
    """Whether an unpacked collection is as it was fetched: a bad disk or a person may have changed it since."""
    try:
        kept = json.loads((folder / _SUMS).read_bytes())
        return bool(kept == sums(folder))
    except (OSError, ValueError, RecursionError):
        return False


def forget(path: Path) -> None:
    """Remove what stands in the way of a folder, a file or a link as well."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def leave_what_was_stopped(units: Iterable[str]) -> None:
    """A service that somebody stopped stays stopped: gb10.fleet.stop disables its unit, which none of ours else is."""
    for unit in units:
        words = ["systemctl", "is-enabled", str(unit)]
        found = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
        if found == "disabled":
            raise RefusedError(
                f"{unit} was stopped by somebody; gb10.fleet.restart starts it from the controller, and then slices "
                "are taken again"
            )


def converge(settings: Mapping[str, Any], slice_: Mapping[str, Any], text: bytes) -> tuple[int, str]:
    """Run site.yml of the collection that the slice names, here, with the slice instead of a plan."""
    state, host = Path(settings["state"]), settings["host"]
    leave_what_was_stopped(slice_["units"])
    collections = unpacked(settings, slice_["collection"])
    here = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": "/usr/bin/python3"}
    write(state / "hosts.json", json.dumps({"all": {"hosts": {host: here}}}))
    write(state / ".fleet.lock", slice_["lock"])
    write(state / "slice.json", text.decode())
    write(state / "ansible.cfg", "[connection]\npipelining = true\n")
    own = {
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_CONFIG": str(state / "ansible.cfg"),
        "ANSIBLE_HOME": str(state / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "0",
        "LC_ALL": "C.UTF-8",
        "PATH": f"{settings['path']}{os.pathsep}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",  # sudo's
    }
    pulled = json.dumps({"pulled": str(state / "slice.json")})
    words = ["ansible-playbook", "-i", str(state / "hosts.json"), "gb10.fleet.site", "-e", pulled]
    try:
        done = subprocess.run(
            words, cwd=state, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=settings["seconds"], check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as ended:
        output = ended.stdout or b""
        write(state / "last.log", output.decode(errors="replace") if isinstance(output, bytes) else output)
        raise UnknownError(f"the converge took more than {settings['seconds']} s") from None
    except FileNotFoundError:
        raise UnknownError(f"there is no ansible-playbook in {settings['path']}; run gb10.fleet.pull again") from None
    write(state / "last.log", done.stdout)
    code, line = outcome(done.returncode, done.stdout)
    if code == UNKNOWN:  # what Python compiled may be damaged, which no sum shows: the next try fetches it anew
        forget(collections)
    return code, line


def write(path: Path, text: str) -> None:
    """Whole or not at all, for root alone."""
    part = path.with_name(f".{path.name}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as problem:  # a full disk names no file, and a part is nobody's business
        raise OSError(problem.errno, problem.strerror, str(path)) from None


@contextlib.contextmanager
def alone(state: Path) -> Iterator[None]:
    """One run at a time; a second one ends at once."""
    with (state / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnknownError("another run of it is under way") from None
        yield


def had(kept: Path, signers: str) -> int:
    """The serial of the slice that this host had last of these signers; 0 before the first. signers: their digest."""
    text = kept.read_text("utf-8", "replace") if kept.exists() else f"{signers} 0"
    found = re.fullmatch(r"([0-9a-f]{64}) (\d{1,18})", text, re.ASCII)
    if not found:
        raise UnknownError(f"{kept} holds {text[:40]!r}; expected a serial; remove it, and the next slice is taken")
    return int(found[2]) if found[1] == signers else 0


def pull(settings: Mapping[str, Any]) -> tuple[int, str, int]:
    """How it ended, in a line, and the serial of the slice that this host goes by; 0 before the first."""
    state, newest = Path(settings["state"]), 0
    kept = state / "serial"
    try:
        by = hashlib.sha256(Path(settings["signers"]).read_bytes()).hexdigest()
        # a host that had none goes by what was signed for it last
        newest = max(had(kept, by), settings.get("newest", 0))
        text, signature = opened(fetched(settings["from"], f"{settings['host']}.slice"))
        verify(text, signature, Path(settings["signers"]))
        slice_ = judged(text, settings["host"], settings["inventory"], newest)
        # from here on no older one is taken, however this run ends
        newest = slice_["serial"]
        write(kept, f"{by} {newest}")
        code, line = converge(settings, slice_, text)
    except RefusedError as why:
        code, line = REFUSED, str(why)
    except OSError as problem:
        code, line = UNKNOWN, unwritten(problem, state)
    except (UnknownError, ValueError, tarfile.TarError) as why:
        code, line = UNKNOWN, str(why)
    return code, printable(line), newest


def unwritten(problem: OSError, state: Path) -> str:
    """What can't be written or read, and what to do about it."""
    remedy = {
        errno.ENOSPC: "make room there",
        errno.EDQUOT: "make room there",
        errno.EISDIR: "remove that folder",
        errno.EROFS: "make it writable",
    }.get(problem.errno or 0, f"journalctl -k may tell more of {state}")
    return f"{problem.filename or state}: {problem.strerror or problem}; {remedy}, and the next try goes on"


def report(state: Path, code: int, why: str, serial: int) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    write(state / "report.json", json.dumps({"outcome": _WORDS[code], "why": why, "serial": serial, "at": now}))


def main() -> None:
    parser = argparse.ArgumentParser(description="Fetch this host's slice of the plan, and converge to it.")
    parser.add_argument("settings", type=Path, help="a JSON file that the role pull writes")
    settings = json.loads(parser.parse_args().settings.read_bytes())
    state = Path(settings["state"])
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone(state):
            report(state, UNKNOWN, "a run is under way, or was ended in the middle", 0)
            code, line, serial = pull(settings)
            report(state, code, line, serial)
    except UnknownError as why:
        code, line = UNKNOWN, str(why)
    except OSError as problem:
        code, line = UNKNOWN, unwritten(problem, state)
    print(f"pull: {_WORDS[code]}: {line}", flush=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
