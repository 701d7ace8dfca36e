# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time changes a host: who holds its lease, until when, and how it is given back."""

import os
import shlex
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ansible import constants as C  # noqa: N812 - as Ansible calls it
from ansible import context
from ansible.errors import AnsibleAction

from ..module_utils._base import layout, worded
from ..module_utils._base.place import Place
from ..module_utils._base.received import one_line
from ..module_utils._base.schema import Spec
from ._screen import is_first, refusal, show
from ._who import person

_TEXTS: Spec = {"type": "map", "required": True, "values": {"type": "str"}}
HOLDER: Spec = {"type": "map", "options": {"holder": _TEXTS, "last_run": _TEXTS}}
# No task of ours lasts longer: a lease of another controller that is older was left behind.
_LONGEST = timedelta(hours=26)
_TIME = "%Y-%m-%d %H:%M UTC"
PATIENCE_S, _AGAIN_S = 900, 5


def this_work() -> dict[str, str]:
    """Who holds the hosts of this run; the same in each of its workers."""
    run = " ".join(Path(name).name.removesuffix(".yml") for name in context.CLIARGS.get("args", ()))
    return {
        "token": Path(C.DEFAULT_LOCAL_TMP).name,
        "person": person(),
        "machine": f"{socket.gethostname()} {uuid.getnode():x}",
        "pid": str(os.getppid()),
        "playbook": run or "ansible",
        "at": datetime.now(UTC).strftime(_TIME),
    }


def is_over(holder: Mapping[str, str], mine: Mapping[str, str], take_over: object = None) -> bool:
    """Whether a run has ended: of this machine by its process, of another by its age, or as this run's owner says.

    take_over: the person whose lease it may take, if any.
    """
    if holder.get("person") == take_over:
        return True
    try:
        if holder["machine"] == mine["machine"]:
            os.kill(int(holder["pid"]), 0)
            return False
        return datetime.now(UTC) - datetime.strptime(holder["at"], _TIME).replace(tzinfo=UTC) > _LONGEST
    except PermissionError:
        return False
    except (ProcessLookupError, ValueError, KeyError, OverflowError):
        return True


def at_work(holder: Mapping[str, str]) -> str:
    """Who does what on a host, and since when."""
    who, what, at = (one_line(holder.get(key, "?")) for key in ("person", "playbook", "at"))
    return f"{who} runs {what}, since {at}"


def busy(host: str, holder: Mapping[str, str]) -> AnsibleAction:
    """What refuses another run, to be raised."""
    person = shlex.quote(one_line(holder.get("person", "?")))
    found = worded.host_error("host-busy", Place(host=host), work=at_work(holder), person=person)
    return refusal(found.sentence(), "refused, as named above: nothing was changed")


def wait(
    host: str,
    holder: Mapping[str, str],
    look: Callable[[], Mapping[str, str]],
    take_over: object = None,
    pause: Callable[[float], None] = time.sleep,
) -> Mapping[str, str]:
    """Who held the host last, once that run is over; refused after a quarter of an hour. look: who holds it now."""
    mine = this_work()
    for _ in range(PATIENCE_S // _AGAIN_S):
        if not holder or holder.get("token") == mine["token"] or is_over(holder, mine, take_over):
            return holder
        if is_first(f"lease {holder.get('token')}"):
            show(f"{host}: waits, at most {PATIENCE_S // 60} minutes: {at_work(holder)}")
        pause(_AGAIN_S)
        holder = look()
    raise busy(host, holder)


def release(connection: Any, token: str) -> list[str]:
    """The command that empties the host's lease if it is still ours. The connection, by SSH or local, has been used."""
    file = layout.LEASE
    words = ["sh", "-c", f"grep -qs {shlex.quote(token)} {file} && : > {file}"]
    if connection.transport == "local":
        return words
    program = connection.get_option("ssh_executable")
    built = connection._build_command(program, "ssh", "-o", "BatchMode=yes", connection.host, shlex.join(words))
    text = [word.decode() if isinstance(word, bytes) else str(word) for word in built]
    return text[text.index(program) :]  # without the program for a password: the connection is open
