# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: findings
short_description: Show warnings and fail on errors
version_added: 0.1.0
description:
  - Shows the warnings, and fails when there are errors, each named once.
options:
  errors: {description: "One sentence each, with place and remedy.", type: list, elements: str, default: []}
  warnings: {description: "One sentence each, with place and remedy.", type: list, elements: str, default: []}
  shown: {description: "A text without a severity, shown before the errors.", type: str, default: ""}
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
  - gb10.fleet.attributes.on_controller
"""

EXAMPLES = r"""
- name: Refuse what this host can't carry
  gb10.fleet.findings:
    errors: "{{ fleet_slice.needs | gb10.fleet.internal('preflight', reading.state) }}"
"""

RETURN = r"""
"""
