# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of ``fleet_fabric`` as its owner writes it, with its defaults; docs/fabric.md explains each key."""

from typing import NotRequired, TypedDict

from ..._base.gb10 import fact
from ..._base.schema import Spec
from ..._base.slice import Gates
from .hardware import SPEEDS_GBPS

MTU: int = fact("fabric", "mtu")
_END: Spec = {"type": "str", "pattern": r"[^\s:]+:[^\s:]+", "expected": "an end like spark-2:1 (host:port)"}
_LINK_END: Spec = {"type": "str", "pattern": r"[^\s:]+:[^\s:]+", "expected": "an end like spark-2:enP7s7"}
_ADDRESS: Spec = {"type": "str", "expected": "an address with its prefix, like 192.168.100.10/24"}
_BOTH_HALVES: Spec = {
    "type": "list",
    "min": 2,
    "max": 2,
    "elements": _ADDRESS,
    "expected": "two addresses, one a half, like [192.168.100.10/24, 192.168.101.10/24]",
}
_PAIR: Spec = {
    "type": "list",
    "min": 2,
    "max": 2,
    "elements": _END,
    "expected": "two ends, like [spark-2:1, spark-3:1]",
}
_INDEX: Spec = {"type": "int", "min": 0}

FABRIC: Spec = {
    "type": "map",
    "options": {
        "pool": {"type": "str", "nullable": True, "default": None, "expected": "a network like 192.168.100.0/22"},
        "prefix": {"type": "int", "min": 16, "max": 30, "default": 24},
        "mtu": {"type": "int", "default": MTU},
        "mode": {"type": "str", "choices": ["static", "link-local"], "default": "static"},
        "keeper": {"type": "str", "choices": ["fleet", "others"], "default": "fleet"},
        "transport": {"type": "str", "choices": ["roce", "socket"], "default": "roce"},
        "rails": {"type": "str", "choices": ["dual", "single"], "default": "dual"},
        "hotplug": {
            # Unquoted, YAML reads off as false.
            "any_of": [{"type": "str", "choices": ["off", "keep"]}, {"type": "bool", "choices": [False]}],
            "default": "keep",
            "expected": "off or keep",
        },
        "speeds": {
            "type": "map",
            "default": {},
            "keys": _END,
            "values": {"type": "int", "choices": [*SPEEDS_GBPS]},
            "expected": "the speed of a port in Gb/s, like {spark-2:1: 100}",
        },
        "gates": {
            "type": "map",
            "default": {},
            "options": {
                "rail_gbps": {"type": "number", "min": 0, "default": 87.5},
                "port_gbps": {"type": "number", "min": 0, "default": 175},
            },
        },
        "management": {
            "type": "map",
            "default": {},
            "options": {
                "interface": {"type": "str", "default": "enP7s7"},
                "networks": {"type": "list", "elements": {"type": "str"}, "default": []},
            },
        },
        "cables": {
            "type": "list",
            "default": [],
            "elements": {
                "any_of": [
                    _PAIR,
                    {
                        "type": "map",
                        "options": {
                            "ends": _PAIR,
                            "index": _INDEX,
                            "addresses": {"type": "map", "min": 2, "max": 2, "keys": _END, "values": _BOTH_HALVES},
                        },
                    },
                ]
            },
        },
        "switches": {
            "type": "map",
            "default": {},
            "keys": {"type": "str", "pattern": "[A-Za-z0-9][A-Za-z0-9_-]*", "expected": "a name"},
            "values": {
                "type": "map",
                "options": {
                    "index": _INDEX,
                    "ports": {
                        "type": "map",
                        "required": True,
                        "min": 2,
                        "keys": _END,
                        "values": {"any_of": [{"type": "int", "min": 1}, _BOTH_HALVES]},
                        "expected": "each port with its number in the subnets, like {spark-1:0: 10, spark-2:0: 11}",
                    },
                },
            },
        },
        "links": {
            "type": "list",
            "default": [],
            "elements": {
                "type": "map",
                "options": {
                    "mtu": {"type": "int"},
                    "addresses": {"type": "map", "required": True, "min": 2, "keys": _LINK_END, "values": _ADDRESS},
                },
            },
        },
    },
}


class Management(TypedDict):
    interface: str
    networks: list[str]


class Cable(TypedDict, total=False):
    ends: list[str]
    index: int
    addresses: dict[str, list[str]]


class Switch(TypedDict):
    index: NotRequired[int]
    ports: dict[str, int | list[str]]


class Link(TypedDict):
    mtu: NotRequired[int]
    addresses: dict[str, str]


class FabricDeclared(TypedDict):
    """``fleet_fabric``, checked. A cable may be its two ends alone."""

    pool: str | None
    prefix: int
    mtu: int
    mode: str
    keeper: str
    transport: str
    rails: str
    hotplug: str | bool
    speeds: dict[str, int]
    gates: Gates
    management: Management
    cables: list[list[str] | Cable]
    switches: dict[str, Switch]
    links: list[Link]
