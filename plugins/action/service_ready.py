# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.service_ready: waits in the controller, so that a person sees progress."""

import time
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.forms import forms
from ..module_utils._base.received import harmless, one_line
from ..module_utils._engines.memory.boots import BootLog, boot_record
from ..module_utils._engines.registry import ENGINES
from ..module_utils._engines.starts import last_words, rows, slow_start
from ..module_utils._operations.verify.artifact import of_proof
from ..module_utils._operations.verify.promised import Verdict, comparison, computed_by_others, promised, verdict
from ..plugin_utils._asking import Asking, NoAnswerError, as_read
from ..plugin_utils._documented import Documented
from ..plugin_utils._screen import fitted, is_brief, show

POLL_S = 3.0
PROGRESS_S = 15.0
# The longer it takes, the rarer are the lines, on the short screen much rarer.
_LONGEST_PAUSE_S, _LONGEST_SHORT_S = 120.0, 600.0
# What is read of a line of a start's log. An engine's own are shorter; a publisher's code may print any.
_LONGEST_LINE = 2000

_ANSWER = forms("verify")["service"]


class ActionModule(Documented, Asking):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        self._host = variables["inventory_hostname"]
        if self._task.check_mode:
            return {"changed": False, "skipped": True, "msg": "check mode: nothing was started to be asked"}
        service = options["service"]
        try:
            reading = self._wait(service, variables)
            with as_read():
                return self._proven(service, reading)
        except NoAnswerError as why:
            raise AnsibleActionFail(f"{service['unit']} can't be read: {why}", result={"unread": True}) from None

    def _proven(self, service: dict[str, Any], reading: dict[str, Any]) -> dict[str, Any]:
        """What is returned of a service that answered. AnsibleActionFail where other ranks than its own did."""
        engine, expected, name = ENGINES[service["engine"]], service["proof"]["expected"], service["name"]
        boot = engine.boot("\n".join(line[:_LONGEST_LINE] for line in reading["boot_log"]))
        wrong = computed_by_others(engine, name, service["ranks"], reading["reply"]["fingerprint"])
        if wrong:
            raise AnsibleActionFail(wrong.sentence())
        starts = reading["starts"]
        findings = [*promised(engine, name, expected, boot.as_dict()), *slow_start(name, starts)]
        state, answer = "serving", reading["reply"]["answer"]
        return {
            "changed": False,
            "service": name,
            "state": state,
            "answer": answer,
            "seconds": reading["reply"]["seconds"],
            "boot": boot.as_dict(),
            "comparison": comparison(expected, boot.as_dict()),
            "record": self._record(service, reading, boot),
            "start": last_words(starts),
            "starts": self._starts(service, starts),
            "findings": [finding.as_dict() for finding in findings],
            "problems": [finding.sentence() for finding in findings],
            **of_proof(name, state, answer),
        }

    def _wait(self, service: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        """Readings until one says ready; AnsibleActionFail when one says that it never will, or time is up."""
        began, shown = time.monotonic(), PROGRESS_S
        unit, limit = service["unit"], service["proof"]["startup_limit_s"]
        restarts: int | None = None
        while True:
            reading, now = self._read(service, variables, restarts, time.monotonic() - began)
            restarts = reading["unit"]["restarts"] if restarts is None else restarts
            if now.state == "ready":
                return reading
            waited = time.monotonic() - began
            if now.state == "failed":
                raise AnsibleActionFail(one_line(now.text, 4096))
            if waited > limit:
                raise AnsibleActionFail(
                    f"{unit} did not answer within {limit} s; its last output: {harmless(now.text)}; "
                    "a larger model needs a larger startup_limit_s in its recipe"
                )
            if waited > shown:
                shown += min(3 * shown, _LONGEST_SHORT_S) if is_brief() else min(shown, _LONGEST_PAUSE_S)
                words = " ".join(now.text[:160].split())
                show(fitted(f"{self._host}: {service['name']}: {waited:.0f} of at most {limit} s: {words}"))
            time.sleep(POLL_S)

    @staticmethod
    def _starts(service: dict[str, Any], starts: list[object]) -> dict[str, Any] | None:
        kept = service["proof"]["starts"]
        known = {"service": service["name"], **{name: kept[name] for name in ("image", "model", "gb", "loader")}}
        return {**known, "starts": starts} if starts else None

    @staticmethod
    def _record(service: dict[str, Any], reading: dict[str, Any], boot: BootLog) -> dict[str, Any] | None:
        started, requested = reading["unit"]["started"], service["proof"]["requested_bytes"]
        if requested is None or not started:
            return None
        total, planned = reading["memory_total_bytes"], service["proof"]["memory_total_bytes"]
        return boot_record(boot, service["name"], started, requested, total, planned)

    def _read(
        self, service: dict[str, Any], variables: dict[str, object], restarts: int | None, waited_s: float
    ) -> tuple[dict[str, Any], Verdict]:
        """A reading and what it says. restarts: of the unit when the waiting began, None at first."""

        def used(reading: dict[str, Any]) -> tuple[dict[str, Any], Verdict]:
            before = reading["unit"]["restarts"] if restarts is None else restarts
            return reading, verdict(service["unit"], reading, before, waited_s)

        asked = {"service": {name: service[name] for name in ("unit", "container", "status_file", "proof")}}
        asked["service"]["rows"] = rows(service["engine"])
        read: tuple[dict[str, Any], Verdict] = self.ask("gb10.fleet.service_info", asked, variables, _ANSWER, used)
        return read
