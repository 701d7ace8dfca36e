#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: container_engine_info
short_description: Read whether Docker runs and its packet filter rules exist
version_added: 0.1.0
description:
  - Docker makes its chains or tables when it starts. If a program flushes all rules of the host, these are lost also,
    and no container with a published port starts until Docker has restarted.
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Look at Docker
  gb10.fleet.container_engine_info:
  register: docker

- name: Have Docker make them again
  ansible.builtin.systemd_service:
    name: docker.service
    state: restarted
  when: docker.missing_rules | length > 0
"""

RETURN = r"""
running: {description: Whether Docker answers., returned: success, type: bool}
missing_rules:
  description: Chains or tables of Docker that are gone. None where Docker does not run, or makes no rules.
  returned: success
  type: list
  elements: str
  sample: [the chain DOCKER of iptables' table nat]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.probe.parts import UnreadableError, bounded_run
from ..module_utils._subjects.container_engine.reading import RESTART, needed_rules, read_daemon, read_engine

COMMAND_SECONDS = 30


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    run = bounded_run(COMMAND_SECONDS)
    try:
        engine = read_engine(run)
        missing = needed_rules(engine, read_daemon(run)) if engine["running"] else []
    except UnreadableError as problem:
        module.fail_json(msg=f"Docker can't be read: {problem}")
    if engine.get("hangs"):
        module.fail_json(msg=f"Docker does not answer ({engine['hangs']}): {RESTART}")
    module.exit_json(changed=False, running=engine["running"], missing_rules=missing)


if __name__ == "__main__":
    main()
