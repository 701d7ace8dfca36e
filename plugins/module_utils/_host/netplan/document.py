# SPDX-License-Identifier: GPL-3.0-or-later
"""The netplan document of a host's fabric, as data and as the text of its file."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..._base import layout
from ..._base.slice import Interface

PATH = "/etc/netplan/40-cx7.yaml"
# netplan warns of files that others can read: they may hold Wi-Fi passwords.
MODE = "0600"
# Of what a netplan file says, NetworkManager does not get `ignore-carrier`: it takes addresses away with the carrier.
NETWORKMANAGER = "/etc/NetworkManager/conf.d/90-gb10-fabric.conf"
# Before it calls a device connected, NetworkManager runs what lies here (NetworkManager-dispatcher(8)).
NETWORKMANAGER_PRE_UP = "/etc/NetworkManager/dispatcher.d/pre-up.d/90-gb10-fabric"


def document(interfaces: Iterable[Interface], mode: str) -> dict[str, Any]:
    """The netplan document for interfaces of a fabric slice. mode: ``static`` or ``link-local``."""
    return {
        "network": {
            "version": 2,
            "ethernets": {interface["name"]: _ethernet(interface, mode) for interface in interfaces},
        }
    }


def _ethernet(interface: Interface, mode: str) -> dict[str, Any]:
    # optional: a pulled cable does not keep the host from booting (systemd-networkd-wait-online).
    entry: dict[str, Any] = {"dhcp4": False, "optional": True}
    if interface["kind"] != "link":
        # No IPv6: the rail's GID table then holds its IPv4 at the same index after every boot (cluster owner's notes).
        # ignore-carrier: the address, and with it the GID, stays while a cable is out or a peer boots.
        entry |= {"dhcp6": False, "accept-ra": False, "link-local": [], "ignore-carrier": True}
        if mode == "link-local":
            entry["link-local"] = ["ipv4"]
    if interface["address"] is not None:
        entry["addresses"] = [interface["address"]]
    if interface["mtu"] is not None:
        entry["mtu"] = interface["mtu"]
    return entry


def text(wanted: Mapping[str, object]) -> str:
    """A netplan document as YAML. Scalars are words, numbers and addresses here: none needs quotes."""
    return "\n".join([layout.MARK, *_lines(wanted, 0), ""])


def networkmanager(names: Iterable[str]) -> str:
    """NetworkManager's own way to say `ignore-carrier` of interfaces (NetworkManager.conf(5), device sections)."""
    matched = ",".join(f"interface-name:{name}" for name in names)
    return f"{layout.MARK}\n[device-gb10-fabric]\nmatch-device={matched}\nignore-carrier=yes\n"


def _lines(node: Mapping[str, object], depth: int) -> Iterator[str]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield f"{'  ' * depth}{key}:"
            yield from _lines(value, depth + 1)
        else:
            yield f"{'  ' * depth}{key}: {_scalar(value)}"


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(_scalar, value)) + "]"
    return str(value)
