# SPDX-License-Identifier: GPL-3.0-or-later
"""The floating address of several gateways, as keepalived's configuration, a text that 2.2 and 2.3 read.

The gateways tell each other by VRRP who has it (RFC 9568), each to each, so that nobody else on the network is asked.
Who has it keeps it: one that comes back waits, since a move cuts the answers that come by that address.
"""

from ..._base.gb10 import filled
from .declared import GatewayDeclared

# Of the groups of this network none by multicast is ours.
_GROUP = 171
_FIRST_PRIORITY = 200


def config(gateway: GatewayDeclared, host: str, interface: str) -> str:
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
