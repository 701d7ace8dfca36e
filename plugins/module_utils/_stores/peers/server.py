# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers other hosts of the fleet over SSH: one JSON request a line on stdin, one JSON answer a line, then its bytes.

It runs as root, started by sshd as the only command of an account for other hosts of the fleet (role peer_access), and
takes nothing from them but what `_stores.peers.request` lets pass. It gives images, models and their files, and writes
below its own stores only. An answer is one of::

    {"working": true}            more follows: it is still reading, or still getting files itself
    {"ok": 123}                  123 bytes follow
    {"late": true}               ask again, it is on its way
    {"absent": "why"}            ask somebody else
    {"failed": "what"}           somebody has to look at this host
"""

import contextlib
import json
import resource
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ..._base.findings import FleetError
from ..._base.staging import take_lock
from ..images.docker import Docker
from ..transfer.access import PLACES
from ..transfer.places import Places
from .answers import Answers
from .contents import AbsentError, Contents, LateError
from .request import LINE_BYTES, read_request

# What a hostile request may cost this host, which hangs when its memory is short.
_MEMORY_BYTES = 512 << 20
# So many may be served at once, which bounds what all of them take together: four streams each of four hosts.
_CONNECTIONS = 16
_SLOT_SECONDS = 10
_AGAIN_SECONDS = 0.2
# Who asks takes a host for dead that is silent for much longer.
_BEAT_SECONDS = 2


def main(arguments: list[str]) -> None:
    """arguments: another configuration than the installed one, for tests."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    places = Places.from_file(Path(arguments[0] if arguments else PLACES))
    with slot(places.served) as is_free:
        if is_free:
            serve(sys.stdin.buffer, sys.stdout.buffer, Contents(places, Docker(Answers().run)))
        else:
            _answer(sys.stdout.buffer, {"failed": f"it serves {_CONNECTIONS} others at this moment"}, b"")


@contextlib.contextmanager
def slot(folder: Path, seconds: float = _SLOT_SECONDS) -> Iterator[bool]:
    """One of the connections that are served at once, held until this ends or the process does; False where none gets
    free within ``seconds``."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        locks = [stack.enter_context((folder / str(number)).open("w")) for number in range(_CONNECTIONS)]
        while not (taken := any(map(take_lock, locks))) and time.monotonic() < deadline:
            time.sleep(_AGAIN_SECONDS)
        yield taken


def serve(requests: IO[bytes], answers: IO[bytes], contents: Contents) -> None:
    """Answer until nobody asks any more."""
    while line := requests.readline(LINE_BYTES + 1):
        with contextlib.suppress(BrokenPipeError):
            _answer(answers, *_result(line, answers, contents))
        if len(line) > LINE_BYTES:
            return  # where the next request begins is anybody's guess


def _result(line: bytes, answers: IO[bytes], contents: Contents) -> tuple[dict[str, Any], bytes]:
    try:
        content = _content(*read_request(line), answers, contents)
    except AbsentError as error:
        return {"absent": str(error)}, b""
    except LateError:
        return {"late": True}, b""
    except (FleetError, OSError, EOFError, ValueError) as error:
        return {"failed": str(error)}, b""
    except Exception as error:  # whatever a request does, the next one is answered
        return {"failed": f"it can't answer that ({type(error).__name__})"}, b""
    return {"ok": len(content)}, content


def _content(kind: str, request: dict[str, Any], answers: IO[bytes], contents: Contents) -> bytes:
    if kind == "read":
        content = contents.read(request["read"], request["ranges"])
        if contents.is_getting():
            _answer(answers, {"working": True}, b"")
        return content
    with _beating(answers):
        if kind == "recipe":
            return contents.recipe(request["recipe"], request["packed"])
        if kind == "image":
            return json.dumps(contents.image(request["image"], request["digest"])).encode()
        return json.dumps(contents.model(request["model"], request["revision"])).encode()


@contextlib.contextmanager
def _beating(answers: IO[bytes]) -> Iterator[None]:
    """Show life while something takes long."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(_BEAT_SECONDS):
            with contextlib.suppress(BrokenPipeError):
                _answer(answers, {"working": True}, b"")

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _answer(answers: IO[bytes], head: dict[str, object], content: bytes) -> None:
    answers.write(json.dumps(head).encode() + b"\n")
    answers.write(content)
    answers.flush()
