# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: bundle
short_description: Download everything the plan needs into an offline bundle
version_added: 0.1.0
description:
  - Runs on the controller, which reaches the internet, and makes what a site without internet is converged from. Images
    by C(skopeo), models by C(hf), packages by C(apt-get), wheels by C(pip), and this collection by C(ansible-galaxy).
  - A file that the folder holds already, by size and sha256, is not fetched again. The manifest is written last, so
    that a run that was cut off leaves the bundle as it was.
options:
  plan: {description: RV(gb10.fleet.plan#module:plan)., type: dict, required: true}
  hosts: {description: The hosts whose needs are fetched., type: list, elements: str, required: true}
  folder: {description: Where the bundle is made., type: path, required: true}
  since:
    description: An earlier bundle. Its contents are named and not fetched; the offline site needs both bundles.
    type: path
  split:
    description: Every file is smaller than this many bytes, as V(4GiB) for a medium with FAT. Larger files are written
      in parts.
    type: str
  work:
    description: A folder with room for unfinished files, as whole files. By default that is O(folder), with O(split)
      the user's cache.
    type: path
  inventory: {description: "The inventory's folder, which keeps the bundle's key.", type: path, required: true}
  architecture: {description: "The hosts' architecture, in Debian's words. By default a Spark's, C(arm64).", type: str}
  python: {description: "The hosts' release of Python, for wheels. By default that of DGX OS 7, C(3.12).", type: str}
  apt_sources:
    description: A file of apt's sources (C(deb822)) with the hosts' repositories. By default those of Ubuntu 24.04 for
      arm64.
    type: path
  packages: {description: Further packages., type: list, elements: str, default: []}
  hf: {description: The hub's tool., type: path, required: true}
  token_file: {description: A file with the hub's token., type: path}
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
  - gb10.fleet.attributes.on_controller
"""

EXAMPLES = r"""
- name: Fetch everything that the plan names
  gb10.fleet.bundle:
    plan: "{{ fleet_plan.plan }}"
    hosts: "{{ ansible_play_hosts_all }}"
    folder: /media/x
    inventory: "{{ inventory_dir }}"
    hf: /usr/local/bin/hf
  run_once: true
"""

RETURN = r"""
serial: {description: The bundle's serial; it grows., returned: "success, but in check mode", type: int}
new_bytes: {description: The number of bytes that were written., returned: "success, but in check mode", type: int}
summary: {description: "The bundle's contents, for a person.", returned: success, type: str}
"""
