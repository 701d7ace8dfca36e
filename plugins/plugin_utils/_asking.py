# SPDX-License-Identifier: GPL-3.0-or-later
"""What actions that read a host have in common: whatever it answers takes bounded memory, and is used only if it fits.

How long it may take is the task's ``timeout``.
"""

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

from ..module_utils._base.faults import fault_of
from ..module_utils._base.received import one_line
from ..module_utils._base.schema import Spec
from ..module_utils._host.probe.answer import read_answer
from ._bounded import bounded

# What an answer may take while it comes, and is read as JSON: enough for many times the largest that is taken.
MEMORY_BYTES = 512 << 20
_MOST_WORDS = 4096


class NoAnswerError(Exception):
    """Why a host's answer can't be used: at most 4096 characters that no terminal obeys."""


@contextlib.contextmanager
def as_read() -> Iterator[None]:
    """NoAnswerError for the ValueError of whoever checks what a host wrote. Anything else is a fault of ours."""
    try:
        yield
    except ValueError as problem:
        raise NoAnswerError(one_line(f"its answer is not what this collection reads: {problem}")) from problem
    except (AnsibleError, NoAnswerError):
        raise
    except Exception as problem:
        raise AnsibleActionFail(fault_of(problem, "", "").why) from problem


class Asking(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    """An action that reads its host by modules."""

    def answered(self, module: str, arguments: dict[str, object], variables: dict[str, object]) -> dict[str, Any]:
        """What the module answers, in whatever form. NoAnswerError for one that takes too much memory, and where the
        run has ended: its worker is in a session of its own, and would go on with its loop for nobody."""
        run = multiprocessing.parent_process()
        if run is not None and run.pid != os.getppid():
            raise NoAnswerError("its run has ended")
        try:
            with bounded(MEMORY_BYTES):
                found: dict[str, Any] = self._execute_module(module, arguments, task_vars=variables)
        except MemoryError:
            raise NoAnswerError(f"its answer takes more than {MEMORY_BYTES} bytes of memory") from None
        return found

    def ask(
        self,
        module: str,
        arguments: dict[str, Any],
        variables: dict[str, Any],
        form: Spec,
        use: Callable[[dict[str, Any]], Any] = dict,
    ) -> Any:
        """What ``use`` makes of the module's answer. form: as `read_answer` takes it.

        NoAnswerError for whatever can't be used. AnsibleConnectionFailure for a host that can't be reached.
        """
        try:
            answer = self.answered(module, arguments, variables)
        except AnsibleConnectionFailure:
            raise
        except AnsibleError as error:
            raise NoAnswerError(one_line(f"{error}\n".strip().partition("\n")[0])) from error
        if answer.get("failed"):
            why = str(answer.get("module_stderr") or answer.get("msg") or "no answer").strip()
            raise NoAnswerError("\n".join(map(one_line, why[-_MOST_WORDS:].splitlines())))
        with as_read():
            return use(read_answer(form, answer))


class Answering(Asking):
    """The action of a module: it returns what the form names of its answer, and nothing else.

    A host that gives no answer fails it with ``unread``.
    """

    FORM: ClassVar[Spec]

    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        try:
            answer = self.ask(self._task.action, self._task.args, variables, self.FORM, self.used)
        except NoAnswerError as why:
            raise AnsibleActionFail(str(why), result={"unread": True}) from None
        return {**result, "changed": False, **answer}

    @staticmethod
    def used(answer: dict[str, object]) -> dict[str, Any]:
        """The answer, if all that is done with it later can be done."""
        return answer
