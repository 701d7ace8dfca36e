# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of what hosts answer about their fabric: `_subjects.fabric.reading` and measurements."""

from ..._base.schema import Spec

_MOST = 1 << 62
# No character that a terminal obeys but a tab.
_LINE = "[^\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f]*"
_TEXT: Spec = {"type": "str", "required": True, "max": 4096, "pattern": _LINE, "expected": "a line of text"}
_OCTET = "(25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})"
# Other hosts are sent there, to see who answers.
_ADDRESSES: Spec = {
    "type": "list",
    "required": True,
    "max": 64,
    "elements": {
        "type": "str",
        "pattern": rf"{_OCTET}(\.{_OCTET}){{3}}/[0-9]{{1,2}}",
        "expected": "an IPv4 address with its prefix length",
    },
}
_YES_NO: Spec = {"type": "bool", "required": True}
_COUNT: Spec = {"type": "int", "required": True, "min": 0, "max": _MOST}
_COUNT_OR_NULL: Spec = {"type": "int", "nullable": True, "default": None, "min": 0, "max": _MOST}
_FIGURE: Spec = {"type": "number", "required": True, "min": 0, "max": 1e9}
_FIGURE_OR_NULL: Spec = {"type": "number", "nullable": True, "default": None, "min": 0, "max": 1e9}
_TEXTS: Spec = {"type": "list", "required": True, "elements": _TEXT}
_BY_NAME: Spec = {"type": "map", "required": True, "values": _TEXT}

_LINK: Spec = {
    "type": "map",
    "options": {
        "mac": _TEXT,
        "mtu": _COUNT,
        "up": _YES_NO,
        "carrier": _YES_NO,
        "speed_mbps": _COUNT_OR_NULL,
        "addresses": _ADDRESSES,
        "pcie_width": _COUNT_OR_NULL,
        "pcie_width_max": _COUNT_OR_NULL,
    },
}
_DEVICE: Spec = {
    "type": "map",
    "options": {
        "state": _TEXT,
        "link_layer": _TEXT,
        "rate": _TEXT,
        "gids": {
            "type": "list",
            "required": True,
            "elements": {"type": "map", "options": {"index": _COUNT, "gid": _TEXT, "type": _TEXT}},
        },
        "bytes": {"type": "map", "required": True, "values": _COUNT_OR_NULL},
    },
}
_ADAPTER: Spec = {
    "type": "map",
    "required": True,
    "options": {
        "marker": _YES_NO,
        "enabled": _YES_NO,
        "state": {"type": "str", "nullable": True, "default": None, "max": 4096, "pattern": _LINE},
        "plugged_s": _FIGURE_OR_NULL,
        "measured": {
            "type": "map",
            "required": True,
            "values": {
                "type": "map",
                "options": {"gbps": _FIGURE, "peer": _TEXT, "speed_mbps": _FIGURE, "at_s": _FIGURE},
            },
        },
        "unproven": _TEXTS,
    },
}
READING: Spec = {
    "type": "map",
    "options": {
        "reading": {
            "type": "map",
            "required": True,
            "options": {
                "links": {"type": "map", "required": True, "max": 64, "values": _LINK},
                "asked": {
                    "type": "map",
                    "required": True,
                    "values": {"type": "map", "options": {"answers": _BY_NAME, "pings": _BY_NAME}},
                },
                "rdma": {"type": "map", "required": True, "values": _DEVICE},
                "adapter": _ADAPTER,
            },
        }
    },
}

_RAIL: Spec = {
    "type": "map",
    "options": {
        **dict.fromkeys(("interface", "device", "server", "message"), _TEXT),
        "port": _COUNT,
        "gbps": _FIGURE_OR_NULL,
        "payload_bytes": _COUNT,
        "counted_bytes": {"type": "int", "nullable": True, "default": None, "min": -_MOST, "max": _MOST},
    },
}
_MEASURED: Spec = {
    "type": "map",
    "options": {
        **dict.fromkeys(("name", "segment", "peer"), _TEXT),
        "rails": {"type": "list", "required": True, "min": 1, "elements": _RAIL},
    },
}
BANDWIDTH: Spec = {
    "type": "map",
    "options": {
        "result": {
            "type": "map",
            "required": True,
            "options": {
                "possible": _YES_NO,
                "message": _TEXT,
                "virtualization": _TEXT,
                "speeds": {"type": "map", "default": {}, "values": _COUNT_OR_NULL},
                "iommu": {"type": "map", "default": {}, "values": _TEXT},
                "measured": {"type": "list", "default": [], "elements": _MEASURED},
                "left_out": {"type": "list", "default": [], "elements": _TEXT},
            },
        }
    },
}
