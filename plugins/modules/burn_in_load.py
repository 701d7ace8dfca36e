#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: burn_in_load
short_description: Keep a host's GPU busy for a minute, and read what it shows
version_added: 0.2.0
description:
  - Sends requests to the service whose endpoint is on this host, by the load generator of its own image. Where nothing
    serves, one of the images multiplies in a container that ends by itself and is removed.
  - A rank whose endpoint is on another host only reads.
extends_documentation_fragment:
  - gb10.fleet.attributes.measures
options:
  order:
    description: The order for this host, C(burn_in_order) of P(gb10.fleet.internal#filter).
    type: dict
    required: true
attributes:
  action: {description: The controller checks the host's answer., support: full}
"""

EXAMPLES = r"""
- name: Work for a minute
  gb10.fleet.burn_in_load:
    order: "{{ fleet_plan.plan | gb10.fleet.internal('burn_in_order', inventory_hostname, '', program) }}"
"""

RETURN = r"""
by: {description: The service or image that worked; empty if it lies on another host., returned: success, type: str}
rows: {description: "Use, clock, power and heat of the GPU, each second.", returned: success, type: list}
figures:
  description: Tokens, multiplications and copied bytes a second, and how many products were wrong.
  returned: success
  type: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._operations.bench.work import work


def main() -> None:
    module = AnsibleModule(argument_spec={"order": {"type": "dict", "required": True}}, supports_check_mode=True)
    if module.check_mode:
        module.exit_json(changed=False, skipped=True, by="", rows=[], figures={}, msg="check mode: nothing was loaded")

    def run(words: Sequence[str], more: Mapping[str, str]) -> Any:
        return module.run_command(list(words), environ_update=dict(more), handle_exceptions=False)

    try:
        module.exit_json(changed=False, **work(run, module.params["order"]))
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
