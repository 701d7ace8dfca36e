# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: service_certificates
short_description: Create service certificates from a local CA on the controller
version_added: 0.1.0
description:
  - Makes the CA where there is none, and a certificate for each service that has none, whose end is near, or that names
    something else than its service is reached by. A certificate that holds stays as it is.
  - The folders have mode C(0700) and a C(.gitignore), so that git keeps nothing of them; keys have mode C(0600).
options:
  ca: {description: "The CA's certificate, by its absolute path; its key lies beside it.", type: str, required: true}
  inventory: {description: "The inventory's name, which the CA bears.", type: str, required: true}
  services:
    description: C(tls) of the slice of each service that has a certificate of the CA.
    type: list
    elements: dict
    default: []
extends_documentation_fragment:
  - gb10.fleet.attributes.on_controller
attributes:
  check_mode: {description: Tells which certificates would be made., support: full}
  diff_mode: {description: A key is not shown., support: none}
"""

EXAMPLES = r"""
- name: Make the certificate of a service
  gb10.fleet.service_certificates:
    ca: "{{ inventory_dir }}/.fleet/ca/ca.crt"
    inventory: home
    services: "{{ fleet_slice.services | map(attribute='tls') | select | list }}"
"""

RETURN = r"""
made: {description: "The certificates that were made, by their files.", returned: always, type: list, elements: str}
"""
