# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shown beside Ansible's own lines: never in the way of a program that reads them, and a refusal once."""

import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from ansible import constants as C  # noqa: N812 - as Ansible calls it
from ansible.errors import AnsibleAction
from ansible.utils.display import Display

from ..module_utils._base.received import harmless

# A colour, as Ansible writes it, or the text before the next.
_COLOURED = re.compile(r"(\x1b\[[0-9;]*m)|(?:(?!\x1b\[[0-9;]*m).)+", re.DOTALL)
# Callbacks whose lines are for people. Any other is taken for one whose output a program reads.
_FOR_PEOPLE = {"brief", "default", "debug", "dense", "minimal", "oneline", "yaml", "unixy", "selective"}


def for_people() -> bool:
    return str(C.DEFAULT_STDOUT_CALLBACK).rpartition(".")[2] in _FOR_PEOPLE


def show(text: str) -> None:
    """On standard output, or on standard error where a program reads that."""
    Display().display(harmless(text), stderr=not for_people())


def clean() -> None:
    """From now on Ansible's own lines hold nothing that a terminal obeys but colours.

    Its errors, warnings and results have the words of hosts. A program reads them as they are.
    """
    display = Display()
    if for_people() and "display" not in vars(display):
        display.display = functools.partial(_cleaned, display.display)


def _cleaned(write: Callable[..., None], msg: object, *how: object, **named: object) -> None:
    if isinstance(msg, str):
        lines = msg.replace("\r\n", "\n").split("\n")
        msg = "\n".join(line if line.isprintable() else _COLOURED.sub(_plain, line) for line in lines)
    write(msg, *how, **named)


def _plain(part: re.Match[str]) -> str:
    return part[0] if part[1] else harmless(part[0])


def warn(text: str) -> None:
    Display().warning(harmless(text))


def is_brief() -> bool:
    """Whether the screen is the short one of `gb10`: a step of several hosts is one line of it."""
    return str(C.DEFAULT_STDOUT_CALLBACK).rpartition(".")[2] == "brief"


def is_first(step: str) -> bool:
    """Whether no other host of this run has shown the step. Each has a process of its own; they share the folder."""
    mark = Path(C.DEFAULT_LOCAL_TMP, f"shown-{hashlib.sha256(step.encode()).hexdigest()}")
    try:
        mark.touch(exist_ok=False)
    except OSError as problem:
        return not isinstance(problem, FileExistsError)
    return True


def fitted(text: str) -> str:
    """As much as one line of the short screen takes."""
    width = Display().columns if is_brief() else len(text)
    return text if len(text) <= width else f"{text[: width - 2]} …"


def refusal(text: str, short: str) -> AnsibleAction:
    """To be raised: Ansible shows the text once, where the task fails, and the short one as the task's message.

    Where a program reads the output, the message is the text.
    """
    text, short = harmless(text), harmless(short)
    return AnsibleAction(text, result={"changed": False, "msg": short if for_people() else text})
