# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of ``fleet_fabric`` as its owner writes it, with its defaults; docs/how-to/fabric.md explains each key."""

from typing import NotRequired, TypedDict

from ..._base.forms import forms
from ..._base.gb10 import fact
from ..._base.slice import Gates
from .hardware import SPEEDS_GBPS

MTU: int = fact("fabric", "mtu")
FABRIC = forms("fabric", mtu={"type": "int", "default": MTU}, speed={"type": "int", "choices": [*SPEEDS_GBPS]})[
    "fabric"
]


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
