# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for llama.cpp whatever the service."""

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
