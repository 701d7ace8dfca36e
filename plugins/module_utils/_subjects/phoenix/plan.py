# SPDX-License-Identifier: GPL-3.0-or-later
"""The units and files of Phoenix: it runs without a network, and one socket leads to it.

Of its own, Phoenix takes spans by gRPC at every address of a host, whatever PHOENIX_HOST says (20.26,
phoenix/server/grpc_server.py). In a network of its own it is at loopback alone, and sends nothing anywhere.
"""

import hashlib
import hmac

from ..._base import layout
from ..._base.addresses import in_url
from ..._base.gb10 import fact, filled
from ..._base.slice import PhoenixSlice
from .declared import PhoenixDeclared, is_key, spans

SECRETS = f"{layout.PHOENIX}/secrets"
LOCK = "roles/phoenix/files/phoenix.txt"
# Of its own network, where nobody else is.
_INSIDE = 6006
# At so much of the disk that it was given it takes nothing more until old traces are gone.
_FULL_PERCENT = 95


def secrets_text(text: str) -> str:
    """Phoenix' secrets as systemd's EnvironmentFile. text: of the owner's file with the key, which is the bearer token
    of the administrator, and the first password of admin@localhost; sessions are signed with another. ValueError
    for a text that Phoenix does not take: of one that ansible-vault encrypted, the plan knows nothing."""
    if not is_key(text):
        raise ValueError("it holds no key that Phoenix takes; openssl rand -hex 32 makes one")
    key = text.strip()
    sessions = hmac.new(key.encode(), b"gb10 phoenix sessions", hashlib.sha256).hexdigest()
    return f"PHOENIX_ADMIN_SECRET={key}\nPHOENIX_DEFAULT_ADMIN_INITIAL_PASSWORD={key}\nPHOENIX_SECRET=a0{sessions}\n"


def part_of(phoenix: PhoenixDeclared | None, host: str, inventory: str) -> PhoenixSlice:
    """``hosts.<host>.phoenix``. phoenix: as `_subjects.phoenix.declared.decide` completes it; None without.

    tool: the folder of its virtual environment; empty where there is none. gone: unit files that an earlier declaration
    of the same inventory may have left. url: where it is asked, on its host.
    """
    here = phoenix is not None and phoenix["host"] == host
    gone = [] if here else [f"{layout.UNITS}/{unit}" for unit in layout.PHOENIX_UNITS]
    if phoenix is None or not here:
        return {
            "inventory": inventory,
            "tool": "",
            "url": "",
            "port": None,
            "packages": [],
            "units": {},
            "folders": {},
            "files": {},
            "secrets": [],
            "spans": "",
            "gone": gone,
        }
    texts = {
        layout.PHOENIX_UNIT: _server(phoenix, inventory),
        layout.PHOENIX_SOCKET: filled("phoenix.socket", address=_listens(phoenix), inventory=inventory),
        layout.PHOENIX_PROXY_UNIT: _proxy(inventory),
    }
    return {
        "inventory": inventory,
        "gone": gone,
        "tool": layout.PHOENIX_TOOL,
        "url": url(phoenix),
        "port": phoenix["port"],
        "packages": ["python3-venv"],
        "units": {layout.PHOENIX_UNIT: "started", layout.PHOENIX_SOCKET: "started"},
        "folders": {layout.PHOENIX: "0700"},
        "files": {f"{layout.UNITS}/{unit}": {"mode": "0644", "content": text} for unit, text in texts.items()},
        "secrets": [{"source": phoenix["secret_file"], "path": SECRETS}],
        "spans": spans(phoenix["secret_file"]),
    }


def url(phoenix: PhoenixDeclared) -> str:
    return f"http://{_listens(phoenix)}"


def _listens(phoenix: PhoenixDeclared) -> str:
    return f"{in_url(phoenix['listen'])}:{phoenix['port']}"


def _server(phoenix: PhoenixDeclared, inventory: str) -> str:
    variables = {
        "HOST": "127.0.0.1",
        "PORT": _INSIDE,
        "WORKING_DIR": layout.PHOENIX_DATA,
        "ENABLE_AUTH": "true",
        "DEFAULT_RETENTION_POLICY_DAYS": phoenix["retention_days"],
        "DATABASE_ALLOCATED_STORAGE_CAPACITY_GIBIBYTES": phoenix["disk_gib"],
        "DATABASE_USAGE_INSERTION_BLOCKING_THRESHOLD_PERCENTAGE": _FULL_PERCENT,
        "ALLOW_EXTERNAL_RESOURCES": "false",
        "TELEMETRY_ENABLED": "false",
        "DISABLE_AGENT_ASSISTANT": "true",
        "ENABLE_MCP_SERVER": "false",
        "ALLOWED_SANDBOX_PROVIDERS": "NONE",
    }
    lines = "".join(f"Environment=PHOENIX_{name}={value}\n" for name, value in variables.items())
    return filled(
        "phoenix.service",
        phoenix_tool=layout.PHOENIX_TOOL,
        secrets=SECRETS,
        phoenix_data=layout.PHOENIX_DATA,
        lines=lines,
        state=layout.PHOENIX_DATA.rpartition("/")[2],
        memory_gib=fact("phoenix", "memory_gib"),
        inventory=inventory,
    )


def _proxy(inventory: str) -> str:
    return filled("phoenix_proxy.service", phoenix_unit=layout.PHOENIX_UNIT, inside=_INSIDE, inventory=inventory)
