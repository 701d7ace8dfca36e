# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the person at the terminal. Where nobody sits there, or who does gives up, one sentence ends the run."""

from ansible.errors import AnsibleActionFail, AnsiblePromptInterrupt, AnsiblePromptNoninteractive
from ansible.utils.display import Display

from ..module_utils._base.received import harmless


def ask(question: str, instead: str, *, private: bool = False) -> str:
    """What the person types. instead: what a command line says in place of an answer."""
    try:
        found: bytes = Display().prompt_until(harmless(question) + " ", private=private)
    except AnsiblePromptInterrupt:
        raise AnsibleActionFail(
            "you ended it; no inventory was written and no host was changed; run it again"
        ) from None
    except AnsiblePromptNoninteractive:
        raise AnsibleActionFail(
            f"{question.rstrip(':')}: nobody can answer here; {instead}; no inventory was written"
        ) from None
    return found.decode("utf-8", "replace").strip("\r\n") if private else found.decode("utf-8", "replace").strip()


def agreed(question: str, instead: str) -> bool:
    """Whether the person says yes, as Enter alone does."""
    return ask(question, instead).lower() in ("", "y", "yes")
