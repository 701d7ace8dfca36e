# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for llama.cpp whatever the service."""

from ..interface import EngineSpec, KeyFile, TlsFiles

_TAKE_OUT = "take it out"
_BY_MODEL = "take it out; the model is that of the recipe or service, with model.file"
_BY_KEY_FILE = "write api_key_file in the service"
_BY_TLS = "write tls in the service"
_BY_DRAFT = "write model.draft: {repository, file}; which way it drafts is the option spec-type"
_NO_TOOLS = "take it out; it lets clients run commands or reach addresses from inside of the container"

# Where the images have their programs: those of ggml-org in /app; of others, by their names or beside `entrypoint`.
PROGRAMS = {"upstream": "/app/", "custom": ""}
RPC_CACHE = "/root/.cache/llama.cpp"

_PLANNED = {
    **dict.fromkeys(("alias", "host", "port", "metrics", "rpc", "offline", "reuse-port", "api-prefix"), _TAKE_OUT),
    **dict.fromkeys(("model", "model-url", "docker-repo", "hf-repo", "hf-file", "hf-token"), _BY_MODEL),
    **dict.fromkeys(("models-dir", "models-preset", "models-max"), _BY_MODEL),
    **dict.fromkeys(("spec-draft-model", "model-draft", "spec-draft-hf", "hf-repo-draft"), _BY_DRAFT),
    **dict.fromkeys(("mmproj", "mmproj-url"), "write model.mmproj, a file of the model's repository"),
    **dict.fromkeys(("api-key", "api-key-file"), _BY_KEY_FILE),
    **dict.fromkeys(("ssl-key-file", "ssl-cert-file"), _BY_TLS),
    **dict.fromkeys(("tools", "tools-runtime", "agent", "ui-mcp-proxy", "webui-mcp-proxy"), _NO_TOOLS),
    **dict.fromkeys(("mcp-servers-config", "mcp-servers-json"), _NO_TOOLS),
}
# Each option has a variable, most of them so; these two are called otherwise (`llama-server --help`).
_VARIABLES = {"metrics": "LLAMA_ARG_ENDPOINT_METRICS", "api-key": "LLAMA_API_KEY"}


def _variable(option: str) -> str:
    return _VARIABLES.get(option, "LLAMA_ARG_" + option.upper().replace("-", "_"))


# tools/server/server-context.cpp; of its cache, of what waits how long, and of single tokens it tells nothing.
_SERIES = {
    "running": "llamacpp:requests_processing",
    "waiting": "llamacpp:requests_deferred",
    "prompted": "llamacpp:prompt_tokens_total",
    "generated": "llamacpp:tokens_predicted_total",
}
SPEC = EngineSpec(
    name="llama.cpp",
    series=_SERIES,
    title="llama.cpp",
    families=tuple(PROGRAMS),
    calculated_flags={
        "batch-size": {"type": "count", "min": 1},
        "cache-ram": {"type": "int", "min": 0},
        "cache-type-k": {"type": "str"},
        "cache-type-v": {"type": "str"},
        "ctx-size": {"type": "count", "min": 1},
        "kv-unified": {"type": "bool"},
        "parallel": {"type": "int", "min": 1},
        "ubatch-size": {"type": "count", "min": 1},
    },
    planned_flags=_PLANNED,
    planned_env={
        "LLAMA_CACHE": "take it out; it is where an RPC server keeps the weights that it was sent",
        **{_variable(option): remedy for option, remedy in _PLANNED.items() if "api-key" not in option},
    },
    secrets={_variable(option): _BY_KEY_FILE for option in ("api-key", "api-key-file")},
    key=KeyFile("/run/secrets/llama.key", "%t\n"),
    tls=TlsFiles("/run/secrets/tls.crt", "/run/secrets/tls.key"),
    caches={"llama.cpp": RPC_CACHE},
    aliases=True,
    boot_lines=r"(model|KV|compute) buffer size|load_hparams: model size|loading draft model|llama_kv_cache: size =|"
    r"print_info: build \d+",
    workers_listen=True,
    single_files=True,
    head_loads=True,
    abbreviates=False,
)
