#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: gateway_hold
short_description: Queue a model's requests at a running gateway
version_added: 0.1.0
description:
  - While nobody serves a model, its requests wait at the gateway instead of being refused, in bounds of number and time
    that its configuration has. Answers say how long they waited, and what for.
  - Holds only in the running gateway. A gateway that restarts, or reads its files again, holds nothing.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  backend:
    description: The model, as the gateway calls it, C(gateway.models[].services[0]) of the plan.
    type: str
    required: true
  reason: {description: "The reason of the wait, as answers give it.", type: str, default: changed}
  state: {description: Whether they wait., type: str, choices: [present, absent], default: present}
"""

EXAMPLES = r"""
- name: Have requests wait while the only host that serves the model changes
  gb10.fleet.gateway_hold:
    backend: chat
    reason: a rollout
"""

RETURN = r"""
"""

import re

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._subjects.gateway.reading import HOLDS, ask, holds_of


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "backend": {"type": "str", "required": True},
            "reason": {"type": "str", "default": "changed"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    backend, wanted = module.params["backend"], module.params["state"] == "present"
    # one word of HAProxy's commands
    reason = re.sub(r"[^\w.:-]+", "-", module.params["reason"])
    try:
        before = holds_of(ask(f"show map {HOLDS}"))
        changed = wanted != (backend in before)
        if changed and not module.check_mode:
            ask(f"add map {HOLDS} {backend} {reason}" if wanted else f"del map {HOLDS} {backend}")
            if wanted != (backend in holds_of(ask(f"show map {HOLDS}"))):
                raise ValueError("it did not take the order")
    except (OSError, ValueError) as problem:
        module.fail_json(msg=f"the gateway can't be told: {problem}; run site.yml, which brings it to the plan")
    after = {**before, backend: reason} if wanted else {name: why for name, why in before.items() if name != backend}
    module.exit_json(changed=changed, diff={"before": before, "after": after} if changed else {})


if __name__ == "__main__":
    main()
