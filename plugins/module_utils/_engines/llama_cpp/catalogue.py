# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of `llama-server` by release, as its own ``--help`` prints them: ``data/llama_cpp_catalogue.json``."""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..interface import EngineSpec, KeyFile, TlsFiles
from ..tables import table_of

# Where the images have their programs: those of ggml-org in /app; of others, by their names or beside `entrypoint`.
PROGRAMS = {"upstream": "/app/", "custom": ""}
RPC_CACHE = "/root/.cache/llama.cpp"

_TABLE = table_of("llama_cpp")
# Each option has a variable, most of them so; these two are called otherwise (`llama-server --help`).
_VARIABLES = {"metrics": "LLAMA_ARG_ENDPOINT_METRICS", "api-key": "LLAMA_API_KEY"}


def _variable(option: str) -> str:
    return _VARIABLES.get(option, "LLAMA_ARG_" + option.upper().replace("-", "_"))


SPEC = EngineSpec(
    name="llama.cpp",
    families=tuple(PROGRAMS),
    planned_env={
        "LLAMA_CACHE": "take it out; it is where an RPC server keeps the weights that it was sent",
        **{_variable(name): remedy for name, remedy in _TABLE["planned_flags"].items() if "api-key" not in name},
    },
    secrets={_variable(name): _TABLE["planned_flags"][name] for name in ("api-key", "api-key-file")},
    key=KeyFile("/run/secrets/llama.key", "%t\n"),
    tls=TlsFiles("/run/secrets/tls.crt", "/run/secrets/tls.key"),
    caches={"llama.cpp": RPC_CACHE},
    **_TABLE,
)


DATA = Path(__file__).resolve().parents[4] / "data" / "llama_cpp_catalogue.json"


@dataclass(frozen=True)
class Option:
    """names: all that switch it on or take its value, without dashes, the first one ours. negative: those that switch
    it off. short: names with one dash. value: how help names what it takes, empty for a switch. choices: the only
    values, where help lists them. gone: what to write instead of one that is refused."""

    names: tuple[str, ...]
    negative: tuple[str, ...] = ()
    value: str = ""
    choices: tuple[str, ...] = ()
    gone: str = ""
    short: tuple[str, ...] = ()


@dataclass(frozen=True)
class Release:
    """version: as `llama-server --version` prints it. build: the number in its log. options: by every long name."""

    version: str
    build: int
    options: Mapping[str, Option]


@functools.cache
def load() -> Mapping[str, Release]:
    """The catalogued releases by version."""
    data = json.loads(DATA.read_text("utf-8"))
    return {version: release_of(version, row["build"], row["options"]) for version, row in data["releases"].items()}


def release_of(version: str, build: int, rows: list[Mapping[str, Any]]) -> Release:
    """rows: options as the file has them."""
    options = [
        Option(
            tuple(row["names"]),
            tuple(row.get("negative", ())),
            row.get("value", ""),
            tuple(row.get("choices", ())),
            row.get("gone", ""),
            tuple(row.get("short", ())),
        )
        for row in rows
    ]
    return Release(version, build, {name: option for option in options for name in (*option.names, *option.negative)})


def newest() -> Release:
    """The last catalogued release, by its build."""
    return max(load().values(), key=lambda release: release.build)
