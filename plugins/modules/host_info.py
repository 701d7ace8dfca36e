#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: host_info
short_description: Read a host's state in one call
version_added: 0.1.0
description:
  - Reads what the preflight and the drift check compare with the plan, as data, in one call.
  - Writes nothing and needs nothing but Python 3 on the host. A fact that can't be read is V(null), with the reason in
    RV(unknown).
options:
  paths:
    description: Paths whose presence and free disk space are asked for. A path that does not exist is looked up by its
      nearest existing parent.
    type: list
    elements: path
    default: []
  images:
    description: References of images whose layers are asked for, without O(ask).
    type: list
    elements: str
    default: []
  installs:
    description: Packages that roles install where they are missing. For missing packages, it asks apt for its next
      step, unless O(ask) is given.
    type: list
    elements: str
    default: []
  ask: {description: "The questions of a drift check, as M(gb10.fleet.drift_info) makes them of the plan.", type: dict}
  view:
    description: The parts of the plan that the host's reading needs, C(host_view) of P(gb10.fleet.internal#filter).
      With it all that a converge compares is asked, too, in the same call. It stays on the controller.
    type: dict
  salt: {description: "Salt of the digests of secret files, which reveal nothing without it.", type: str, default: ""}
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Read the host
  gb10.fleet.host_info:
    paths: [/var/lib/docker]
  register: host_info
"""

RETURN = r"""
state:
  description: The reading. C(module_utils/_base/reading.py) names its parts with their types, C(State). Without O(ask)
    it has memory, paths, listeners, our units, and the containers and images that were asked for.
  returned: always
  type: dict
compared:
  description: All that was read, C(state) and C(unknown), as C(gb10.fleet.unconverged) takes it; V(null)
    where what the host answered can't be compared.
  returned: with O(view)
  type: dict
unknown:
  description: The unreadable facts, each with the reason.
  returned: always
  type: dict
  sample: {containers: "docker is not installed"}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.probe.parts import bounded_run, printable
from ..module_utils._subjects.state import read_state

COMMAND_SECONDS = 30


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "path", "default": []},
            "images": {"type": "list", "elements": "str", "default": []},
            "installs": {"type": "list", "elements": "str", "default": []},
            "ask": {"type": "dict"},
            "view": {"type": "dict"},
            "salt": {"type": "str", "default": "", "no_log": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    run = bounded_run(COMMAND_SECONDS)
    state, unknown = read_state(
        run, options["paths"], options["images"], options["ask"], options["salt"], options["installs"]
    )
    module.exit_json(changed=False, state=printable(state), unknown=printable(unknown))


if __name__ == "__main__":
    main()
