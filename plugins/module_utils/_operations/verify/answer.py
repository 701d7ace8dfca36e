# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of what hosts answer about ranks, services, gateways and their clients, by the files of this package."""

from ..._base.schema import Spec

_MOST = 1 << 62
_TEXT: Spec = {"type": "str", "required": True}
_MAYBE_TEXT: Spec = {"type": "str", "default": ""}
_TIME_IF_ANY: Spec = {
    "type": "str",
    "pattern": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)",
    "expected": "a time with its zone",
}
_TEXTS: Spec = {"type": "list", "required": True, "max": 1000, "elements": {"type": "str"}}
_COUNT: Spec = {"type": "int", "required": True, "min": 0, "max": _MOST}
_FIGURE_OR_NULL: Spec = {"type": "number", "nullable": True, "default": None, "min": 0, "max": 1e12}
_UNIT: Spec = {
    "type": "map",
    "required": True,
    "options": {
        **dict.fromkeys(("active", "sub", "result", "invocation", "started"), _TEXT),
        "restarts": _COUNT,
        "drop_ins": _TEXTS,
    },
}
# What is read of it on the controller; a supervisor of another release may have written it.
_SUPERVISOR: Spec = {
    "type": "map",
    "nullable": True,
    "default": None,
    "options": {
        "state": _TEXT,
        **dict.fromkeys(("error", "last_end", "creep", "sick"), _MAYBE_TEXT),
        **dict.fromkeys(("since", "updated_at"), _TIME_IF_ANY),
        "drains_until": {"type": "str", "nullable": True, "default": None},
        **dict.fromkeys(
            ("tokens_per_s", "running", "waiting", "kv_use", "starts_left", "ready_s", "age_s"), _FIGURE_OR_NULL
        ),
        "strikes": {"type": "int", "default": 0, "min": 0, "max": _MOST},
        "ranks_seen": {
            "type": "list",
            "default": [],
            "max": 1000,
            "elements": {"type": "map", "options": {"rank": _COUNT, "state": _TEXT}},
        },
    },
}
_ENDPOINT: dict[str, Spec] = {
    name: {"type": "str", "nullable": True, "default": None} for name in ("url", "model", "key_file", "certificate")
}
RANKS: Spec = {
    "type": "map",
    "options": {
        "ranks": {
            "type": "list",
            "required": True,
            "max": 1000,
            "elements": {
                "type": "map",
                "options": {
                    **dict.fromkeys(("service", "wanted", "health"), _TEXT),
                    **dict.fromkeys(("rank", "ranks", "memory_floor_bytes"), _COUNT),
                    "unit": _UNIT,
                    "supervisor": _SUPERVISOR,
                    "definition": {"type": "str", "nullable": True, "default": None},
                    "endpoint": {"type": "map", "nullable": True, "default": None, "options": _ENDPOINT},
                    "memory": {"type": "map", "required": True, "options": {"total": _COUNT, "available": _COUNT}},
                    **{key: {"type": "bool", "required": True} for key in ("docker", "unproved")},
                    "pull": {
                        "type": "map",
                        "nullable": True,
                        "default": None,
                        "options": dict.fromkeys(("outcome", "why", "at"), _TEXT),
                    },
                    "problems": _TEXTS,
                },
            },
        }
    },
}
SERVICE: Spec = {
    "type": "map",
    "options": {
        "unit": _UNIT,
        "supervisor": _SUPERVISOR,
        "reply": {
            "type": "map",
            "nullable": True,
            "default": None,
            "options": {
                "ok": {"type": "bool", "required": True},
                **dict.fromkeys(("answer", "fingerprint", "error"), _TEXT),
                "seconds": _FIGURE_OR_NULL,
            },
        },
        "failed": _MAYBE_TEXT,
        "memory_total_bytes": _COUNT,
        "boot_log": _TEXTS,
        "log_tail": _TEXTS,
    },
}
_SERVER: Spec = {
    "type": "map",
    "options": {
        "up": {"type": "bool", "required": True},
        "status": _TEXT,
        **dict.fromkeys(("running", "waiting"), _COUNT),
    },
}
_SERVERS: Spec = {"type": "map", "max": 1000, "values": _SERVER}
GATEWAY: Spec = {
    "type": "map",
    "options": {
        "gateway": {
            "type": "map",
            "required": True,
            "nullable": True,
            "options": {
                "unit": _UNIT,
                "unread": {**_TEXTS, "required": False, "nullable": True, "default": None},
                "servers": {"type": "map", "nullable": True, "default": None, "max": 1000, "values": _SERVERS},
                "why": _MAYBE_TEXT,
                "leftovers": _TEXTS,
                "address": {"type": "bool", "nullable": True, "default": None},
                "holds": {"type": "map", "default": {}, "max": 1000, "values": {"type": "str"}},
                "problems": _TEXTS,
            },
        },
        "clients": {
            "type": "list",
            "required": True,
            "max": 1000,
            "elements": {
                "type": "map",
                "options": {**dict.fromkeys(("client", "health"), _TEXT), "unit": _UNIT, "problems": _TEXTS},
            },
        },
    },
}
GATEWAY_ANSWERS: Spec = {
    "type": "map",
    "options": {"answers": {"type": "map", "required": True, "max": 1000, "values": {"type": "str"}}},
}
