# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's links, addresses and routes: read, compared with what is wanted, and put back as they were.

Standard library only, and beside `guard` on the host.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# As `ip -j address show` has it.
Link = Mapping[str, Any]
# What follows `ip`.
Command = list[str]

# Where netplan renders to.
NETWORKD = Path("/run/systemd/network")
PROFILES = Path("/run/NetworkManager/system-connections")
NET = Path("/sys/class/net")
# netplan apply takes 1 to 2 s on an idle host.
COMMAND_TIMEOUT_S = 20.0
NETWORKMANAGER = "NetworkManager.service"
# What carries netplan's files out: its unit, and what netplan writes for it.
RENDERED = (("systemd-networkd.service", NETWORKD, "*netplan-*"), (NETWORKMANAGER, PROFILES, "netplan-*"))
_NOT_RUNNING = ("inactive", "failed", "")
# There unless the kernel was started without IPv6, which `ip -6` then fails for.
IPV6 = Path("/proc/net/if_inet6")
# Of what a DHCP server or a router has given; they run.
_LIFETIMES = re.compile(r'"(?:valid_life_time|preferred_life_time|expires)": *\d+')
# What a profile of NetworkManager's is for, where the device is there without it.
_OF_HARDWARE = {"ethernet", "wifi", "gsm", "cdma"}
_BUSY = ("pending", "initialized", "configuring")
# What `ip route` shows of a route's state and does not take back.
_ROUTE_STATES = {"linkdown", "dead", "offload", "trap"}


# Commands ---------------------------------------------------------------------------------------------------------


def alive() -> None:
    """Notify systemd's watchdog that this process is not stuck (sd_notify(3)); nothing where nobody listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_systemd:
            to_systemd.connect(address.replace("@", "\0", 1) if address.startswith("@") else address)
            to_systemd.send(b"WATCHDOG=1")


def run(command: Sequence[str]) -> str:
    """Standard output; CommandError with the command's message when it fails or takes too long."""
    alive()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=COMMAND_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise CommandError(f"`{' '.join(command)}` took more than {COMMAND_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise CommandError(f"`{' '.join(command)}` ended with {done.returncode}: {output}")
    return done.stdout


class CommandError(Exception):
    """A command that failed, with its own words."""


def try_to(command: Sequence[str]) -> bool:
    """Whether it succeeded; what it says otherwise stands in the unit's journal."""
    try:
        run(command)
    except (CommandError, OSError) as error:
        print(error, file=sys.stderr)
        return False
    return True


def try_ip(decide: Callable[[], Iterable[Command]]) -> None:
    """Each command on its own: one that is not possible does not keep the others from helping."""
    try:
        commands = decide()
    except (CommandError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return
    for command in commands:
        try_to(["ip", *command])


# Reading ----------------------------------------------------------------------------------------------------------


def read_links() -> list[dict[str, Any]]:
    """`ip -j address show`: every interface with its index, name, MTU, flags and addresses."""
    links: list[dict[str, Any]] = json.loads(run(["ip", "-j", "address", "show"]))
    return [link for link in links if link.get("ifname")]


def read_routes() -> list[str]:
    """The routes of the main table as `ip` takes them, those of IPv6 after a ``-6``.

    Of IPv6 without what comes with an address (kernel) or from a router (ra).
    """
    of_4, of_6 = (
        [" ".join(word for word in line.split() if word not in _ROUTE_STATES) for line in text.splitlines()]
        for text in (_routes(family, "-o", "main").replace("\\", " ") for family in ("-4", "-6"))
    )
    return of_4 + [f"-6 {route}" for route in of_6 if "proto kernel" not in route and "proto ra" not in route]


def read_state() -> str:
    """Links, addresses, and the routes of every table, as one text that is the same as long as nothing happens."""
    routes = (_routes(family, "-j", "all") for family in ("-4", "-6"))
    return _LIFETIMES.sub("", "\n".join([run(["ip", "-j", "address", "show"]), *routes]))


def _routes(family: str, form: str, table: str) -> str:
    if family == "-6" and not IPV6.exists():
        return ""
    return run(["ip", family, form, "route", "show", "table", table])


def is_busy() -> bool:
    """Whether networkd or NetworkManager still configures a link."""
    return networkd_is_busy() or networkmanager_is_busy()


def networkmanager_is_busy(profiles: Path = PROFILES) -> bool:
    """Whether NetworkManager still brings up or down a device that netplan gave it; False where it does not run.

    netplan stops it, and starts it without waiting. What becomes of other devices does not matter: one that is cabled
    and has no profile asks for a lease again and again, as every port of a new DGX OS does.
    """
    try:
        if run(["systemctl", "show", "--property=ActiveState", "--value", NETWORKMANAGER]).strip() in _NOT_RUNNING:
            return False
        starts = run(["nmcli", "--terse", "--fields", "STARTUP", "general", "status"]).strip() != "started"
        rows = run(["nmcli", "--terse", "--fields", "DEVICE,STATE", "device", "status"]).splitlines()
    except OSError:
        return False
    except CommandError:
        return True  # it runs and does not answer yet
    states = dict(row.split(":", 1) for row in rows if ":" in row)
    return any(
        states.get(name, "").startswith(("connecting", "deactivating"))
        or (starts and has_carrier(name) and not states.get(name, "").startswith("connected"))
        for name in _values(profiles, "*.nmconnection", "interface-name=")
    )


def has_carrier(name: str) -> bool:
    try:
        return (NET / name / "carrier").read_text(encoding="ascii").strip() == "1"
    except OSError:  # it is down or gone
        return False


def networkd_is_busy() -> bool:
    """Whether a link with a carrier is still being configured; False where networkd does not run."""
    try:
        links = json.loads(run(["networkctl", "--json=short", "list"]))["Interfaces"]
    except (CommandError, OSError, ValueError):
        return False
    return any(link["CarrierState"] == "carrier" and link["AdministrativeState"] in _BUSY for link in links)


def renderers() -> list[str]:
    """The units that netplan has written something for: on a desktop NetworkManager, on a server networkd, or both."""
    return [unit for unit, folder, pattern in RENDERED if any(folder.glob(pattern))]


def virtual_devices(folder: Path = NETWORKD, profiles: Path = PROFILES) -> set[str]:
    """The names of the bridges, bonds, VLANs and the like that netplan has networkd or NetworkManager make."""
    made = _values(folder, "*.netdev", "Name=")
    for profile in profiles.glob("netplan-*"):
        if not _values(profiles, profile.name, "type=") & _OF_HARDWARE:
            made |= _values(profiles, profile.name, "interface-name=")
    return made


def _values(folder: Path, pattern: str, key: str) -> set[str]:
    """What stands behind a key in the files of a folder."""
    values = set()
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            values |= {line.removeprefix(key).strip() for line in lines if line.startswith(key)}
    return values


# Against what is wanted --------------------------------------------------------------------------------------------


def unmet(interfaces: Iterable[Mapping[str, Any]], links: Iterable[Link]) -> list[str]:
    """What of {name, address, mtu} is not so, in words."""
    present = {link["ifname"]: link for link in links}
    return [problem for wanted in interfaces for problem in _link_problems(wanted, present.get(wanted["name"]))]


def _link_problems(wanted: Mapping[str, Any], link: Link | None) -> Iterator[str]:
    name, address = wanted["name"], wanted["address"]
    if link is None:
        yield f"there is no interface {name}"
        return
    if wanted["mtu"] not in (None, link["mtu"]):
        yield f"{name} has MTU {link['mtu']}, not {wanted['mtu']}"
    if "UP" not in link["flags"]:
        yield f"{name} is down"
    # Without a carrier, not every renderer sets addresses.
    elif "LOWER_UP" in link["flags"] and address is not None and addresses(link) != {address}:
        yield f"{name} has {', '.join(sorted(addresses(link))) or 'no address'}, not {address}"


def addresses(link: Link) -> set[str]:
    """The IPv4 addresses of a link with their prefixes."""
    return {
        f"{address['local']}/{address['prefixlen']}" for address in link["addr_info"] if address["family"] == "inet"
    }


# Back to what was -------------------------------------------------------------------------------------------------


def renamings(before: Iterable[Link], now: Iterable[Link]) -> list[Command]:
    """`ip` commands that give links their old names, MAC addresses and independence back.

    netplan applies set-name, macaddress and a bridge's membership, but does not take them back.
    """
    old = {link["ifindex"]: link for link in before}
    commands = []
    for link in now:
        was = old.get(link["ifindex"])
        if was is None:
            continue
        name = link["ifname"]
        if link.get("master") and not was.get("master"):
            commands.append(["link", "set", name, "nomaster"])
        if name != was["ifname"]:
            commands += [["link", "set", name, "down"], ["link", "set", name, "name", was["ifname"]]]
            name = was["ifname"]
        if link.get("address") != was.get("address"):
            commands.append(["link", "set", name, "address", was["address"]])
    return commands


def remnants(before: Iterable[Link], now: Iterable[Link], devices: Iterable[str]) -> list[Command]:
    """`ip` commands for what the old files, applied again, left behind: bridges and the like, MTU, links that are down.

    devices: the names of bridges, bonds and VLANs that the change brought. Other new links belong to somebody else.
    """
    old = {link["ifindex"]: link for link in before}
    brought = set(devices)
    commands = []
    for link in now:
        name = link["ifname"]
        was = old.get(link["ifindex"])
        if was is None:
            commands += [["link", "delete", name]] if name in brought else []
            continue
        if link["mtu"] != was["mtu"]:
            commands.append(["link", "set", name, "mtu", str(was["mtu"])])
        if "UP" in was["flags"] and "UP" not in link["flags"]:
            commands.append(["link", "set", name, "up"])
    return commands


def differences(change: Mapping[str, Any], links: Iterable[Link], routes: Sequence[str]) -> list[Command]:
    """`ip` commands for addresses and routes that are not as before the change (its links and routes).

    What came on links that were not there before belongs to somebody else.
    """
    old = {link["ifname"]: link for link in change["links"]}
    # Where NetworkManager sets the routes of addresses, which the kernel does otherwise.
    without = {name: _without_routes(link) for name, link in old.items()}
    commands = []
    for link in links:
        name = link["ifname"]
        if name in old:
            was, now = _lasting(old[name]), _lasting(link)
            commands += [["address", "del", address, "dev", name] for address in sorted(now - was)]
            commands += [
                [
                    "address",
                    "add",
                    address,
                    *_beside(address),
                    *(["noprefixroute"] if address in without[name] else []),
                    "dev",
                    name,
                ]
                for address in sorted(was - now)
            ]
    of_old = [
        route
        for route in routes
        if _device(route) in (None, *old) and ("proto kernel" not in route or without.get(_device(route) or ""))
    ]
    commands += [_route("del", route) for route in of_old if route not in change["routes"]]
    # Routes by way of a gateway need the route to it.
    missing = sorted((route for route in change["routes"] if route not in routes), key=lambda route: " via " in route)
    return commands + [_route("replace", route) for route in missing]


def _lasting(link: Link) -> set[str]:
    """Its addresses but those of IPv6 that routers give or that belong to every link."""
    of_6 = (address for address in link["addr_info"] if address["family"] == "inet6" and address["scope"] == "global")
    return addresses(link) | {
        f"{address['local']}/{address['prefixlen']}" for address in of_6 if not address.get("dynamic")
    }


def _without_routes(link: Link) -> set[str]:
    """Its IPv4 addresses for which the kernel has no route of its own."""
    of_4 = (address for address in link["addr_info"] if address["family"] == "inet")
    return {f"{address['local']}/{address['prefixlen']}" for address in of_4 if address.get("noprefixroute")}


def _beside(address: str) -> list[str]:
    """An IPv6 address is usable at once only if nobody is asked for it before."""
    return ["nodad"] if ":" in address else ["brd", "+"]


def _route(action: str, route: str) -> Command:
    words = route.split()
    return ["-6", "route", action, *words[1:]] if words[0] == "-6" else ["route", action, *words]


def _device(route: str) -> str | None:
    words = route.split()
    return words[words.index("dev") + 1] if "dev" in words else None
