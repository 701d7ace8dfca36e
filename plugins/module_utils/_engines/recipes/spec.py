# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of a recipe: how one model is served well on GB10, as a spec for `_base.schema.check`."""

from ..._base.schema import Spec
from ..._facts.models.purpose import CHAT, KINDS
from ..._facts.models.stored import GGUF
from ..interface import EngineSpec
from ..normal_form import normal_options

# One line: a recipe's words end in units, logs and tables.
_LINE = r"[^\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]"
_TEXT: Spec = {"type": "str", "min": 1, "pattern": f"{_LINE}+", "expected": "text on one line"}
# `docker run --mount` separates its parts by commas and has no escape; `..` would lead out of the folder that is meant.
_STEP = r"(?!\.\.(/|$))[^,/\x00-\x1f\x7f]*"
MOUNTED = rf"(/{_STEP})+"
_RELATIVE = rf"(?=[^/]){_STEP}(/{_STEP})*"
_FOLDER_OR_FILE: Spec = {
    "type": "str",
    "required": True,
    "pattern": MOUNTED,
    "expected": "an absolute path without .., comma and control characters",
}
_OF_HOST: Spec = {
    "type": "str",
    "pattern": r"(/(?!\.\.(/|$))[^/\x00-\x1f\x7f]*)+",
    "expected": "an absolute path of the host, without .. and control characters",
}
_GIB: Spec = {"type": "number", "nullable": True, "default": None, "min": 0, "max": 1024}
_BYTES: Spec = {"type": "int", "nullable": True, "default": None, "min": 1}
_REPOSITORY: Spec = {
    "type": "str",
    "required": True,
    "pattern": r"[\w.-]+/[\w.-]+",
    "expected": "the hub's id, organisation/name",
}
_REVISION: Spec = {
    "type": "str",
    "nullable": True,
    "default": None,
    "pattern": "[0-9a-f]{40}",
    "expected": "a commit of 40 hex digits, or null where it is not known",
}
_SEAL: Spec = {
    "type": "str",
    "nullable": True,
    "default": None,
    "pattern": "[0-9a-f]{64}",
    "expected": "a model's seal of 64 hex digits, as the lock has it, or null",
}
_NAME: Spec = {
    "type": "str",
    "required": True,
    "pattern": r"[a-z0-9][a-z0-9.-]{0,80}",
    "expected": "a name of a-z, 0-9, . and -",
}

FLAGS: Spec = {
    "type": "map",
    "default": {},
    "normal": normal_options,
    "keys": {
        "type": "str",
        "pattern": r"[a-z][a-z0-9_-]*(\.[A-Za-z0-9_-]+\+?)*",
        "expected": "an option as the engine's own help writes it, without dashes before it: max-model-len",
    },
}
ENVIRONMENT: Spec = {
    "type": "map",
    "default": {},
    "keys": {"type": "str", "pattern": "[A-Za-z_][A-Za-z0-9_]*", "expected": "the name of a variable"},
    "values": {"type": "str", "nullable": True, "expected": "text (numbers in quotes), or null to remove it"},
}

_CAPABILITIES = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "IPC_LOCK",
    "KILL",
    "MKNOD",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "PERFMON",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_ADMIN",
    "SYS_CHROOT",
    "SYS_NICE",
    "SYS_PTRACE",
    "SYS_RESOURCE",
]


def _exception(value: Spec) -> Spec:
    """What a container is given otherwise than GB10's default, and why."""
    return {
        "type": "map",
        "options": {"value": {**value, "required": True}, "reason": {**_TEXT, "required": True}},
        "expected": "{value: ..., reason: why it needs that}",
    }


CONTAINER: Spec = {
    "type": "map",
    "default": {},
    "options": {
        "capabilities": _exception({"type": "list", "elements": {"type": "str", "choices": _CAPABILITIES}}),
        "ipc": _exception({"type": "str", "choices": ["private", "host"]}),
        "memory_limit": _exception({"type": "bool"}),
        "pids_limit": _exception({"type": "int", "min": 256}),
        "read_only": _exception({"type": "bool"}),
        "tmpfs": _exception(
            {
                "type": "list",
                "elements": {
                    "type": "str",
                    "pattern": r"(/(?!\.\.?(/|$))[\w.-]+)+",
                    "expected": "an absolute path of letters, digits and _.-",
                },
            }
        ),
    },
}

_CHECKPOINT: dict[str, Spec] = {
    "repository": _REPOSITORY,
    "revision": _REVISION,
    "seal": _SEAL,
    "config": {**_NAME, "required": False, "nullable": True, "default": None},
    "weights_bytes": _BYTES,
}

MODEL: Spec = {
    "type": "map",
    "required": True,
    "options": {
        **_CHECKPOINT,
        "file": GGUF,
        "mmproj": GGUF,
        "table_bytes": {"type": "int", "min": 1},
        "quantization": {
            "type": "str",
            "nullable": True,
            "default": None,
            "choices": ["modelopt", "compressed-tensors", "fp8", "awq", "gptq", "mxfp4"],
        },
        "gated": {"type": "bool", "default": False},
        "draft": {"type": "map", "options": {**_CHECKPOINT, "file": GGUF}},
        "source": {
            "default": "hub",
            "expected": "hub, {host: <a host that has it>} or {path: <a folder on the host>}",
            "any_of": [
                {"type": "str", "choices": ["hub"]},
                {"type": "map", "options": {"host": _TEXT, "path": _OF_HOST}, "min": 1, "max": 1},
            ],
        },
    },
}


def image_spec(engine: EngineSpec) -> Spec:
    """``image`` of a recipe. engine: what its families are."""
    return {
        "type": "map",
        "required": True,
        "options": {
            "reference": {
                "type": "str",
                "pattern": r"[a-z0-9][\w./:-]*:[\w.-]+",
                "expected": "an image with its tag, such as vllm/vllm-openai:v0.24.0; the digest has a key of its own",
            },
            "build": {**_NAME, "required": False},
            "digest": {
                "type": "str",
                "nullable": True,
                "default": None,
                "pattern": "sha256:[0-9a-f]{64}",
                "expected": "sha256: and 64 hex digits, or null where it is not known",
            },
            "identity": {
                "type": "str",
                "nullable": True,
                "default": None,
                "pattern": "sha256:[0-9a-f]{64}",
                "expected": "an image's identity, sha256: and 64 hex digits, as the lock has it, or null",
            },
            "family": {"type": "str", "required": True, "choices": [*engine.families]},
            "entrypoint": {**_TEXT, "nullable": True, "default": None},
            "release": {
                "type": "str",
                "nullable": True,
                "default": None,
                "pattern": r"\d+\.\d+\.\d+\S*",
                "expected": "a version such as 0.24.0, or null to have it read from the image",
            },
            "source": {
                "default": "registry",
                "expected": "registry, {host: <one that has or builds it>} or {archive: <a file of docker save>}",
                "any_of": [
                    {"type": "str", "choices": ["registry"]},
                    {"type": "map", "options": {"host": _TEXT, "archive": _OF_HOST}, "min": 1, "max": 1},
                ],
            },
        },
    }


OVERLAY: Spec = {
    "type": "map",
    "options": {
        "target": {
            "type": "str",
            "required": True,
            "pattern": f"{MOUNTED}|{_RELATIVE}",
            "expected": "a path in the container, or one below the model's folder; no .., comma, control character",
        },
        "json_merge": {"type": "map", "min": 1},
        "model_file": {
            "type": "str",
            "pattern": _RELATIVE,
            "expected": "a file below the model's folder, without .., comma and control characters",
        },
        "file": {
            "type": "str",
            "pattern": r"[A-Za-z0-9_][A-Za-z0-9_.-]*",
            "expected": "the name of a file in the folder overlays",
        },
        "sha256": {"type": "str", "nullable": True, "default": None, "pattern": "[0-9a-f]{64}"},
        "where": _TEXT,
        "reason": {**_TEXT, "required": True},
        "source": {**_TEXT, "required": True},
    },
}

MEMORY: Spec = {
    "type": "map",
    "default": {},
    "options": {
        "calibrations": {
            "type": "list",
            "default": [],
            "elements": {
                "type": "map",
                "options": {
                    "hosts": {"type": "int", "min": 1, "default": 1},
                    "release": {**_TEXT, "required": True},
                    "flags": FLAGS,
                    "weights_gib": {"type": "number", "required": True, "min": 0, "max": 1024},
                    "non_kv_gib": _GIB,
                    "graphs_gib": _GIB,
                    "source": {**_TEXT, "required": True},
                },
            },
        },
        "utilization": {
            "type": "map",
            "options": {
                "min": {"type": "number", "min": 0, "max": 1, "default": 0},
                "max": {"type": "number", "min": 0, "max": 1, "default": 1},
                "source": {**_TEXT, "required": True},
            },
        },
    },
}

STATUS: Spec = {
    "type": "map",
    "required": True,
    "options": {
        "state": {"type": "str", "required": True, "choices": ["tested", "reported", "known-bad", "derived"]},
        "by": {**_TEXT, "required": True},
        "when": {
            "type": "str",
            "nullable": True,
            "default": None,
            "pattern": r"\d{4}-\d\d(-\d\d)?",
            "expected": "a date such as 2026-03-26, or null where it is not known",
        },
        "hardware": {**_TEXT, "required": True},
        "note": _TEXT,
        # what the recipe that it was imported from has, and it has not
        "left_out": {"type": "list", "max": 200, "elements": _TEXT},
    },
}

MEASURED: Spec = {
    "type": "map",
    "options": {
        "what": {**_TEXT, "required": True},
        "value": {"type": "number", "required": True},
        "unit": {**_TEXT, "required": True},
        "conditions": {**_TEXT, "required": True},
        "source": {**_TEXT, "required": True},
    },
}


def recipe_spec(engine: EngineSpec) -> Spec:
    """A recipe for one engine."""
    return {
        "type": "map",
        "options": {
            "name": _NAME,
            "summary": {
                **_TEXT,
                "required": True,
                "max": 200,
                "pattern": rf"{_LINE}*[^\\\s]",
                "expected": "one line of at most 200 characters that does not end in a backslash",
            },
            "kind": {"type": "str", "choices": [*KINDS], "default": CHAT},
            "host_counts": {"type": "list", "min": 1, "default": [1], "elements": {"type": "int", "min": 1}},
            "startup_limit_s": {"type": "int", "nullable": True, "default": None, "min": 60},
            "model": MODEL,
            "engine": {"type": "str", "default": engine.name, "choices": [engine.name]},
            "image": image_spec(engine),
            "flags": FLAGS,
            "env": ENVIRONMENT,
            "reasons": {"type": "map", "default": {}, "values": _TEXT},
            "mounts": {
                "type": "list",
                "default": [],
                "elements": {
                    "type": "map",
                    "options": {
                        "source": _FOLDER_OR_FILE,
                        "target": _FOLDER_OR_FILE,
                        "read_only": {"type": "bool", "default": True},
                    },
                },
            },
            "container": CONTAINER,
            "overlays": {"type": "list", "default": [], "elements": OVERLAY},
            "memory": MEMORY,
            "silence": {"type": "map", "default": {}, "values": _TEXT},
            "status": STATUS,
            "measured": {"type": "list", "default": [], "elements": MEASURED},
            "sources": {"type": "list", "required": True, "min": 1, "elements": _TEXT},
        },
    }
