# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.fabric_check: readings and measurements in, findings out; reaches no host."""

from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.findings import ordered
from ..module_utils._subjects.fabric.bandwidth import judge_bandwidth
from ..module_utils._subjects.fabric.judge import judge, summary
from ..plugin_utils._documented import OnController
from ..plugin_utils._screen import warn


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        host = variables["inventory_hostname"]
        if self._task.check_mode:
            return {"changed": False, "skipped": True, "msg": "check mode: nothing was set to be proven"}
        plan, measured = options["plan"], options["bandwidth"]
        readings = {name: read["reading"] for name, read in options["readings"].items() if "reading" in read}
        left_out = set(variables["groups"]["all"]) - set(variables["ansible_play_hosts"])
        findings = judge(host, plan, readings, left_out, measured=bool(measured and measured.get("measured")))
        if measured:
            findings += judge_bandwidth(host, plan["gates"], measured)
        findings = ordered(findings)
        sentences = {
            severity: [finding.sentence() for finding in findings if finding.severity == severity]
            for severity in ("error", "warning")
        }
        result = {
            "changed": False,
            "findings": [finding.as_dict() for finding in findings],
            "fabric": summary(plan, findings, measured),
        }
        for sentence in sentences["warning"]:
            warn(sentence)
        if sentences["error"]:
            raise AnsibleActionFail("the fabric is not as planned:\n" + "\n".join(sentences["error"]), result=result)
        return result
