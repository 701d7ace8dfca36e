# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.ask: a question to the service's host, its answer on the screen."""

import textwrap
import unicodedata
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.received import harmless, one_line
from ..module_utils._operations.verify.asked import FORM, request
from ..module_utils._operations.verify.tables import ask_command
from ..plugin_utils._asking import Asking, NoAnswerError
from ..plugin_utils._documented import Documented
from ..plugin_utils._screen import show

_MOST_TOKENS = 512
_MOST_SHOWN = 600
_WIDTH, _MOST_LINES = 112, 6


class ActionModule(Documented, Asking):
    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        service = options["service"]
        name, proof = service["name"], service["proof"]
        if self._task.check_mode:
            return {"changed": False, "skipped": True, "msg": "check mode: nothing was started to be asked"}
        # of a playbook's option Ansible would read braces as a template
        question = str(options["question"] or variables.get("question", "Say hello in a sentence."))
        body = request(proof["request"], question, _MOST_TOKENS)
        if body is None:
            raise AnsibleActionFail(f"{name} answers no questions: its model is none that talks")
        key = self._loader.get_text_file_contents(service["key"]["source"]).strip() if service["key"] else ""
        asked = {"url": proof["url"] + proof["request"]["path"], "body": body, "key": key}
        asked |= {"certificate": proof["certificate"]} if proof["certificate"] else {}
        try:
            found: dict[str, Any] = self.ask("gb10.fleet.ask_info", asked, variables, FORM)
        except NoAnswerError as why:
            words = f"{name} gave no answer: {one_line(str(why), 500)}"
            raise AnsibleActionFail(f"{words}; gb10.fleet.status shows how it does") from None
        reported = f" (others report {options['spoken']:.0f})" if options["spoken"] else ""
        speed = f", then {found['speed']:.1f} tokens a second{reported}" if found["speed"] else ""
        show(_paragraph("you:  ", question))
        show(_paragraph(f"{name}: ", found["answer"].strip()[:_MOST_SHOWN] or "(it thought, and said nothing)"))
        show(f"      first token after {found['first_s']:.2f} s{speed}")
        if options["endpoint"]:
            show(f"ask it: {ask_command(options['endpoint'], service, proof['request'])}")
        for line in options["end"]:
            show(line)
        # with -v Ansible shows what is returned, and obeys the half of what a terminal does
        return {"changed": False, **found, "answer": harmless(found["answer"])}


def _paragraph(who: str, text: str) -> str:
    words = " ".join(harmless(text).split())
    # a letter of Chinese or an emoji takes two places
    width = _WIDTH // 2 if any(unicodedata.east_asian_width(letter) in "WF" for letter in words) else _WIDTH
    end = {"max_lines": _MOST_LINES, "placeholder": " …"}
    return textwrap.fill(words, width, initial_indent=who, subsequent_indent=" " * 6, **end)  # type: ignore[arg-type]
