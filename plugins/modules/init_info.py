#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: init_info
short_description: Read the facts of a machine for its inventory
version_added: 0.2.0
description:
  - Reads maker, memory, system, networks, ConnectX-7 halves and what serves, as data. C(gb10.fleet.init) decides by it.
  - For some seconds it sends a broadcast frame by each half that has light, and notes frames of other hosts, so it must
    run on all hosts at the same time. It writes nothing, and needs only root and Python 3.
options:
  name: {description: The name that the frames give of this host., type: str, required: true}
  token: {description: The common mark of this run's frames., type: str, required: true}
  seconds: {description: The time to send and await frames., type: float, default: 3}
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Read each machine
  gb10.fleet.init_info:
    name: "{{ inventory_hostname }}"
    token: one-run
  register: init_reading
"""

RETURN = r"""
reading:
  description: C(platform), C(memory_kib), C(free_bytes), C(networks) by interface, C(halves) and C(addresses) of this
    host. C(management) has the interfaces of default routes, C(seen) the senders of frames, C(claims) the files that
    configure halves. C(serving) has the servers of models without possible secrets, C(ours) the
    services of inventories of this collection. C(ray) has the heads of its Ray clusters,
    C(beside) other servers with their memory in KiB.
  returned: success
  type: dict
"""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.probe.files import read_netplan
from ..module_utils._host.probe.machine import default_interfaces, read_networks, read_platform
from ..module_utils._host.probe.parts import bounded_run, printable
from ..module_utils._host.probe.system import free_bytes, memory_bytes
from ..module_utils._operations.init.running import beside, processes, ray_heads, read_ours, read_serving
from ..module_utils._subjects.fabric.hardware import RAILS
from ..module_utils._subjects.fabric.peers_seen import exchange
from ..module_utils._subjects.fabric.reading import read_links

_COMMAND_S = 20


def _master(interface: str, link: Mapping[str, object], folder: Path = Path("/sys/class/net")) -> str:
    """The bond or bridge that an interface is a part of, or, where it has no address, a VLAN over it; else empty."""
    master = folder / interface / "master"
    above = [] if link["addresses"] else sorted((folder / interface).glob("upper_*"))
    return master.resolve().name if master.exists() else next((one.name.partition("_")[2] for one in above), "")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "token": {"type": "str", "required": True, "no_log": False},
            "seconds": {"type": "float", "default": 3},
        },
        supports_check_mode=True,
    )
    run, running = bounded_run(_COMMAND_S), processes()
    links = read_links(partial(module.run_command, handle_exceptions=False), RAILS)
    seen = exchange(links, module.params["name"], module.params["token"], module.params["seconds"])
    files = read_netplan({name: link["mac"] for name, link in links.items()})
    reading: dict[str, Any] = {
        "platform": read_platform(),
        "memory_kib": memory_bytes(Path("/proc/meminfo").read_text(encoding="ascii"))["total"] // 1024,
        "free_bytes": free_bytes(["/var/lib"])["/var/lib"]["free"],
        "management": default_interfaces(Path("/proc/net/route").read_text(encoding="ascii")),
        "networks": read_networks(),
        "halves": {
            name: {"master": _master(name, link), **{key: link[key] for key in ("carrier", "mtu", "addresses")}}
            for name, link in links.items()
        },
        "seen": seen,
        "claims": [{"path": file["path"], "claims": file["claims"]} for file in files if file["claims"]],
        "addresses": re.findall(r" inet ([0-9.]+)/", run(["ip", "-o", "-4", "addr"])[1]),
        "serving": read_serving(run, running),
        "ours": read_ours(),
        "ray": [{"head": head} for head in ray_heads(running)],
        "beside": beside(running, run),
    }
    module.exit_json(changed=False, reading=printable(reading))


if __name__ == "__main__":
    main()
