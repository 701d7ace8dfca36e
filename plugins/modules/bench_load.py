#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: bench_load
short_description: Measure one benchmark point with the engine's own load generator
version_added: 0.1.0
description:
  - Runs the load generator of the service's own image in its container, on the host of its endpoint. Other clients must
    not ask it during the measurement.
  - Fails with a sentence where a request is not answered whole.
extends_documentation_fragment:
  - gb10.fleet.attributes.measures
options:
  load: {description: C(load) of one of the C(steps) of C(gb10.fleet.bench)., type: dict, required: true}
  point:
    description: C(point) of the step; if it is left out, or in check mode, the module only lists its measurements.
    type: dict
attributes:
  action: {description: The controller checks the host's answer., support: full}
"""

EXAMPLES = r"""
- name: Measure
  gb10.fleet.bench_load:
    load: "{{ item.load }}"
    point: "{{ item.point }}"
  loop: "{{ bench.steps }}"
"""

RETURN = r"""
seen:
  description: C(image) (its id), C(kernel), C(driver) and C(model) of the service.
  returned: success
  type: dict
before: {description: "Requests that run, and tokens since its start.", returned: without O(point), type: dict}
figures: {description: "The measured figures, by name.", returned: with O(point), type: dict}
shown: {description: "The figures that follow from them, by name.", returned: with O(point), type: dict}
raw: {description: The load generator's output., returned: with O(point), type: dict}
"""

from collections.abc import Mapping, Sequence

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._operations.bench.load import load


def main() -> None:
    module = AnsibleModule(
        argument_spec={"load": {"type": "dict", "required": True}, "point": {"type": "dict"}}, supports_check_mode=True
    )
    asked, point = module.params["load"], module.params["point"]
    if module.check_mode and point:
        module.exit_json(changed=False, skipped=True, msg="check mode: nothing was measured")

    def run(words: Sequence[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
        found: tuple[int, str, str] = module.run_command(
            list(words), environ_update=dict(variables), handle_exceptions=False
        )
        return found

    try:
        answer = load(run, asked, asked["words"] if point else [])
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
