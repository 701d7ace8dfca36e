# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of `llama-server` by release, as its own ``--help`` prints them: ``data/llama_cpp_catalogue.json``."""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..interface import EngineSpec, KeyFile, TlsFiles
from ..options import Option, Release, release_of
from ..tables import table_of

# Where the images have their programs: those of ggml-org in /app; of others, by their names or beside `entrypoint`.
PROGRAMS = {"upstream": "/app/", "custom": ""}
RPC_CACHE = "/root/.cache/llama.cpp"

_TABLE = table_of("llama_cpp")
SPEC = EngineSpec(
    name="llama.cpp",
    families=tuple(PROGRAMS),
    planned_env={
        "LLAMA_CACHE": "take it out; it is where an RPC server keeps the weights that it was sent",
        "LLAMA_ARG_*": "take it out; write the option among the flags",
    },
    secrets=dict.fromkeys(("LLAMA_API_KEY", "LLAMA_ARG_API_KEY_FILE"), _TABLE["planned_flags"]["api-key"]),
    key=KeyFile("/run/secrets/llama.key", "%t\n"),
    tls=TlsFiles("/run/secrets/tls.crt", "/run/secrets/tls.key"),
    caches={"llama.cpp": RPC_CACHE},
    **_TABLE,
)


DATA = Path(__file__).resolve().parents[4] / "data" / "llama_cpp_catalogue.json"


@dataclass(frozen=True)
class LlamaOption(Option):
    """short: names with one dash. value: how help names what it takes, empty for a switch."""

    value: str = ""
    short: tuple[str, ...] = ()

    def expected(self, name: str, value: object) -> str | None:
        if name in self.negative:
            return f"{self.names[0]}: false"
        if not self.value:
            if not isinstance(value, bool):
                return "true or false" if self.negative else "true"
            return "true, or nothing" if value is False and not self.negative else None
        if isinstance(value, bool):
            return None if {"on", "off"} <= {*self.choices} else f"a value: {self.value}"
        return self.choice(value)


@functools.cache
def load() -> Mapping[str, Release[LlamaOption]]:
    """The catalogued releases by version."""
    data = json.loads(DATA.read_text("utf-8"))["releases"]
    return {version: release_of(version, row["options"], LlamaOption, row["build"]) for version, row in data.items()}


def newest() -> Release[LlamaOption]:
    """The last catalogued release, by its build."""
    return max(load().values(), key=lambda release: release.build)
