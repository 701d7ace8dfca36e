# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd units of a gateway's processes, and the configuration of the third, keepalived: texts of 2.2 and 2.3.

The gateways tell each other by VRRP who has the floating address (RFC 9568), each to each, so that nobody else on the
network is asked. Who has it keeps it: one that comes back waits, since a move cuts the answers that come by that
address.
"""

from pathlib import PurePath

from ..._base import layout
from ..._base.gb10 import filled
from .declared import GatewayDeclared
from .reading import ADDRESS_CONFIG, ADDRESS_PROGRAM, BODIES_CONFIG, CONFIG

# How long running streams may go on when the gateway is stopped.
_STOP_S = 120
# What senders can take of a host whose memory is its models', of each process.
_MEMORY_MIB = 2048


def units(inventory: str, *, floats: bool) -> dict[str, str]:
    """``{unit: text}``. inventory: whose gateway it is; systemd passes over sections of this kind. floats: with a
    floating address, which goes to another host when this one's gateway stops.

    A configuration that HAProxy refuses is never gone on with: neither a start nor a reload comes to it. A reload keeps
    the earlier process until its streams have ended. The gateway keeps a time of its last reading, by which a run sees
    that files are newer. A stop lets streams end for a while.
    """
    read = f"/usr/bin/touch {layout.GATEWAY_READ}"
    return {
        layout.GATEWAY_UNIT: _unit(
            "the gateway to all services",
            "Wants=network-online.target\nAfter=network-online.target",
            CONFIG,
            layout.GATEWAY_STATUS,
            [read],
            inventory,
        ),
        layout.GATEWAY_BODIES_UNIT: _unit(
            "what reads the gateway's large requests",
            f"PartOf={layout.GATEWAY_UNIT}",
            BODIES_CONFIG,
            layout.GATEWAY_BODIES_STATUS,
            [],
            inventory,
        ),
        **(
            {layout.GATEWAY_ADDRESS_UNIT: filled("address.service", **_ADDRESS_WORDS, inventory=inventory)}
            if floats
            else {}
        ),
    }


def _unit(what: str, order: str, config: str, folder: str, before: list[str], inventory: str) -> str:
    """folder: of its sockets, where HAProxy's account alone can reach those that are its group's."""
    before = [f"/usr/sbin/haproxy -q -c -f {config}", *before]
    begins = "\n".join(f"ExecStartPre={command}" for command in before)
    reloads = "\n".join(f"ExecReload={command}" for command in [*before, "/bin/kill -USR2 $MAINPID"])
    name = PurePath(folder).name
    return filled(
        "gateway.service",
        what=what,
        order=order,
        name=name,
        begins=begins,
        config=config,
        reloads=reloads,
        stop_s=_STOP_S,
        memory_mib=_MEMORY_MIB,
        folder=folder,
        inventory=inventory,
    )


_ADDRESS_WORDS = {
    "gateway": layout.GATEWAY_UNIT,
    "program": ADDRESS_PROGRAM,
    "config": ADDRESS_CONFIG,
    "folder": PurePath(layout.GATEWAY_ADDRESS_UNIT).stem,
}
# Whose gateway does not run gives the address away; one that runs again asks for it again.


# Of the groups of this network none by multicast is ours.
_GROUP = 171
_FIRST_PRIORITY = 200


def address_config(gateway: GatewayDeclared, host: str, interface: str) -> str:
    """``address.conf`` of a host. gateway: as `_subjects.gateway.declared.decide` completes it. interface: of the
    address."""
    members, address = gateway["members"], gateway["address"] or ""
    width = 128 if ":" in address else 32
    return filled(
        "keepalived.conf",
        host=host,
        interface=interface,
        port=gateway["port"],
        group=_GROUP,
        # the first one has it where all begin at once
        priority=_FIRST_PRIORITY - [*members].index(host),
        here=members[host],
        others="".join(f"        {address}\n" for name, address in members.items() if name != host),
        address=f"{address}/{width}",
    )
