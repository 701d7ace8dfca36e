# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The plan of a closed host as an nftables table: the whole of it in one transaction, beside whatever else is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TABLE = "inet gb10_fleet"
# Containers on Docker's own networks are not outside.
_OF_CONTAINERS = ("docker0", "br-*")


def ruleset(plan: Mapping[str, Any], ssh_ports: Sequence[int]) -> str:
    """The file's text; an empty one for an open host. ValueError without a port for SSH, which would shut it."""
    if plan["state"] == "open":
        return ""
    if not ssh_ports:
        raise ValueError("no port of SSH is known on this host: closing it would lock its owner out")
    openings = [{"port": port, "protocol": "tcp", "from": [], "reason": "SSH"} for port in sorted({*ssh_ports})]
    return _TEXT.format(
        table=TABLE,
        containers="\n".join(f'        iifname "{name}" accept' for name in _OF_CONTAINERS),
        neighbours="\n".join(_neighbour(one) for one in plan["neighbours"]),
        openings="\n".join(
            line for opening in [*openings, *plan["open"]] for line in _accepts(opening, "{protocol} dport {port}")
        ),
        published="\n".join(
            line
            for opening in plan["open"]
            for line in _accepts(opening, "meta l4proto {protocol} ct original proto-dst {port}")
        ),
        not_containers=" ".join(f'iifname != "{name}"' for name in _OF_CONTAINERS),
    )


def _neighbour(one: Mapping[str, Any]) -> str:
    here = f'iifname "{one["interface"]}" ' if one["interface"] else ""
    return f"        {here}ip saddr {one['address']} accept"


def _accepts(opening: Mapping[str, Any], match: str) -> Iterable[str]:
    """One line an address family that the sources have; one for all without sources."""
    words = (
        match.format(**opening) + " accept" + (f" comment {_quoted(opening['reason'])}" if opening["reason"] else "")
    )
    if not opening["from"]:
        yield f"        {words}"
    for family, mark in (("ip", "."), ("ip6", ":")):
        sources = [source for source in opening["from"] if mark in source]
        if sources:
            yield f"        {family} saddr {{ {', '.join(sources)} }} {words}"


def _quoted(text: str) -> str:
    """nft knows no escape inside a comment, and takes 128 bytes."""
    return '"' + "".join(letter for letter in text if letter.isprintable() and letter != '"')[:60] + '"'


_TEXT = """\
#!/usr/sbin/nft -f
# Managed by gb10.fleet: changes are overwritten by site.yml and reported by drift.yml.
# Ranks listen on random ports of every address, so this host is closed but for what stands here.
table {table}
delete table {table}
table {table} {{
    chain input {{
        type filter hook input priority filter; policy accept;
        ct state established,related accept
        iifname "lo" accept
{containers}
        meta l4proto {{ icmp, ipv6-icmp }} accept
        # an address by DHCP, and the host's name in the local network (spark-1234.local)
        udp dport {{ 68, 546, 5353 }} accept
{neighbours}
{openings}
        # who knocks in vain shall know at once, not after a timeout
        meta l4proto tcp counter reject with tcp reset
        counter drop
    }}
    # Docker sends what it publishes to containers, past the chain above.
    chain published {{
        type filter hook forward priority filter; policy accept;
        ct state established,related accept
        ct status dnat jump to_containers
    }}
    chain to_containers {{
{published}
        {not_containers} meta l4proto tcp counter reject with tcp reset
        {not_containers} counter drop
    }}
}}
"""
