# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads parts of a state side by side, each within bounded time: a part has a value, or a reason why it has none."""

import contextlib
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# (exit code, stdout, stderr) of an argument list; FileNotFoundError when there is no such program
Run = Callable[[list[str]], tuple[int, str, str]]
# A docker inspect of a hundred containers is a tenth of it.
MOST_OUTPUT = 16 << 20
# One part of a state, from how to run commands and the questions.
Part = Callable[[Run, Mapping[str, Any]], Any]


class UnreadableError(Exception):
    """A part of the state that can't be read, with the reason."""


def bounded_run(seconds: float) -> Run:
    """Runs commands without a shell, in the C locale, and gives up after ``seconds`` (UnreadableError)."""

    def run(arguments: list[str]) -> tuple[int, str, str]:
        process = subprocess.Popen(
            arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"LC_ALL": "C"},
        )
        end, printed = time.monotonic() + seconds, [bytearray(), bytearray()]
        # no threads: where the controller is this host, their stacks would take the memory that bounds an answer
        with contextlib.ExitStack() as stack:
            ready = stack.enter_context(selectors.DefaultSelector())
            for at, stream in enumerate(filter(None, (process.stdout, process.stderr))):
                ready.register(stack.enter_context(stream), selectors.EVENT_READ, at)
            while ready.get_map() and (left := end - time.monotonic()) > 0:
                for key, _events in ready.select(left):
                    part = os.read(key.fd, 1 << 16)
                    printed[key.data] += part
                    if len(printed[key.data]) > MOST_OUTPUT:
                        process.kill()
                        raise UnreadableError(f"{arguments[0]} prints more than {MOST_OUTPUT} characters")
                    if not part:
                        ready.unregister(key.fileobj)
            is_open = bool(ready.get_map())
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, end - time.monotonic()))
        if process.returncode is None or is_open:
            # one that hangs in the kernel, as nvidia-smi on a GPU that is gone, does not end by it, and is left behind
            process.kill()
            raise UnreadableError(f"{arguments[0]} did not end within {seconds:.0f} s")
        out, err = (words.decode("utf-8", "replace").replace("\r\n", "\n") for words in printed)
        return process.returncode, out, err

    return run


def text_of(path: Path, most: int = 1 << 20) -> str:
    """The beginning of a plain file, without the space around it; empty for any other, and for a program."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            content = file.read(most)
    except OSError:
        return ""
    return "" if content.startswith(b"\x7fELF") else content.decode("utf-8", "replace").strip()


def printable(value: object) -> Any:
    """The same with bytes of names that are not UTF-8 written out, ``\\udcff``: JSON knows none, and one of them would
    make a whole answer unreadable."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {printable(key): printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [printable(item) for item in value]
    return value


def output(run: Run, arguments: list[str]) -> str:
    """What a command that ends well prints; UnreadableError for any other, with its own words."""
    try:
        code, out, err = run(arguments)
    except FileNotFoundError as error:
        raise UnreadableError(f"{arguments[0]} is not installed") from error
    if code != 0:
        raise UnreadableError(err.strip() or f"{' '.join(arguments[:3])} ended with {code}")
    return out


def read_parts(parts: Mapping[str, Callable[[], object]], seconds: float) -> tuple[dict[str, Any], dict[str, str]]:
    """Each part's value, None where it could not be read, and the reasons.

    A part that hangs in the kernel (a dead disk or mount) can't be ended; it is left behind and dies with this process.
    """
    state: dict[str, Any] = dict.fromkeys(parts)
    unknown: dict[str, str] = {}

    def read(name: str) -> None:
        try:
            value = parts[name]()
        except Exception as error:  # whatever it is: the part is unknown, not clean
            unknown[name] = str(error) or type(error).__name__
        else:
            state[name] = value

    threads = {name: threading.Thread(target=read, args=(name,), daemon=True) for name in parts}
    for thread in threads.values():
        thread.start()
    deadline = time.monotonic() + seconds
    for name, thread in threads.items():
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            unknown[name] = f"not read within {seconds:.0f} s"
    # copies: a thread that was left behind may still come to an end
    return {name: None if name in unknown else state[name] for name in parts}, dict(sorted(unknown.items()))
