# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: host_packages
short_description: Install missing packages without upgrading any
version_added: 0.1.0
description:
  - Asks dpkg, and uses M(ansible.builtin.apt) only for missing packages; no package is upgraded or removed, and nothing
    is fetched if nothing is missing.
  - Package lists are fetched before, and it waits half an hour for an update of DGX OS that holds the lock.
options:
  name: {description: The packages., type: list, elements: str, required: true}
  assume_available:
    description: Check mode fetches no package lists, and a new machine has none. Whether a package that they don't know
      counts there as a package that will be installed; if not, the task fails.
    type: bool
    default: true
  start_services:
    description: Whether services that the packages bring start at once. Else they do at the next boot, unless disabled.
    type: bool
    default: true
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
"""

EXAMPLES = r"""
- name: Install the RDMA tools
  gb10.fleet.host_packages:
    name: [rdma-core, perftest]
"""

RETURN = r"""
missing:
  description: The packages that were not installed before.
  returned: always
  type: list
  elements: str
  sample: [perftest]
"""
