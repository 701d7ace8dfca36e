# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle: what was read of one host and what is planned for it, as far as it can be posted in an issue.

Only what is named here gets in, and every text is gone through once more: a public address, a MAC address, a key or a
long number becomes a word that stands for it, the same word wherever it comes again, so that a bundle is judged like
the host.
"""

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..._base import worded
from ..._base.findings import FleetError
from ..._base.forms import forms
from ..._base.gb10 import data_table
from ..._base.plan import Plan
from ..._base.reading import TakenBack
from ..._base.schema import Spec, check
from ..._base.slice import Slice
from ..._subjects.container_engine.reading import SHOWN
from ..._subjects.state import READS

FORMAT = 1
# A file of more is none of ours.
LIMIT = 4 << 20
_FORM: Spec = {"type": "int", "required": True, "choices": [FORMAT], "expected": f"format {FORMAT}"}
BUNDLE = forms("doctor", format=_FORM)["doctor"]

# Parts of a reading that nothing private is in once addresses and numbers are replaced.
_PARTS: tuple[str, ...] = data_table("doctor_parts")
# Words of the kernel's command line that say something of GB10; the others may name a disk or hold a key.
_CMDLINE = ("kho", "iommu", "iommu.passthrough", "pci", "init_on_alloc", "crashkernel", "initcall_blacklist", "quiet")


def make_bundle(
    host: str, plan: Plan, state: Mapping[str, object], unknown: Mapping[str, str], changes: list[str]
) -> dict[str, Any]:
    """plan: the fleet's. state, unknown: as `host_info` read them. changes: the places that site.yml will change."""
    document = {
        "format": FORMAT,
        "host": host,
        "slice": _slice(plan["hosts"][host]),
        "drift": {key: plan["drift"][key] for key in ("free", "clock_s")},
        "state": _state(state),
        "unknown": {part: why for part, why in unknown.items() if part in READS or part in state},
        "changes": changes,
        "together": [],
    }
    redacted: dict[str, Any] = Redaction()(document)
    return redacted


def _slice(mine: Slice) -> dict[str, Any]:
    engine = mine["container_engine"]
    return {
        "needs": {**mine["needs"], "launches": []},
        "fabric": {key: value for key, value in mine["fabric"].items() if key not in ("files", "units")},
        "firewall": {key: mine["firewall"][key] for key in ("state", "open", "neighbours", "meetings", "shut")},
        "host_tuning": {
            "swap": mine["host_tuning"].get("swap"),
            "sysctl": dict.fromkeys(mine["host_tuning"]["sysctl"], "(not shown)"),
            **{key: value for key, value in mine["host_tuning"].items() if key == "default_target"},
        },
        "container_engine": {
            "daemon": {key: value if key in SHOWN else "(not shown)" for key, value in engine["daemon"].items()},
            "reloadable": engine["reloadable"],
            "restart": engine["restart"],
        },
        "versions": mine["versions"],
        "images": [{"reference": image["reference"], "digest": image["digest"]} for image in mine["images"]],
        "services": [
            {**{key: service[key] for key in ("name", "memory_bytes")}, "definition": _short(service["definition"])}
            for service in mine["services"]
        ],
    }


def _state(state: Mapping[str, Any]) -> dict[str, Any]:
    kernel, boot, daemon = state.get("kernel"), state.get("boot"), state.get("daemon")
    models = (state.get("models") or {}).get("models", {})
    return {
        **{part: state.get(part) for part in _PARTS},
        "kernel": kernel
        and {
            "release": kernel["release"],
            "cmdline": _words(kernel["cmdline"]),
            "reboot_required": kernel["reboot_required"],
        },
        "boot": boot
        and {**boot, "entries": [entry | {"cmdline": _words(entry["cmdline"])} for entry in boot["entries"]]},
        "daemon": daemon,
        "images": {name: bool(found) for name, found in (state.get("images") or {}).items()},
        "models": {"models": {name: bool(found) for name, found in models.items()}},
        "our_units": [
            {**{key: unit[key] for key in ("unit", "unproved")}, **_back(unit.get("taken_back"))}
            for unit in state.get("our_units") or ()
            if unit["unproved"] or unit.get("taken_back")
        ],
    }


def _back(record: TakenBack | None) -> dict[str, Any]:
    return {"taken_back": {**record, "definition": _short(record["definition"])}} if record else {}


def _short(definition: str) -> str:
    """Enough to compare; whatever is longer is made unreadable."""
    return definition[:16]


def _words(cmdline: str) -> str:
    return " ".join(word for word in cmdline.split() if word.partition("=")[0] in _CMDLINE)


# Redaction --------------------------------------------------------------------------------------------------------

_SECRETS = re.compile(
    r"-----BEGIN [^-]+-----.*?(?:-----END [^-]+-----|$)"
    r"|ssh-(?:rsa|ed25519|dss) \S+|ecdsa-sha2-\S+ \S+"
    r"|(?<=://)[^/@\s]+@"
    r"|(?:hf_|nvapi-|ghp_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA)[A-Za-z0-9_-]{8,}"
    r"|(?i:(?<=password=)|(?<=passwd=)|(?<=token=)|(?<=secret=)|(?<=api_key=)|(?<=api-key=)|(?<=psk=))[^\s,;&]+"
    r"|(?i:(?<=bearer )|(?<=basic ))[A-Za-z0-9._~+/=-]{8,}",
    re.DOTALL,
)
_ACCOUNT = re.compile(r"(?<=/home/)[^/\s]+")
_MAC = re.compile(r"\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b")
_LONG = re.compile(r"\b[A-Za-z0-9+_-]{32,}={0,2}")
_ADDRESS = re.compile(r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7})(?![\w:])")


class Redaction:
    """Goes through a document. What is replaced gets a number by the order of its coming, one for each kind."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, str]] = {}

    def __call__(self, value: object) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(str(key)): self(item) for key, item in value.items()}
        return [self(item) for item in value] if isinstance(value, list | tuple) else value

    def _text(self, text: str) -> str:
        text = _SECRETS.sub("(removed)", text)
        text = _ACCOUNT.sub(self._as("account"), text)
        text = _MAC.sub(self._as("mac"), text)
        text = _LONG.sub(self._long, text)
        return _ADDRESS.sub(self._address, text)

    def _as(self, kind: str) -> Callable[[re.Match[str]], str]:
        return lambda match: self._number(kind, match[0])

    def _number(self, kind: str, found: str) -> str:
        known = self._known.setdefault(kind, {})
        return known.setdefault(found, f"{kind}-{len(known) + 1}")

    def _long(self, match: re.Match[str]) -> str:
        """A digest, an id or a key; names of models and images have small words between hyphens."""
        word = match[0]
        parts = re.split(r"[-_]", word)
        is_name = len(parts) > 2 and all(len(part) < 16 for part in parts)
        return word if is_name else self._number("number", word)

    def _address(self, match: re.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            return match[0]
        return self._number("public-address", match[0]) if address.is_global else match[0]


# Reading one again ------------------------------------------------------------------------------------------------


def parse_bundle(text: bytes, place: str) -> dict[str, Any]:
    """A bundle as it was written, maybe by somebody else; FleetError for anything that is none."""
    try:
        document = json.loads(text) if len(text) <= LIMIT else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, Mapping):
        found = "no JSON map" if len(text) <= LIMIT else f"more than {LIMIT >> 20} MiB"
        raise worded.refusal("doctor-bundle/parse-bundle", place, found=found)
    checked, findings = check(BUNDLE, dict(document), place)
    if findings:
        raise FleetError(*findings)
    result: dict[str, Any] = checked
    return result


def as_text(bundle: Mapping[str, object]) -> str:
    return json.dumps(bundle, indent=1, sort_keys=True) + "\n"
