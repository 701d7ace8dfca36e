# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that the modules have in common that bring images and models (`_base.staging.ARGUMENTS`)."""


class ModuleDocFragment:
    """Used as ``extends_documentation_fragment: [gb10.fleet.staging]``."""

    DOCUMENTATION = r"""
options:
  streams:
    description: Connections at once to other hosts. One keeps about one core busy on either side.
    type: int
    default: 4
  present_hosts:
    description: Hosts of this run. What one of them lacks is waited for. Set by the action plugin of this name.
    type: list
    elements: str
    default: []
  patience:
    description: Seconds to wait for another staging job on this host to end.
    type: int
    default: 120
  examine_only:
    description: Report what would be done and stop, as in check mode.
    type: bool
    default: false
  progress_file:
    description: A file on the host to keep up to date while working. Set by the action plugin of this name.
    type: path
"""
