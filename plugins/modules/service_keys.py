# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: service_keys
short_description: Create API keys on the controller
version_added: 0.1.0
description:
  - Makes each key that is not there, of 32 random bytes, in a file with mode C(0600). One that is there stays as it is.
  - The folder of the keys has mode C(0700) and a C(.gitignore), so that git keeps none.
options:
  files: {description: "The files, by their absolute paths.", type: list, elements: str, required: true}
extends_documentation_fragment:
  - gb10.fleet.attributes.on_controller
attributes:
  check_mode: {description: Tells which keys would be made., support: full}
  diff_mode: {description: A key is not shown., support: none}
"""

EXAMPLES = r"""
- name: Make the key of a service
  gb10.fleet.service_keys:
    files: ["{{ inventory_dir }}/.fleet/keys/nano.key"]
"""

RETURN = r"""
made: {description: The files that were not there., returned: always, type: list, elements: str}
"""
